/* SPDX-License-Identifier: MIT */
/*
 * Static branches (etch/branch.h), as C and as C++: every kind of them at each value against plain C, at all
 * alignments (ETCH_BRANCH_PACKED) while threads run them and setters switch. Prints what does not depend on
 * how far the program has gone through etch; `etch_info` goes to standard error.
 */
#include <etch/branch.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
enum color { RED, GREEN, BLUE };
struct config {
	int level;
	unsigned char small;
	short negative;
	long wide;
	void *pointer;
	enum color color;
};
DEFINE_IMV(int, flag) = 0;
DEFINE_IMV(unsigned char, on) = 1;
static DEFINE_IMV(long, mode) = 0;
DEFINE_IMV(signed char, tiny) = 0;
ETCHED struct config config = {0, 0, 0, 0, 0, RED};
static volatile int evaluated;

static NOINLINE int f_unlikely(int x)
{
	if (imv_unlikely(flag))
		return x * 2;
	return x;
}
static NOINLINE int f_likely(int x)
{
	if (imv_likely(on))
		return x + 1;
	evaluated++;
	return x + 100;
}
static NOINLINE int f_value(int x) { return imv_true(flag) ? x : -x; }
static NOINLINE int f_loop(int n)
{
	int i, sum = 0;

	for (i = 0; i < n; i++) {
		if (imv_true(flag))
			sum += i;
		if (etch_branch_likely(config.small) && !imv_true(on))
			sum ^= 0x55;
	}
	return sum;
}
static NOINLINE int f_fields(void)
{
	return etch_branch(config.level) + 2 * etch_branch_unlikely(config.small) +
	       4 * etch_branch_likely(config.negative) + 8 * etch_branch(config.wide) +
	       16 * etch_branch_unlikely(config.pointer) + 32 * etch_branch(config.color);
}
static NOINLINE long f_switch(long x)
{
	switch (imv_switch(mode)) {
	case 0: return x;
	case 1: return x + 10;
	case 2: return x + 20;
	case 5: return x + 50;
	case 7: return x + 70;
	case 8: return x + 80;
	case -3: return x - 30;
	default: return -1;
	}
}
static NOINLINE long f_number(void) { return imv_switch(tiny); }

static int errors;
static void check(int error)
{
	if (error) {
		printf("%s\n", etch_strerror(error));
		errors++;
	}
}

static void kinds(const char *what)
{
	static const long modes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -3, 1l << 40, (1l << 32) + 1, 0};
	unsigned i;
	int v;

	printf("%s:", what);
	for (v = 0; v < 4; v++) {
		check(imv_set(flag, v * v * 1000));
		check(imv_set(on, (unsigned char)(v * 85)));
		printf(" %d,%d,%d,%d", f_unlikely(3), f_likely(4), f_value(5), f_loop(10));
	}
	for (v = 0; v < 6; v++) {
		struct config c;

		memset(&c, 0, sizeof(c));
		c.level = v == 0 ? -1 : 0;
		c.small = v == 1 ? 0x80 : 0;
		c.negative = v == 2 ? -32768 : 0;
		c.wide = v == 3 ? 1l << 63 : 0;
		c.pointer = v == 4 ? &c : 0;
		c.color = v == 5 ? BLUE : RED;
		check(etch_set(&config, c));
		printf(" %d", f_fields());
	}
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		check(imv_set(mode, modes[i]));
		check(imv_set(tiny, (signed char)modes[i]));
		printf(" %ld/%ld", f_switch(1), f_number());
	}
	printf(" verify %ld\n", etch_verify(0, 0));
}

static void info(const char *what)
{
	struct etch_info i;

	i.size = sizeof(i);
	etch_info(&i);
	fprintf(stderr, "%s %lu of %lu\n", what, i.branches_static, i.branches);
}

/* ---- threads -------------------------------------------------------------------- */

/* Sites one to eight bytes apart, in a row: all places in a word, in a cache line. */
#define SITE(n, pad)                              \
	static NOINLINE int site_##n(void)            \
	{                                             \
		__asm__ volatile(".skip " #pad ", 0x90"); \
		return imv_unlikely(flag) ? 1 : 0;        \
	}                                             \
	static NOINLINE long way_##n(void)            \
	{                                             \
		__asm__ volatile(".skip " #pad ", 0x90"); \
		return imv_switch(mode);                  \
	}
SITE(0, 0)
SITE(1, 1)
SITE(2, 2)
SITE(3, 3)
SITE(4, 4)
SITE(5, 5)
SITE(6, 6)
SITE(7, 7)
SITE(8, 59)
SITE(9, 60)
SITE(10, 61)
SITE(11, 62)
static int (*const sites[])(void) = {site_0, site_1, site_2, site_3, site_4,  site_5,
                                     site_6, site_7, site_8, site_9, site_10, site_11};
static long (*const ways[])(void) = {way_0, way_1, way_2, way_3, way_4,  way_5,
                                     way_6, way_7, way_8, way_9, way_10, way_11};
#define SITES (sizeof(sites) / sizeof(sites[0]))

/* Even: no set is going on, and both values follow from it. */
static volatile unsigned long epoch;
static volatile int stop;
static void *reader(void *arg)
{
	volatile unsigned long *result = (volatile unsigned long *)arg; /* reads, wrong */

	while (!stop)
		for (unsigned i = 0; i < SITES; i++) {
			unsigned long before = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE), after;
			int b = sites[i]();
			long w = ways[i]();

			__atomic_signal_fence(__ATOMIC_SEQ_CST);
			after = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
			result[0] += 2;
			result[1] += b != 0 && b != 1;
			result[1] += w < 0 || w > 8;
			if (before == after && !(before & 1)) {
				result[1] += b != (int)(before >> 1 & 1);
				result[1] += w != (long)((before >> 1) % 9);
			}
		}
	return 0;
}

static void threads(int sets)
{
	static volatile unsigned long result[2][2];
	pthread_t t[2];
	int i;

	check(imv_set(flag, 0) | imv_set(mode, 0));
	for (i = 0; i < 2; i++)
		pthread_create(&t[i], 0, reader, (void *)result[i]);
	while (!result[0][0] || !result[1][0])
		sched_yield();
	for (i = 1; i <= sets; i++) {
		int v = i & 1;
		long m = i % 9;
		struct etch_change c[] = {IMV_CHANGE(flag, &v), IMV_CHANGE(mode, &m)};

		__atomic_store_n(&epoch, epoch + 1, __ATOMIC_SEQ_CST);
		if (i % 3)
			check(etch_set_batch(c, 2));
		else
			check(imv_set(flag, v) | imv_set(mode, m));
		__atomic_store_n(&epoch, epoch + 1, __ATOMIC_SEQ_CST);
	}
	stop = 1;
	for (i = 0; i < 2; i++)
		pthread_join(t[i], 0);
	fprintf(stderr, "%lu branches in %d sets\n", result[0][0] + result[1][0], sets);
	printf("wrong branches %lu verify %ld\n", result[0][1] + result[1][1], etch_verify(0, 0));
}

int main(int argc, char **argv)
{
	info("start");
	kinds("start");
	check(etch_release(&flag__imv, sizeof(flag__imv)) | etch_release(&config, sizeof(config)));
	info("released");
	kinds("released");
	check(etch_sync(&flag__imv, sizeof(flag__imv)) | etch_sync(&config, sizeof(config)));
	kinds("synced");
	info("synced");
	if (argc > 1)
		threads(atoi(argv[1]));
	printf("errors %d\n", errors);
	return 0;
}
