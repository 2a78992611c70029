/* SPDX-License-Identifier: MIT */
/* Takes blocks of `size` bytes from early_alloc() (lib/heap/next_malloc.c) until there are none left, and checks each. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "heap/next_malloc.h"

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, count = 0;
	const char *block, *before = NULL;

	while ((block = early_alloc(size))) {
		if (early_size(block) < size || !early_size(block))
			return printf("block %zu: early_size() is %zu\n", count, early_size(block)), 1;
		if ((uintptr_t)block % 16 || (before && block < before + early_size(before)))
			return printf("block %zu is in the wrong place\n", count), 1;
		before = block;
		count++;
	}
	if (early_size(&size) || early_size(NULL))
		return printf("early_size() takes other memory for a block\n"), 1;
	printf("%zu\n", count);
	return 0;
}
