/* SPDX-License-Identifier: MIT */
/* What `etch rewrite` does with files: one (file.c), and many (files.c). */
#ifndef REWRITE_FILES_H
#define REWRITE_FILES_H

#include "elf/input.h"
#include "rewrite/rewrite.h"

struct rewrite_command {
	const char *output, *sidecar;
	bool werror, verbose, undo, no_undo;
	int jobs; /* processes; with one file, threads */
	struct rewrite_options make;
};

/* All print what there is to say, and return an exit status. `others`: what other files of
 * the command define. */
int rewrite_file(const char *path, const struct rewrite_command *opt, const struct name_set *others);
int undo_file(const char *path, const struct rewrite_command *opt);
int rewrite_files(const struct inputs *files, const struct rewrite_command *opt);

#endif
