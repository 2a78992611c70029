/* SPDX-License-Identifier: MIT */
/* Where a profile goes, and in which format: the options that `etch profile` and `etch heap` share. */
#ifndef PROFILE_PROFILE_OUTPUT_H
#define PROFILE_PROFILE_OUTPUT_H

#include "profile/profile.h"
#include "stat/output.h"

enum profile_kind { KIND_NONE = -1, KIND_FOLDED, KIND_SVG, KIND_PPROF, KIND_FIREFOX };

struct profile_output {
	struct output to;
	int kind; /* enum profile_kind */
};

/* The words of --format, by kind; null ends them. */
extern const char *const profile_kinds[];
/* Decides the format that was not asked for by the file's name, and sees whether the output can be written. False: it
 * cannot, and a message has been printed. */
bool profile_output_check(struct profile_output *o);
/* Is standard output taken? The command's goes elsewhere then. */
static inline bool profile_output_is_stdout(const struct profile_output *o)
{
	return o->kind != KIND_NONE && !o->to.path;
}
#define PROFILE_TITLE_MOST 120
/* What a profile of a command is called: the command, cut where it is long. */
void profile_title(char *const *command, char out[PROFILE_TITLE_MOST]);
/* Writes a named profile. False: it could not, and a message has been printed. */
bool profile_output_write(struct profile *p, const struct profile_output *o, const char *title);

#endif
