/* SPDX-License-Identifier: MIT */
/* Atomic output by a temporary file, fsync and rename; a target that is not a regular file is simply written. outfile.h
 * has the contract.
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
#include "support/ending.h"
#include "support/memory.h"
#include "output/outfile.h"

#define CHUNK (1u << 20) /* bytes written between two checks for pending signals */
#define ACL   "system.posix_acl_access"

enum { TEMP_NAME = 64 }; /* bytes of a temporary file's name */

static int fail(int error, const char *path, const char *what, struct error *err)
{
	const char *why = error == EINTR ? "Interrupted" : strerror(error);

	/* This is not error_set(), which would hide characters that may not be shown: text_error() escapes them. */
	snprintf(err->text, sizeof(err->text), error == ECANCELED ? "%s: %s" : "%s: %s: %s", path, what, why);
	return error;
}

/* The signals that are blocked during a write, since they would kill the process and leave the temporary file. SIGXFSZ,
 * for the file size limit, is blocked too; write(2) also reports that as EFBIG. */
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

/* Writes one part of the contents. With `sparse` whole chunks of zeros become holes; *hole tells whether the last chunk
 * did. */
static int write_part(int fd, const uint8_t *data, size_t size, bool sparse, bool *hole)
{
	while (size) {
		size_t part = size < CHUNK ? size : CHUNK;
		ssize_t n;

		if (stop_is_pending())
			return EINTR;
		*hole = sparse && is_zero(data, part) && lseek(fd, (off_t)part, SEEK_CUR) >= 0;
		n = *hole ? (ssize_t)part : write(fd, data, part);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Writes all contents. If they end with a hole, writing its last byte sets the file's size. */
static int write_all(int fd, const struct outfile_source *from, bool sparse)
{
	const void *data;
	bool hole = false;
	size_t size;
	int e;

	from->rewind(from->context);
	while (!(e = from->next(from->context, &data, &size)) && size) {
		e = write_part(fd, data, size, sparse, &hole);
		if (e)
			return e;
	}
	if (!e && hole && (lseek(fd, -1, SEEK_CUR) < 0 || write(fd, "", 1) != 1))
		e = errno ? errno : EIO;
	if (!e && stop_is_pending())
		e = EINTR;
	return e;
}

/* A source of contents that are in memory. */
struct memory {
	const void *data;
	size_t size;
	bool given;
};

static void memory_rewind(void *context) { ((struct memory *)context)->given = false; }

static int memory_next(void *context, const void **data, size_t *size)
{
	struct memory *m = context;

	*data = m->data;
	*size = m->given ? 0 : m->size;
	m->given = true;
	return 0;
}

static struct outfile_source memory_source(struct memory *m)
{
	return (struct outfile_source){.rewind = memory_rewind, .next = memory_next, .context = m};
}

/* ---- places -------------------------------------------------------------------------------------------- */

/*
 * The place where a file is written: a name in an open directory. Once the directory is open, renaming a directory
 * above it cannot cause another file to be written.
 */
struct place {
	int dir;                 /* O_PATH */
	char name[NAME_MAX + 1]; /* name of the target in `dir` */
	char at[PATH_MAX]; /* the same place as one path, for calls that take no directory; its last part is no link */
	bool nameless;     /* the path leads to a file without a name, such as /proc/self/fd/1 of a pipe */
};

static bool has_proc(void) { return !access("/proc/self/fd", F_OK); }

static void place_close(struct place *p)
{
	if (p->dir >= 0)
		close(p->dir);
	p->dir = -1;
}

/* Sets p->at from the directory and the name. `path` names the same file, and is used if there is no /proc. */
static void place_name(struct place *p, const char *path)
{
	if (has_proc())
		snprintf(p->at, sizeof p->at, "/proc/self/fd/%d/%s", p->dir, p->name);
	else
		snprintf(p->at, sizeof p->at, "%s", path);
}

/* Opens the directory of a path whose last part is not followed. Returns 0, or an errno value. */
static int place_open(struct place *p, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char dir[PATH_MAX];

	if (!*path)
		return ENOENT;
	if (strlen(path) >= sizeof dir || strlen(name) > NAME_MAX)
		return ENAMETOOLONG;
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return EISDIR;
	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	p->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->dir < 0)
		return errno;
	strcpy(p->name, name);
	place_name(p, path);
	return 0;
}

/*
 * Does the kernel's fs.protected_symlinks (Documentation/admin-guide/sysctl/fs.rst) forbid following this link? In a
 * sticky directory that others can write to, only links that belong to the user who follows them or to the directory's
 * owner are followed. The rule holds here even if the system has switched it off.
 */
static bool is_forbidden_link(const struct place *p, const struct stat *link)
{
	struct stat dir;

	return fstat(p->dir, &dir) || ((dir.st_mode & S_ISVTX) && (dir.st_mode & S_IWOTH) && link->st_uid != geteuid() &&
	                               link->st_uid != dir.st_uid);
}

/* Do the kernel's fs.protected_regular and fs.protected_fifos forbid opening this file with O_CREAT? These rules hold
 * here even if the system has switched them off. */
static bool is_forbidden_file(const struct place *p, const struct stat *file)
{
	struct stat dir;

	return (S_ISREG(file->st_mode) || S_ISFIFO(file->st_mode)) &&
	       (fstat(p->dir, &dir) || ((dir.st_mode & S_ISVTX) && (dir.st_mode & (S_IWOTH | S_IWGRP)) &&
	                                file->st_uid != geteuid() && file->st_uid != dir.st_uid));
}

/*
 * Finds the place to which a path with a link at its end leads. The kernel follows the link, and the name of the
 * descriptor tells where it leads. With `make` an empty file is made if the link leads to no file yet, as open(2) would
 * do.
 */
static int place_follow(struct place *p, const char *path, bool make, bool *made)
{
	char proc[64], real[PATH_MAX];
	struct stat got, want;
	int e, fd = open(path, O_PATH | O_CLOEXEC);
	ssize_t n;

	if (fd < 0 && errno == ENOENT && make) {
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
		*made = fd >= 0;
	}
	if (fd < 0)
		return errno;
	snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
	n = readlink(proc, real, sizeof real - 1);
	e = n == sizeof real - 1 ? ENAMETOOLONG : 0;
	if (n < 0 || (!e && fstat(fd, &want)))
		e = errno;
	close(fd);
	if (e)
		return e;
	real[n] = 0;
	place_close(p);
	/* If the file has no name, or has lost it, the descriptor's name (`real`) is no path, or the path of another file.
	 */
	e = *real == '/' ? place_open(p, real) : ENOENT;
	if (S_ISDIR(want.st_mode))
		return EISDIR;
	if (!e &&
	    (fstatat(p->dir, p->name, &got, AT_SYMLINK_NOFOLLOW) || got.st_dev != want.st_dev || got.st_ino != want.st_ino))
		e = ENOENT;
	if (!e)
		return 0;
	place_close(p);
	p->nameless = true;
	return S_ISREG(want.st_mode) ? e : 0;
}

#define FORBIDDEN_LINK "is another user's symbolic link in a directory that everyone can write to: not followed"
#define FORBIDDEN_FILE "is another user's file in a sticky directory that others can write to: not replaced"

/* Finds the place to which the path leads. Returns 0, or an errno value and what could not be done. */
static int place_find(struct place *p, const char *path, bool make, bool *made, const char **what)
{
	struct stat st;
	int e;

	*p = (struct place){.dir = -1};
	*made = false;
	*what = "cannot write";
	e = place_open(p, path);
	if (e || fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISLNK(st.st_mode))
		return e;
	*what = "cannot follow";
	if (!is_forbidden_link(p, &st))
		return place_follow(p, path, make, made);
	*what = FORBIDDEN_LINK;
	return ECANCELED;
}

/* ---- files -------------------------------------------------------------------------------------------- */

/* Copies extended attributes, except security.ima and security.evm, which sign the old contents. Failing to copy the
 * access control list is an error; the others are copied if possible. */
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
 * Sets the permissions and attributes of the new file. With `privileged`, the output was made from the file that it
 * replaces, and keeps its set-id bits and capabilities. Any other file that is overwritten had been given them for
 * other contents, and they are dropped, as other tools do: cp(1) writes into the existing file, which clears both
 * unless root does it; ld, objcopy and install make a new file.
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
	/* This follows fchown, which clears set-id bits and capabilities. */
	privileged = privileged && owner_kept;
	if (fchmod(fd, old->st_mode & (privileged ? 07777 : 0777)))
		return errno;
	return copy_xattrs(target, fd, privileged);
}

