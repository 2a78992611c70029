/* SPDX-License-Identifier: MIT */
/* Writes a profile to its destination in a format, by the options that `etch profile` and `etch heap` share. */
#ifndef PROFILE_PROFILE_OUTPUT_H
#define PROFILE_PROFILE_OUTPUT_H

#include "profile/profile.h"
#include "stat/output.h"

enum profile_kind { KIND_NONE = -1, KIND_FOLDED, KIND_SVG, KIND_PPROF, KIND_FIREFOX };

struct profile_output {
	struct output to;
	int kind; /* enum profile_kind */
};

/* The words of --format, by kind; a null pointer ends them. */
extern const char *const profile_kinds[];
/* Chooses the format by the file's name unless --format chooses it, and checks that the output can be written. If it
 * cannot, prints a message and returns false. */
bool profile_output_check(struct profile_output *o);
/* Is the profile written to standard output? The command's output must then go elsewhere. */
static inline bool profile_output_is_stdout(const struct profile_output *o)
{
	return o->kind != KIND_NONE && !o->to.path;
}
/* Does the format have source files and lines? */
static inline bool profile_output_has_lines(const struct profile_output *o)
{
	return o->kind == KIND_PPROF || o->kind == KIND_FIREFOX;
}
#define PROFILE_TITLE_MOST 120
/* Makes the title of a command's profile, which is the command, truncated. */
void profile_title(char *const *command, char out[PROFILE_TITLE_MOST]);
/* Says on standard error what was written and how it can be viewed, or how `etch COMMAND` makes a picture. */
void profile_output_announce(const struct profile_output *o, const char *command);
/* Writes a named profile. If that fails, prints a message and returns false. */
bool profile_output_write(struct profile *p, const struct profile_output *o, const char *title);

#endif
