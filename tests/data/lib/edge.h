/* SPDX-License-Identifier: MIT */
/*
 * edge.h: what the files of `edge` share. edge.c has the objects, whose sites are written by
 * hand, and main(); the others have cases.
 */
#ifndef TEST_EDGE_H
#define TEST_EDGE_H

#include <pthread.h>

#include "site.h"

struct edge_case { const char *name; void (*run)(void); };

#define CASE(name) {#name, case_##name}
/* Each ends with an empty one. */
extern const struct edge_case edge_limits[], edge_threads[], edge_faults[], edge_swap[], edge_system[];

struct two { int a, b; };
extern int plain, stored;
extern long wide;
extern struct two pair;
extern const volatile uint8_t far1_bytes[] __asm__("far1"), far2_bytes[] __asm__("far2");
extern const volatile uint8_t read_plain_site[], read_stored_site[];

int plain_read(void);  /* by a site */
int stored_read(void);
int sum_plain(void);   /* all sites of plain agree: its value */
void check_closed(void);

/* A filter: system call `nr` fails with `error` (0: kills), if argument `arg` ANDed with mask
 * equals `value`. */
void deny(int nr, int error, unsigned arg, uint32_t mask, uint32_t value);

/* edge_swap.c: an object whose sites are on pages that are swapped. Its value, which all sites agree on; and that all is
 * as after a set to v. A thread that executes the sites and checks what it sees, until it is ended. */
extern int moved;
extern const volatile uint8_t moved_page[];
int moved_sum(void);
void moved_check(int v);
void moved_spin(void); /* a while, on such a page */
extern _Atomic int moved_taken_back; /* the thread may see values that are taken back */
pthread_t moved_start(void);
void moved_end(pthread_t t);

/* A thread that reads plain with all signals blocked, until it is ended. */
pthread_t thread_start(void);
void thread_end(pthread_t t);

#endif
