/* SPDX-License-Identifier: MIT */
/*
 * outfile.h: writes a whole file, or nothing.
 *
 * The bytes go to a nameless temporary file in the same directory (or, where the
 * file system has none, a named one), are synced, and take the place of the
 * target by rename(2). Until then the target is untouched; whoever has it open
 * or mapped keeps the old one.
 *
 * The temporary file has a name from just before the rename on, or from the
 * start where the file system has no nameless ones: .etch-PID-NUMBER-NUMBER,
 * in hexadecimal. That is what a process leaves behind which is killed then.
 */
#ifndef ETCH_TOOL_ELF_OUTFILE_H
#define ETCH_TOOL_ELF_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "elf/file.h"

/*
 * Writes `size` bytes to `path`. Returns 0, or an errno value (EINTR: a signal
 * came) with a line in `err` that names the file and the reason, without a
 * newline.
 *
 * - A target that exists gives its permissions, owner, group, access control
 *   list and extended attributes to the new file. If the owner or group cannot
 *   be kept, set-id bits and file capabilities are not kept either; if the
 *   access control list cannot, that is an error: without it the permissions
 *   would mean something else.
 * - A new target gets the permissions of the file `model` less the umask and
 *   set-id bits; with a null model, those of any new file.
 * - Where the target, or else the model, has holes, so has the new file.
 * - A symbolic link stays, and the file that it leads to is replaced. Other
 *   hard links to the target keep the old contents: rename(2) cannot do both.
 * - A target that is no regular file (/dev/null, a pipe) is written to.
 * - With `seen`, the target must be what was read then: ECANCELED where somebody
 *   has written, replaced or removed it since. (Looked at last just before the
 *   rename: what happens in between is lost.)
 *
 * Signals: SIGHUP, SIGINT, SIGQUIT and SIGTERM are blocked in this thread
 * meanwhile, but where a target is written to that is no regular file. One that is pending ends the write, and arrives when no temporary
 * file is left. A program with more threads must block them in the others.
 */
int outfile_write(const char *path, const void *data, size_t size, const char *model,
                  char *err, size_t errlen);
int outfile_replace(const char *path, const void *data, size_t size, const struct file_mark *seen,
                    char *err, size_t errlen);

#endif
