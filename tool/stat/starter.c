/* SPDX-License-Identifier: MIT */
/* Writes the script that runs a single program of a command under valgrind (simulate.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stat/shell_quote.h"
#include "stat/simulate.h"
#include "support/error.h"

/* The number of descriptors above its program's limit that valgrind keeps for itself (N_RESERVED_FDS of its
 * pub_core_libcfile.h). If valgrind's own limit is higher by this number, the program sees the limit that was asked
 * for, and may set it. */
#define RESERVED 12

/*
 * Prints the script. It restores the user's PATH, so that programs that the program starts are found as usual. Servers
 * that root starts become another user, which could not create the file of counts, so the script creates it for them.
 */
static void script_print(const struct simulation *s, char **options, FILE *out)
{
	char *name[] = {(char *)s->only, NULL}, *path[] = {s->path, NULL}, *directory[] = {(char *)s->directory, NULL};

	fputs("#!/bin/sh\nPATH=", out);
	words_print(out, path);
	fputs("\nexport PATH\n", out);
	if (s->files)
		fprintf(out, "ulimit -n %ld || exit 127\n", s->files + RESERVED);
	if (!geteuid()) {
		fputs("counts=", out);
		words_print(out, directory);
		fputs("/out.$$\n: >\"$counts\" && chmod 666 \"$counts\" || exit 127\n", out);
	}
	fputs("exec ", out);
	words_print(out, options);
	if (s->only) {
		putc(' ', out);
		words_print(out, name);
	}
	fputs(" \"$@\"\n", out);
}

static int script_write(const struct simulation *s, char **options, struct error *e)
{
	int fd = open(s->starter, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f)
		return error_set(e, "%s: %s", s->starter, strerror(errno));
	script_print(s, options, f);
	return fclose(f) ? error_set(e, "%s: %s", s->starter, strerror(errno)) : 0;
}

/* Makes PATH lead to the script first. */
static int path_prepend(const char *directory, const char *path, struct error *e)
{
	char *longer;
	int err;

	if (asprintf(&longer, "%s/bin:%s", directory, path) < 0)
		return error_set(e, NO_MEMORY);
	err = setenv("PATH", longer, 1) ? error_set(e, NO_MEMORY) : 0;
	free(longer);
	return err;
}

int starter_begin(struct simulation *s, struct error *e)
{
	const char *path = getenv("PATH"), *name = s->only ? s->only : "valgrind-with-limit", *slash = strrchr(name, '/');
	char **options = simulation_options(s), *bin = NULL;

	s->path = strdup(path ? path : "/bin:/usr/bin");
	if (!s->path || !options || asprintf(&bin, "%s/bin", s->directory) < 0 ||
	    asprintf(&s->starter, "%s/%s", bin, slash ? slash + 1 : name) < 0) {
		free(bin);
		s->starter = NULL;
		return error_set(e, NO_MEMORY);
	}
	if (mkdir(bin, 0700) && errno != EEXIST) {
		error_set(e, "%s: %s", bin, strerror(errno));
		free(bin);
		return -1;
	}
	free(bin);
	if (!geteuid())
		chmod(s->directory, 0711);
	return script_write(s, options, e) || (s->only && path_prepend(s->directory, s->path, e)) ? -1 : 0;
}

void starter_end(struct simulation *s)
{
	char *end;

	if (s->starter) {
		unlink(s->starter);
		end = strrchr(s->starter, '/');
		*end = 0;
		rmdir(s->starter);
	}
	if (s->path)
		setenv("PATH", s->path, 1);
	free(s->starter);
	free(s->path);
	s->starter = s->path = NULL;
}
