/* SPDX-License-Identifier: MIT */
/*
 * Event counts from a processor simulated by valgrind, for machines without hardware counters, and
 * for counts that do not depend on the load of the machine.
 */
#ifndef STAT_SIMULATE_H
#define STAT_SIMULATE_H

#include <sys/types.h>

#include "support/error.h"
#include "stat/row.h"

struct simulation {
	char directory[4096]; /* holds valgrind's files of one run */
	const char *only;     /* the program that is simulated; null: all */
	long files;           /* 0: none */
	char *starter;        /* with one of these: the script that runs a program under valgrind; else null */
	char *path;           /* PATH, which leads to the script until the end */
	char caches[300];     /* "I1 32768 B, 64 B, 8-way associative; D1 ..." */
	size_t doubled;       /* forked processes whose counts include their parent's */
	size_t lost;          /* processes without counts */
};

/* Fills in the rows. Returns their number. */
size_t simulation_plan(struct row *rows);
/*
 * Creates the directory. `only`: simulate this program alone, found by PATH, or by its name among the words of the
 * command; null: all. `files`: the limit of open files that programs will set: valgrind takes no other hard limit than
 * its own; 0: leave it. 0, or -1 and a message: no valgrind, or no place for its files.
 */
int simulation_begin(struct simulation *s, const char *only, long files, struct error *e);
/* The command line that runs the command under valgrind; free the list, not its words. Null: out
 * of memory. */
char **simulation_command(struct simulation *s, char **argv);
/* Reads and removes the files of a run. pid: the command itself; without its counts the reading is
 * empty. 0, or -1 and valgrind's error. */
int simulation_read(struct simulation *s, pid_t pid, struct reading *out, struct error *e);
void simulation_end(struct simulation *s);

/* The options of valgrind: a null-terminated list; null: out of memory. */
char **simulation_options(const struct simulation *s);
/* Writes the script of s->only and s->files, into s->directory/bin. 0, or -1 and a message. */
int starter_begin(struct simulation *s, struct error *e);
/* Removes it. */
void starter_end(struct simulation *s);

#endif
