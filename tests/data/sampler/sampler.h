/* SPDX-License-Identifier: MIT */
/*
 * sampler.h: what the files of the sampler (sampler.c) share: the report that a process leaves
 * after, and the arrays of walks. All but the C library's functions that it stands before is
 * hidden: the library is loaded into any program.
 */
#ifndef SAMPLER_H
#define SAMPLER_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#pragma GCC visibility push(hidden)

#define WALKS   4
#define FRAMES  (1 << 20) /* twice what 8 MB of stack hold in frames of 16 bytes */
#define MODULES 512
#define PLACES  1024
#define SHOWN   40   /* frames of an example */

/* How a sample of two walks differed. Other kinds of places are enum etch_unwind_status. */
enum {
	THEIRS_SHORT = 101, /* libunwind gave up, or ended, at a frame where libetch goes on */
	THEIRS_LONG,        /* libunwind goes on where libetch gave up */
	THEIRS_PAST_END,    /* libunwind goes on where libetch says that the stack ends */
	FRAMES_DIFFER,      /* two different callers of one frame */
};

/* In what kind of memory the frame is that a place is about. */
enum { IN_MODULE, IN_JIT, IN_FILE, IN_NOTHING };

/* A frame, as the file has it: its module's number + 1 and the offset there; 0 and the
 * address. */
#define FRAME(module, offset) ((uint64_t)((module) + 1) << 48 | ((offset) & 0xffffffffffffu))

/* Where walks end, or where two walks differ. */
struct place {
	uint64_t address;  /* of the frame; in JIT code that of the mapping; 0: a free place */
	int32_t kind;
	uint32_t in;
	uint64_t count;
	uint32_t frames, at;     /* of the example: how many, and which one it is about */
	uint32_t first, their_frames;
	int32_t their_status;    /* what unw_step() said last */
	uint32_t zero;
	uint64_t theirs_on, theirs_end; /* of walks that stop here: libunwind went on, and to an end that a row knows */
	uint64_t ours[SHOWN], theirs[SHOWN]; /* its frames from `first` on */
};

struct module {
	uint64_t start, end, bias;
	uint32_t own_table, ready;
	char name[232];
};

/* samples.py has this layout, too. */
struct report {
	uint64_t magic, pid, size, finished;
	uint64_t samples, idle, lost, frames, compared, full; /* full: no place left */
	uint64_t deepest;
	char program[248];
	uint64_t modules, places;
	struct module module[MODULES];
	struct place place[PLACES];
};
#define MAGIC 0x31656c706d617365ull

/* What a sample needs while it is taken. */
struct walk {
	int taken; /* by a handler */
	void *ours[FRAMES];
	char text[4096];
};

/* What of it is wanted: SAMPLER_ONLY. */
enum only { WALKS_TOO, SIGNALS, NOTHING };

/* Where libunwind's walk differs. */
struct difference {
	int kind;        /* 0: nowhere */
	int at;          /* frame */
	int frames, status;
	uint64_t last;   /* libunwind's last frame */
	uint64_t theirs[SHOWN];
};

extern struct report *report;
extern enum only only;
extern int sampling; /* there is a handler of SIGPROF, which must stay */

#define COUNT(field, n) __atomic_fetch_add(&report->field, n, __ATOMIC_RELAXED)

/* sampler_where.c: what an address is in */
int module_of(uint64_t at);     /* its number in the report, or -1 */
uint64_t frame_of(uint64_t at); /* as the file has it */
int mapping_of(uint64_t at, struct walk *w, uint64_t *start); /* of one that is in no module */

/* sampler_places.c: counts a walk of n frames that ended with `status` */
void walk_count(ucontext_t *u, struct walk *w, int n, int status, unsigned long serial);

/* sampler_libunwind.c */
extern unsigned compare_every; /* samples: one of so many; 0: none, nor is libunwind there */
void libunwind_begin(void);
void libunwind_compare(struct difference *d, ucontext_t *u, const struct walk *w, int n, int status, int first);

/* sampler_timers.c: when there is a sample */
int idle(void);
uint64_t ran_since(void);
void timers_begin(void);
void timers_end(void);
void timer_again(int waits);

/* sampler_wishes.c */
int libc_sigaction(int sig, const struct sigaction *new, struct sigaction *old);

#pragma GCC visibility pop
#endif
