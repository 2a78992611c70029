/* SPDX-License-Identifier: MIT */
/* Where the table goes. */
#ifndef STAT_OUTPUT_H
#define STAT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct output {
	const char *path; /* a file, written as a whole or not at all; or null */
	int fd;           /* an open descriptor; -1 */
};                        /* neither: standard output */

/* Will it be possible? Better said before the runs than after them. False: why not is said. */
bool output_check(const struct output *o);
/* False: it was not possible, and why has been said. */
bool output_put(const struct output *o, const char *text, size_t size);

#endif
