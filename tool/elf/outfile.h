/* SPDX-License-Identifier: MIT */
/*
 * outfile.h: writes a whole file, or nothing.
 *
 * The bytes go to a nameless temporary file in the same directory (or, where the
 * file system has none, a named one), are synced, and take the place of the
 * target by rename(2). Until then the target is untouched; whoever has it open
 * or mapped keeps the old one.
 */
#ifndef ETCH_TOOL_ELF_OUTFILE_H
#define ETCH_TOOL_ELF_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes `size` bytes to `path`. Returns 0, or an errno value (EINTR: a signal
 * came) with a line in `err` that names the file and the reason, without a
 * newline.
 *
 * - A target that exists gives its permissions, owner, group and extended
 *   attributes to the new file. If the owner or group cannot be kept, set-id
 *   bits and file capabilities are not kept either.
 * - A new target gets the permissions of the file `model` less the umask and
 *   set-id bits; with a null model, those of any new file.
 * - A symbolic link stays, and the file that it leads to is replaced. Other
 *   hard links to the target keep the old contents: rename(2) cannot do both.
 * - A target that is no regular file (/dev/null, a pipe) is written to.
 *
 * Signals: SIGHUP, SIGINT, SIGQUIT and SIGTERM are blocked in this thread
 * meanwhile. One that is pending ends the write, and arrives when no temporary
 * file is left. A program with more threads must block them in the others.
 */
int outfile_write(const char *path, const void *data, size_t size, const char *model,
                  char *err, size_t errlen);

#endif
