/* SPDX-License-Identifier: MIT */
/* Atomic output by temporary file, fsync and rename; a plain write to anything but a regular file. Contract: outfile.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "support/bounds.h"
#include "elf/outfile.h"

#define CHUNK    (1u << 20) /* bytes written between two checks for pending signals */
#define MAX_LINK 40         /* symbolic links followed, as in the kernel */
#define ACL      "system.posix_acl_access"

static int fail(int error, const char *path, const char *what, char *err, size_t errlen)
{
	const char *why = error == EINTR ? "Interrupted" : strerror(error);

	if (err && errlen)
		snprintf(err, errlen, error == ECANCELED ? "%s: %s" : "%s: %s: %s", path, what, why);
	return error;
}

/* The signals blocked during a write: those that would kill the process and leave the temporary file. SIGXFSZ is the
 * file size limit, which write(2) reports as EFBIG, too. */
static void stop_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGQUIT);
	sigaddset(set, SIGTERM);
}

static bool stop_is_pending(void)
{
	static const int stop[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	sigset_t pending;

	sigpending(&pending);
	for (size_t i = 0; i < sizeof stop / sizeof *stop; i++)
		if (sigismember(&pending, stop[i]))
			return true;
	return false;
}

static bool is_zero(const uint8_t *data, size_t size) { return !size || (!*data && !memcmp(data, data + 1, size - 1)); }

/* `sparse`: whole chunks of zeros become holes, but the last byte is always written, for the size. */
static int write_all(int fd, const uint8_t *data, size_t size, bool sparse)
{
	while (size) {
		size_t part = size < CHUNK ? size : CHUNK;
		ssize_t n;

		if (stop_is_pending())
			return EINTR;
		if (sparse && part < size && is_zero(data, part) && lseek(fd, (off_t)part, SEEK_CUR) >= 0)
			n = (ssize_t)part;
		else
			n = write(fd, data, part);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		data += n;
		size -= (size_t)n;
	}
	return stop_is_pending() ? EINTR : 0;
}

/* Follows symbolic links without realpath(3): the last one may lead to a file that does not exist yet. */
static int resolve(const char *path, char *real)
{
	char link[PATH_MAX], joined[PATH_MAX];
	ssize_t n;

	if (strlen(path) >= PATH_MAX)
		return ENAMETOOLONG;
	strcpy(real, path);
	for (int hop = 0;; hop++) {
		const char *slash = strrchr(real, '/');
		int dir = slash ? (int)(slash - real) + 1 : 0;

		n = readlink(real, link, sizeof link - 1);
		if (n < 0)
			return errno == EINVAL || errno == ENOENT ? 0 : errno;
		if (hop == MAX_LINK)
			return ELOOP;
		link[n] = 0;
		if (snprintf(joined, sizeof joined, "%.*s%s", *link == '/' ? 0 : dir, real, link) >= (int)sizeof joined)
			return ENAMETOOLONG;
		strcpy(real, joined);
	}
}

/* Copies extended attributes, but for security.ima and security.evm: signatures of the old contents. Failing to copy
 * the access control list is an error; the others are copied where possible. */
static int copy_xattrs(const char *from, int to, bool privileged)
{
	char names[65536], value[65536];
	ssize_t n = llistxattr(from, names, sizeof names);

	if (n < 0)
		return errno == ENOTSUP ? 0 : errno;
	for (char *name = names; name < names + n; name += strlen(name) + 1) {
		ssize_t len;

		if (!strcmp(name, "security.ima") || !strcmp(name, "security.evm") ||
		    (!strcmp(name, "security.capability") && !privileged))
			continue;
		len = lgetxattr(from, name, value, sizeof value);
		if ((len < 0 || fsetxattr(to, name, value, (size_t)len, 0)) && !strcmp(name, ACL))
			return errno;
	}
	return 0;
}

/*
 * `privileged`: the output was made from the file that it replaces, and keeps its set-id bits and capabilities. Any
 * other file that is overwritten had been given them for other contents, and they are dropped, as by other tools:
 * cp(1) writes into the existing file, which clears both unless root does it; ld, objcopy and install make a new one.
 */
static int set_attributes(int fd, const char *target, bool exists, const struct stat *old, const char *model,
                          bool privileged)
{
	struct stat st;
	mode_t mask, mode = 0666;
	bool owner_kept;

	if (!exists) {
		mask = umask(0);
		umask(mask);
		if (model && !stat(model, &st))
			mode = st.st_mode & 0777;
		return fchmod(fd, mode & ~mask) ? errno : 0;
	}
	owner_kept = !fchown(fd, old->st_uid, old->st_gid);
	if (!owner_kept && !fstat(fd, &st))
		owner_kept = st.st_uid == old->st_uid && st.st_gid == old->st_gid;
	/* Without CAP_CHOWN the group may still be settable, and the group's permission bits apply to that group. */
	if (!owner_kept)
		(void)!fchown(fd, (uid_t)-1, old->st_gid);
	/* The new file may have an access control list from the directory's default, which the old one did not have. */
	(void)fremovexattr(fd, ACL);
	/* After fchown, which clears set-id bits and capabilities. */
	privileged = privileged && owner_kept;
	if (fchmod(fd, old->st_mode & (privileged ? 07777 : 0777)))
		return errno;
	return copy_xattrs(target, fd, privileged);
}

/* A name in the target's directory that no other process picks at the same time. */
static int temp_name(const char *target, char *name, unsigned attempt)
{
	const char *slash = strrchr(target, '/');
	int dir = slash ? (int)(slash - target) + 1 : 0;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return snprintf(name, PATH_MAX, "%.*s.etch-%lx-%lx-%x", dir, target, (long)getpid(), (unsigned long)now.tv_nsec,
	                attempt) >= PATH_MAX
	           ? ENAMETOOLONG
	           : 0;
}

/* Prefers a nameless file (O_TMPFILE), which cannot be left behind. */
static int open_temp(const char *target, char *name, bool *named)
{
	const char *slash = strrchr(target, '/');
	char dir[PATH_MAX];
	int fd, e;

	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - target) + 1 : 1, slash ? target : ".");
	*named = false;
	fd = access("/proc/self/fd", F_OK) ? -1 : open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	for (unsigned k = 0; fd < 0 && k < 100; k++) {
		e = temp_name(target, name, k);
		if (e)
			return -e;
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		*named = fd >= 0;
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	return fd < 0 ? -EEXIST : fd;
}

