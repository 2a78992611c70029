/* SPDX-License-Identifier: MIT */
/*
 * Allocation. The functions mem_*() return memory for the tool's own work, which grows as the work proceeds. When
 * memory runs out, bounds_exhausted() ends the process. That leaves no damage, since output files are replaced as a
 * whole, and half-done work is undone (ending.h). Do not use them for sizes that a file merely claims: a failure is
 * then an error of that file.
 *
 * The functions big_*() are for whole files. These are touched once from end to end, so that page faults would take
 * most of the time; large pages avoid them. A sparse file may be much larger than memory, so big_copy() does not write
 * pages of zeros, just like file_read().
 */
#ifndef SUPPORT_MEMORY_H
#define SUPPORT_MEMORY_H

#include <limits.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Like malloc(), calloc() and reallocarray(), but they never return null, even for a size of 0. Release with free().
 * Thread-safe. */
void *mem_alloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zero(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
/* Returns a copy of `size` bytes; `bytes` may be null if size is 0. */
void *mem_copy(const void *bytes, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_resize(void *p, size_t count, size_t size) __attribute__((returns_nonnull));

/* Like strdup() and asprintf(). */
char *mem_string(const char *s) __attribute__((malloc, returns_nonnull));
char *mem_format(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
char *mem_formatv(const char *format, va_list args) __attribute__((malloc, returns_nonnull, format(printf, 1, 0)));
/* Like open_memstream(), and fclose() for such a stream. If fclose() lacks memory, glibc leaves *text null without
 * reporting an error; mem_stream_close() ends the process. */
FILE *mem_stream(char **text, size_t *size) __attribute__((returns_nonnull));
void mem_stream_close(FILE *stream, char **text);

/* Doubles *array, a pointer to a malloc'd array of *capacity elements of `size` bytes. */
void mem_double(void *array, size_t *capacity, size_t size);
/* Doubles the array as mem_double() does, but returns false if memory runs out. It is for callers that can go on with
 * what they have, such as a profile that loses a sample. */
bool mem_double_try(void *array, size_t *capacity, size_t size);

/* Makes space for one more element in *array, which has `count` elements. */
static inline void mem_reserve(void *array, size_t *capacity, size_t count, size_t size)
{
	if (count >= *capacity)
		mem_double(array, capacity, size);
}

/* Appends a word to an array of words. */
static inline void mem_word_add(uint64_t **array, size_t *count, size_t *capacity, uint64_t word)
{
	mem_reserve(array, capacity, *count, sizeof(**array));
	(*array)[(*count)++] = word;
}

static inline bool mem_reserve_try(void *array, size_t *capacity, size_t count, size_t size)
{
	return count < *capacity || mem_double_try(array, capacity, size);
}

/* Maps zeroed memory, which takes no memory before it is written to. Returns null if the system refuses it. */
static inline void *mem_map(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

#define BIG_PAGE  ((size_t)2 << 20)  /* x86-64 large page */
#define BIG_CHUNK ((size_t)32 << 20) /* the maximum of M_MMAP_THRESHOLD, mallopt(3) */

/* Advises large pages for the whole mapping of an allocation: if only a part of it had the advice, the kernel would
 * split the mapping, and realloc() could not move it. */
static inline void big_advise(void *p)
{
	uintptr_t from = (uintptr_t)p & ~(uintptr_t)4095;
	uintptr_t to = ((uintptr_t)p + malloc_usable_size(p) + 4095) & ~(uintptr_t)4095;

	madvise((void *)from, to - from, MADV_HUGEPAGE);
}

/* Like mem_alloc(), with large pages if the system provides them (transparent_hugepage/enabled "madvise" or
 * "always"). */
static inline void *big_alloc(size_t size)
{
	void *p = mem_alloc(size, 1);

	if (size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/* Like mem_zero(), with large pages. */
static inline void *big_zero(size_t count, size_t size)
{
	void *p = mem_zero(count, size);

	if (count * size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/* Allocates zeroed memory with large pages for the contents of a file that is about to be read. Returns null if memory
 * runs out, because a file may be larger than memory; that is an error of the file. */
static inline void *big_zero_try(size_t size)
{
	void *p = calloc(size ? size : 1, 1);

	if (p && size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/* Copies `size` bytes to zeroed memory that nobody has written to yet. Pages of zeros are not written, and so take no
 * memory. */
static inline void big_copy(void *to, const void *from, size_t size)
{
	const uint8_t *in = (const uint8_t *)from;
	uint8_t *out = (uint8_t *)to;
	size_t at, part;

	for (at = 0; at < size; at += part) {
		part = size - at < 4096 ? size - at : 4096;
		if (in[at] || memcmp(in + at, in + at + 1, part - 1))
			memcpy(out + at, in + at, part);
	}
}

/*
 * Call this when about `bytes` bytes will be allocated in blocks of all sizes: it extends the heap by that much, in
 * large pages. From then on freed memory stays in the heap.
 */
static inline void big_heap(size_t bytes)
{
#ifdef __GLIBC__
	void *p[8];
	size_t chunk, n = 0;

	if (bytes < 2 * BIG_PAGE)
		return;
	/* malloc() maps allocations above the first threshold, and returns free memory at the end of the heap to the system
	 * when it exceeds the second. */
	if (!mallopt(M_MMAP_THRESHOLD, BIG_CHUNK) || !mallopt(M_TRIM_THRESHOLD, INT_MAX))
		return;
	for (; bytes && n < sizeof(p) / sizeof(*p); bytes -= chunk) {
		chunk = bytes < BIG_CHUNK - BIG_PAGE ? bytes : BIG_CHUNK - BIG_PAGE;
		p[n] = malloc(chunk);
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

/* Call this between two steps that need much memory: it returns free memory to the system that malloc() would keep
 * between blocks in use. It does nothing for small files. */
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
