/* SPDX-License-Identifier: MIT */
/*
 * The state that the passes of the generator (generator.c) share while they work on one file. It is private to this
 * folder; the public interface is frames_find(). It calls these passes, listed with the header that declares each:
 *
 *   rounds.h        fixpoint.c        rounds up to the fixpoint: which facts there are, and why it ends
 *                   round.c           one round: hands code ranges to threads in chunks
 *     worker.h        range_analysis.c  analyses one code range until its assumptions hold
 *                     range_results.c   stores the results
 *     links.h         call_graph.c, link_lists.c   edges and links between code ranges
 *                   round_stages.c   between two rounds, with these:
 *     range_starts.h  undiscovered.c, open_ranges.c, gap_sweep.c, noted_ranges.c   where code ranges begin and end
 *                     starts.c, refuted_starts.c, entry_tail.c, wide_fde.c, tried_starts.c   what begins there
 * (range_state.h) other_frames.h  continuations.c, continuation_walk.c, interpreters.c       in whose frame code runs
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

/* The results of one chunk of code ranges in a round. One worker writes them. */
struct chunk {
	struct edges edges;
	struct links calls, tails;
	uint64_t *undiscovered; /* addresses that the code refers to and that lie in no code range */
	size_t undiscovered_count, undiscovered_capacity;
	uint64_t insns;
};

/* What the padded starts of a file (tried_starts.h) have shown, and what starts_learn() and gaps_sweep() conclude from
 * it. */
struct padding_shown {
	size_t proven;  /* number of padded starts that are functions, as their returns show */
	size_t foreign; /* number of these functions that change registers which C functions preserve */
	size_t refuted; /* number of padded starts that are no functions: they return or leave with a wrong rsp */
	/* This padding is found only in front of functions, so that code after it is a function even if it never
	 * returns. */
	bool regular;
	bool own_rules; /* functions of this file preserve no register except rsp */
	/* Most functions of this file follow such padding, so that a number which equals an address is no evidence of a
	 * function. */
	bool prevails;
};

/* The stages of the analysis of a file. Each is run when no code range is marked; round_stages.c explains their
 * order. */
enum stage {
	STAGE_PADDED,        /* tries padded starts; after the first round */
	STAGE_GAPS,          /* looks for functions in the gaps between code ranges */
	STAGE_WORDS,         /* looks for addresses in plain words of data */
	STAGE_WORDS_JUDGED,  /* judges the code ranges that these words have added */
	STAGE_WIDE,          /* looks for functions under one FDE that describes none of them */
	STAGE_GAPS_AGAIN,    /* looks at the gaps that are left */
	STAGE_CONTINUATIONS, /* finds the frames of continuations */
	STAGE_LABELS,        /* makes code ranges at labels of interpreters */
	STAGE_HANDLERS,      /* finds handlers of interpreters */
	STAGE_STARTS,        /* with options.no_cfi: judges the starts without evidence */
};

/* How code ranges lead to each other (call_graph.c, link_lists.c). */
struct range_graph {
	struct edges edges;       /* sorted by target; edge.from is a number of a code range */
	struct state_pool states; /* the packed states of the edges */
	struct links calls, tails;
	uint32_t *place; /* by identity of a code range (range_state.id): its current number */
	/* By identity of a code range: the counts of links from which range_state.entered is computed (link_lists.c). */
	struct entries *entries;
	uint32_t *touched; /* identities of the code ranges that called_find() has to judge again */
	size_t touched_count, touched_capacity;
};

/* Evidence of where code ranges begin, in addition to the links. */
struct range_starts {
	uint64_t *undiscovered; /* addresses that the code refers to and that lie in no code range */
	size_t undiscovered_count, undiscovered_capacity;
	uint64_t *data; /* addresses of code that relocations put into data, sorted */
	size_t data_count;
	struct flow_pointer *pointers; /* the memory of env.pointers */
	struct padding_shown padding;  /* set by gaps_sweep() */
	uint64_t *padded;              /* padded starts that the first gaps_sweep() has found, sorted */
	size_t padded_count;
	bool has_misfits; /* misfits_find() has seen an edge with a misfit */
	bool entry_tail;  /* code_range.entry_tail is set in some code range */
};

/* Which functions do not return. */
struct known_returns {
	uint64_t *noreturn; /* noreturn functions, in the form of flow_exit.target, sorted */
	size_t noreturn_count, noreturn_capacity;
	uint64_t *noreturn_named; /* the memory of env.noreturn_named */
	char **names;             /* names of the functions that DWARF marks as noreturn, sorted */
	size_t name_count, name_capacity;
};

/* Code that begins in the frame of other code: continuations, handlers, code with a stack of its own. */
struct other_frames {
	uint32_t continuation_runs;              /* number of times that continuations_find() has run */
	struct flow_continuation *continuations; /* the memory of env.continuations */
	/* Results that continuations_find() keeps from run to run; null before its first run. */
	struct continuation_walk *walk;
	/* handlers_find() has made code ranges handlers, and the rounds are propagating their frames. */
	bool handlers_tried;
	struct own_stack own_stack;
};

/* The rounds of the fixpoint, and the worklist and chunks of the current one. */
struct rounds {
	uint32_t number; /* number of the current round; the first is 1 */
	/* Numbers of the code ranges that this round analyses; between rounds, those that the last one has analysed. */
	uint32_t *worklist;
	size_t worklist_count, worklist_capacity;
	struct chunk *chunks;
	size_t chunk_count, chunk_next;
	pthread_mutex_t lock;
	/* Cycle detection (fixpoint.c): the round with which later ones are compared; 0: none. */
	uint32_t reference;
	uint64_t reference_sum, reference_marked; /* work_sum() and marked_sum() of the reference round */
	uint32_t stages_ended;                    /* bit n: stage n of enum stage has ended */
};

/* The complete state of one call of frames_find(). */
struct work {
	const struct elf_file *file;
	const struct frames_options *options;
	struct frames *out;
	struct cfi_file cfi;
	struct fixups fixups;
	uint64_t own_addr, own_size; /* address range that an earlier run of etch added to the file; size 0: none */
	bool ibt;                    /* with observe: the file asks for indirect branch tracking */
	struct code_ranges ranges;
	struct range_state *state; /* for each code range */
	size_t state_count;        /* number of elements in `state`: ranges.count, once `state` has been allocated */
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
