/* SPDX-License-Identifier: MIT */
/*
 * State shared by the passes of the generator (generator.c) while they work on one file, and the passes. Private to
 * this folder: the public entry is frames_find(). From there:
 *
 *   fixpoint.c        rounds up to the fixpoint: which facts there are, and why it ends
 *   round.c           one round: code ranges in chunks to threads (worker.h)
 *     range_analysis.c  analyses one code range until its assumptions hold
 *     range_results.c   what is kept of that
 *     call_graph.c, link_lists.c   edges and links between code ranges
 *   round_prepare.c   between two rounds, by these:
 *     undiscovered.c, open_ranges.c, gap_sweep.c, own_stack_starts.c   where code ranges begin and end
 *     starts.c, misfits.c, entry_tail.c, wide_fde.c, tried_starts.c   what begins there (range_state.h)
 *     continuations.c, continuation_walk.c, interpreters.c       in whose frame
 *     returns.c, noreturn_*.c                                    which functions return
 *   observe_edges.c, non_c_frames.c, own_stack.c, fixup_frames.c   after the last round
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

/* What the padded starts of a file have shown, and what follows from it; see starts_learn(). */
struct padding_shown {
	size_t proven;  /* functions by how they return */
	size_t foreign; /* of those: they do not preserve the registers that C's convention preserves */
	size_t refuted; /* no functions: they return or leave with another rsp */
	bool regular;   /* this padding stands in front of functions only, including those that do not return */
	bool own_rules; /* functions of this file preserve no register but rsp */
	bool prevails;  /* most functions of this file stand after such padding, so that a number alone begins none */
};

/* The stages of a file, each of which begins when no code range is marked; round_prepare.c says why in this order. */
enum stage {
	STAGE_PADDED,        /* padded starts, in the first round */
	STAGE_GAPS,          /* functions in the gaps between code ranges */
	STAGE_WORDS,         /* addresses in plain words of data */
	STAGE_WORDS_JUDGED,  /* what these words have added */
	STAGE_WIDE,          /* functions under one FDE */
	STAGE_GAPS_AGAIN,    /* the gaps that are left */
	STAGE_CONTINUATIONS, /* frames of continuations */
	STAGE_LABELS,        /* labels of interpreters */
	STAGE_HANDLERS,      /* handlers of interpreters */
	STAGE_STARTS,        /* with options.no_cfi: starts without evidence */
};

/* All state of one frames_find(). */
struct work {
	const struct elf_file *file;
	const struct frames_options *options;
	struct frames *out;
	struct cfi_file cfi;
	struct fixups fixups;
	struct code_ranges ranges;
	struct range_state *state; /* of each code range */
	size_t state_count;        /* elements of `state`: ranges.count, once it is there */
	struct flow_env env;
	bool unindexed;     /* code ranges have changed since env.index was built */
	uint64_t *noreturn; /* sorted */
	size_t noreturn_count, noreturn_capacity;
	uint64_t *noreturn_named; /* env.noreturn_named */
	char **names;             /* functions marked noreturn by DWARF, sorted */
	size_t name_count, name_capacity;
	struct edges edges;          /* sorted by target */
	uint64_t own_addr, own_size; /* what etch added in an earlier run; size 0: nothing */
	struct state_pool states;    /* of the edges */
	struct links calls, tails;
	uint32_t *place;         /* by identity of a code range (range_state.id): its number */
	struct entries *entries; /* link_lists.c: by identity, the counts behind range_state.entered */
	uint64_t *undiscovered;
	size_t undiscovered_count, undiscovered_capacity;
	uint64_t *data; /* addresses of code that relocations put into data, sorted */
	size_t data_count;
	struct flow_pointer *pointers; /* env.pointers */
	/* the current round */
	uint32_t *worklist; /* numbers of the code ranges of this round, then of the last one */
	size_t worklist_count, worklist_capacity;
	uint32_t *touched; /* identities of the code ranges that called_find() has to look at */
	size_t touched_count, touched_capacity;
	struct chunk *chunks;
	size_t chunk_count, chunk_next;
	pthread_mutex_t lock;
	struct own_stack own_stack;
	uint32_t round;                           /* the first is 1 */
	uint32_t reference;                       /* fixpoint.c: reference round of the cycle detection; 0: none */
	uint64_t reference_sum, reference_marked; /* its work_sum(), its marked_sum() */
	uint32_t stages_ended;                    /* mask of enum stage, by bit */
	struct padding_shown padding;             /* by gaps_sweep() */
	uint64_t *padded;                         /* padded starts that its first run has met, sorted */
	size_t padded_count;
	uint32_t continuation_runs;              /* of continuations_find() */
	struct flow_continuation *continuations; /* env.continuations */
	struct continuation_walk *walk;          /* of continuations_find(); null: it has not run */
	bool handlers_tried;                     /* handlers_find() has marked some, and their frames spread */
	bool has_misfits;                        /* misfits_find() has met an edge that is one */
	bool entry_tail;                         /* some code range has entry_tail */
	bool ibt;                                /* with observe: the file asks for indirect branch tracking */
};

