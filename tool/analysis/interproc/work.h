/* SPDX-License-Identifier: MIT */
/*
 * State shared by the passes of the generator (generator.c) while they work on one file. Private to this folder: the
 * public entry is frames_find().
 */
#ifndef ANALYSIS_INTERPROC_WORK_H
#define ANALYSIS_INTERPROC_WORK_H

#include <pthread.h>

#include "analysis/interproc/frames.h"
#include "analysis/unwind/emit.h"
#include "analysis/interproc/ghc_ranges.h"
#include "analysis/interproc/links.h"
#include "analysis/discover/ranges.h"
#include "support/vector.h"

/* What is known of a code range between rounds. Most flags are part of state_sum() (settle.c). */
struct range_state {
	struct range_rows rows;
	struct detail_part *detail; /* with options.detail; else null */
	uint64_t reached;           /* of an open code range: address of the end of its flow */
	uint64_t edges_seen;        /* edges_sum() of the edges that it was last marked with */
	uint8_t *out_old;           /* packed states of the edges out of it; owned */
	uint8_t *out_new;           /* likewise, of the current round */
	bool fragment;              /* its start is no function's: other code jumps there with a frame */
	bool returns, noreturn;
	bool switches;         /* a hand-made context begins there (flow.found.replaces_sp) */
	bool exit_sp_mismatch; /* taken for a function, it returns with a wrong rsp, and nowhere as a function */
	bool returns_balanced; /* taken for a function, it ends as one */
	bool has_evidence;     /* there is evidence that a function begins there */
	bool unknown;          /* a fragment only for lack of evidence */
	bool called;           /* some call or tail call has led to its start; never withdrawn */
	bool direct;           /* its start is called (ENTRY_CALLED), as of the last round */
	uint8_t turns;         /* number of times that `direct` was withdrawn */
	bool framed;           /* begins in a frame of other code: a part of a function, or an interpreter's handler */
	bool table;            /* framed, but may be a table instead of code */
	bool part;             /* framed and not direct, as of the last parts_find() */
	bool maybe_data;       /* a fragment since only its address is known, and it does not look like a function */
	bool word;             /* found only by a word of data */
	bool proven;           /* its returns show that it is a function (is_misled()) */
	bool classified;       /* `proven` has been verified, and is final */
	bool non_c_frame;      /* code without frames of C's kind, such as GHC's */
	bool returned;         /* flow.found.return_certain; ghc_rows() also sets it for what tail-calls C */
	bool first;            /* temporary, of entry_tail_find(): the entry point jumps there */
	bool shared;           /* the entry point and other code lead there; never withdrawn */
	bool empty;            /* open, and no flow has been found in it yet */
	bool relaxed;          /* it is a function only if analysed with flow.in.relaxed */
	bool emptied;          /* was empty, and has been marked again since */
	bool unsettled;        /* its results recur without a fixpoint: to be analysed without flow */
	bool left;             /* unsettled, and that has been done: it is not marked again */
	bool joined;           /* new incoming states are joined with all earlier ones */
	uint8_t edge_runs;     /* number of runs with edges, or with edges gone; at most JOINED_FROM */
	uint32_t ran;          /* the last round that analysed it */
	uint64_t result_sum;   /* range_sum() of its last results, from round WATCHED_FROM on */
	struct heard *heard;   /* settle.c: incoming states since `joined`, by target */
	size_t heard_count, heard_room;
	bool to_end;        /* its flow reaches its last byte */
	bool one_row;       /* .eh_frame has one row for the whole code range */
	bool denied;        /* .eh_frame contradicts the code at a function entry inside */
	bool end_confirmed; /* a cut at the end of its flow does not change its results */
	uint8_t began;      /* enum flow_start that it was last analysed with */
	uint8_t run;        /* RUN_*: reasons to analyse it in the next round; 0: none */
};

enum {
	RUN_NEWS = 1,  /* a fact that it may depend on has changed */
	RUN_CUT = 2,   /* it was cut at the end of its flow */
	RUN_LESS = 4,  /* it was cut where another begins: earlier results may be of the other's code */
	RUN_EDGES = 8, /* edges lead into it; in addition to another reason */
};

/* Results of one chunk of code ranges in a round; written by one worker. */
struct chunk {
	struct edges edges;
	struct links calls, tails;
	uint64_t *undiscovered; /* targets that lie in no code range */
	size_t undiscovered_count, undiscovered_room;
	uint64_t insns;
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
	size_t state_count;        /* elements of `state`; < ranges.count only after an allocation failed */
	struct flow_env env;
	bool unindexed;     /* code ranges have changed since env.index was built */
	uint64_t *noreturn; /* sorted */
	size_t noreturn_count, noreturn_room;
	char **names; /* functions marked noreturn by DWARF, sorted */
	size_t name_count, name_room;
	struct edges edges; /* sorted by target */
	struct links calls, tails;
	uint8_t *entry_kinds; /* ENTRY_* of each code range; null: to be computed */
	uint64_t *undiscovered;
	size_t undiscovered_count, undiscovered_room;
	uint64_t *data; /* addresses of code that relocations put into data, sorted */
	size_t data_count;
	/* the current round */
	uint32_t *list; /* numbers of the code ranges of this round, then of the last one */
	size_t list_count;
	struct chunk *chunks;
	size_t chunk_count, chunk_next;
	pthread_mutex_t lock;
	struct ghc_code ghc;
	uint32_t round;   /* the first is 1 */
	uint32_t watched; /* settle.c: reference round of the cycle detection; 0: none */
	uint64_t watched_sum;
	bool failed;
	bool classified;    /* starts_classify() has run */
	bool words_scanned; /* undiscovered_in_words() has run */
	bool wide_swept;    /* wide_sweep() has run */
	bool gaps_swept;    /* gaps_sweep() has run */
	bool entry_tail;    /* some code range has entry_tail */
	bool ibt;           /* with observe: the file asks for indirect branch tracking */
};

