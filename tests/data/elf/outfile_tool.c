/* SPDX-License-Identifier: MIT */
/*
 * outfile_tool.c: PATH SIZE [MODEL]: outfile_write() with SIZE bytes of 'x', for test_outfile.py.
 *
 * Exit status: 0, or 1 with the message of the module; 2 where memory ends in the middle.
 * OUTFILE_HOOK=NAME[@N] breaks the N-th system call of outfile.c (linked with --wrap); "memory" is the end of memory in
 * write(2). OUTFILE_NO_TMPFILE: there are no files without a name.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output/outfile.h"
#include "support/bounds.h"

ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __real_renameat(int fd, const char *from, int fd2, const char *to);
int __wrap_renameat(int fd, const char *from, int fd2, const char *to);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

static bool hook(const char *name)
{
	static unsigned count;
	const char *want = getenv("OUTFILE_HOOK");
	size_t n = strlen(name);

	if (!want || strncmp(want, name, n) || (want[n] && want[n] != '@'))
		return false;
	return !want[n] || ++count == (unsigned)atoi(want + n + 1);
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
	if (hook("sigint"))
		kill(getpid(), SIGINT);
	if (hook("move") && getenv("OUTFILE_MOVE") &&
	    (chdir(getenv("OUTFILE_MOVE")) || rename("d", "moved") || symlink("else", "d")))
		abort();
	if (hook("memory"))
		bounds_exhausted();
	if (hook("enospc")) {
		errno = ENOSPC;
		return -1;
	}
	return __real_write(fd, p, n);
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	int mode = 0;

	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {
		va_start(ap, flags);
		mode = va_arg(ap, int);
		va_end(ap);
	}
	if ((flags & O_TMPFILE) == O_TMPFILE && getenv("OUTFILE_NO_TMPFILE")) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return __real_openat(dir, path, flags, mode);
}

int __wrap_renameat(int fd, const char *from, int fd2, const char *to)
{
	if (hook("rename")) {
		errno = EXDEV;
		return -1;
	}
	return __real_renameat(fd, from, fd2, to);
}

int __wrap_fsync(int fd)
{
	if (hook("fsync")) {
		errno = EIO;
		return -1;
	}
	return __real_fsync(fd);
}

int main(int argc, char **argv)
{
	size_t size = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	struct error e;
	uint8_t *data = malloc(size + 1);
	int r;

	if (!data || argc < 3)
		return 2;
	memset(data, 'x', size);
	r = outfile_write(argv[1], data, size, argc > 3 ? argv[3] : NULL, &e);
	free(data);
	if (r)
		fprintf(stderr, "%s\n", e.text);
	return r ? 1 : 0;
}