static int give_name(int fd, const char *target, char *name)
{
	char proc[64];
	int e;

	snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
	for (unsigned k = 0; k < 100; k++) {
		e = temp_name(target, name, k);
		if (e)
			return e;
		if (!linkat(AT_FDCWD, proc, AT_FDCWD, name, AT_SYMLINK_FOLLOW))
			return 0;
		if (errno != EEXIST)
			return errno;
	}
	return EEXIST;
}

/* Makes the rename itself survive a crash. Errors are ignored: not every file system can sync a directory. */
static void sync_directory(const char *target)
{
	const char *slash = strrchr(target, '/');
	char dir[PATH_MAX];
	int fd;

	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - target) + 1 : 1, slash ? target : ".");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		(void)fsync(fd);
		close(fd);
	}
}

static bool is_as_seen(const struct stat *st, const struct file_mark *seen)
{
	return (uint64_t)st->st_dev == seen->device && (uint64_t)st->st_ino == seen->number &&
	       (uint64_t)st->st_size == seen->size && st->st_mtim.tv_sec == seen->written.tv_sec &&
	       st->st_mtim.tv_nsec == seen->written.tv_nsec;
}

/* What to write, and where. */
struct output_request {
	const char *path, *model;
	const void *data;
	size_t size;
	const struct file_mark *seen; /* the target when it was read; null: not checked */
	char *const *links;           /* hard links to it that are replaced, too */
	size_t link_count;
	char target[PATH_MAX]; /* where the path leads */
	bool exists;
	struct stat old;
};

