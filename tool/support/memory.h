/* SPDX-License-Identifier: MIT */
/*
 * Allocation. mem_*(): memory for the tool's own work, which grows as it proceeds. When it runs out, the process ends,
 * by bounds_exhausted(): output files are replaced as a whole, and what is half done is undone (ending.h). Not for
 * sizes that a file merely claims: these are an error of that file.
 *
 * big_*(): for whole files, which are touched once from end to end, so that most of the time would go into page
 * faults: large pages avoid these. A sparse file may be much larger than memory: big_copy() leaves pages of zeros
 * alone, as file_read() does.
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

/* As malloc(), calloc() and reallocarray(), but never null, also for a size of 0. Release with free(). Thread-safe. */
void *mem_alloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zero(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
/* A copy of `size` bytes; `bytes` may be null where size is 0. */
void *mem_copy(const void *bytes, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_resize(void *p, size_t count, size_t size) __attribute__((returns_nonnull));

/* As strdup() and asprintf(). */
char *mem_string(const char *s) __attribute__((malloc, returns_nonnull));
char *mem_format(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
char *mem_formatv(const char *format, va_list args) __attribute__((malloc, returns_nonnull, format(printf, 1, 0)));
/* As open_memstream(), and the fclose() of such a stream; where that lacks memory, glibc leaves *text null and says
 * nothing. */
FILE *mem_stream(char **text, size_t *size) __attribute__((returns_nonnull));
void mem_stream_close(FILE *stream, char **text);

/* Doubles *array, a pointer to a malloc'd array of *capacity elements of `size` bytes. */
void mem_double(void *array, size_t *capacity, size_t size);
/* The same, or false: for who goes on with what there is, as a profile that has lost a sample. */
bool mem_double_try(void *array, size_t *capacity, size_t size);

/* Gives *array, which has `count` elements, space for one more. */
static inline void mem_reserve(void *array, size_t *capacity, size_t count, size_t size)
{
	if (count >= *capacity)
		mem_double(array, capacity, size);
}

static inline bool mem_reserve_try(void *array, size_t *capacity, size_t count, size_t size)
{
	return count < *capacity || mem_double_try(array, capacity, size);
}

#define BIG_PAGE  ((size_t)2 << 20)  /* x86-64 large page */
#define BIG_CHUNK ((size_t)32 << 20) /* the maximum of M_MMAP_THRESHOLD, mallopt(3) */

/* Advises large pages for the whole mapping of an allocation: if only a part had the advice, the
 * kernel would split the mapping, and realloc() could not move it. */
static inline void big_advise(void *p)
{
	uintptr_t from = (uintptr_t)p & ~(uintptr_t)4095;
	uintptr_t to = ((uintptr_t)p + malloc_usable_size(p) + 4095) & ~(uintptr_t)4095;

	madvise((void *)from, to - from, MADV_HUGEPAGE);
}

/* As mem_alloc(); uses large pages if the system provides them (transparent_hugepage/enabled "madvise" or "always"). */
static inline void *big_alloc(size_t size)
{
	void *p = mem_alloc(size, 1);

	if (size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/* As mem_zero(), with large pages. */
static inline void *big_zero(size_t count, size_t size)
{
	void *p = mem_zero(count, size);

	if (count * size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/* The same for the contents of a file that is about to be read, which may be larger than memory: null then, an error of
 * that file. */
static inline void *big_zero_try(size_t size)
{
	void *p = calloc(size ? size : 1, 1);

	if (p && size >= 2 * BIG_PAGE)
		big_advise(p);
	return p;
}

/* Copies `size` bytes to zeroed memory that nobody has written to yet. Pages of zeros are not written, and take no
 * memory there. */
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
 * About `bytes` will be allocated in blocks of all sizes: extends the heap by that much in large
 * pages. Memory allocated and freed in between remains in the heap.
 */
static inline void big_heap(size_t bytes)
{
#ifdef __GLIBC__
	void *p[8];
	size_t chunk, n = 0;

	if (bytes < 2 * BIG_PAGE)
		return;
	/* malloc() maps allocations above the first threshold; free memory at the end of the heap
	 * beyond the second is returned to the system. */
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

/* Call between two steps that need much memory: returns free memory to the system, which malloc()
 * would keep between blocks in use. Does nothing for small files. */
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