/* call_graph.c: how other code leads to the start of a code range, by all links and edges known now. */
enum {
	ENTRY_JUMPED = 1, /* jumped to with a frame, and has no name; set by fragments_find() */
	ENTRY_CALLED = 2,
	ENTRY_LED = 4,   /* called or jumped to */
	ENTRY_TAKEN = 8, /* called, tail-called, or its address is taken */
};
/* Computes w->entry_kinds, unless it is there. False: out of memory. */
bool entry_kinds_find(struct work *w);
/* Replaces the links and edges from the code ranges of this round by their new ones. False: out of memory. */
bool links_replace(struct work *w);
/* Updates links and edges after code ranges were added or extended. moved: the new number of each old code range; null:
 * the numbers are unchanged. */
void links_settle(struct work *w, const uint32_t *moved);

/* Runs of a code range with edges before its incoming states are joined; real code settles sooner. */
#define JOINED_FROM 8u
/* First round that looks for recurring states; real files need a few rounds only. */
#define WATCHED_FROM 16u

/* settle.c: runs rounds up to the fixpoint. 0, or -1 and a message. */
int ranges_settle(struct work *w, struct error *e);
/* Drops the edges among the code ranges whose incoming edges keep changing, and makes these code ranges joined. */
void edges_restart(struct work *w);
/* Joins the edges *in into a joined code range with all since edges_restart(): one per target. False: out of memory. */
bool edges_join(const struct code_range *p, struct range_state *s, struct flow_edge **in, size_t *room, size_t *count);
/* Checksum of the last results of a code range that others may depend on: links, edges, rows. */
uint64_t range_sum(const struct flow *f, const struct range_rows *rows);

/* driver.c: analyses the code ranges marked `run` with options.jobs threads, and collects the results. 0, or -1 and a
 * message. */
int round_run(struct work *w, struct error *e);
/* Marks the code ranges of the next round. 1: there are some; 0: none; -1 and a message. */
int round_prepare(struct work *w, struct error *e);

/*
 * fixup_frames.c: after a fault, execution continues at the fixup address in the frame of the faulting instruction.
 * Adds a finding for each fixup address where these frames differ from each other or from its row. 0, or -1 and a
 * message.
 */
int fixups_compare(struct work *w, struct error *e);

/* observe_edges.c: drops findings that do not hold now that all code ranges are known. 0, or -1 and a message. */
int observe_edges(struct work *w, struct error *e);

/* starts.c: starts of functions. Those that return int: 0, or -1 and a message. */
/* Notes an address that lies in no code range, for undiscovered_add(). False: out of memory. */
bool undiscovered_put(struct work *w, uint64_t target);
/* Makes code ranges at all undiscovered targets. */
int undiscovered_add(struct work *w, struct error *e);
/* Before the first round: makes code ranges at the addresses that relocations put into data. */
int undiscovered_in_data(struct work *w, struct error *e);
/* Likewise at addresses in plain words of data; only after the call graph is complete, since the words may be entries
 * of jump tables. */
int undiscovered_in_words(struct work *w, struct error *e);
/* Cuts open code ranges at the end of their flow, and at function starts inside; references to the rest become
 * undiscovered targets. */
int open_trim(struct work *w, struct error *e);
/* Extends empty open code ranges, marked for the next round, up to the next code range or the end of the section. */
int open_extend(struct work *w, struct error *e);
/* Updates called, direct and part of all code ranges. */
void called_find(struct work *w);
/* Spreads non_c_frame over jumps (not calls), in both directions. 0, or -1 and a message. */
int non_c_frames_spread(struct work *w, struct error *e);
/* Sets has_evidence where data of the file holds the start of a code range. */
int evidence_data(struct work *w, struct error *e);
/* Without .eh_frame: makes code ranges without evidence fragments, once all evidence is there. */
void starts_classify(struct work *w);
/* Finds fragments: code ranges that other code jumps to with a frame, and nothing calls. Drops edges of marked ones. */
void fragments_find(struct work *w);

/* wide_fde.c: functions under an FDE that describes none of them. Makes targets of calls entries. 0, or -1 and a
 * message. */
int wide_called(struct work *w, struct error *e);
/* Makes code that begins and ends as functions do entries, once the call graph is complete. 0, or -1 and a message. */
int wide_sweep(struct work *w, struct error *e);

/* gap_sweep.c: makes code ranges of functions between the code ranges, once all other evidence is there. 0, or -1 and a
 * message. */
int gaps_sweep(struct work *w, struct error *e);

/* entry_tail.c: sets code_range.entry_tail of code that only the entry point jumps to. */
void entry_tail_find(struct work *w);

/* returns.c: noreturn functions. 0, or -1 and a message. */
/* By name: DWARF and a known list. Needs w->ranges. */
int noreturn_names(struct work *w, struct error *e);
/* By the results of the last round; marks the callers concerned. */
int noreturn_find(struct work *w, struct error *e);

#endif
