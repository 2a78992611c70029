/* SPDX-License-Identifier: MIT */
/*
 * Errors are values: the message is formatted where the facts are known and printed in one place,
 * main.c, as "etch: FILE: message".
 */
#ifndef SUPPORT_ERROR_H
#define SUPPORT_ERROR_H

#include <stdbool.h>

struct error {
	char text[400]; /* one line, without the file name and newline */
};

/* Fills e and returns -1, so that a caller can `return error_set(...)`. */
int error_set(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is the error "out of memory...", which says nothing about the file? */
bool error_no_memory(const struct error *e);

#endif
