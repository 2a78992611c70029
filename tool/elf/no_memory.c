/* SPDX-License-Identifier: MIT */
/*
 * no_memory.c: in front of the C library's allocator, to notice that it had nothing to give. The
 * tool's own code asks; libraries do not all pass it on (bounds.h).
 *
 * These are found before the C library's by it, too. What they call is what comes behind this program
 * in the order of search: a preloaded allocator, or the C library's.
 */
#include "elf/bounds.h"

#include <dlfcn.h>
#include <stdlib.h>

#if !defined(BOUNDS_SANITIZED) && defined(__GLIBC__) /* a sanitizer's allocator stands here itself */

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
} next;

/* glibc's own, under their other names: for what dlsym() might ask for. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);

/* First called before there are threads. */
static void next_find(void)
{
	next.malloc = __libc_malloc;
	next.calloc = __libc_calloc;
	next.realloc = __libc_realloc;
	*(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
}

static inline void *seen(void *p, size_t size)
{
	if (__builtin_expect(!p && size, 0))
		bounds_refused(size);
	return p;
}

void *malloc(size_t size)
{
	if (!next.realloc)
		next_find();
	return seen(next.malloc(size), size);
}

void *calloc(size_t count, size_t size)
{
	size_t all;

	if (!next.realloc)
		next_find();
	return seen(next.calloc(count, size), __builtin_mul_overflow(count, size, &all) ? SIZE_MAX : all);
}

void *realloc(void *p, size_t size)
{
	if (!next.realloc)
		next_find();
	return seen(next.realloc(p, size), size);
}

#endif
