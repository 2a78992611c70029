/* SPDX-License-Identifier: MIT */
/*
 * walks.h: what the files of walks share: failing, comparing, functions to walk out of.
 */
#ifndef TEST_WALKS_H
#define TEST_WALKS_H

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/unwind.h>

#define MOST     400
#define NOINLINE __attribute__((noinline))
#define BARRIER  __asm__ __volatile__("" : : : "memory")

#define fail(...) \
	do { \
		printf("%s:%d: ", __func__, __LINE__); \
		printf(__VA_ARGS__); \
		putchar('\n'); \
		fflush(stdout); \
		_exit(1); \
	} while (0)

#define must(x) \
	do { \
		if (!(x)) \
			fail("%s", #x); \
	} while (0)

extern char **arguments;

uint64_t rnd(void);
/* Ends the program where the two traces differ. */
void same(const char *what, void **a, int n, void **b, int m);
/* The rest of the trace that a cursor walks; its status. */
int cursor_rest(struct etch_cursor *c, void **ips, int *n);
/* Calls `bottom` from below functions of all kinds. */
void places(void);
extern void (*bottom)(void);
/* A bottom that compares the walks from there; `name` is in what it says. */
void with_check(void);
extern __thread const char *name;
/* A bottom that does nothing. */
void nothing(void);
/* ... from below some of one kind. */
int frames(int n);
int frames_vla(int n);
/* What these walks reuse. */
extern __thread struct etch_walk previous;
/* The status of a complete walk, from there. */
extern int want;
void handle(int sig, void (*f)(int, siginfo_t *, void *), int flags);
/* A handler that compares the walks from the interrupted place, and how often it has run. */
void on_signal(int sig, siginfo_t *info, void *context);
extern int handled;
void raise_it(void);
/* In some function. */
uint64_t code_address(void);

void case_coroutine(void);
void case_modules(void);
void case_lazy(void);
void case_threads(void);
void case_fork(void);
void case_limits(void);
void case_notable(void);
void case_reuse(void);
void case_deep(void);
void case_corrupt(void);
void case_smash(void);
void case_remote(void);
void case_file(void);

#endif
