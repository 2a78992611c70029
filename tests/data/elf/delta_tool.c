/* SPDX-License-Identifier: MIT */
/*
 * delta_tool.c: runs tool/output/delta.c by itself, for test_delta.py.
 *
 *   delta_tool HAVE WANT [FROM:TO]...    guesses: what is at TO in WANT is at FROM in HAVE
 *
 * Prints the size of the delta, and whether an index of HAVE was made (calloc(3) is wrapped).
 * Exit status 1: what it gives back is not WANT.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/delta.h"

#define GUESSES 8

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static unsigned indices;

void *__wrap_calloc(size_t count, size_t size)
{
	indices++;
	return __real_calloc(count, size);
}

static uint8_t *load(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;

	if (!f || fseek(f, 0, SEEK_END))
		exit(2);
	*size = (size_t)ftell(f);
	rewind(f);
	data = malloc(*size + 1);
	if (!data || fread(data, 1, *size, f) != *size)
		exit(2);
	fclose(f);
	return data;
}

int main(int argc, char **argv)
{
	struct delta_guess guesses[GUESSES];
	size_t have_size, want_size, size, n = 0;
	uint8_t *have, *want, *delta, *back;
	unsigned made;

	if (argc < 3 || argc - 3 > GUESSES)
		return 2;
	have = load(argv[1], &have_size);
	want = load(argv[2], &want_size);
	for (int i = 3; i < argc; i++, n++)
		if (sscanf(argv[i], "%zu:%zu", &guesses[n].have, &guesses[n].want) != 2)
			return 2;
	delta_make((struct bytes){have, have_size}, (struct bytes){want, want_size}, n ? guesses : NULL, n, &delta, &size);
	made = indices;
	back = malloc(want_size + 1);
	if (!back || delta_apply(have, have_size, delta, size, back, want_size) || memcmp(back, want, want_size))
		return 1;
	printf("%zu %u\n", size, made);
	free(back);
	free(delta);
	free(have);
	free(want);
	return 0;
}
