/* SPDX-License-Identifier: MIT */
/* For the programs of this directory: test_parts.py says what each is for. */
#ifndef TESTS_PARTS_USE_H
#define TESTS_PARTS_USE_H

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define CHECK(what)                                             \
	do                                                          \
		if (!(what)) {                                          \
			fprintf(stderr, "line %d: %s\n", __LINE__, #what);  \
			return 1;                                           \
		}                                                       \
	while (0)

/* Writes to memory after libetch's back, also where it is read-only: what is still read as before is in the code. */
static inline int poke(void *at, const void *bytes, size_t size)
{
	int fd = open("/proc/self/mem", O_RDWR), ok;

	ok = fd >= 0 && pwrite(fd, bytes, size, (off_t)(unsigned long)at) == (ssize_t)size;
	close(fd);
	return ok;
}

static inline int is_asked(int argc, char **argv, const char *word) { return argc > 1 && !strcmp(argv[1], word); }

#endif
