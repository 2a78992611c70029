/* SPDX-License-Identifier: MIT */
/* Commands as words of a shell. */
#ifndef STAT_WORDS_H
#define STAT_WORDS_H

#include <stdio.h>

/* As a shell would have to be told it: on one line, with nothing that a terminal acts on. */
void words_print(FILE *out, char *const *argv);

#endif
