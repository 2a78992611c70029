/* SPDX-License-Identifier: MIT */
/*
 * Errors travel as values: the message is made where the facts are known and
 * printed in one place, main.c, as "etch: FILE: message".
 */
#ifndef REPORT_ERROR_H
#define REPORT_ERROR_H

#include <stdbool.h>

struct error {
	char text[400]; /* one line, without the file's name and without newline */
};

/* Fills e and returns -1, so that a caller can `return error_set(...)`. */
int error_set(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Was that for want of memory ("out of memory..."), which says nothing about the file? */
bool error_no_memory(const struct error *e);

#endif
