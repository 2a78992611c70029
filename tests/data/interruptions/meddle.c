/* SPDX-License-Identifier: MIT */
/*
 * meddle.c: preloaded into etch, it does something to a file at a certain call, as another
 * process might at that very moment.
 *
 *   MEDDLE=CALL:N:ACTION   before the Nth read, pread or fsync of a process, or after its
 *                          Nth linkat: truncate, append, replace, remove; or stop, until it
 *                          is told to go on
 *   MEDDLE_FILE            the file; MEDDLE_WITH: what replaces it
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static void act(const char *action)
{
	const char *path = getenv("MEDDLE_FILE");
	struct stat st;
	int fd;

	if (!strcmp(action, "stop"))
		raise(SIGSTOP);
	else if (!strcmp(action, "truncate") && !stat(path, &st))
		(void)!truncate(path, st.st_size / 2);
	else if (!strcmp(action, "replace"))
		(void)!rename(getenv("MEDDLE_WITH"), path);
	else if (!strcmp(action, "remove"))
		(void)!unlink(path);
	else if (!strcmp(action, "append") && (fd = open(path, O_WRONLY | O_APPEND)) >= 0) {
		(void)!write(fd, "more", 4);
		close(fd);
	}
}

static void meddle(const char *call)
{
	const char *what = getenv("MEDDLE");
	static unsigned count;
	size_t n = strlen(call);
	char *end;

	if (what && !strncmp(what, call, n) && what[n] == ':' && ++count == strtoul(what + n + 1, &end, 10))
		act(end + 1);
}

ssize_t read(int fd, void *p, size_t n)
{
	meddle("read");
	return ((ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read"))(fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
	meddle("pread");
	return ((ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread"))(fd, p, n, at);
}

int fsync(int fd)
{
	meddle("fsync");
	return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int linkat(int fd, const char *path, int to, const char *name, int flags)
{
	int r = ((int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat"))(fd, path, to, name, flags);

	meddle("linkat");
	return r;
}
