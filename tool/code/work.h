/* SPDX-License-Identifier: MIT */
/*
 * What the passes of the generator (frames.c) share while they work on one file.
 * Not for others: the way in is frames_find().
 */
#ifndef CODE_WORK_H
#define CODE_WORK_H

#include <pthread.h>

#include "code/emit.h"
#include "code/haskell.h"
#include "code/links.h"
#include "code/pieces.h"
#include "code/vector.h"

struct piece_state {
	struct piece_rows rows;
	uint64_t reached;    /* end of what its flow reaches, of an open piece */
	uint64_t edges_seen; /* checksum of the edges that it was run with */
	uint8_t *said;       /* states of the edges out of it, packed */
	uint8_t *says;       /* ... that this round has brought */
	bool fragment;       /* its start is where others jump to in the middle of their work */
	bool returns, noreturn;
	bool switches;       /* a context made by hand begins there */
	bool refuted;        /* ... nowhere, and takes more off the stack than there is */
	bool sound;          /* taken for a function, it ends as one */
	bool evident;        /* something shows that it begins as functions do */
	bool unknown;        /* a fragment only because nothing shows what it is */
	bool called;         /* or jumped to */
	bool dubious;        /* a fragment because its address is taken, and nothing else shows that it is code */
	bool word;           /* found by a word of data alone */
	bool proven;         /* how it returns shows that it is a function */
	bool judged;         /* ... or that it is not known what it is */
	bool foreign;        /* code without frames of C's kind */
	bool returned;       /* flow.returned */
	bool first;          /* handed_find(): the entry point jumps there */
	bool shared;         /* ... and others lead there: for good */
	bool empty;          /* nothing has led there yet */
	bool lenient;        /* only so it has been found to be a function */
	uint8_t extended;    /* so often has something led there after all */
	uint8_t held;        /* ... or has it been run all the same */
	bool to_end;         /* its flow reaches its last byte */
	bool firm;           /* ended where its flow does, it would be as it is */
	uint8_t began;       /* enum flow_start: what it was taken for */
	uint8_t run;         /* in the coming round: RUN_* */
};

enum {
	RUN_NEWS = 1, /* something is new that it may ask about */
	RUN_CUT = 2,  /* it ends where its flow did */
	RUN_LESS = 4, /* ... where another begins: what it said before may be of code that is not its */
};

/* What a chunk of pieces has brought. */
struct chunk {
	struct edges edges;
	struct links calls, tails;
	uint64_t *strays;   /* targets that lie in no piece */
	size_t stray_count, stray_room;
	uint64_t insns;
};

struct work {
	const struct elf_file *file;
	const struct frames_options *options;
	struct frames *out;
	struct cfi_file cfi;
	struct fixups fixups;
	struct pieces pieces;
	struct piece_state *state;  /* of each piece */
	size_t state_count;         /* pieces that have one: not yet all, where there was no memory for it */
	struct flow_env env;
	bool unindexed;             /* pieces have been cut since env.index was made */
	uint64_t *noreturn;         /* sorted */
	size_t noreturn_count, noreturn_room;
	char **names;               /* functions that DWARF says do not return, sorted */
	size_t name_count, name_room;
	struct edges edges;         /* sorted by target */
	struct links calls, tails;
	uint8_t *ways;              /* WAY_* of each piece; null: links have changed since */
	uint64_t *strays;
	size_t stray_count, stray_room;
	uint64_t *data;             /* addresses of code that relocations put into data, sorted */
	size_t data_count;
	/* the round */
	uint32_t *list;             /* pieces to run, or that have been */
	size_t list_count;
	struct chunk *chunks;
	size_t chunk_count, chunk_next;
	pthread_mutex_t lock;
	struct haskell haskell;
	bool failed;
	bool judged;                /* evidence_judge() has been */
	bool worded;                /* strays_words() has been */
	bool handed;                /* a piece is */
	bool ibt;                   /* with observe: the file asks for branch tracking */
};

/* links.c: how the start of a piece is come to, by all that is known now. */
enum {
	WAY_ENTERED = 1, /* by a jump with a frame, where there is no name; fragments_find() says so */
	WAY_CALLED = 2,
	WAY_LED = 4,     /* called or jumped to */
	WAY_TAKEN = 8,   /* called, jumped to as if to call it, or its address is taken */
};
/* Sets w->ways, if they are not known. False: out of memory. */
bool ways_find(struct work *w);
/* What the pieces of this round said before no longer counts: what they say now does. */
bool links_renew(struct work *w);
/* Links to no piece may lead to one now; and pieces may have other numbers (moved: or null). */
void links_settle(struct work *w, const uint32_t *moved);

/* rounds.c: runs the pieces marked `run`, by as many threads as asked for, and
 * takes what they bring. */
int round_run(struct work *w, struct error *e);
/* Marks the pieces of the next round. Returns whether there are any, or -1. */
int round_prepare(struct work *w, struct error *e);

/*
 * faults.c: an instruction that faults goes on in its own frame. Do all that go on at one
 * place have the same, and is it what the rows say of that place? One finding a place.
 */
int fixups_compare(struct work *w, struct error *e);

/* observe_edges.c: findings that do not hold now that all pieces are known go. */
int observe_edges(struct work *w, struct error *e);

/* starts.c: where functions begin. */
/* An address in no piece; strays_add() makes one there. False: out of memory. */
bool stray_put(struct work *w, uint64_t target);
/* Calls lead into code that is no piece yet: it is one now. */
int strays_add(struct work *w, struct error *e);
/* ... and so does data, before the first round. */
int strays_data(struct work *w, struct error *e);
/* ... and so do words of data, once all is known that calls lead to: they may be of jump tables, too. */
int strays_words(struct work *w, struct error *e);
/* Pieces of which nothing says where they end do so where their flow does: what is behind
 * may be found by what refers to it. */
int open_trim(struct work *w, struct error *e);
/* ... and of those that had no flow, and will have one in the coming round, as far as they can reach. */
int open_extend(struct work *w, struct error *e);
/* Marks what is called or jumped to. */
void called_find(struct work *w);
/* Code without frames of C's kind is what leads to such code, or what such code leads to, by jumps alone. */
void foreign_spread(struct work *w);
/* Marks what the data of the file shows to be a function's start. */
int evidence_data(struct work *w, struct error *e);
/* Judges by all evidence, once there is no more to come. */
void evidence_judge(struct work *w);
/* Finds starts that are none, but where others jump to in the middle of their work. */
void fragments_find(struct work *w);

/* handed.c: marks what the entry point jumps to, and nobody else leads to. */
void handed_find(struct work *w);

/* returns.c: what does not come back. */
/* By name: DWARF, known names; needs w->pieces. */
int noreturn_names(struct work *w, struct error *e);
/* By what the last round has shown; marks callers that this is news for. */
int noreturn_find(struct work *w, struct error *e);

#endif
