/* SPDX-License-Identifier: MIT */
/*
 * Errors are values: the message is formatted where the facts are known, is passed up as a value, and is printed by the
 * command (tool/cmd_*.c), with text_error() of report/text.h, as "etch: FILE: message".
 */
#ifndef SUPPORT_ERROR_H
#define SUPPORT_ERROR_H

#include <stdbool.h>

struct error {
	char text[400]; /* one line, without the file name and newline */
};

/* Fills e and returns -1, so that a caller can `return error_set(...)`. */
int error_set(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The one text for lack of memory, where it is an error of one file. Most code needs no check: mem_alloc() and the like
 * of memory.h end the process. */
#define NO_MEMORY "out of memory"
/* error_set(e, NO_MEMORY). */
int error_memory(struct error *e);
/* Is the error of that kind, which is not the file's fault? */
bool error_is_memory(const struct error *e);

#endif
