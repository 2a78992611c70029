/* SPDX-License-Identifier: MIT */
/* What options of several commands have in common. What is wrong is said here. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>

#include "report/listing.h"

/* "OPTION is a number from LEAST to MOST, not 'TEXT'" */
bool argument_number(const char *option, const char *text, long least, long most, long *out);
#define JOBS_MOST 1024

/* -j */
bool argument_jobs(const char *text, int *out);
/* Which of the words, which end with a null, it is; -1: "OPTION is text, tsv or json, not 'TEXT'". */
int argument_word(const char *option, const char *const *words, const char *text);
/* --format text|tsv|json */
bool argument_format(const char *text, enum format *out);
/* Processors that this process may run on. */
int processors(void);

#endif
