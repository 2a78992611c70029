/* SPDX-License-Identifier: MIT */
/*
 * malloc_entry.c: the allocation functions of libetch-heap.so, which is preloaded: each calls the next definition of
 * its name and reports to the recorder. C++'s operator new calls malloc(3).
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "heap/next_malloc.h"
#include "heap/recorder.h"

#define EXPORT __attribute__((visibility("default"), noinline))
/* The frame of the function that the program has called. */
#define FRAME ((const uint64_t *)__builtin_frame_address(0))

/* Functions of C23, which an older libc does not declare. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

static void *failed(void)
{
	errno = ENOMEM;
	return NULL;
}

EXPORT void *malloc(size_t size)
{
	void *p;

	if (!next_malloc_ready())
		return early_alloc(size);
	p = next_malloc.malloc(size);
	if (!p && recorder_release(size))
		p = next_malloc.malloc(size);
	recorder_alloc(p, size, FRAME);
	return p;
}

EXPORT void free(void *block)
{
	if (!block || early_size(block) || !next_malloc_ready())
		return;
	recorder_free(block);
	next_malloc.free(block);
}

EXPORT void free_sized(void *block, size_t size)
{
	(void)size;
	free(block);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(block);
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(count, size, &bytes))
		return failed();
	if (!next_malloc_ready())
		return early_alloc(bytes);
	p = next_malloc.calloc(count, size);
	if (!p && recorder_release(bytes))
		p = next_malloc.calloc(count, size);
	recorder_alloc(p, bytes, FRAME);
	return p;
}

/* Does what realloc() does, for a block that early_alloc() has handed out. */
static void *early_realloc(void *block, size_t size, const uint64_t *frame)
{
	size_t old = early_size(block);
	void *p;

	if (!next_malloc_ready())
		return early_alloc(size);
	p = next_malloc.malloc(size);
	if (!p && recorder_release(size))
		p = next_malloc.malloc(size);
	recorder_alloc(p, size, frame);
	if (p)
		memcpy(p, block, old < size ? old : size);
	return p;
}

static void *reallocated(void *block, size_t size, const uint64_t *frame)
{
	struct recorder_block was;
	void *p;

	if (early_size(block))
		return early_realloc(block, size, frame);
	if (!next_malloc_ready())
		return block ? NULL : early_alloc(size);
	recorder_realloc_begin(block, &was);
	p = next_malloc.realloc(block, size);
	if (!p && recorder_release(size))
		p = next_malloc.realloc(block, size);
	recorder_realloc_end(block, &was, p, size, frame);
	return p;
}

EXPORT void *realloc(void *block, size_t size)
{
	void *p = reallocated(block, size, FRAME);

	__asm__ volatile("" : : "r"(p)); /* no tail call: the frame must exist */
	return p;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(count, size, &bytes))
		return failed();
	p = reallocated(block, bytes, FRAME);
	__asm__ volatile("" : : "r"(p));
	return p;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	int ret;

	if (!next_malloc_ready())
		return ENOMEM;
	ret = next_malloc.posix_memalign(out, alignment, size);
	if (ret == ENOMEM && recorder_release(size))
		ret = next_malloc.posix_memalign(out, alignment, size);
	if (!ret)
		recorder_alloc(*out, size, FRAME);
	return ret;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	void *p;

	if (!next_malloc_ready())
		return failed();
	p = next_malloc.aligned_alloc(alignment, size);
	if (!p && recorder_release(size))
		p = next_malloc.aligned_alloc(alignment, size);
	recorder_alloc(p, size, FRAME);
	return p;
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	void *p;

	if (!next_malloc_ready())
		return failed();
	p = next_malloc.memalign(alignment, size);
	if (!p && recorder_release(size))
		p = next_malloc.memalign(alignment, size);
	recorder_alloc(p, size, FRAME);
	return p;
}

EXPORT void *valloc(size_t size)
{
	void *p;

	if (!next_malloc_ready())
		return failed();
	p = next_malloc.valloc(size);
	if (!p && recorder_release(size))
		p = next_malloc.valloc(size);
	recorder_alloc(p, size, FRAME);
	return p;
}

EXPORT void *pvalloc(size_t size)
{
	void *p;

	if (!next_malloc_ready())
		return failed();
	p = next_malloc.pvalloc(size);
	if (!p && recorder_release(size))
		p = next_malloc.pvalloc(size);
	recorder_alloc(p, size, FRAME);
	return p;
}

EXPORT int dlclose(void *handle)
{
	int ret;

	if (!next_malloc_ready())
		return -1;
	unseen_look();
	ret = next_malloc.dlclose(handle);
	recorder_unloaded();
	return ret;
}

/* This library's malloc, whatever the name means in the program. */
extern __typeof__(malloc) own_malloc __attribute__((copy(malloc), alias("malloc"), visibility("hidden")));

/* Do the program's calls of malloc(3) reach another function? */
static bool malloc_is_other(void)
{
	void *found = dlsym(RTLD_DEFAULT, "malloc");
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (found == (void *)own_malloc)
		return false;
	/* A program that is not a PIE and takes malloc's address has an undefined symbol with the address of its PLT
	 * entry, which leads here (psABI 5.2, "Function Addresses"). */
	return !dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || symbol->st_shndx != SHN_UNDEF;
}

static __attribute__((constructor(103))) void heap_start(void)
{
	if (next_malloc_ready())
		recorder_start(malloc_is_other());
}
