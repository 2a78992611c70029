/* SPDX-License-Identifier: MIT */
/* A library of walks.c: the dynamic linker calls `hook` when it binds `lazy`, from its
 * lazy resolver, whose frame counts from rbx. */
void (*hook)(void);
int lazy(void);
int lazy_call(void);

static int the_one(void) { return 7; }

static int (*resolve(void))(void)
{
	if (hook)
		hook();
	__asm__ __volatile__("" : : : "memory");
	return the_one;
}

int lazy(void) __attribute__((ifunc("resolve")));

int lazy_call(void)
{
	int r = lazy();

	__asm__ __volatile__("" : : : "memory");
	return r;
}
