/* SPDX-License-Identifier: MIT */
/* The destination of the output of `etch stat`. */
#ifndef STAT_OUTPUT_H
#define STAT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct output {
	const char *path; /* a file, which is replaced as a whole or not at all; or null */
	int fd;           /* an open descriptor; or -1 */
};                    /* with neither, the destination is standard output */

/* Checks before the runs that the output can be written. Prints the reason and returns false if it cannot. */
bool output_check(const struct output *o);
/* Writes the output. Prints the reason and returns false on error. */
bool output_put(const struct output *o, const char *text, size_t size);

#endif
