/* SPDX-License-Identifier: MIT */
/* next_malloc.h: the allocator that the program has without the recorder, which is libc's or one that the program is
 * linked with (next_malloc.c), and the next definitions of the other functions that the recorder defines. */
#ifndef ETCH_LIB_HEAP_NEXT_MALLOC_H
#define ETCH_LIB_HEAP_NEXT_MALLOC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct next_malloc {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	int (*dlclose)(void *);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
};

extern struct next_malloc next_malloc;

/* Looks the functions up, once. Returns false if the lookup itself is calling; then use early_alloc(). */
bool next_malloc_find(void);
static inline bool next_malloc_ready(void)
{
	return __builtin_expect(__atomic_load_n(&next_malloc.pvalloc, __ATOMIC_ACQUIRE) != NULL, 1) || next_malloc_find();
}

/* Zeroed memory for dlsym(3) itself, which is never freed; null if none is left. A block has at least one byte. */
void *early_alloc(size_t size);
/* The size in bytes of a block of early_alloc(); 0 if the block belongs to another allocator. */
size_t early_size(const void *block);

#endif
