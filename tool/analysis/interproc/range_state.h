/* SPDX-License-Identifier: MIT */
/*
 * What is known of one code range between two rounds of the fixpoint (fixpoint.c). During a round a worker writes only
 * to the range_state of the code range that it analyses, and reads of any other one only `evidence` and `framed_part`.
 */
#ifndef ANALYSIS_INTERPROC_RANGE_STATE_H
#define ANALYSIS_INTERPROC_RANGE_STATE_H

#include "analysis/flow/flow.h"
#include "analysis/unwind/row_choice.h"
#include "support/memory.h"

/* What a code range is taken for where .eh_frame does not say how it begins. All kinds except for a function begin in
 * the states that edges bring, and in no other; see range_start(). */
enum range_kind {
	RANGE_FUNCTION, /* a function begins there: this is assumed until something speaks against it */
	RANGE_PART,     /* a part of a function: other code jumps or falls there with a frame */
	RANGE_UNPROVEN, /* treated as a part, only for lack of evidence that a function begins there */
	RANGE_DATA,     /* perhaps data: only its address is known, and it does not end as a function */
};

/* How other code leads to the start of a code range, by all links known now. */
enum {
	ENTRY_CALLED = 1,
	ENTRY_LED = 2,      /* called or jumped to */
	ENTRY_TAKEN = 4,    /* called, tail-called, or its address is taken */
	ENTRY_REFERRED = 8, /* its address is taken */
	ENTRY_TAILED = 16,  /* tail-called */
};

/* Evidence about the start of a code range. It is a set that only grows, and only between rounds, so that a worker may
 * read that of any code range. Nothing takes from it, not even what begins the rounds anew (fixpoint.c). */
enum {
	EVIDENCE_LED = 1,        /* some call or jump has led there */
	EVIDENCE_FUNCTION = 2,   /* data holds its address; or, from starts_classify() on, ENTRY_TAKEN */
	EVIDENCE_WORD = 4,       /* it was found only by a plain word of data */
	EVIDENCE_SHARED = 8,     /* the file's entry point and other code lead there */
	EVIDENCE_CONTINUED = 16, /* a continuation, in frames that are known from where its address is handed on */
	EVIDENCE_RETURNED = 32,  /* a continuation that begins as a function: in the frame of a callee's entry */
	EVIDENCE_PLACED = 64,    /* it lies where this file has only functions (gap_sweep.c) */
};

/* Whose frame there is at the start of a code range, by its own code. The value only grows, until the code range is
 * found to be a continuation. */
enum start_frame {
	FRAME_OWN,        /* no frame yet: as at the start of a function */
	FRAME_OTHER,      /* the frame of other code: a part of a function, or an interpreter's handler */
	FRAME_TABLE,      /* likewise, but it may be a table instead of code */
	FRAME_HANDLER,    /* the frame of an interpreter, which rbp points to (interpreters.c) */
	FRAME_NO_HANDLER, /* taken for a handler, but its exits do not show that frame: as FRAME_OTHER, and final */
};

/*
 * A part that returns with some of its frame left is tried as a function (trial_advance()). The trial goes from
 * TRIAL_NONE to TRIAL_RUNNING, and on to one of the others, which are final.
 */
enum start_trial {
	TRIAL_NONE,
	TRIAL_RUNNING, /* taken for a function, to see whether it ends as one */
	TRIAL_PASSED,  /* it does end as one: a function */
	TRIAL_FAILED,  /* it does not end as one: a part after all */
};

/* How far the fixpoint has come with a code range. The value only grows. */
enum settling {
	SETTLING,
	UNSETTLED, /* its results recur without a fixpoint: it is to be analysed without flow */
	ABANDONED, /* it has been analysed without flow, and is not marked again */
};

/* What jumps in other states than a function's entry (flow_misfit) make of the start of a code range; see misfits.c. */
enum start_misfit {
	START_FITS,     /* nothing: there are no such jumps */
	START_JUMPED,   /* a part of the functions that jump there: nothing else leads there */
	START_PRESUMED, /* it is presumed to be a function's, too: others can name it, or its address is taken */
	START_TAILED,   /* tail calls lead there, too */
	START_CALLED,   /* calls lead there, too */
};

/* How often range_state.misfit may change to a lower value: then it stays what it is (termination, see fixpoint.c). */
#define MISFIT_LOSSES_MOST 4

/* Reasons to analyse a code range in the next round. */
enum {
	RUN_NEWS = 1,  /* a fact that it may depend on has changed */
	RUN_CUT = 2,   /* it was cut at the end of its flow */
	RUN_LESS = 4,  /* it was cut where another begins: earlier results may be of the other's code */
	RUN_EDGES = 8, /* edges lead into it; only in addition to another reason */
};

/* How often a code range may change from callee to none: then it stays a callee (termination, see fixpoint.c). */
#define CALLEE_LOSSES_MOST 4

/* Facts that few code ranges have. */
struct range_rare {
	struct detail_part *detail; /* with options.detail; else null */
	struct joins *joins; /* fixpoint.c: the joined states of a `joined` code range, by target; owned, null: none */
	uint64_t *tails;     /* entry_refuted: the targets of its jumps in the state of an entry, up to a 0; owned */
	uint64_t result_sum; /* range_sum() of its last results, from round RECURRENCE_FROM on */
	uint32_t dispatch;   /* flow.found.dispatch and dispatch_otherwise */
	uint32_t dispatch_otherwise;
};

/*
 * Every member on which the next round depends is part of state_sum() (fixpoint.c). A large file has more than a
 * million code ranges, each with one of these structs, so that their size is much of what the analysis takes: flags are
 * single bits, and facts that few code ranges have are in range_rare. Workers read `evidence` and `framed_part` of
 * other code ranges, which no worker writes: these are whole bytes, apart from the bits.
 */
