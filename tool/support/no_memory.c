/* SPDX-License-Identifier: MIT */
/*
 * Interposes the C library's allocator to notice failed allocations (bounds.h): the tool's own code checks for them,
 * but some libraries do not report them.
 *
 * The definitions here take precedence over the C library's, even for its own calls. They call the next definition in
 * search order, which is a preloaded allocator's or the C library's. In the static etch (`make static`) the linker
 * redirects the calls instead (ld(1), --wrap).
 */
#include "support/bounds.h"

#include <dlfcn.h>
#include <stdlib.h>

#if !defined(BOUNDS_SANITIZED) && defined(__GLIBC__) /* a sanitizer interposes the allocator itself */

#ifdef ETCH_STATIC

#define malloc  __wrap_malloc
#define calloc  __wrap_calloc
#define realloc __wrap_realloc

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t size);

static const struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
} next = {__real_malloc, __real_calloc, __real_realloc};

static void next_find(void) {}

#else

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
} next;

/* glibc's own functions under their internal names, which are used while dlsym() may allocate. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);

/* The first call is made before there are threads. */
static void next_find(void)
{
	next.malloc = __libc_malloc;
	next.calloc = __libc_calloc;
	next.realloc = __libc_realloc;
	*(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
}

#endif

/* Reports the failure of an allocation of `size` bytes if `p` is null. Returns p. */
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
