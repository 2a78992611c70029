/* SPDX-License-Identifier: MIT */
/*
 * Counts events of a processor that valgrind simulates, for machines without hardware counters, and for counts that do
 * not depend on the load of the machine.
 */
#ifndef STAT_SIMULATE_H
#define STAT_SIMULATE_H

#include <sys/types.h>

#include "support/error.h"
#include "stat/row.h"

struct simulation {
	char directory[4096]; /* holds valgrind's files of one run */
	const char *only;     /* the only program that is simulated; null: all are */
	long files;           /* the limit of open files that programs will set; 0: none */
	char *starter;    /* the script that runs a program under valgrind, if `only` or `files` is set; otherwise null */
	char *path;       /* the user's PATH; the environment's leads to the script until simulation_end() */
	char caches[300]; /* "I1 32768 B, 64 B, 8-way associative; D1 ..." */
	size_t doubled;   /* forked processes whose counts include their parent's */
	size_t lost;      /* processes without counts */
};

/* Fills in the rows. Returns their number. */
size_t simulation_plan(struct row *rows);
/*
 * Creates the directory. `only` names the only program to simulate, which is found by PATH or by its name among the
 * words of the command; null: all programs. `files` is the limit of open files that programs will set, since valgrind
 * accepts no hard limit other than its own; 0: leave the limit. Returns 0, or -1 and a message if there is no valgrind,
 * or no place for its files.
 */
int simulation_begin(struct simulation *s, const char *only, long files, struct error *e);
/* Returns the command line that runs the command under valgrind, or null if out of memory. Free the list, but not its
 * words. */
char **simulation_command(struct simulation *s, char **argv);
/* Reads and removes the files of a run. `pid` is the command itself, without whose counts the reading is empty. Returns
 * 0, or -1 and valgrind's error. */
int simulation_read(struct simulation *s, pid_t pid, struct reading *out, struct error *e);
void simulation_end(struct simulation *s);

/* Returns the options of valgrind as a null-terminated list, or null if out of memory. */
char **simulation_options(const struct simulation *s);
/* Writes the script for s->only and s->files to s->directory/bin. Returns 0, or -1 and a message. */
int starter_begin(struct simulation *s, struct error *e);
/* Removes the script, and restores PATH. */
void starter_end(struct simulation *s);

#endif
