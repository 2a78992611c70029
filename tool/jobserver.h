/* SPDX-License-Identifier: MIT */
/*
 * The jobserver of a GNU make that runs this program: a pipe, or a named one, with a byte for
 * each job that may still be started (GNU make manual, "POSIX Jobserver Interaction").
 */
#ifndef JOBSERVER_H
#define JOBSERVER_H

#include <stdbool.h>

struct jobserver {
	int in, out; /* -1: there is none */
};

/* By MAKEFLAGS. A make that did not take this program for another make has closed the pipe:
 * then there is none. */
void jobserver_open(struct jobserver *j);
void jobserver_close(struct jobserver *j);
static inline bool jobserver_is(const struct jobserver *j) { return j->in >= 0; }
/* Takes a token, if there is one now; false: none. */
bool jobserver_take(struct jobserver *j, char *token);
/* Gives it back. */
void jobserver_give(struct jobserver *j, char token);

#endif