struct range_state {
	struct range_rows rows;
	struct range_rare *rare; /* null: all of it is 0; see range_rare() */
	uint64_t reached;        /* address of the end of its flow, with the padding after it */
	uint64_t edges_seen;     /* edges_sum() of the edges into it when it was last marked for them */
	uint32_t padding;        /* bytes of padding before `reached` */
	uint32_t id;             /* its identity, which stays when its number changes: see work.graph.place */
	uint32_t last_round;     /* the last round that analysed it */
	uint16_t jumps_by;       /* flow.found.jumps_by */

	/* What the code range is. */
	uint8_t kind;          /* enum range_kind */
	uint8_t evidence;      /* EVIDENCE_* */
	uint8_t entered;       /* ENTRY_*, kept by link_lists.c */
	uint8_t frame;         /* enum start_frame */
	uint8_t trial;         /* enum start_trial */
	bool is_callee;        /* its start is called (ENTRY_CALLED), as of the last round; see callee_losses */
	uint8_t callee_losses; /* number of times that `is_callee` was withdrawn; at most CALLEE_LOSSES_MOST */
	bool framed_part;      /* range_is_framed_part(), as of the last called_find() */
	uint8_t misfit;        /* enum start_misfit */
	uint8_t misfit_losses; /* number of times that `misfit` became less; at most MISFIT_LOSSES_MOST */
	uint8_t last_start;    /* enum flow_start that it was last analysed with */
	uint8_t edge_runs;     /* number of runs with edges, or with edges gone; at most JOINED_FROM */
	uint8_t run;           /* RUN_*: why it is to be analysed in the next round; 0: it is not */
	uint8_t settling;      /* enum settling */

	bool known_part : 1;     /* analysed in the frame that branches bring to its start: nothing else leads there */
	bool touched : 1;        /* in work.graph.touched */
	bool relaxed_rules : 1;  /* it is a function only if analysed with flow.in.relaxed */
	bool noreturn : 1;       /* never withdrawn */
	bool address_sought : 1; /* misfits_find() has looked for its address in code */
	bool address_taken : 1;  /* misfits_find() has found its address in code */
	bool returns_home : 1;   /* analysed from a function's entry it returns there (flow.found.returns_home); never
	                          * withdrawn */
	bool wants_proof : 1;    /* analysed without the assumption of an entry, or of what follows from it, for want of a
	                          * proof: flow.in.overdrawn, flow.in.lift_unproven */
	bool entry_refuted : 1;  /* analysed from a function's entry it takes more off the stack than that has; never
	                          * withdrawn */
	bool cfi_part : 1;       /* .eh_frame has another state than a function's entry at its start */
	bool tail_proved : 1;    /* an entry is proved by a tail call of a function that is called (misfits.c) */

	/* Results of the last analysis. */
	bool returns : 1;          /* flow.found.may_return, or unsettled */
	bool returns_as_c : 1;     /* flow.found.return_certain; own_stack_rows() also sets it for what tail-calls C */
	bool returns_balanced : 1; /* taken for a function, it ends as one */
	bool exit_sp_mismatch : 1; /* taken for a function, it returns with a wrong rsp, and nowhere as a function */
	bool switches_stack : 1;   /* a hand-made context begins there (flow.found.replaces_sp) */
	bool non_c_frame : 1;      /* code without frames of C's kind, as with a stack of its own */
	bool flows_to_end : 1;     /* its flow reaches its last byte */
	bool keeps_frame : 1;      /* flow.found.keeps_frame */
	bool is_handler : 1;       /* scratch of handlers_find() */
	bool cfi_one_row : 1;      /* .eh_frame has one row for the whole code range */
	bool cfi_denied : 1;       /* .eh_frame contradicts the code at a function entry inside */

	/* Open code ranges: where their flow ends. */
	bool empty : 1;          /* no flow has been found in it yet */
	bool was_empty : 1;      /* it was empty, and has been marked again since */
	bool cut_is_neutral : 1; /* a cut at the end of its flow does not change its results */

	bool joined : 1; /* new incoming states are joined with all earlier ones from then on; never withdrawn */
};
_Static_assert(sizeof(struct range_state) <= 88, "the analysis of a large file has a million of these");

/* Returns the rare members of a code range, which may not be changed. */
static inline const struct range_rare *range_rare(const struct range_state *s)
{
	static const struct range_rare none;

	return s->rare ? s->rare : &none;
}

/* Returns the rare members of a code range for writing, and allocates them where there are none. */
static inline struct range_rare *range_rare_make(struct range_state *s)
{
	if (!s->rare)
		s->rare = mem_zero(1, sizeof(*s->rare));
	return s->rare;
}

/* Is it taken for a function by trial? */
static inline bool range_is_tried(const struct range_state *s)
{
	return s->trial == TRIAL_RUNNING || s->trial == TRIAL_PASSED;
}

/* Is it a continuation whose frame is known, and which nothing calls? */
static inline bool range_is_continuation(const struct range_state *s)
{
	return s->evidence & (EVIDENCE_CONTINUED | EVIDENCE_RETURNED) && !s->is_callee;
}

/* Does it begin in a frame of other code, and do only jumps and the code in front of it lead there? */
static inline bool range_is_only_led_to(const struct range_state *s)
{
	return s->frame == FRAME_OTHER && !s->is_callee && !(s->entered & (ENTRY_CALLED | ENTRY_REFERRED)) &&
	       !(s->evidence & ~(unsigned)EVIDENCE_LED);
}

/* Does it begin with the frame of other code, and no call leads there? */
static inline bool range_is_framed_part(const struct range_state *s) { return s->frame != FRAME_OWN && !s->is_callee; }

#endif
