/* SPDX-License-Identifier: MIT */
/*
 * stress_shared_main.c: what each of a program and two libraries gets when it calls
 * through a table of one of them, as it is at start, after sets by each of them, and
 * at the end. -DOWN_TARGET: the program has the function that the library's table names.
 */
#include <stdlib.h>

#include "pv/stress_shared.h"

long main_call(int field, long a, long b);
int main_set(int field, fn *to);
CALLERS(main)
#ifdef OWN_TARGET
long home_interposed(long a, long b) { return 8888 + a + b; }
#endif

static __attribute__((noinline)) long mine(long a, long b) { return a + 50 * b; }
static long zero(long a, long b) { (void)a; (void)b; return 0; }

static int said;
static void show(const char *when)
{
	for (int field = 0; field < 5; field++)
		printf("%s %d: %ld %ld %ld, %d counted\n", when, field, home_call(field, 3, 4), user_call(field, 3, 4),
		       main_call(field, 3, 4), home_count);
}
static void set_ok(int error)
{
	if (error && !said++)
		printf("set: %s\n", etch_strerror(error));
}

int main(int argc, char **argv)
{
	static fn *const targets[] = {mine, zero, home_plain, mine, home_interposed, zero};
	int (*const set[])(int, fn *) = {home_set, user_set, main_set};

	(void)argv;
	show("start");
	if (argc > 1)
		set_ok(etch_sync_bytes(home_ops(), sizeof(struct shared_ops)));
	show("synced");
	for (int i = 0; i < 6; i++) {
		for (int field = 0; field < 5; field++)
			set_ok(set[(i + field) % 3](field, targets[(i + 2 * field) % 6]));
		show("set");
	}
	set_ok(home_set(3, (fn *)0));
	set_ok(user_set(0, (fn *)(void *)labs)); /* a function of libc, of one argument, far away */
	show("end");
	printf("%ld\n", etch_verify(NULL, NULL));
	return 0;
}
