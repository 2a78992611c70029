/* SPDX-License-Identifier: MIT */
/*
 * One of each kind of frame that compilers make, run once: variable and large
 * frames, alignment, switches, computed goto, setjmp, tail calls, nested functions,
 * variadic ones, noreturn ends, constructors. tests/analysis/test_unwind_zoo.py builds it in many
 * ways and holds the rows against .eh_frame and against execution.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static volatile unsigned long sink;
static volatile unsigned char keep[64];

NOINLINE static void use(const volatile void *p, size_t n)
{
	const volatile unsigned char *c = p;

	for (size_t i = 0; i < n && i < 8; i++)
		sink += c[i * (n / 8 ? n / 8 : 1)];
}

NOINLINE static unsigned long vla(unsigned n)
{
	unsigned long a[n];

	for (unsigned i = 0; i < n; i++)
		a[i] = i * sink;
	use(a, sizeof a);
	if (n > 4) {
		char b[n * 2];

		memset(b, (int)n, sizeof b);
		use(b, sizeof b);
	}
	return a[n / 2];
}

NOINLINE static unsigned long dynamic(unsigned n, int again)
{
	char *p = alloca(n);

	memset(p, 3, n);
	use(p, n);
	if (again) {
		char *q = alloca(n / 2 + 1);

		memset(q, 4, n / 2 + 1);
		use(q, n / 2 + 1);
		return (unsigned long)q[0] + vla(n % 13 + 1);
	}
	return (unsigned long)p[n - 1];
}

NOINLINE static unsigned long big(unsigned n)
{
	char a[70000];

	memset(a, (int)n, 4096);
	a[69999] = (char)n;
	use(a, 4096);
	return (unsigned long)a[69999];
}

NOINLINE static unsigned long aligned(unsigned n)
{
	uint32_t a[32] __attribute__((aligned(128)));

	for (unsigned i = 0; i < 32; i++)
		a[i] = i * n;
	use(a, sizeof a);
	return a[n & 31];
}

NOINLINE static unsigned long aligned_dynamic(unsigned n, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                                              unsigned f, unsigned g)
{
	uint32_t v[16] __attribute__((aligned(64)));
	char *p = alloca(n + 1);

	memset(p, (int)n, n + 1);
	for (unsigned i = 0; i < 16; i++)
		v[i] = i * (a + b + c + d + e + f + g);
	use(v, sizeof v);
	use(p, n + 1);
	return v[n & 15];
}

NOINLINE static double floating(double x, int n)
{
	double a[8], s = 0;

	for (int i = 0; i < 8; i++)
		a[i] = x * i;
	for (int i = 0; i < n; i++)
		s += a[i & 7] / (1 + s);
	use(a, sizeof a);
	return s;
}

NOINLINE static unsigned long vectors(const float *x, unsigned n)
{
	float y[64], t = 0;

	for (unsigned i = 0; i < 64; i++)
		y[i] = x[i] * 2 + (float)n;
	for (unsigned i = 0; i < 64; i++)
		t += y[i] * y[63 - i];
	use(y, sizeof y);
	return (unsigned long)t;
}

NOINLINE static unsigned long switched(unsigned n)
{
	unsigned long r = n;

	switch (n) {
	case 0: return 1;
	case 1: r += vla(3); break;
	case 2: r *= sink; /* fall through */
	case 3: r ^= 5; use(&r, sizeof r); break;
	case 4: return dynamic(9, 0);
	case 5: r += big(n) + 7; break;
	case 6: r += aligned(n); r *= 3; break;
	case 7: sink++; return r * 7;
	case 9: r += 2; use(&r, 8); /* fall through */
	default: r += 1;
	}
	return r + sink;
}

/* A switch without anything pushed, and one in a loop with much. */
NOINLINE static unsigned long interpreter(const unsigned char *code, unsigned long a, unsigned long b)
{
	unsigned long stack[16];
	int top = 0;

	stack[0] = a;
	for (;;)
		switch (*code++) {
		case 0: return stack[top];
		case 1: stack[++top] = b; break;
		case 2: top--; stack[top] += stack[top + 1]; break;
		case 3: stack[top] = switched((unsigned)stack[top] & 7); break;
		case 4: stack[top] ^= a; break;
		case 5: use(stack, sizeof stack); break;
		case 6: if (stack[top] & 1) code++; break;
		case 7: stack[top] = vla((unsigned)stack[top] % 7 + 1); break;
		default: abort();
		}
}

NOINLINE static unsigned long threaded(const unsigned char *code, unsigned long a)
{
	static const void *const go[] = { &&end, &&add, &&call, &&flip, &&grow };

	goto *go[*code++];
add:
	a += sink;
	goto *go[*code++];
call:
	a += aligned((unsigned)a & 7);
	goto *go[*code++];
flip:
	a = ~a;
	goto *go[*code++];
grow:
	a += dynamic((unsigned)(a & 15) + 1, 1);
	goto *go[*code++];
end:
	return a;
}