/* Makes a name that no other process picks at the same time. */
static void temp_name(char *name, unsigned attempt)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(name, TEMP_NAME, ".etch-%lx-%lx-%x", (long)getpid(), (unsigned long)now.tv_nsec, attempt);
}

/* Opens a temporary file, preferably a nameless one (O_TMPFILE), which cannot remain after a crash. */
static int open_temp(const struct place *p, char *name, bool *named)
{
	int fd = has_proc() ? openat(p->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;

	*named = false;
	for (unsigned k = 0; fd < 0 && k < 100; k++) {
		temp_name(name, k);
		fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		*named = fd >= 0;
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	return fd < 0 ? -EEXIST : fd;
}

/* Gives a nameless temporary file a name. Returns 0, or an errno value. */
static int give_name(int fd, const struct place *p, char *name)
{
	char proc[64];

	snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
	for (unsigned k = 0; k < 100; k++) {
		temp_name(name, k);
		if (!linkat(AT_FDCWD, proc, p->dir, name, AT_SYMLINK_FOLLOW))
			return 0;
		if (errno != EEXIST)
			return errno;
	}
	return EEXIST;
}

/* Makes the rename itself survive a crash. Errors are ignored: not every file system can sync a directory. */
static void sync_directory(const struct place *p)
{
	int fd = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

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

/* What is written, and where. */
struct output_request {
	const char *path, *model;
	const char *name; /* in the directory that outfile_write_in() is given */
	const struct outfile_source *from;
	const struct file_mark *seen; /* state of the target when it was read; null: it is not checked */
	char *const *links;           /* hard links to it that are replaced too */
	size_t link_count;
	struct place place; /* the place to which the path leads */
	bool exists;
	bool made; /* following a link that led nowhere has made an empty file */
	struct stat old;
};

/* Has the target, or for a new target the model, holes? */
static bool is_sparse(const struct output_request *o)
{
	struct stat st = o->old;

	if (!o->exists && (!o->model || stat(o->model, &st)))
		return false;
	return (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size;
}

#define CHANGED "has changed since etch read it, and is left alone"

static bool place_is_as_seen(const struct place *p, const struct file_mark *seen)
{
	struct stat now;

	return !fstatat(p->dir, p->name, &now, AT_SYMLINK_NOFOLLOW) && is_as_seen(&now, seen);
}

/* A hard link that is to be replaced: `name` is a temporary link to the new file, which is renamed to the name of the
 * place. */
struct link_request {
	struct place place;
	char name[TEMP_NAME];
	bool made;   /* `name` exists */
	bool copied; /* no link to the new file was possible */
};

/* Links the file `from` in the directory `dir` to a temporary name in the directory of l->place. Returns 0, or an errno
 * value. */
static int temp_link(int dir, const char *from, int fd, struct link_request *l)
{
	struct stat want, got;
	int e = EEXIST;

	for (unsigned k = 0; e == EEXIST && k < 100; k++) {
		temp_name(l->name, k);
		e = linkat(dir, from, l->place.dir, l->name, 0) ? errno : 0;
	}
	if (e)
		return e;
	l->made = true;
	/* Another process may have replaced `from` meanwhile: check that the link leads to our file. */
	return !fstat(fd, &want) && !fstatat(l->place.dir, l->name, &got, AT_SYMLINK_NOFOLLOW) &&
	               want.st_dev == got.st_dev && want.st_ino == got.st_ino
	           ? 0
	           : ESTALE;
}

/* Makes the temporary links of all further names, before any target is replaced. A name for which the file system
 * allows no link to the new file becomes a separate copy. */
static int links_make(const struct output_request *o, const char *from, int fd, struct link_request *list,
                      const char **who, const char **what)
{
	bool made;
	int e = 0;

	for (size_t i = 0; i < o->link_count && !e; i++) {
		*who = o->links[i];
		e = place_find(&list[i].place, o->links[i], false, &made, what);
		if (!e && (list[i].place.nameless || !place_is_as_seen(&list[i].place, o->seen))) {
			*what = CHANGED;
			e = ECANCELED;
		}
		if (e)
			break;
		*what = "cannot link";
		e = temp_link(o->place.dir, from, fd, &list[i]);
		list[i].copied = e == EXDEV || e == EPERM || e == EACCES || e == EMLINK;
		if (list[i].copied)
			e = 0;
	}
	return e;
}

static int links_rename(const struct output_request *o, struct link_request *list, const char **who, const char **what)
{
	for (size_t i = 0; i < o->link_count; i++) {
		const struct place *p = &list[i].place;

		if (!list[i].made)
			continue;
		*who = o->links[i];
		*what = CHANGED;
		if (!place_is_as_seen(p, o->seen))
			return ECANCELED;
		*what = "cannot replace";
		if (renameat(p->dir, list[i].name, p->dir, p->name))
			return errno;
		list[i].made = false;
		sync_directory(p);
	}
	return 0;
}

/* Removes the empty file that following a link has made, unless another file has taken its place. */
static void unmake(const struct output_request *o)
{
	struct stat now;

	if (o->made && !fstatat(o->place.dir, o->place.name, &now, AT_SYMLINK_NOFOLLOW) && now.st_ino == o->old.st_ino &&
	    now.st_dev == o->old.st_dev && !now.st_size)
		unlinkat(o->place.dir, o->place.name, 0);
}

/* The files that would remain if the write ended now. */
struct unfinished {
	struct ending ending;
	const struct output_request *o;
	struct link_request *links;
	char name[TEMP_NAME]; /* name of the temporary file */
	bool named;           /* `name` exists */
};

/* Removes the files that an unfinished write would leave. Async-signal-safe. */
static void unfinished_remove(struct ending *ending)
{
	const struct unfinished *u = (const struct unfinished *)ending; /* its first member */

	if (u->named)
		unlinkat(u->o->place.dir, u->name, 0);
	for (size_t i = 0; i < u->o->link_count; i++)
		if (u->links[i].made)
			unlinkat(u->links[i].place.dir, u->links[i].name, 0);
	unmake(u->o);
}

/* Writes a temporary file beside the target and renames it to the target. Returns 0, or an errno value and a message;
 * the caller then removes what is unfinished. */
static int replace(struct unfinished *u, struct error *err)
{
	const struct output_request *o = u->o;
	const char *what = "cannot create a temporary file beside it", *who = o->path;
	const struct place *p = &o->place;
	int e, fd = open_temp(p, u->name, &u->named);

	if (fd < 0)
		return fail(-fd, o->path, what, err);
	what = "cannot write";
	e = write_all(fd, o->from, is_sparse(o));
	if (e == ECANCELED)
		what = o->from->why;
	if (!e) {
		what = "cannot set its permissions";
		e = set_attributes(fd, p->at, o->exists, &o->old, o->model, o->seen);
	}
	if (!e) {
		what = "cannot write";
		e = fsync(fd) ? errno : 0;
	}
	if (!e && !u->named) {
		e = give_name(fd, p, u->name);
		u->named = !e;
	}
	if (!e)
		e = links_make(o, u->name, fd, u->links, &who, &what);
	if (close(fd) && !e)
		e = errno;
	if (!e && stop_is_pending())
		e = EINTR;
	if (!e && o->seen && !place_is_as_seen(p, o->seen)) {
		what = CHANGED;
		e = ECANCELED;
	}
	if (!e) {
		what = "cannot replace";
		e = renameat(p->dir, u->name, p->dir, p->name) ? errno : 0;
	}
	if (!e) {
		u->named = false;
		sync_directory(p);
		e = links_rename(o, u->links, &who, &what);
	}
	return e ? fail(e, who, what, err) : 0;
}

static int write_through(const struct output_request *o, struct error *err)
{
	const int how = O_WRONLY | O_CLOEXEC | O_NOCTTY;
	int e, fd = o->place.nameless ? open(o->path, how) : openat(o->place.dir, o->place.name, how | O_NOFOLLOW);
	struct stat now;

	if (fd < 0)
		return fail(errno, o->path, "cannot open for writing", err);
	/* A regular file that has taken the target's place meanwhile must not be overwritten in place. */
	e = fstat(fd, &now) ? errno : 0;
	if (!e && S_ISREG(now.st_mode))
		e = ESTALE;
	if (!e)
		e = write_all(fd, o->from, false);
	if (close(fd) && !e)
		e = errno;
	if (!e)
		return 0;
	return fail(e, o->path, e == ECANCELED ? o->from->why : "cannot write", err);
}

/* Sets o->place to the place to which the path leads, and o->exists and o->old to what is there. Returns 0, or an errno
 * value and what could not be done. */
static int find_target(struct output_request *o, const char **what)
{
	struct place *p = &o->place;
	int e = place_find(p, o->path, !o->seen, &o->made, what);

	if (e == ENOENT && o->seen) {
		*what = CHANGED;
		return ECANCELED;
	}
	if (e)
		return e;
	*what = "cannot write";
	o->exists = p->nameless ? !stat(o->path, &o->old) : !fstatat(p->dir, p->name, &o->old, AT_SYMLINK_NOFOLLOW);
	if (!o->exists && errno != ENOENT)
		return errno;
	o->exists &= !o->made;
	if (o->exists && S_ISDIR(o->old.st_mode))
		return EISDIR;
	/* A link that is there now has been made since. */
	if (o->exists && S_ISLNK(o->old.st_mode))
		return ELOOP;
	/* Check this before owner and permissions are taken from the file. */
	if (o->seen && (!o->exists || !is_as_seen(&o->old, o->seen))) {
		*what = CHANGED;
		return ECANCELED;
	}
	if (o->exists && !o->seen && !p->nameless && is_forbidden_file(p, &o->old)) {
		*what = FORBIDDEN_FILE;
		return ECANCELED;
	}
	return 0;
}

/* Sets o->place to a name in a directory, whatever has that name now. */
static int find_in(struct output_request *o, int directory, const char **what)
{
	struct place *p = &o->place;

	*what = "cannot write";
	p->dir = openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->dir < 0)
		return errno;
	snprintf(p->name, sizeof p->name, "%s", o->name);
	return 0;
}

/* Writes to the place that was found: to a temporary file that replaces the target, with signals blocked, or in place
 * if the target is not a regular file. Returns 0, or an errno value and a message. */
static int write_found(struct output_request *o, struct link_request *links, struct error *err)
{
	struct unfinished u = {.ending = {.undo = unfinished_remove}, .o = o, .links = links};
	const struct timespec no_time = {0, 0};
	sigset_t block, before, too_large;
	bool through;
	int e;

	/* Writing in place needs no temporary file, so signals may interrupt it, and they must be able to: a pipe without a
	 * reader blocks for ever. */
	through = o->exists && !S_ISREG(o->old.st_mode);
	sigemptyset(&block);
	if (!through)
		stop_signals(&block);
	sigemptyset(&too_large);
	sigaddset(&too_large, SIGXFSZ);
	sigaddset(&block, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &block, &before);
	ending_add(&u.ending);
	e = through ? write_through(o, err) : replace(&u, err);
	ending_drop(&u.ending);
	if (e == EFBIG && !sigismember(&before, SIGXFSZ))
		sigtimedwait(&too_large, NULL, &no_time);
	if (e)
		unfinished_remove(&u.ending);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < o->link_count && !e; i++)
		if (links[i].copied)
			e = outfile_replace_from(&(struct outfile_target){.path = o->links[i], .seen = o->seen}, o->from, err);
	return e;
}

static int execute(struct output_request *o, int directory, struct error *err)
{
	struct link_request *links = mem_zero(o->link_count, sizeof *links);
	const char *what;
	int e;

	bounds_end();
	for (size_t i = 0; i < o->link_count; i++)
		links[i].place.dir = -1;
	e = directory < 0 ? find_target(o, &what) : find_in(o, directory, &what);
	if (e)
		fail(e, o->path, what, err);
	else
		e = write_found(o, links, err);
	for (size_t i = 0; i < o->link_count; i++)
		place_close(&links[i].place);
	place_close(&o->place);
	free(links);
	return e;
}

int outfile_write_from(const char *path, const struct outfile_source *from, const char *model, struct error *err)
{
	struct output_request o = {.path = path, .model = model, .from = from};

	return execute(&o, -1, err);
}

int outfile_replace_from(const struct outfile_target *t, const struct outfile_source *from, struct error *err)
{
	struct output_request o = {
		.path = t->path, .links = t->links, .link_count = t->link_count, .from = from, .seen = t->seen};

	return execute(&o, -1, err);
}

int outfile_write(const char *path, const void *data, size_t size, const char *model, struct error *err)
{
	struct memory m = {.data = data, .size = size};
	const struct outfile_source from = memory_source(&m);

	return outfile_write_from(path, &from, model, err);
}

int outfile_replace(const struct outfile_target *t, const void *data, size_t size, struct error *err)
{
	struct memory m = {.data = data, .size = size};
	const struct outfile_source from = memory_source(&m);

	return outfile_replace_from(t, &from, err);
}

int outfile_write_in(int directory, const char *name, const char *shown, const void *data, size_t size,
                     struct error *err)
{
	struct memory m = {.data = data, .size = size};
	const struct outfile_source from = memory_source(&m);
	struct output_request o = {.path = shown, .name = name, .from = &from};

	return execute(&o, directory, err);
}
