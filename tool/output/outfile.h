/* SPDX-License-Identifier: MIT */
/*
 * Atomic output: writes a whole file, or leaves the target untouched.
 *
 * The bytes go to a nameless temporary file in the same directory (or, where the
 * file system has none, a named one), are synced, and take the place of the
 * target by rename(2). Until then the target is untouched; processes that have
 * it open or mapped keep the old contents.
 *
 * The temporary file has a name from just before the rename on, or from the
 * start where the file system has no nameless ones: .etch-PID-NUMBER-NUMBER,
 * in hexadecimal. A process that is killed in that time leaves it after.
 */
#ifndef OUTPUT_OUTFILE_H
#define OUTPUT_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "elf/file.h"

/*
 * Writes `size` bytes to `path`. Returns 0, or an errno value (EINTR: a signal
 * is pending) and a message in `e` with the file and the reason, without a
 * newline.
 *
 * - The new file takes permissions, owner, group, access control list and
 *   extended attributes of an existing target. If the access control list
 *   cannot be kept, that is an error: without it the permissions would mean
 *   something else. Set-id bits and file capabilities are kept only with `seen`,
 *   where the file is rewritten, and only if owner and group can be kept.
 * - A new target gets the permissions of the file `model` less the umask and
 *   set-id bits; with a null model, those of any new file.
 * - If the target, or else the model, has holes, chunks of zeros become holes.
 * - A symbolic link stays, and the file that it leads to is replaced. The kernel follows the link, by its own rules;
 *   and in a sticky directory that everyone can write to, another user's link is not followed, nor (without `seen`)
 *   another user's file replaced, even where fs.protected_symlinks and fs.protected_regular are 0. A directory is
 *   opened once: who renames it, or puts a link in its place, changes nothing.
 * - Other hard links to the target keep the old contents, except those given as
 *   `links`: each is replaced by a rename of its own.
 * - A target that is no regular file (/dev/null, a pipe) is written to.
 * - With `seen`, the target must still be the file that was read: ECANCELED if it
 *   has been written, replaced or removed since. (The last check is just before
 *   the rename; a change between the two is lost.)
 *
 * Signals: SIGHUP, SIGINT, SIGQUIT and SIGTERM are blocked in this thread
 * meanwhile, unless the target is not a regular file. A pending one ends the write, and is delivered after
 * the temporary file is removed. A program with more threads must block them in the others.
 */
int outfile_write(const char *path, const void *data, size_t size, const char *model, struct error *e);

/*
 * The same for a name in an open directory where nothing is followed and nothing kept of what was there: a link, a pipe
 * or another user's file of that name is replaced by a new file. The message has `shown` as
 * its name.
 */
int outfile_write_in(int directory, const char *name, const char *shown, const void *data, size_t size,
                     struct error *e);

/* A file that is rewritten. */
struct outfile_target {
	const char *path;
	char *const *links; /* its other hard links: they become links to the new file, or copies of it where the file
	                     * system does not allow that */
	size_t link_count;
	const struct file_mark *seen; /* what was read */
};

/* The same for a file that is rewritten. */
int outfile_replace(const struct outfile_target *t, const void *data, size_t size, struct error *e);

/* Contents that are made while they are written, so that a large file need not be in memory. */
struct outfile_source {
	/* Begins again: contents may be written more than once, to hard links on which the file system allows no link. */
	void (*rewind)(void *context);
	/*
	 * Sets *data and *size to the next bytes, valid until the next call; a size of 0 ends the contents. Returns 0, or
	 * an errno value, which leaves the target untouched: with ECANCELED, `why` is the reason.
	 */
	int (*next)(void *context, const void **data, size_t *size);
	void *context;
	const char *why;
};

/* outfile_write() and outfile_replace() with such contents. */
int outfile_write_from(const char *path, const struct outfile_source *from, const char *model, struct error *e);
int outfile_replace_from(const struct outfile_target *t, const struct outfile_source *from, struct error *e);

#endif
