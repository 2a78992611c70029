/* SPDX-License-Identifier: MIT */
/*
 * The jobserver of the GNU make that runs this program: a pipe, or a named one, that holds one
 * byte per job slot that is free (GNU make manual, "POSIX Jobserver Interaction").
 */
#ifndef SUPPORT_JOBSERVER_H
#define SUPPORT_JOBSERVER_H

#include <stdbool.h>

struct jobserver {
	int in, out; /* -1: no jobserver */
};

/* Opens the jobserver of MAKEFLAGS. There is none if make has closed the pipe, as it does for
 * commands that it does not take for a make. */
void jobserver_open(struct jobserver *j);
void jobserver_close(struct jobserver *j);
/* Does a make above share its jobs, whether this program can take part in that or not? */
bool jobserver_above(void);
static inline bool jobserver_is(const struct jobserver *j) { return j->in >= 0; }
/* Takes a token without waiting; false: none available. */
bool jobserver_take(struct jobserver *j, char *token);
/* Returns a token. */
void jobserver_give(struct jobserver *j, char token);

#endif
