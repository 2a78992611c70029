/* SPDX-License-Identifier: MIT */
/* Memory for whole files: touched once from end to end, where most of the time
 * of a first touch goes into page faults. */
#ifndef ELF_MEMORY_H
#define ELF_MEMORY_H

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BIG_PAGE ((size_t)2 << 20) /* x86-64 large page */

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
