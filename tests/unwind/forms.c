/* SPDX-License-Identifier: MIT */
/*
 * Is an instruction the same with a cache of forms as without one? Decodes the code
 * of each file at every byte, which is also every odd encoding that the bytes
 * happen to be. Prints what differs, and last how many instructions were compared.
 */
#include "arch/x86/stack.h"
#include "code/space.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	unsigned long compared = 0, differ = 0;
	int i;

	for (i = 1; i < argc; i++) {
		struct step_cache *cache = step_cache_new();
		struct code_space space;
		struct elf_file f;
		struct error e;
		size_t k;
		uint64_t at;

		if (!cache || elf_open(&f, argv[i], &e) || space_build(&f, &space, &e))
			return 2;
		for (k = 0; k < space.count; k++)
			for (at = 0; at < space.list[k].size; at++) {
				const struct code_section *c = &space.list[k];
				struct step with, without;
				bool a = step_decode(cache, c->bytes + at, c->size - at, c->addr + at, &with);
				bool b = step_decode(NULL, c->bytes + at, c->size - at, c->addr + at, &without);

				compared += b;
				if (a == b && (!a || !memcmp(&with, &without, sizeof(with))))
					continue;
				if (differ++ < 10)
					printf("%s: %llx differs\n", argv[i], (unsigned long long)(c->addr + at));
			}
		step_cache_free(cache);
		space_free(&space);
		elf_close(&f);
	}
	printf("%lu compared, %lu differ\n", compared, differ);
	return differ != 0;
}
