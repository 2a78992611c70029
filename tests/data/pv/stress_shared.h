/* SPDX-License-Identifier: MIT */
/*
 * stress_shared.h: ops tables of one shared library, called from it, from another one
 * and from the program. -DOPS_VISIBILITY='"hidden"': the table is not visible outside of
 * its library; "protected": visible, and not preemptible. -DNO_OPS: a file without sites.
 */
#ifndef TEST_PV_STRESS_SHARED_H
#define TEST_PV_STRESS_SHARED_H

#include <etch/pv.h>
#include <stdio.h>

typedef long fn(long, long);
struct shared_ops {
	fn *f, *g, *ifunc, *missing, *interposed;
	void (*v)(void);
};
#ifdef OPS_VISIBILITY
extern struct shared_ops shared_ops __attribute__((visibility(OPS_VISIBILITY)));
#endif
DECLARE_PV_OPS(struct shared_ops, shared_ops);

/* Of the library that has the table. */
struct shared_ops *home_ops(void); /* only for its address */
long home_call(int field, long a, long b);
int home_set(int field, fn *to);
fn home_plain, home_interposed; /* targets; the second one is what LD_PRELOAD replaces */
extern int home_count;

long user_call(int field, long a, long b); /* of the library that only uses it */
int user_set(int field, fn *to);

#ifdef NO_OPS
#define CALLERS(name)                                                                   \
	long name##_call(int field, long a, long b) { return home_call(field, a, b); }  \
	int name##_set(int field, fn *to) { return home_set(field, to); }
#else
/* Each caller's own sites: as calls, and as the last thing that a function does. */
#define CALLERS(name)                                                                   \
	__attribute__((noinline)) static long by_##name##_f(long a, long b) { return shared_ops.f(a, b) + 1; } \
	__attribute__((noinline)) static long by_##name##_g(long a, long b) { return shared_ops.g(a, b); } \
	__attribute__((noinline)) static long by_##name##_ifunc(long a, long b) { return shared_ops.ifunc(a, b) ^ 1; } \
	__attribute__((noinline)) static long by_##name##_missing(long a, long b)            \
	{                                                                               \
		return shared_ops.missing ? shared_ops.missing(a, b) : -1;              \
	}                                                                               \
	__attribute__((noinline)) static long by_##name##_interposed(long a, long b)         \
	{                                                                               \
		shared_ops.v();                                                         \
		return shared_ops.interposed(a, b);                                     \
	}                                                                               \
	long name##_call(int field, long a, long b)                                     \
	{                                                                               \
		switch (field) {                                                        \
		case 0: return by_##name##_f(a, b);                                          \
		case 1: return by_##name##_g(a, b);                                          \
		case 2: return by_##name##_ifunc(a, b);                                      \
		case 3: return by_##name##_missing(a, b);                                    \
		default: return by_##name##_interposed(a, b);                                \
		}                                                                       \
	}                                                                               \
	int name##_set(int field, fn *to)                                               \
	{                                                                               \
		switch (field) {                                                        \
		case 0: return pv_set(shared_ops.f, to);                                \
		case 1: return pv_set(shared_ops.g, to);                                \
		case 2: return pv_set(shared_ops.ifunc, to);                            \
		case 3: return pv_set(shared_ops.missing, to);                          \
		default: return pv_set(shared_ops.interposed, to);                      \
		}                                                                       \
	}
#endif
#endif
