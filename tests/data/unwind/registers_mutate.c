/* SPDX-License-Identifier: MIT */
/*
 * registers_mutate TABLE ROUNDS SEED: damages the register table after an unwind table, at random, and looks all of it up. Each
 * copy is in memory of its exact size, so that a read outside of it is seen by ASan. Prints how many of the damaged
 * tables have a valid header, and how many are valid as a whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etch/orc_registers.h>

static uint64_t state;

static uint64_t number(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 33;
}

int main(int argc, char **argv)
{
	static uint8_t file[1 << 22];
	unsigned long opened = 0, valid = 0, known = 0, rounds = argc > 3 ? strtoul(argv[2], NULL, 0) : 0;
	FILE *f = argc > 3 ? fopen(argv[1], "r") : NULL;
	size_t size = f ? fread(file, 1, sizeof(file), f) : 0;
	const struct etch_unwind *u = (const void *)file, *r;
	uint64_t at;

	if (!size || !etch_unwind_valid(file, size) || !(r = etch_registers_behind(u, size)) ||
	    !etch_registers_valid(u, r, size - (size_t)((const uint8_t *)r - file)))
		return 2;
	at = (uint64_t)((const uint8_t *)r - file);
	state = strtoul(argv[3], NULL, 0);
	for (unsigned long n = 0; n < rounds; n++) {
		uint64_t cut = n % 4 ? 0 : number() % (size - at), count = 1 + number() % 6;
		uint8_t *copy = NULL;

		if (posix_memalign((void **)&copy, 8, size - cut))
			return 2;
		memcpy(copy, file, size - cut);
		for (uint64_t k = 0; k < count; k++) {
			/* mostly the header and the small arrays after it */
			uint64_t where = at + number() % (k & 1 ? size - at : sizeof(*r) + 512);

			if (where < size - cut)
				copy[where] = (uint8_t)(n % 3 ? copy[where] ^ 1u << number() % 8 : number());
		}
		u = (const void *)copy;
		r = etch_registers_behind(u, size - cut);
		opened += !!r;
		valid += r && etch_registers_valid(u, r, size - cut - at);
		for (uint64_t i = 0; r && i < u->text_size + 600; i += 1 + u->text_size / 8192) {
			struct etch_saves s;

			etch_registers_find(r, i, &s);
			known += s.how[0] != 0;
			if (!etch_saves_valid(&s))
				return 3;
		}
		free(copy);
	}
	printf("%lu opened %lu valid %lu known\n", opened, valid, known);
	return 0;
}
