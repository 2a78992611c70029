/* SPDX-License-Identifier: MIT */
/*
 * One walk of a profiler's handler, between two marks that scripts/bench/lines_parts.py finds in a trace of memory
 * references: a path of DEPTH calls through the tree, an int3 at its bottom, etch_backtrace_from() in the handler.
 *
 *     lines tables|none [warm|fresh]
 *
 * tables   with etch_unwind_prepare(): the C library has a table, and the walk is complete
 * none     it has none: the walk ends in main's caller
 * warm     one walk before the one that is counted
 */
#define _GNU_SOURCE
#include <etch/unwind.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench.h"
#include "walk.h"

#define DEPTH 21 /* with bottom() and main 23 frames, 24 with main's caller */

static struct step path[DEPTH + 1];
static void *ips[64];
static int frames, status;

/* Marks: functions of which only the address matters. */
void lines_begin(void);
void lines_end(void);
__attribute__((noinline, aligned(64))) void lines_begin(void) { __asm__ volatile(""); }
__attribute__((noinline, aligned(64))) void lines_end(void) { __asm__ volatile(""); }

static void on_trap(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	lines_begin();
	frames = etch_backtrace_from(context, ips, 64, &status);
	lines_end();
}

__attribute__((noinline)) int bottom(void)
{
	__asm__ volatile("int3");
	return 0;
}

/* walk.h: not called. */
void walk_prepare(void) {}
int walk(void **to, int max) { return to && max; }

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	uint64_t seed = 88172645463325252u;

	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "tables"))
		etch_unwind_prepare();
	sigaction(SIGTRAP, &act, NULL);
	for (int walks = strcmp(argv[2], "warm") ? 1 : 2; walks; walks--) {
		for (int i = 0; i < DEPTH; i++) {
			unsigned n = bench_random(&seed) % (unsigned)(tree_count - 1);

			path[i].fn = tree[n];
			path[i + 1].site = n * 2654435761u >> 31;
		}
		path[0].fn(path + 1);
	}
	printf("# frames\t%d\tstatus\t%d\n", frames, status);
	/* For the names of what was touched. */
	fflush(stdout);
	{
		char line[512];
		FILE *f = fopen("/proc/self/maps", "r");

		while (f && fgets(line, sizeof line, f))
			fputs(line, stdout);
	}
	return 0;
}
