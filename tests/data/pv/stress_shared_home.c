/* SPDX-License-Identifier: MIT */
/* The library that has the table, and targets of every kind. */
#include "pv/stress_shared.h"

int home_count;

long home_plain(long a, long b) { return a + 1000 * b; }
/* Another module's function of this name wins: a direct call here would be wrong. */
long home_interposed(long a, long b) { return a - b; }
static void home_counts(void) { home_count++; }

__attribute__((noinline)) static long fast(long a, long b) { return a * b + 7; }
static fn *choose(void) { return fast; }
__attribute__((ifunc("choose"))) fn home_ifunc;
__attribute__((weak)) fn nowhere_defined;

DEFINE_PV_OPS(struct shared_ops, shared_ops) = {
	.f = home_plain, .g = pv_ident_64, .ifunc = home_ifunc, .missing = nowhere_defined,
	.interposed = home_interposed, .v = home_counts,
};

CALLERS(home)

struct shared_ops *home_ops(void) { return (struct shared_ops *)ETCH_ADDR(shared_ops); }
