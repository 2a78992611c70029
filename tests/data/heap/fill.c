/* SPDX-License-Identifier: MIT */
/* Lowers its limit of address space to so many MB once it runs, and allocates 20,000 blocks of 1,000 bytes; prints how many failed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void *volatile kept[20000];

__attribute__((noinline)) static void fill(int i) { kept[i] = malloc(1000); }

int main(int argc, char **argv)
{
	struct rlimit r;
	char text[20];
	int failed = 0;

	r.rlim_cur = r.rlim_max = (rlim_t)(argc > 1 ? atol(argv[1]) : 0) << 20;
	if (setrlimit(RLIMIT_AS, &r))
		return 1;
	for (int i = 0; i < 20000; i++) {
		fill(i);
		failed += !kept[i];
	}
	return write(1, text, (size_t)snprintf(text, sizeof(text), "%d", failed)) < 1;
}
