/* SPDX-License-Identifier: MIT */
/*
 * Is an instruction the same with a cache of forms as without one? Decodes the code
 * of each file at every byte, which is also every odd encoding that the bytes
 * happen to be. Prints what differs, and last how many instructions were compared.
 *
 *     forms FILE...
 *     forms --all PART     all encodings of the four maps instead of files: prefixes, REX, VEX,
 *                          opcode, one of PART ModRM bytes; SIB, displacement and immediate at random
 */
#include "arch/x86/fast_decoder.h"
#include "analysis/facts/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long compared, differ;

static void compare(struct step_cache *cache, const uint8_t *bytes, size_t size, uint64_t addr, const char *what)
{
	struct step with, without;
	bool a = step_decode(cache, bytes, size, addr, &with);
	bool b = step_decode(NULL, bytes, size, addr, &without);

	compared += b;
	if (a == b && (!a || !memcmp(&with, &without, sizeof(with))))
		return;
	if (differ++ < 10)
		printf("%s: %llx: %02x %02x %02x %02x %02x %02x differs\n", what, (unsigned long long)addr, bytes[0], bytes[1],
		       bytes[2], bytes[3], bytes[4], bytes[5]);
}

static uint64_t random_word(void)
{
	static uint64_t s = 1;

	s ^= s << 13;
	s ^= s >> 7;
	return s ^= s << 17;
}

static unsigned part = 1;

/* One form with each part-th ModRM byte, from a random one on. Not all of it is there: the end of the code may be
 * anywhere. */
static void compare_form(struct step_cache *cache, const uint8_t *head, size_t n)
{
	static const uint8_t sib[] = {0x24, 0x25, 0x65, 0xe5};
	unsigned modrm;

	for (modrm = random_word() % part; modrm < 256; modrm += part) {
		uint64_t random[3] = {random_word(), random_word(), random_word()};
		uint8_t bytes[40];

		memcpy(bytes, head, n);
		memcpy(bytes + n + 1, random, sizeof(random));
		bytes[n] = (uint8_t)modrm;
		if (random[0] & 1)
			bytes[n + 1] = sib[random[0] >> 1 & 3];
		compare(cache, bytes, random[1] & 7 ? 32 : n + (random[1] >> 3) % 12, 0x401000 + (random[2] & 0xffff), "all");
		if (random[2] >> 60)
			continue;
		random[0] = random_word() & random_word(); /* met now, with another displacement and immediate */
		memcpy(bytes + n + 2, random, sizeof(random) - 1);
		compare(cache, bytes, 32, 0x401000 + (random[1] & 0xffff), "again");
		memset(bytes + n + 2, random[1] & 8 ? 0xff : 0, sizeof(random) - 1);
		compare(cache, bytes, 32, 0x401000, "again");
	}
}

/* VEX of two bytes and of three: R, X, B, map, W, vvvv, L, pp. */
static void compare_vex(struct step_cache *cache)
{
	unsigned opcode, i;

	for (opcode = 0; opcode < 256; opcode++)
		for (i = 0; i < 24; i++) {
			uint64_t random = random_word();
			uint8_t two[] = {0xc5, (uint8_t)(random & 0xfc) | (i & 3), (uint8_t)opcode};
			uint8_t three[] = {0xc4, (uint8_t)(random & 0xe0) | (uint8_t)(1 + (i >> 2) % 3),
			                   (uint8_t)(random >> 8 & 0xfc) | (i & 3), (uint8_t)opcode};

			compare_form(cache, two, sizeof(two));
			compare_form(cache, three, sizeof(three));
		}
}

static void compare_all(struct step_cache *cache)
{
	static const uint8_t maps[4][3] = {{0}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}};
	static const char *const prefixes[] = {"",         "\x66",     "\xf2",     "\xf3",     "\x64",     "\x65",
	                                       "\x66\x64", "\xf3\x65", "\x66\xf3", "\xf2\xf3", "\x64\x65", "\x66\x66",
	                                       "\x3e",     "\x2e\x66", "\xf0",     "\x67"};
	unsigned p, rex, map, opcode;

	for (p = 0; p < sizeof(prefixes) / sizeof(*prefixes); p++)
		for (rex = 0x3f; rex < 0x50; rex += 1 + (rex > 0x3f ? random_word() % 6 : 0)) /* 3f: none */
			for (map = 0; map < (p < 5 ? 4 : 2); map++)
				for (opcode = 0; opcode < 256; opcode++) {
					size_t n = strlen(prefixes[p]);
					uint8_t head[8];

					memcpy(head, prefixes[p], n);
					if (rex != 0x3f)
						head[n++] = (uint8_t)rex;
					memcpy(head + n, maps[map], sizeof(maps[map]));
					n += map < 2 ? map : 2;
					head[n++] = (uint8_t)opcode;
					compare_form(cache, head, n);
				}
}

int main(int argc, char **argv)
{
	int i;

	if (argc == 3 && !strcmp(argv[1], "--all")) {
		struct step_cache *cache = step_cache_new();

		part = (unsigned)strtoul(argv[2], NULL, 10);
		if (cache && part) {
			compare_all(cache);
			compare_vex(cache);
		}
		step_cache_free(cache);
		printf("%lu compared, %lu differ\n", compared, differ);
		return differ != 0;
	}
	for (i = 1; i < argc; i++) {
		struct step_cache *cache = step_cache_new();
		struct code_space space;
		struct elf_file f;
		struct error e;
		size_t k;
		uint64_t at;

		if (!cache || elf_open(&f, argv[i], &e))
			return 2;
		space_build(&f, &space);
		for (k = 0; k < space.count; k++)
			for (at = 0; at < space.list[k].size; at++) {
				const struct code_section *c = &space.list[k];

				compare(cache, c->bytes + at, c->size - at, c->addr + at, argv[i]);
			}
		step_cache_free(cache);
		space_free(&space);
		elf_close(&f);
	}
	printf("%lu compared, %lu differ\n", compared, differ);
	return differ != 0;
}
