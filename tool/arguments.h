/* SPDX-License-Identifier: MIT */
/* Parsers for the arguments of options that several commands share. They print the error message
 * themselves. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>

#include "report/listing.h"

struct option;
/* getopt_long(3), whose messages are printed as text_error() prints them, with the option that was probably meant and
 * the command that has the help. For '?' the caller prints nothing more. Where `shorts` begins with '+', options end at
 * the first argument that is none: what follows is a command to run, whose options are its own. */
int argument_option(int argc, char **argv, const char *shorts, const struct option *longs);
/* Parses a number. Prints "OPTION is a number from LEAST to MOST, not 'TEXT'" and returns false on
 * error. */
bool argument_number(const char *option, const char *text, long least, long most, long *out);
#define JOBS_MOST 1024

/* The argument of -j. */
bool argument_jobs(const char *text, int *out);
/* Index of `text` in `words`, a null-terminated list; or -1 and "OPTION is text, tsv or json, not
 * 'TEXT'". */
int argument_word(const char *option, const char *const *words, const char *text);
/* The argument of --format: text, tsv or json. */
bool argument_format(const char *text, enum format *out);
/* Number of processors that this process may run on. */
int processors(void);

#endif
