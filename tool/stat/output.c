/* SPDX-License-Identifier: MIT */
/* Writes the output of `etch stat` to its destination (output.h). */
#include "stat/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output/outfile.h"
#include "report/text.h"

bool output_check(const struct output *o)
{
	char directory[PATH_MAX];
	const char *slash;
	struct stat st;

	if (o->fd >= 0 && fcntl(o->fd, F_GETFD) < 0) {
		fprintf(stderr, "etch: --log-fd: %d is not an open file descriptor\n", o->fd);
		return false;
	}
	if (!o->path)
		return true;
	slash = strrchr(o->path, '/');
	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - o->path) + 1 : 1, slash ? o->path : ".");
	errno = 0;
	if (!stat(o->path, &st) && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (!lstat(o->path, &st) || !access(directory, W_OK | X_OK))
		return true;
	text_error(o->path, "%s", strerror(errno));
	return false;
}

static bool write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		size -= (size_t)n;
	}
	return true;
}

bool output_put(const struct output *o, const char *text, size_t size)
{
	struct error e;

	if (o->path) {
		if (!outfile_write(o->path, text, size, NULL, &e))
			return true;
		/* The results are printed even if the file failed: the runs may have taken hours. */
		text_error(NULL, "%s", e.text);
		fputs(text, stderr);
		return false;
	}
	if (o->fd >= 0) {
		if (write_all(o->fd, text, size))
			return true;
		fprintf(stderr, "etch: descriptor %d: cannot write: %s\n", o->fd, strerror(errno));
		return false;
	}
	fwrite(text, 1, size, stdout); /* main() checks standard output */
	return true;
}