static jmp_buf env;

NOINLINE static void thrower(unsigned n)
{
	char a[n + 8];

	memset(a, 1, n + 8);
	use(a, n + 8);
	longjmp(env, (int)n);
}

NOINLINE static unsigned long jumps(unsigned n)
{
	volatile unsigned long r = n;

	switch (setjmp(env)) {
	case 0: thrower(1);
	case 1: r += 5; thrower(2);
	case 2: r += 7; break;
	}
	return r;
}

NOINLINE static unsigned long tail_end(unsigned long n)
{
	return n * 31 + sink;
}

NOINLINE static unsigned long tail(unsigned long n, void *p)
{
	unsigned long a[6] = { n, n + 1, n + 2, n + 3, n + 4, n + 5 };

	use(a, sizeof a);
	if (p)
		return tail_end(a[n & 3]);
	return vla((unsigned)(a[1] & 7) + 1);
}

NOINLINE static unsigned long variadic(int n, ...)
{
	va_list ap;
	unsigned long s = 0;

	va_start(ap, n);
	for (int i = 0; i < n; i++)
		s += i & 1 ? (unsigned long)va_arg(ap, double) : va_arg(ap, unsigned long);
	va_end(ap);
	use(&s, sizeof s);
	return s;
}

__attribute__((noreturn, noinline, cold)) static void fatal(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(3);
}

/* Early exits before anything is saved (shrink-wrapping), and a cold part. */
NOINLINE static unsigned long wrapped(unsigned long *p, unsigned n)
{
	unsigned long s = 0;

	if (!p || n == 0)
		return 1;
	for (unsigned i = 0; i < n; i++) {
		if (p[i] == 0xdeadbeef)
			fatal("bad");
		s += switched((unsigned)p[i] & 7) + (i ? p[i - 1] : 0);
	}
	if (__builtin_expect(s == 0x1234567, 0)) {
		use(p, n);
		s += big(n) * vla(n);
	}
	return s;
}

NOINLINE static unsigned long recurse(unsigned n, unsigned long a, unsigned long b, unsigned long c)
{
	if (!n)
		return a + b + c;
	return recurse(n - 1, a + 1, b ^ a, c) + recurse(n / 2 ? n / 2 - 1 : 0, c, b, a) + n;
}

#ifndef __clang__
NOINLINE static unsigned long nested(unsigned n)
{
	unsigned long total = n;
	int cmp(const void *x, const void *y)
	{
		total++;
		return *(const int *)x - *(const int *)y;
	}
	int a[8] = { 5, 3, 8, 1, 9, 2, 7, 4 };

	qsort(a, 8, sizeof *a, cmp);
	return total + (unsigned long)a[n & 7];
}
#endif

/* Many values alive over calls: every callee-saved register is in use. */
NOINLINE static unsigned long pressure(const unsigned long *p)
{
	unsigned long a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6], h = p[7];

	for (int i = 0; i < 3; i++) {
		a += tail(b, &a);
		c ^= switched((unsigned)d & 7);
		e += recurse(2, f, g, h);
		b += a * h, d += c ^ g, f -= e, g += a, h ^= c;
	}
	return a + b + c + d + e + f + g + h;
}

__attribute__((constructor)) static void before(void)
{
	keep[1] = 5;
}

__attribute__((destructor)) static void after(void)
{
	use(keep, sizeof keep);
}

int main(int argc, char **argv)
{
	static const unsigned char one[] = { 1, 2, 3, 4, 1, 5, 2, 6, 3, 7, 0, 0 }, two[] = { 1, 2, 3, 4, 1, 0 };
	unsigned long words[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	float floats[64];
	unsigned long r = (unsigned long)argc;

	(void)argv;
	for (int i = 0; i < 64; i++)
		floats[i] = (float)i;
	r += vla(5) + vla(1) + dynamic(40, 0) + dynamic(33, 1) + big(2) + aligned(9);
	r += aligned_dynamic(21, 1, 2, 3, 4, 5, 6, 7) + (unsigned long)floating(1.5, 5) + vectors(floats, 3);
	for (unsigned i = 0; i < 11; i++)
		r += switched(i);
	r += interpreter(one, 3, 4) + threaded(two, 5) + jumps(2) + tail(3, &r) + tail(5, NULL);
	r += variadic(4, 1ul, 2.0, 3ul, 4.0) + wrapped(words, 6) + wrapped(NULL, 1) + recurse(3, 1, 2, 3) + pressure(words);
#ifndef __clang__
	r += nested(3);
#endif
	printf("%d\n", (int)(r != 0));
	return 0;
}
