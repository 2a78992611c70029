/* SPDX-License-Identifier: MIT */
/* Parsers for the arguments of options that several commands share. They print the error message
 * themselves. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>

#include "report/listing.h"

struct option;
/* getopt_long(3), whose messages are printed as text_error() prints. */
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
/* After the options, up to the "--" that ends argv and that the command to run follows: are there no arguments? Prints
 * the error message else. */
bool arguments_none(const char *command, int argc, char **argv);
/* Number of processors that this process may run on. */
int processors(void);

#endif
