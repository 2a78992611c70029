/* SPDX-License-Identifier: MIT */
/* Parses the arguments of options that several commands share. These functions print the error message themselves. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <limits.h>
#include <stdbool.h>

#include "report/listing.h"

struct option;
/* Which options were given, indexed by `val` of their struct option. */
struct options_given {
	bool at[UCHAR_MAX + 1];
};
/*
 * Calls getopt_long(3). Its messages are printed in the form of text_error(), with the option that was probably meant
 * and the command that has the help, so that the caller prints nothing more for '?'. If `shorts` begins with '+',
 * options end at the first argument that is not an option: it starts a command to run, with that command's own
 * options. Records the option in *given, unless `given` is null.
 */
int argument_option(int argc, char **argv, const char *shorts, const struct option *longs, struct options_given *given);
/*
 * Refuse an option that would do nothing beside the other options: an option that is ignored silently misleads. If an
 * option was given that is one of `letters`, or none of them, prints "--OPTION WHY" and returns false.
 */
bool argument_none_of(const struct options_given *given, const struct option *longs, const char *letters,
                      const char *why);
bool argument_only(const struct options_given *given, const struct option *longs, const char *letters, const char *why);
/*
 * Parses a number. If `text` is no number from `least` to `most`, prints "OPTION must be a number from LEAST to MOST,
 * not 'TEXT'" and returns false.
 */
bool argument_number(const char *option, const char *text, long least, long most, long *out);
#define JOBS_MOST 1024

/* Parses the argument of -j, a number from 1 to JOBS_MOST. Prints a message and returns false if it is not one. */
bool argument_jobs(const char *text, int *out);
/* Returns the index of `text` in `words`, a null-terminated list; or prints "OPTION must be text, tsv or json, not
 * 'TEXT'" and returns -1. */
int argument_word(const char *option, const char *const *words, const char *text);
/* Parses the argument of --format: text, tsv or json. Prints a message and returns false if it is none of them. */
bool argument_format(const char *text, enum format *out);
/* Returns the number of processors on which this process may run. */
int processors(void);

#endif
