/* SPDX-License-Identifier: MIT */
/*
 * swaps.h: what swaps.c and its plugin share: sites at every offset in a cache line, and a check of
 * what they read that costs a nanosecond a site.
 *
 * The n-th value of a variable is n * SPREAD: bytes of two values make a third whose number is far from
 * both. A sweep executes all sites of a variable, and keeps the least and the largest number.
 */
#ifndef TEST_SWAPS_H
#define TEST_SWAPS_H

#include <stdatomic.h>
#include <stdint.h>

#define SPREAD 0x9e3779b1u
#define UNSPREAD 0x0e8b2f51u /* SPREAD * UNSPREAD = 1 modulo 2^32 */
_Static_assert((uint32_t)(SPREAD * (UNSPREAD + 0ull)) == 1, "an inverse");

struct range { uint32_t least, largest; };

/* One site at `SITE_STRIDE` bytes after the last: 33 is odd, so 64 of them begin at 64 offsets in a line. */
#define SITE "771: movl %[v], %[t]\n\timull %[un], %[t], %[t]\n\tcmpl %[lo], %[t]\n\tcmovbl %[t], %[lo]\n\t" \
             "cmpl %[hi], %[t]\n\tcmoval %[t], %[hi]\n\t"
#define SITES_OF(n) ".rept " #n "\n\t" SITE ".org 771b + 33, 0x90\n\t.endr\n\t"
/* Sites of a page, and one that ends `over` bytes after it. */
#define PAGE_OF_SITES(page, over) SITES_OF(115) ".org 4096 * " #page " - 6 + " #over ", 0x90\n\t" SITE
#define SWEEP(name, variable, code)                                                                         \
	__attribute__((noinline, aligned(4096), section("text_" #name))) static struct range name(void)         \
	{                                                                                                       \
		struct range r = {~0u, 0};                                                                          \
		uint32_t t;                                                                                         \
		__asm__ __volatile__(code : [lo] "+r"(r.least), [hi] "+r"(r.largest), [t] "=&a"(t)                  \
		                     : [v] "m"(variable), [un] "i"(UNSPREAD) : "cc");                               \
		return r;                                                                                           \
	}

/* The sets of a variable that have begun, and that have returned. One writer. */
struct progress {
	_Atomic uint32_t begun __attribute__((aligned(64)));
	_Atomic uint32_t done;
};
extern struct progress progress_of_shared;

/* Is all that a sweep read what may be read now? */
static inline int sweep_ok(struct progress *p, struct range (*sweep)(void))
{
	uint32_t done = atomic_load(&p->done);
	struct range r = sweep();

	return r.least >= done && r.largest <= atomic_load(&p->begun);
}

#endif
