/* SPDX-License-Identifier: MIT */
/*
 * map_entry.c: the other functions that take address space; nothing is recorded for them. If one fails for lack of
 * address space, the recorder gives its own back, and the call is tried again.
 *
 * Calls from inside libc do not come here. malloc_entry.c tries those of malloc again, and pthread_create() below
 * tries that of a thread's stack; those of the dynamic linker are not tried again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "common/sys.h"
#include "heap/next_malloc.h"
#include "heap/recorder.h"

#define EXPORT __attribute__((visibility("default"), noinline))

static void *result(long ret)
{
	if (ret >= 0 || ret < -4095)
		return (void *)ret;
	errno = (int)-ret;
	return MAP_FAILED;
}

/* Before the next definition is known, the system call takes its place. */
static void *next_mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
	if (next_malloc_ready() && next_malloc.mmap)
		return next_malloc.mmap(at, size, rights, flags, fd, offset);
	return result(sys_call6(SYS_mmap, (long)at, (long)size, rights, flags, fd, offset));
}

static void *next_mremap(void *at, size_t old, size_t size, int flags, void *to)
{
	if (next_malloc_ready() && next_malloc.mremap)
		return next_malloc.mremap(at, old, size, flags, to);
	return result(sys_call6(SYS_mremap, (long)at, (long)old, (long)size, flags, (long)to, 0));
}

EXPORT void *mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
	void *p = next_mmap(at, size, rights, flags, fd, offset);

	if (p == MAP_FAILED && errno == ENOMEM && recorder_release(size))
		p = next_mmap(at, size, rights, flags, fd, offset);
	return p;
}

EXPORT void *mmap64(void *at, size_t size, int rights, int flags, int fd, off64_t offset)
{
	return mmap(at, size, rights, flags, fd, offset);
}

EXPORT void *mremap(void *at, size_t old, size_t size, int flags, ...)
{
	void *to, *p;
	va_list list;

	va_start(list, flags);
	to = va_arg(list, void *); /* passes the register on, whether or not it holds an argument */
	va_end(list);
	p = next_mremap(at, old, size, flags, to);
	if (p == MAP_FAILED && errno == ENOMEM && size > old && recorder_release(size - old))
		p = next_mremap(at, old, size, flags, to);
	return p;
}

/* The bytes that a new thread needs for its stack. */
static size_t stack_size(const pthread_attr_t *attr)
{
	pthread_attr_t usual;
	size_t size = 0;

	if (attr) {
		pthread_attr_getstacksize(attr, &size);
	} else if (!pthread_getattr_default_np(&usual)) {
		pthread_attr_getstacksize(&usual, &size);
		pthread_attr_destroy(&usual);
	}
	return size;
}

EXPORT int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int ret;

	if (!next_malloc_ready() || !next_malloc.pthread_create)
		return EAGAIN;
	ret = next_malloc.pthread_create(out, attr, fn, arg);
	/* EAGAIN may also mean that there are too many threads (RLIMIT_NPROC). */
	if ((ret == EAGAIN || ret == ENOMEM) && recorder_release_limited(stack_size(attr)))
		ret = next_malloc.pthread_create(out, attr, fn, arg);
	return ret;
}
