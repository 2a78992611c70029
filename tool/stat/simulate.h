/* SPDX-License-Identifier: MIT */
/*
 * Counts of a processor that valgrind simulates, for machines without hardware counters,
 * and for counts that do not depend on what else the machine does.
 */
#ifndef STAT_SIMULATE_H
#define STAT_SIMULATE_H

#include <sys/types.h>

#include "report/error.h"
#include "stat/row.h"

struct simulation {
	char directory[4096]; /* valgrind's files of one run */
	char caches[300];     /* "I1 32768 B, 64 B, 8-way associative; D1 ..." */
	size_t doubled;       /* forked processes whose counts hold their parent's too */
	size_t lost;          /* processes that left no counts */
};

/* Fills the rows that there are; their number. */
size_t simulation_plan(struct row *rows);
/* 0, or -1 and a message: no valgrind, no place for its files. */
int simulation_begin(struct simulation *s, struct error *e);
/* The command, run by valgrind: a list to be freed (its words are not). Null: out of memory. */
char **simulation_command(struct simulation *s, char **argv);
/* Reads what a run has left and removes it. pid: the command itself, without whose counts
 * the reading is empty. 0, or -1 and what valgrind says. */
int simulation_read(struct simulation *s, pid_t pid, struct reading *out, struct error *e);
void simulation_end(struct simulation *s);

#endif
