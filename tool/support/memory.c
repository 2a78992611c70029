/* SPDX-License-Identifier: MIT */
/* Allocation that ends the process when memory is short (memory.h). */
#include "support/memory.h"

#include "support/bounds.h"

#include <stdarg.h>
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

char *mem_string(const char *s) { return mem_copy(s, strlen(s) + 1); }

char *mem_formatv(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		bounds_exhausted();
	return text;
}

char *mem_format(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = mem_formatv(format, args);
	va_end(args);
	return text;
}

FILE *mem_stream(char **text, size_t *size)
{
	FILE *stream = open_memstream(text, size);

	if (!stream)
		bounds_exhausted();
	return stream;
}

void mem_stream_close(FILE *stream, char **text)
{
	bool failed = ferror(stream);

	*text = NULL; /* not every C library sets it when a stream is closed */
	if (fclose(stream) || failed || !*text)
		bounds_exhausted();
}

bool mem_double_try(void *array, size_t *capacity, size_t size)
{
	size_t want = *capacity ? 2 * *capacity : 64;
	void *p;

	memcpy(&p, array, sizeof(p)); /* `array` is a T ** for any T */
	p = reallocarray(p, want, size);
	if (!p)
		return false;
	memcpy(array, &p, sizeof(p));
	*capacity = want;
	return true;
}

void mem_double(void *array, size_t *capacity, size_t size)
{
	if (!mem_double_try(array, capacity, size))
		bounds_exhausted();
}
