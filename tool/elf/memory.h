/* SPDX-License-Identifier: MIT */
/* Memory for whole files: touched once from end to end, where most of the time
 * of a first touch goes into page faults. */
#ifndef ELF_MEMORY_H
#define ELF_MEMORY_H

#include <stdlib.h>
#include <sys/mman.h>

#define BIG_PAGE ((size_t)2 << 20) /* x86-64 large page */

/* Like malloc(); to be given to free(). Large pages where the system has some
 * to give (transparent_hugepage/enabled "madvise" or "always"). */
static inline void *big_alloc(size_t size)
{
	void *p;

	if (size < 2 * BIG_PAGE)
		return malloc(size ? size : 1);
	if (posix_memalign(&p, BIG_PAGE, size))
		return NULL;
	/* Only whole pages: a small file's tail is not worth one. */
	madvise(p, size & ~(BIG_PAGE - 1), MADV_HUGEPAGE);
	return p;
}

#endif
