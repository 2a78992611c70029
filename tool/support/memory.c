/* SPDX-License-Identifier: MIT */
/* Allocation that ends the process where memory is short (memory.h). */
#include "support/memory.h"

#include "support/bounds.h"

#include <string.h>

void *mem_resize(void *p, size_t count, size_t size)
{
	void *grown = reallocarray(p, count ? count : 1, size);

	if (!grown)
		bounds_exhausted();
	return grown;
}

void *mem_alloc(size_t count, size_t size) { return mem_resize(NULL, count, size); }

void *mem_zero(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p)
		bounds_exhausted();
	return p;
}

void *mem_copy(const void *bytes, size_t size)
{
	void *p = mem_alloc(size, 1);

	return size ? memcpy(p, bytes, size) : p;
}

void mem_double(void *array, size_t *room, size_t size)
{
	size_t want = *room ? 2 * *room : 64;
	void *p;

	memcpy(&p, array, sizeof(p)); /* `array` is a T ** for any T */
	p = mem_resize(p, want, size);
	memcpy(array, &p, sizeof(p));
	*room = want;
}
