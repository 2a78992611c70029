/* SPDX-License-Identifier: MIT */
/* Preloaded: cuts the file that $TRUNCATES names to 16 KiB as soon as it is mapped, as another process could. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
	void *(*next)(void *, size_t, int, int, int, off_t);
	const char *file = getenv("TRUNCATES");
	char link[64], path[4096];
	void *out;
	ssize_t n;

	*(void **)&next = dlsym(RTLD_NEXT, "mmap");
	out = next(at, size, rights, flags, fd, offset);
	if (fd < 0 || !file)
		return out;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n > 0 && (size_t)n == strlen(file) && !memcmp(path, file, (size_t)n) && truncate(file, 16384))
		abort();
	return out;
}

void *mmap64(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
	return mmap(at, size, rights, flags, fd, offset);
}
