/* SPDX-License-Identifier: MIT */
/*
 * State shared by the passes of the generator (generator.c) while they work on one file. It is private to this folder;
 * the public entry is frames_find(). The passes, from there on, with the header that declares each:
 *
 *   rounds.h        fixpoint.c        rounds up to the fixpoint: which facts there are, and why it ends
 *                   round.c           one round: hands code ranges to threads in chunks
 *     worker.h        range_analysis.c  analyses one code range until its assumptions hold
 *                     range_results.c   stores the results
 *     links.h         call_graph.c, link_lists.c   edges and links between code ranges
 *                   round_prepare.c   between two rounds, with these:
 *     range_starts.h  undiscovered.c, open_ranges.c, gap_sweep.c, noted_ranges.c   where code ranges begin and end
 *                     starts.c, misfits.c, entry_tail.c, wide_fde.c, tried_starts.c   what begins there (range_state.h)
 *     other_frames.h  continuations.c, continuation_walk.c, interpreters.c       in whose frame code runs
 *     noreturn.h      returns.c, noreturn_*.c                                    which functions return
 *   other_frames.h  observe_edges.c, fixup_frames.c   after the last round
 *   own_stack_ranges.h   own_stack.c, own_stack_starts.c   code with a stack of its own, during and after the rounds
 */
#ifndef ANALYSIS_INTERPROC_WORK_H
#define ANALYSIS_INTERPROC_WORK_H

#include <pthread.h>

#include "analysis/interproc/frames.h"
#include "analysis/interproc/own_stack_ranges.h"
#include "analysis/interproc/links.h"
#include "analysis/interproc/range_state.h"
#include "analysis/interproc/state_pool.h"
#include "analysis/discover/ranges.h"
#include "support/sort.h"

/* Results of one chunk of code ranges in a round; written by one worker. */
struct chunk {
	struct edges edges;
	struct links calls, tails;
	uint64_t *undiscovered; /* targets that lie in no code range */
	size_t undiscovered_count, undiscovered_capacity;
	uint64_t insns;
};

/* What the padded starts of a file have shown, and what follows from that; see starts_learn(). */
struct padding_shown {
	size_t proven;  /* starts that are functions, by how they return */
	size_t foreign; /* of those: functions that do not preserve the registers that C's convention preserves */
	size_t refuted; /* starts that are no functions: they return or leave with another rsp */
	bool regular;   /* this padding stands in front of functions only, including those that do not return */
	bool own_rules; /* functions of this file preserve no register but rsp */
	bool prevails;  /* most functions of this file stand after such padding, so that a number alone begins none */
};

/* The stages of a file, each of which begins when no code range is marked; round_prepare.c says why in this order. */
enum stage {
	STAGE_PADDED,        /* padded starts; after the first round */
	STAGE_GAPS,          /* functions in the gaps between code ranges */
	STAGE_WORDS,         /* addresses in plain words of data */
	STAGE_WORDS_JUDGED,  /* code ranges that these words have added */
	STAGE_WIDE,          /* functions under one FDE */
	STAGE_GAPS_AGAIN,    /* the gaps that are left */
	STAGE_CONTINUATIONS, /* frames of continuations */
	STAGE_LABELS,        /* labels of interpreters */
	STAGE_HANDLERS,      /* handlers of interpreters */
	STAGE_STARTS,        /* with options.no_cfi: starts without evidence */
};

/* How code ranges lead to each other (call_graph.c, link_lists.c). */
struct range_graph {
	struct edges edges;       /* sorted by target */
	struct state_pool states; /* of the edges */
	struct links calls, tails;
	uint32_t *place;         /* by identity of a code range (range_state.id): its number */
	struct entries *entries; /* link_lists.c: by identity, the counts from which range_state.entered is made */
	uint32_t *touched;       /* identities of the code ranges that called_find() has to look at */
	size_t touched_count, touched_capacity;
};

/* Where code ranges begin, beside what the links say. */
struct range_starts {
	uint64_t *undiscovered; /* targets that lie in no code range */
	size_t undiscovered_count, undiscovered_capacity;
	uint64_t *data; /* addresses of code that relocations put into data, sorted */
	size_t data_count;
	struct flow_pointer *pointers; /* env.pointers */
	struct padding_shown padding;  /* by gaps_sweep() */
	uint64_t *padded;              /* padded starts that the first run of gaps_sweep() has met, sorted */
	size_t padded_count;
	bool has_misfits; /* misfits_find() has met an edge that is one */
	bool entry_tail;  /* some code range has entry_tail */
};

/* Which functions do not return. */
struct known_returns {
	uint64_t *noreturn; /* sorted */
	size_t noreturn_count, noreturn_capacity;
	uint64_t *noreturn_named; /* env.noreturn_named */
	char **names;             /* functions marked noreturn by DWARF, sorted */
	size_t name_count, name_capacity;
};

/* In whose frame code runs that begins without a frame of its own. */
struct other_frames {
	uint32_t continuation_runs;              /* how often continuations_find() has run */
	struct flow_continuation *continuations; /* env.continuations */
	struct continuation_walk *walk;          /* kept by continuations_find(); null: it has not run */
	bool handlers_tried;                     /* handlers_find() has marked some, and their frames are being spread */
	struct own_stack own_stack;
};

/* The rounds, and the current one. */
struct rounds {
	uint32_t number;    /* the first is 1 */
	uint32_t *worklist; /* numbers of the code ranges of this round; between rounds, of the last one */
	size_t worklist_count, worklist_capacity;
	struct chunk *chunks;
	size_t chunk_count, chunk_next;
	pthread_mutex_t lock;
	uint32_t reference;                       /* fixpoint.c: reference round of the cycle detection; 0: none */
	uint64_t reference_sum, reference_marked; /* work_sum() and marked_sum() of the reference round */
	uint32_t stages_ended;                    /* mask of enum stage, by bit */
};

/* All state of one frames_find(). */
struct work {
	const struct elf_file *file;
	const struct frames_options *options;
	struct frames *out;
	struct cfi_file cfi;
	struct fixups fixups;
	uint64_t own_addr, own_size; /* what etch added to the file in an earlier run; size 0: nothing */
	bool ibt;                    /* with observe: the file asks for indirect branch tracking */
	struct code_ranges ranges;
	struct range_state *state; /* of each code range */
	size_t state_count;        /* elements of `state`: ranges.count, once `state` has been allocated */
	struct flow_env env;
	bool unindexed; /* code ranges have changed since env.index was built */
	struct range_graph graph;
	struct range_starts starts;
	struct known_returns returns;
	struct other_frames frames;
	struct rounds rounds;
};

static inline bool stage_has_ended(const struct work *w, enum stage stage)
{
	return w->rounds.stages_ended >> stage & 1;
}
static inline void stage_end(struct work *w, enum stage stage) { w->rounds.stages_ended |= 1u << stage; }

#endif