static inline bool stage_has_ended(const struct work *w, enum stage stage) { return w->stages_ended >> stage & 1; }
static inline void stage_end(struct work *w, enum stage stage) { w->stages_ended |= 1u << stage; }

/* Adds a code range to work.touched. */
void touched_add(struct work *w, struct range_state *s);
/* link_lists.c: makes room for facts by identity of all code ranges, `before` of which had it already. */
void identities_grow(struct work *w, size_t before);
/* Updates links after code ranges were added or extended. */
void links_resolve(struct work *w);

/* call_graph.c: replaces the links and edges from the code ranges of this round by their new ones. */
void links_replace(struct work *w);
/* Updates edges after code ranges were added. moved: the new number of each old code range. */
void edges_renumber(struct work *w, const uint32_t *moved);

/* Runs of a code range with edges before its incoming states are joined; real code settles sooner. */
#define JOINED_FROM 8u
/* First round that looks for recurring states; real files need a few rounds only. */
#define RECURRENCE_FROM 16u

/* fixpoint.c: runs rounds up to the fixpoint. */
void fixpoint_find(struct work *w);
/* Drops the edges among the code ranges whose incoming edges keep changing, and makes these code ranges joined. */
void edges_restart(struct work *w);
/* Forgets the joined states of a code range. */
void joins_clear(struct range_state *s);
/* Forgets range_rare.tails. */
void tails_clear(struct range_state *s);
/* Joins the edges *in into a joined code range with all since edges_restart(): one per target. */
void edges_join(const struct code_range *p, struct range_state *s, struct flow_edge **in, size_t *capacity,
                size_t *count);
/* Checksum of the last results of a code range that others may depend on: links, edges, rows. */
uint64_t range_sum(const struct flow *f, const struct range_rows *rows);

/* round.c: makes the marked code ranges (range_state.run) the worklist. Returns whether any of them is to be analysed.
 */
bool worklist_collect(struct work *w);
/* Analyses those in the worklist with options.jobs threads, and collects the results. */
void round_run(struct work *w);
/* round_prepare.c: marks the code ranges of the next round. False: there are none. */
bool round_prepare(struct work *w);

/*
 * fixup_frames.c: after a fault, execution continues at the fixup address in the frame of the faulting instruction.
 * Adds a finding for each fixup address where these frames differ from each other or from its row.
 */
void fixups_compare(struct work *w);

/* observe_edges.c: drops findings that do not hold now that all code ranges are known. */
void observe_edges(struct work *w);

/* undiscovered.c: code ranges at addresses that lie in none. */
/* Notes such an address, for undiscovered_add(). */
void undiscovered_put(struct work *w, uint64_t target);
/* Makes code ranges at all undiscovered targets. */
void undiscovered_add(struct work *w);
/* Before the first round: makes code ranges at the addresses that relocations put into data. */
void undiscovered_in_data(struct work *w);
/* Likewise at addresses in plain words of data; only after the call graph is complete, since the words may be entries
 * of jump tables. */
