/* SPDX-License-Identifier: MIT */
/*
 * Atomic output: it writes a whole file, or leaves the target untouched.
 *
 * The bytes are written to a nameless temporary file in the same directory (or to a named one if the file system does
 * not support nameless files) and synced, and rename(2) puts the file in the place of the target. Until then the target
 * is untouched; processes that have it open or mapped keep the old contents.
 *
 * The temporary file gets its name, .etch-PID-NUMBER-NUMBER in hexadecimal, just before the rename, or at the start if
 * the file system does not support nameless files. A process that is killed while the file has this name leaves it in
 * the directory.
 */
#ifndef OUTPUT_OUTFILE_H
#define OUTPUT_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "elf/file.h"

/*
 * Writes `size` bytes to `path`. Returns 0, or an errno value (EINTR: a signal is pending) and in `e` a message with
 * the file and the reason, without a newline.
 *
 * - The new file takes the permissions, owner, group, access control list and extended attributes of an existing
 *   target. If the access control list cannot be kept, that is an error, because without it the permissions would mean
 *   something else. Set-id bits and file capabilities are kept only with `seen`, when the file is rewritten, and only
 *   if owner and group can be kept.
 * - A new target gets the permissions of the file `model` without the umask's and the set-id bits; with a null model,
 *   it gets those of any new file.
 * - If the target, or for a new target the model, has holes, chunks of zeros become holes.
 * - A symbolic link stays, and the file that it leads to is replaced. The kernel follows the link, by its own rules.
 *   Besides, in a sticky directory that everyone can write to, another user's link is not followed and (without `seen`)
 *   another user's file is not replaced, even if fs.protected_symlinks and fs.protected_regular are 0. A directory is
 *   opened once, so that renaming it or putting a link in its place changes nothing.
 * - Other hard links to the target keep the old contents, except those given as `links`. Each of these is replaced by a
 *   rename of its own.
 * - A target that is no regular file (/dev/null, a pipe) is written in place.
 * - With `seen`, the target must still be the file that was read: the result is ECANCELED if it has been written,
 *   replaced or removed since. (The last check is just before the rename; a change between the two is lost.)
 *
 * Signals: SIGHUP, SIGINT, SIGQUIT and SIGTERM are blocked in this thread meanwhile, unless the target is not a regular
 * file. A pending signal ends the write, and is delivered after the temporary file has been removed. A program with
 * more threads must block these signals in the others.
 */
int outfile_write(const char *path, const void *data, size_t size, const char *model, struct error *e);

/*
 * Writes `size` bytes to a file `name` in an open directory, as atomically as outfile_write() does and with the same
 * results. It follows no link and keeps nothing of what was there: a new file replaces a link, a pipe or another user's
 * file of that name. Messages show the name `shown`.
 */
int outfile_write_in(int directory, const char *name, const char *shown, const void *data, size_t size,
                     struct error *e);

/* A file that is rewritten. */
struct outfile_target {
	const char *path;
	char *const *links; /* its other hard links, which become links to the new file, or copies of it if the file system
	                       does not allow links */
	size_t link_count;
	const struct file_mark *seen; /* state of the file when it was read */
};

/* Writes the new contents of a file that is rewritten. Results and rules are those of outfile_write(). */
int outfile_replace(const struct outfile_target *t, const void *data, size_t size, struct error *e);

/* Contents that are made while they are written, so that a large file need not be in memory. */
struct outfile_source {
	/* Begins again: contents are written more than once if there are hard links that must become copies. */
	void (*rewind)(void *context);
	/*
	 * Sets *data and *size to the next bytes, which are valid until the next call; a size of 0 ends the contents.
	 * Returns 0, or an errno value, which leaves the target untouched. With ECANCELED, `why` is the reason.
	 */
	int (*next)(void *context, const void **data, size_t *size);
	void *context;
	const char *why;
};

/* Write contents that are made while they are written; in all else they do what outfile_write() and outfile_replace()
 * do. */
int outfile_write_from(const char *path, const struct outfile_source *from, const char *model, struct error *e);
int outfile_replace_from(const struct outfile_target *t, const struct outfile_source *from, struct error *e);

#endif
