/* SPDX-License-Identifier: MIT */
/* next_malloc.c: looks up the next definitions of the allocation functions (next_malloc.h). */
#include "heap/next_malloc.h"

#include <dlfcn.h>
#include <stdint.h>

#define EARLY_SIZE 65536

struct next_malloc next_malloc;

static _Alignas(16) uint8_t early[EARLY_SIZE];
static size_t early_used;
static int finding;

void *early_alloc(size_t size)
{
	size_t need, at;

	if (size > EARLY_SIZE / 2)
		return NULL;
	size += !size; /* early_size() is not 0 for any block, and each block begins inside `early` */
	need = ((size + 15) & ~(size_t)15) + 16;
	at = __atomic_fetch_add(&early_used, need, __ATOMIC_RELAXED);
	if (at > EARLY_SIZE - need)
		return NULL;
	*(size_t *)(void *)(early + at) = size;
	return early + at + 16;
}

size_t early_size(const void *block)
{
	const uint8_t *p = block;

	return p > early && p < early + EARLY_SIZE ? *(const size_t *)(const void *)(p - 16) : 0;
}

bool next_malloc_find(void)
{
	if (__atomic_exchange_n(&finding, 1, __ATOMIC_ACQUIRE))
		return false;
	next_malloc.malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	next_malloc.free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next_malloc.calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	next_malloc.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	next_malloc.posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
	next_malloc.aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
	next_malloc.memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
	next_malloc.valloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "valloc");
	next_malloc.mmap = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
	next_malloc.mremap = (void *(*)(void *, size_t, size_t, int, ...))dlsym(RTLD_NEXT, "mremap");
	next_malloc.pthread_create =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
	next_malloc.dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
	__atomic_store_n(&next_malloc.pvalloc, (void *(*)(size_t))dlsym(RTLD_NEXT, "pvalloc"), __ATOMIC_RELEASE);
	__atomic_store_n(&finding, 0, __ATOMIC_RELEASE);
	return true;
}