void undiscovered_in_words(struct work *w);
/* Sections that etch has added, or whose contents it changes, are no evidence: a rewritten file has to yield the rows
 * of the original. */
bool section_is_own(const struct work *w, const struct elf_section *s);

/* open_ranges.c: ends of open code ranges. */
/* Cuts open code ranges at the end of their flow, and at function starts inside; references to the rest become
 * undiscovered targets. */
void open_trim(struct work *w);
/* Cuts code range i at an address inside, where other code begins, if it is open; open_cuts_note() then makes what
 * refers to the parts cut off undiscovered targets. was[] is 0 for each code range before the first cut. */
void open_cut_at(struct work *w, uint64_t *was, uint32_t i, uint64_t addr);
void open_cuts_note(struct work *w, const uint64_t *was);
/* Extends empty open code ranges, marked for the next round, up to the next code range or the end of the section. */
void open_extend(struct work *w);

/* starts.c: is a start a function's or that of a part? */
/* Updates EVIDENCE_LED, is_callee and framed_part. */
void called_find(struct work *w);
/* Sets EVIDENCE_FUNCTION where data of the file holds the start of a code range. */
void evidence_data(struct work *w);
/* With options.no_cfi: judges the code ranges without evidence, once all evidence is there. */
void starts_classify(struct work *w);
/* Finds parts: code ranges that other code jumps to with a frame, and nothing calls. Drops edges of marked ones. */
void parts_find(struct work *w);

/* misfits.c: judges the starts that code jumps to in another state than a function's entry. */
void misfits_find(struct work *w);
/* Finds proofs of an entry for code that wants one (range_state.tail_proved). */
void proofs_find(struct work *w);

/* non_c_frames.c: spreads non_c_frame over jumps (not calls), in both directions. */
void non_c_frames_spread(struct work *w);

/* wide_fde.c: functions under an FDE that describes none of them. Drops the symbols that are no functions from the
 * entries of code ranges, before the first round. */
void wide_named(struct work *w);
/* Makes targets of calls entries. */
void wide_called(struct work *w);
/* Makes code that begins and ends as functions do entries, once the call graph is complete. */
void wide_sweep(struct work *w);

/*
 * undiscovered.c: may a function begin at an address only because a number in code or data equals it? Not where the
 * padding of the file shows its functions, and none in front of this one: heap offsets of GraalVM's images are such
 * numbers.
 */
bool number_may_begin(const struct work *w, uint64_t addr);
/* gap_sweep.c: makes code ranges of functions between the code ranges, once all other evidence is there. */
void gaps_sweep(struct work *w, bool padded_only);

/* continuations.c: finds the frames of continuations, once all other evidence is there. The code of continuations may
 * hand on others: at most CONTINUATION_RUNS times. Returns whether any is new. */
#define CONTINUATION_RUNS 6u
bool continuations_find(struct work *w);

/* interpreters.c: handlers of interpreters. */
/* Makes code ranges at the labels of an interpreter that stores them into a table, once all other evidence is there. */
void labels_cut(struct work *w);
/* Marks code ranges that are found to be handlers (FRAME_HANDLER). */
void handlers_find(struct work *w);

/* noted_ranges.c: with options.profile: replacements, and code that no function symbol covers, as code ranges; notes
 * and abi_flags of w->env. */
void noted_ranges(struct work *w);

/* entry_tail.c: sets code_range.entry_tail of code that only the entry point jumps to. */
void entry_tail_find(struct work *w);

/* Noreturn functions. */
/* noreturn_named.c: by name, from DWARF and a fixed list. Needs w->ranges. */
void noreturn_names(struct work *w);
/* returns.c: by the results of the last round; marks the callers concerned. */
void noreturn_find(struct work *w);

#endif
