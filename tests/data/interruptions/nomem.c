/* SPDX-License-Identifier: MIT */
/*
 * nomem.c: preloaded into etch, it refuses the Nth allocation of a process.
 *
 *   NOMEM=N   from 1; 0: none, and their number goes to standard error at the end
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static unsigned long count, refused;
static int begun;

__attribute__((constructor)) static void begin(void)
{
	const char *n = getenv("NOMEM");

	refused = n ? strtoul(n, NULL, 10) : 0;
	begun = 1;
}

__attribute__((destructor)) static void end(void)
{
	if (!refused)
		fprintf(stderr, "allocations: %lu\n", count);
}

static int refuse(void)
{
	if (!begun || __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) != refused)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size) { return refuse() ? NULL : __libc_malloc(size); }

void *calloc(size_t n, size_t size) { return refuse() ? NULL : __libc_calloc(n, size); }

void *realloc(void *p, size_t size) { return refuse() ? NULL : __libc_realloc(p, size); }

int posix_memalign(void **p, size_t align, size_t size)
{
	if (refuse())
		return ENOMEM;
	*p = __libc_memalign(align, size);
	return *p ? 0 : ENOMEM;
}
