/* SPDX-License-Identifier: MIT */
/* `etch rewrite` on files: one (rewrite_file.c), or many (files.c). */
#ifndef REWRITE_FILES_H
#define REWRITE_FILES_H

#include "input/input.h"
#include "rewrite/rewrite.h"

struct rewrite_command {
	const char *output, *sidecar;
	const char *debug_out; /* OUT of --eh-frame=OUT: the separate debug file, or a directory for it; null: not given */
	bool werror, verbose, undo, no_undo;
	int jobs; /* number of processes; for a single file, of threads */
	struct rewrite_options make;
};

/* All of these print messages and results themselves, and return an exit status. `others` names the etched objects that
 * other files of the command define. */
int rewrite_file(const struct input *in, const struct rewrite_command *opt, const struct name_set *others);
int undo_file(const struct input *in, const struct rewrite_command *opt);
int rewrite_files(const struct inputs *files, const struct rewrite_command *opt);

#endif
