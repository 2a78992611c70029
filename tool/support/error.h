/* SPDX-License-Identifier: MIT */
/*
 * Errors are values: the message is formatted where the facts are known, and printed by the command, as
 * "etch: FILE: message" (text_error()).
 */
#ifndef SUPPORT_ERROR_H
#define SUPPORT_ERROR_H

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>

struct error {
	char text[PATH_MAX + 304]; /* one line, without the file's name and without a newline; it may name another file */
};

/* Fill e and return -1, so that a caller can `return error_set(...)`. */
int error_set(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
int error_setv(struct error *e, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* The only message for lack of memory, used where that is an error of one file. Most code needs no check, because
 * mem_alloc() and the other functions of memory.h end the process. */
#define NO_MEMORY "out of memory"

#endif
