/* SPDX-License-Identifier: MIT */
/*
 * How a walk ends, and walks that take over what an earlier one has found: for walks.c.
 */
#include <sys/time.h>

#include "walks.h"

/* ---- limits, and statuses ---------------------------------------------------------------------- */

static NOINLINE void check_limits(void)
{
	void *all[MOST], *ips[MOST];
	int n = etch_backtrace(all, MOST), status, m;

	for (int max = -1; max <= n + 1; max++) {
		struct etch_walk *w = calloc(1, sizeof(*w));
		int most = max < n ? max : n;

		memset(ips, 0, sizeof(ips));
		m = etch_backtrace(ips, max);
		must(m == (most < 0 ? 0 : most));
		must(m < 2 || !memcmp(ips + 1, all + 1, (size_t)(m - 1) * sizeof(*ips)));
		must(!ips[m]);
		must(etch_backtrace_from(NULL, ips, max, NULL) == m);
		must(etch_backtrace_from(NULL, ips, max, &status) == m && status == (max < n ? ETCH_UNWIND_LIMIT : want));
		for (int i = 0; i < 3; i++) {
			must(etch_backtrace_reuse(w, NULL, ips, max, &status) == m);
			must(status == (max < n ? ETCH_UNWIND_LIMIT : want));
			must(!ips[m] && (m < 2 || !memcmp(ips + 1, all + 1, (size_t)(m - 1) * sizeof(*ips))));
			must(etch_backtrace_reuse(w, NULL, ips, max, NULL) == m);
			/* A walk that nobody asks whether there is one more frame, and one that is asked. */
			etch_walk_reset(w);
			must(etch_backtrace_reuse(w, NULL, ips, max, NULL) == m);
			must(etch_backtrace_reuse(w, NULL, ips, max, &status) == m);
			must(status == (max < n ? ETCH_UNWIND_LIMIT : want));
			must(etch_backtrace_reuse(w, NULL, ips, MOST - 1, &status) == n && status == want);
			memset(ips, 0, sizeof(ips));
		}
		free(w);
	}
}

void case_limits(void)
{
	bottom = check_limits;
	frames(30);
	for (int i = -10; i < 5; i++)
		must(strlen(etch_unwind_strerror(i)) > 5);
}

/* Without prepare: what the program's own table covers, and no more. */
static NOINLINE void check_notable(void)
{
	void *ips[MOST];
	int status, n = etch_backtrace_from(NULL, ips, MOST, &status);

	if (status != ETCH_UNWIND_NOTABLE || n != atoi(arguments[0]))
		fail("%d frames: %s", n, etch_unwind_strerror(status));
}

void case_notable(void)
{
	bottom = check_notable;
	frames(10);
}

/* ---- reuse ---------------------------------------------------------------------------------------- */

static volatile long budget; /* walks still to be made */

static NOINLINE int wander(int depth, int left)
{
	char local[rnd() % 5 ? 16 : 16 + rnd() % 200];
	void *a[MOST], *b[MOST];
	static struct etch_walk w;
	int n, m, sa, sb, r = 0;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	while (left-- > 0 && budget > 0 && rnd() % 8) {
		if (depth < 150 && rnd() % 8) {
			r += rnd() % 4 ? wander(depth + 1, left) : frames((int)(rnd() % 8));
			BARRIER;
			continue;
		}
		m = rnd() % 8 ? MOST : (int)(rnd() % 100);
		n = etch_backtrace_from(NULL, a, m, &sa);
		sb = sa;
		m = etch_backtrace_reuse(&w, NULL, b, m, rnd() % 4 ? &sb : NULL);
		must(n == m && sb == sa);
		if (n)
			same("reuse", b + 1, m - 1, a + 1, n - 1);
		if (rnd() % 64 == 0)
			etch_walk_reset(&w);
		budget--;
		r++;
	}
	return r;
}

static void wander_bottom(void) { wander(100, 3); }

static void on_wander(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	wander(140, 10);
}

void case_reuse(void)
{
	struct itimerval t = { { 0, 2000 }, { 0, 2000 } };

	bottom = wander_bottom;
	for (budget = 100000; budget > 0;)
		wander(0, 200);
	handle(SIGPROF, on_wander, SA_RESTART);
	must(!setitimer(ITIMER_PROF, &t, NULL));
	for (budget = 200000; budget > 0;)
		wander(0, 200);
	memset(&t, 0, sizeof(t));
	setitimer(ITIMER_PROF, &t, NULL);
}

/* Deeper than a state can keep. */
static NOINLINE int deep(int n)
{
	static void *a[3000], *b[3000];
	static struct etch_walk w;
	int r = 0, s;

	if (n)
		r = deep(n - 1);
	else
		for (int i = 0; i < 5; i++)
			for (int max = 3000; max > 10; max -= 171) {
				int k = etch_backtrace(a, max), m = etch_backtrace_reuse(&w, NULL, b, max, &s);

				same("deep", b + 1, m - 1, a + 1, k - 1);
			}
	BARRIER;
	return r + 1;
}

void case_deep(void)
{
	for (int n = 100; n < 2500; n += 53)
		deep(n);
}