/* Has the target, or else the model, holes? */
static bool is_sparse(const struct output_request *o)
{
	struct stat st = o->old;

	if (!o->exists && (!o->model || stat(o->model, &st)))
		return false;
	return (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size;
}

#define CHANGED "has changed since etch read it, and is left alone"

/* A hard link to be replaced: `name` is a temporary link to the new file, to be renamed to `target`. */
struct link_request {
	char target[PATH_MAX], name[PATH_MAX];
	bool made; /* `name` exists */
};

/* Links the file `from` to a temporary name in the directory of l->target. 0, or an errno value. */
static int temp_link(const char *from, int fd, struct link_request *l)
{
	struct stat want, got;
	int e = EEXIST;

	for (unsigned k = 0; e == EEXIST && k < 100; k++) {
		e = temp_name(l->target, l->name, k);
		if (!e)
			e = linkat(AT_FDCWD, from, AT_FDCWD, l->name, 0) ? errno : 0;
	}
	if (e)
		return e;
	l->made = true;
	/* Another process may have replaced `from` meanwhile: check that the link is to our file. */
	return !fstat(fd, &want) && !lstat(l->name, &got) && want.st_dev == got.st_dev && want.st_ino == got.st_ino
	           ? 0
	           : ESTALE;
}

/* Makes the temporary links of all further names, before any target is replaced. A name for which the file system
 * allows no link to the new file becomes a separate copy. */
static int links_make(const struct output_request *o, const char *from, int fd, struct link_request *list,
                      const char **who, const char **what)
{
	struct stat now;
	int e = 0;

	for (size_t i = 0; i < o->link_count && !e; i++) {
		*who = o->links[i];
		*what = "cannot follow";
		e = resolve(o->links[i], list[i].target);
		if (!e && (lstat(list[i].target, &now) || !is_as_seen(&now, o->seen))) {
			*what = CHANGED;
			e = ECANCELED;
		}
		if (e)
			break;
		*what = "cannot link";
		e = temp_link(from, fd, &list[i]);
		if (e == EXDEV || e == EPERM || e == EACCES || e == EMLINK)
			e = 0;
	}
	return e;
}

static int links_rename(const struct output_request *o, struct link_request *list, const char **who, const char **what)
{
	struct stat now;

	for (size_t i = 0; i < o->link_count; i++) {
		if (!list[i].made)
			continue;
		*who = o->links[i];
		*what = CHANGED;
		if (lstat(list[i].target, &now) || !is_as_seen(&now, o->seen))
			return ECANCELED;
		*what = "cannot replace";
		if (rename(list[i].name, list[i].target))
			return errno;
		list[i].made = false;
		*list[i].name = 0;
		sync_directory(list[i].target);
	}
	return 0;
}

/* Writes a temporary file beside the target and renames it to that. 0, or an errno value and a message. */
static int replace(const struct output_request *o, struct link_request *links, char *err, size_t errlen)
{
	const char *what = "cannot create a temporary file beside it", *target = o->target, *who = o->path;
	char name[PATH_MAX];
	struct stat now;
	bool named;
	int e, fd = open_temp(target, name, &named);

	if (fd < 0)
		return fail(-fd, o->path, what, err, errlen);
	what = "cannot write";
	e = write_all(fd, o->data, o->size, is_sparse(o));
	if (!e) {
		what = "cannot set its permissions";
		e = set_attributes(fd, target, o->exists, &o->old, o->model, o->seen);
	}
	if (!e) {
		what = "cannot write";
		e = fsync(fd) ? errno : 0;
	}
	if (!e && !named) {
		e = give_name(fd, target, name);
		named = !e;
	}
	if (!e)
		e = links_make(o, name, fd, links, &who, &what);
	if (close(fd) && !e)
		e = errno;
	if (!e && stop_is_pending())
		e = EINTR;
	if (!e && o->seen && (lstat(target, &now) || !is_as_seen(&now, o->seen))) {
		what = CHANGED;
		e = ECANCELED;
	}
	if (!e) {
		what = "cannot replace";
		e = rename(name, target) ? errno : 0;
	}
	if (e && named)
		unlink(name);
	if (!e) {
		sync_directory(target);
		e = links_rename(o, links, &who, &what);
	}
	for (size_t i = 0; i < o->link_count && e; i++)
		if (links[i].made)
			unlink(links[i].name);
	return e ? fail(e, who, what, err, errlen) : 0;
}

static int write_through(const struct output_request *o, char *err, size_t errlen)
{
	int e, fd = open(o->target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	struct stat now;

	if (fd < 0)
		return fail(errno, o->path, "cannot open for writing", err, errlen);
	/* If a regular file has taken its place meanwhile, it must not be overwritten in place. */
	e = fstat(fd, &now) ? errno : S_ISREG(now.st_mode) ? ESTALE : 0;
	if (!e)
		e = write_all(fd, o->data, o->size, false);
	if (close(fd) && !e)
		e = errno;
	return e ? fail(e, o->path, "cannot write", err, errlen) : 0;
}

/* Sets o->target, where the path leads, and o->exists and o->old, what is there. */
static int find_target(struct output_request *o, char *err, size_t errlen)
{
	int e = resolve(o->path, o->target);

	if (!e && !*o->path)
		e = ENOENT;
	if (e)
		return fail(e, o->path, "cannot follow", err, errlen);
	/* resolve() followed all links: one that is there now was made since. /proc/self/fd/N of a pipe is a link to no
	 * file name, and the path itself opens the pipe. */
	o->exists = !lstat(o->target, &o->old);
	if (o->exists && S_ISLNK(o->old.st_mode))
		return fail(ELOOP, o->path, "cannot follow", err, errlen);
	if (!o->exists && !stat(o->path, &o->old)) {
		o->exists = true;
		strcpy(o->target, o->path);
	}
	if (!o->exists && errno != ENOENT)
		return fail(errno, o->path, "cannot write", err, errlen);
	if (o->exists && S_ISDIR(o->old.st_mode))
		return fail(EISDIR, o->path, "cannot write", err, errlen);
	/* Checked before owner and permissions are taken from it. */
	if (o->seen && (!o->exists || !is_as_seen(&o->old, o->seen)))
		return fail(ECANCELED, o->path, CHANGED, err, errlen);
	return 0;
}

/* Writes the output: to a temporary file that replaces the target, with signals blocked; in place if the target is not
 * a regular file. 0, or an errno value and a message. */
static int execute(struct output_request *o, char *err, size_t errlen)
{
	const struct timespec no_time = {0, 0};
	sigset_t block, before, too_large;
	struct link_request *links = NULL;
	bool through;
	int e;

	bounds_end();
	e = find_target(o, err, errlen);
	if (e)
		return e;
	if (o->link_count)
		links = calloc(o->link_count, sizeof *links);
	if (o->link_count && !links) {
		snprintf(err, errlen, "%s: " NO_MEMORY, o->path);
		return ENOMEM;
	}
	/* A target written in place needs no temporary file, so signals may interrupt it: a pipe without a reader blocks
	 * for ever. */
	through = o->exists && !S_ISREG(o->old.st_mode);
	sigemptyset(&block);
	if (!through)
		stop_signals(&block);
	sigemptyset(&too_large);
	sigaddset(&too_large, SIGXFSZ);
	sigaddset(&block, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &block, &before);
	e = through ? write_through(o, err, errlen) : replace(o, links, err, errlen);
	if (e == EFBIG && !sigismember(&before, SIGXFSZ))
		sigtimedwait(&too_large, NULL, &no_time);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < o->link_count && !e; i++)
		if (*links[i].name && !links[i].made)
			e = outfile_replace(&(struct outfile_target){.path = o->links[i], .seen = o->seen}, o->data, o->size, err,
			                    errlen);
	free(links);
	return e;
}

int outfile_write(const char *path, const void *data, size_t size, const char *model, char *err, size_t errlen)
{
	struct output_request o = {.path = path, .model = model, .data = data, .size = size};

	return execute(&o, err, errlen);
}

int outfile_replace(const struct outfile_target *t, const void *data, size_t size, char *err, size_t errlen)
{
	struct output_request o = {
		.path = t->path, .links = t->links, .link_count = t->link_count, .data = data, .size = size, .seen = t->seen};

	return execute(&o, err, errlen);
}
