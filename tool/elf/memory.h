/* SPDX-License-Identifier: MIT */
/* Memory for whole files: touched once from end to end, where most of the time
 * of a first touch goes into page faults. */
#ifndef ELF_MEMORY_H
#define ELF_MEMORY_H

#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BIG_PAGE  ((size_t)2 << 20)  /* x86-64 large page */
#define BIG_PIECE ((size_t)32 << 20) /* mallopt(3): the most that M_MMAP_THRESHOLD can be */

/* All of what malloc() has mapped for it: in two mappings realloc() could not move it. */
static inline void big_advise(void *p)
{
	uintptr_t from = (uintptr_t)p & ~(uintptr_t)4095, to = ((uintptr_t)p + malloc_usable_size(p) + 4095) & ~(uintptr_t)4095;

	madvise((void *)from, to - from, MADV_HUGEPAGE);
}

/* Like malloc(); to be given to free(). Large pages where the system has some
 * to give (transparent_hugepage/enabled "madvise" or "always"). */
static inline void *big_alloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (p && size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/* Like calloc(), of it. */
static inline void *big_zero(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (p && count * size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/*
 * About `bytes` are about to be asked for, in pieces of all sizes: as much of the heap comes in large pages. What is taken
 * and given back at once stays with the heap.
 */
static inline void big_heap(size_t bytes)
{
#ifdef __GLIBC__
	void *p[8];
	size_t piece, n = 0;

	if (bytes < 2 * BIG_PAGE)
		return;
	/* Above the first, malloc() maps; what is free at the end of the heap goes back to the system above the second. */
	if (!mallopt(M_MMAP_THRESHOLD, BIG_PIECE) || !mallopt(M_TRIM_THRESHOLD, INT_MAX))
		return;
	for (; bytes && n < sizeof(p) / sizeof(*p); bytes -= piece) {
		piece = bytes < BIG_PIECE - BIG_PAGE ? bytes : BIG_PIECE - BIG_PAGE;
		p[n] = malloc(piece);
		if (p[n])
			big_advise(p[n]);
		n++;
	}
	while (n)
		free(p[--n]);
#else
	(void)bytes;
#endif
}

/* A step is done that needed much, and one follows that needs much: what is free goes back to
 * the system, where malloc() would keep it between what is in use. Not worth it for little. */
static inline void big_trim(size_t file_size)
{
#ifdef __GLIBC__
	if (file_size >= 2 * BIG_PAGE)
		malloc_trim(0);
#else
	(void)file_size;
#endif
}

#endif
