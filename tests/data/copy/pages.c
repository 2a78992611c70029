/* SPDX-License-Identifier: MIT */
/*
 * Large non-temporal copies fetch four pages while they copy four: with a page that cannot
 * be accessed at each place of such a block, in src and in dst, the residue is exact and
 * nothing behind it has changed.
 *
 *     pages VARIANT        exit status 77: the processor lacks it
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <etch/copy.h>
#include <etch/extable.h>

#define PAGE 4096
#define SIZE ((size_t)(8 << 20) + 12 * PAGE)

static char *map(void)
{
	char *p = mmap(NULL, SIZE + 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int main(int argc, char **argv)
{
	static const unsigned offsets[] = {0, 1, 63, 64, 1088, 4080, 4095};
	char *src = map(), *dst = map();
	unsigned long runs = 0;

	if (argc < 2 || !src || !dst || etch_fault_init())
		return 2;
	if (etch_copy_use(argv[1])) {
		printf("no %s\n", argv[1]);
		return 77;
	}
	for (size_t i = 0; i < SIZE + 4 * PAGE; i++)
		src[i] = (char)(i * 31 + (i >> 12) * 7 + 1);
	for (unsigned s = 0; s < 7; s++)
		for (unsigned d = 0; d < 7; d++)
			for (unsigned side = 0; side < 2; side++)
				/* -1: none */
				for (int bad = (s + d) % 3 ? 5 : -1; bad < 14; bad += bad < 0 ? 2 : 1) {
					char *guard = (side ? dst : src) + (size_t)bad * PAGE, *to = dst + offsets[d];
					const char *from = src + offsets[s];
					size_t n = SIZE, want = 0, left;

					memset(dst, 0x5a, 20 * PAGE);
					if (bad >= 0) {
						want = n - ((size_t)bad * PAGE - offsets[side ? d : s]);
						mprotect(guard, PAGE, PROT_NONE);
					}
					left = etch_copy_nt(to, from, n);
					if (bad >= 0)
						mprotect(guard, PAGE, PROT_READ | PROT_WRITE);
					if (left != want || memcmp(to, from, n - left)) {
						printf("src+%u dst+%u side %u page %d: %zu left, not %zu\n",
						       offsets[s], offsets[d], side, bad, left, want);
						return 1;
					}
					for (char *p = to + (n - left); left && p < dst + 20 * PAGE; p++)
						if (*p != 0x5a) {
							printf("src+%u dst+%u side %u page %d: a byte behind\n",
							       offsets[s], offsets[d], side, bad);
							return 1;
						}
					runs++;
				}
	printf("%lu\n", runs);
	return 0;
}
