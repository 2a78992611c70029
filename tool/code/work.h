/* SPDX-License-Identifier: MIT */
/*
 * What the passes of the generator (frames.c) share while they work on one file.
 * Not for others: the way in is frames_find().
 */
#ifndef CODE_WORK_H
#define CODE_WORK_H

#include <pthread.h>

#include "code/emit.h"
#include "code/pieces.h"
#include "code/vector.h"

struct piece_state {
	struct piece_rows rows;
	uint64_t reached;    /* end of what its flow reaches, of an open piece */
	uint64_t edges_seen; /* checksum of the edges that it was run with */
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
	bool empty;          /* nothing has led there yet */
	uint8_t extended;    /* so often has something led there after all */
	bool run;            /* in the coming round */
};

/* What a chunk of pieces has brought. */
struct chunk {
	struct flow_edge *edges;
	size_t edge_count, edge_room;
	struct flow_exit *exits;
	size_t exit_count, exit_room;
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
	uint64_t *noreturn;         /* sorted */
	size_t noreturn_count, noreturn_room;
	uint64_t *noreturn_new;     /* since the last round */
	char **names;               /* functions that DWARF says do not return, sorted */
	size_t name_count, name_room;
	struct flow_edge *edges;    /* sorted by target */
	size_t edge_count, edge_room;
	struct flow_exit *exits;
	size_t exit_count, exit_room;
	uint64_t *strays;
	size_t stray_count, stray_room;
	/* the round */
	uint32_t *list;             /* pieces to run */
	size_t list_count;
	struct chunk *chunks;
	size_t chunk_count, chunk_next;
	pthread_mutex_t lock;
	bool failed;
	bool judged;                /* evidence_judge() has been */
	bool worded;                /* strays_words() has been */
	bool ibt;                   /* with observe: the file asks for branch tracking */
};

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
int fragments_find(struct work *w, struct error *e);

/* returns.c: what does not come back. */
/* By name: DWARF, known names; needs w->pieces. */
int noreturn_names(struct work *w, struct error *e);
/* By what the last round has shown; marks callers that this is news for. */
int noreturn_find(struct work *w, struct error *e);

#endif
