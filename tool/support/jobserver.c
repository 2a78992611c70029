/* SPDX-License-Identifier: MIT */
/* A client of GNU make's jobserver (jobserver.h). */
#include "support/jobserver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Finds the value of the last --jobserver-auth= (before make 4.2: --jobserver-fds=) in MAKEFLAGS. Returns false if
 * there is none. */
static bool flag_find(char *out, size_t size)
{
	const char *flags = getenv("MAKEFLAGS"), *p = flags, *value = NULL;
	size_t n;

	while (p && (p = strstr(p, "--jobserver-"))) {
		const char *equals = strchr(p, '=');

		if (!strncmp(p, "--jobserver-auth=", 17) || !strncmp(p, "--jobserver-fds=", 16))
			value = equals + 1;
		p += 12;
	}
	n = value ? strcspn(value, " ") : 0;
	if (!n || n >= size)
		return false;
	memcpy(out, value, n);
	out[n] = 0;
	return true;
}

bool jobserver_above(void)
{
	char value[4096];

	return flag_find(value, sizeof(value));
}

/* Opens make's pipe again, since setting O_NONBLOCK must not affect make and its other children. Returns -1 if make's
 * descriptors are closed: their numbers may then belong to other files. */
static int reopen(int in, int out)
{
	struct stat st, other;
	char path[64];

	if (fstat(in, &st) || fstat(out, &other) || !S_ISFIFO(st.st_mode) || st.st_dev != other.st_dev ||
	    st.st_ino != other.st_ino)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", in);
	return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Opens a named pipe; returns -1 for any other kind of file that a wrong name leads to. The pipe is opened for reading
 * and writing, because opening it for writing only would fail or wait as long as there is no reader. */
static int open_named(const char *path)
{
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || !S_ISFIFO(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void jobserver_open(struct jobserver *j)
{
	char value[4096];
	int in, out;

	*j = (struct jobserver){-1, -1};
	if (!flag_find(value, sizeof(value)))
		return;
	if (!strncmp(value, "fifo:", 5)) {
		j->in = open_named(value + 5);
		j->out = j->in >= 0 ? dup(j->in) : -1;
	} else if (sscanf(value, "%d,%d", &in, &out) == 2 && in >= 0 && out >= 0) {
		j->in = reopen(in, out);
		j->out = j->in >= 0 ? dup(out) : -1;
	}
	if (j->in >= 0 && j->out < 0)
		jobserver_close(j);
}

void jobserver_close(struct jobserver *j)
{
	if (j->in >= 0)
		close(j->in);
	if (j->out >= 0)
		close(j->out);
	*j = (struct jobserver){-1, -1};
}

bool jobserver_take(struct jobserver *j, char *token) { return j->in >= 0 && read(j->in, token, 1) == 1; }

void jobserver_give(struct jobserver *j, char token)
{
	while (write(j->out, &token, 1) < 0 && errno == EINTR)
		;
}
