/* SPDX-License-Identifier: MIT */
/* Prints a command as words that a shell can read. */
#ifndef STAT_SHELL_QUOTE_H
#define STAT_SHELL_QUOTE_H

#include <stdio.h>

/* Prints the words on one line, quoted for a shell, without characters that control a terminal. */
void words_print(FILE *out, char *const *argv);

#endif
