/* SPDX-License-Identifier: MIT */
/* Calls through an ops object, as C programs make them. Each function says how many of
 * its sites are to be taken, and how many to be named with a reason (or either). */
#include <etch/imv.h>

struct ops {
	long (*one)(long);
	void (*none)(void);
	long (*two)(long, long);
	double (*real)(double, float);
	int (*any)(const char *, ...);
	struct { long (*deep)(long, long, long, long, long, long, long, long); } in;
};
ETCHED __attribute__((visibility("hidden"))) struct ops ops = {.one = 0};
extern long outside(long), flag;

long plain(long x) /* 1 taken */
{
	return ops.one(x) + 1;
}

void nothing(void) /* 1 taken */
{
	ops.none();
	flag = 0;
}

long nested(long x) /* 2 taken */
{
	return outside(ops.two(x, flag) + ops.one(x));
}

long wide(long a, long b, long c, long d, long e, long f) /* 1 taken */
{
	return ops.in.deep(f, e, d, c, b, a, flag, a + b) + 1;
}

double floating(double a, float b) /* 1 taken */
{
	return ops.real(a * 2, b) + 1;
}

int variadic(int a, double b) /* 1 taken */
{
	return ops.any("%d %f", a, b) + 1;
}

void guarded(void) /* 1 taken */
{
	if (ops.none) {
		flag = 1;
		ops.none();
	}
	flag = 2;
}

void loop(long n) /* 2 taken */
{
	while (n--) {
		ops.none();
		flag += ops.one(n);
	}
}

long cases(long x, long y) /* 6 taken */
{
	switch (x) {
	case 0: flag = ops.one(1); break;
	case 1: flag = ops.two(2, 3); break;
	case 2: ops.none(); flag = 4; break;
	case 3: flag = (long)ops.real(5, 6); break;
	case 4: flag = ops.in.deep(y, 1, 2, 3, 4, 5, 6, 7); break;
	case 5: flag = ops.any("%ld", y); break;
	default: return 1;
	}
	return flag;
}

long kept(long x) /* 0 taken, 1 named */
{
	long (*old)(long) = ops.one;

	outside(x);
	return old(x) + 1;
}

long either(long x) /* 1 taken or named: with two calls in place of one, it is taken */
{
	long (*f)(long) = outside;

	if (x & 1) {
		flag++;
		f = ops.one;
	}
	__asm__("" : "+r"(f));
	return f(x) + 1;
}

long by_number(long (**table)(long), long i) /* 0 taken */
{
	return table[i](i) + 1;
}

long numbered(long i) /* 0 taken, 1 named */
{
	return ((long (**)(long))&ops)[i](i) + 1;
}
