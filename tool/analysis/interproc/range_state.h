/* SPDX-License-Identifier: MIT */
/*
 * What is known of one code range between two rounds of the fixpoint (fixpoint.c). During a round, a worker writes only
 * the range_state of the code range that it analyses. Of other code ranges it reads only `evidence` and
 * `framed_part`.
 */
#ifndef ANALYSIS_INTERPROC_RANGE_STATE_H
#define ANALYSIS_INTERPROC_RANGE_STATE_H

#include "analysis/flow/flow.h"
#include "analysis/unwind/row_choice.h"
#include "support/memory.h"

/* What a code range is taken for if .eh_frame does not say how it begins. A function begins in the state of an entry;
 * every other kind begins only in the states that edges bring. See range_start(). */
enum range_kind {
	RANGE_FUNCTION, /* a function begins there; assumed until there is evidence against it */
	RANGE_PART,     /* a part of a function: other code jumps or falls there with a frame */
	/* Treated as a part of a function, because there is no evidence that a function begins there. */
	RANGE_UNPROVEN,
	/* Perhaps data: only a reference to its address is known, and it does not end as a function. */
	RANGE_DATA,
};

/* How other code refers to the start of a code range, by all links that are known now. */
enum {
	ENTRY_CALLED = 1,
	ENTRY_LED = 2,      /* called or jumped to */
	ENTRY_TAKEN = 4,    /* called, tail-called, or address taken */
	ENTRY_REFERRED = 8, /* its address is taken */
	ENTRY_TAILED = 16,  /* tail-called */
};

/* Evidence about the start of a code range. The set only grows, even when the rounds start anew (fixpoint.c), and it
 * grows only between rounds, so workers may read it of any code range. */
enum {
	EVIDENCE_LED = 1, /* at some time, a call or jump led there */
	/* Data holds its address; or, from starts_classify() on, code calls it, tail-calls it, or takes its address
	 * (ENTRY_TAKEN). */
	EVIDENCE_FUNCTION = 2,
	EVIDENCE_WORD = 4,   /* it was found only by a plain word of data */
	EVIDENCE_SHARED = 8, /* the file's entry point leads there, and so does other code */
	/* It is a continuation (continuations.c); its frame is the one in which its address is passed on. */
	EVIDENCE_CONTINUED = 16,
	/* It is a continuation that begins in the frame of a callee's entry, as a function does. */
	EVIDENCE_RETURNED = 32,
	EVIDENCE_PLACED = 64, /* it lies at a place where this file has only functions (gap_sweep.c) */
};

/* Which frame code has at the start of a code range, as that code itself shows. The value only grows, until the code
 * range is found to be a continuation. */
enum start_frame {
	FRAME_OWN,   /* no frame yet, as at the start of a function */
	FRAME_OTHER, /* the frame of other code: a part of a function, or an interpreter's handler */
	FRAME_TABLE, /* as FRAME_OTHER, but the code range may also be a table instead of code */
	/* The frame of an interpreter, which rbp points to (interpreters.c): the code range is a handler, or is tried as
	 * one. */
	FRAME_HANDLER,
	/* Was tried as a handler, but its exits do not show the interpreter's frame: treated as FRAME_OTHER, and final. */
	FRAME_NO_HANDLER,
};

/*
 * A code range that was taken for a part, but returns without having removed all of its frame, is tried as a function
 * (trial_advance()). The trial changes from TRIAL_NONE to TRIAL_RUNNING, then to TRIAL_PASSED or TRIAL_FAILED, which
 * are final.
 */
enum start_trial {
	TRIAL_NONE,
	TRIAL_RUNNING, /* being analysed as a function, to see whether it ends as one */
	TRIAL_PASSED,  /* it ends as a function, and so is one */
	TRIAL_FAILED,  /* it does not end as a function, and so is a part */
};

/* Progress of a code range towards the fixpoint. The value only grows. */
enum settling {
	/* Its results may still change. */
	SETTLING,
	UNSETTLED, /* its results recur without reaching a fixpoint: it is to be analysed without flow */
	ABANDONED, /* it has been analysed without flow, and is not marked any more */
};

/* What refuted_starts.c concludes about the start of a code range from jumps there in states other than that of a
 * function's entry (flow_misfit). */
enum start_misfit {
	START_FITS,   /* there are no such jumps, or they do not count */
	START_JUMPED, /* nothing else leads there: it is a part of the functions that jump there */
	/* Presumed to be the start of a function, too: other files can refer to it by name, or its address is taken. */
	START_PRESUMED,
	START_TAILED, /* tail calls lead there as well */
	START_CALLED, /* calls lead there as well */
};

/* How often range_state.misfit may change to a lower value. After that it no longer decreases, so that the fixpoint
 * ends (fixpoint.c). */
#define MISFIT_LOSSES_MOST 4

/* Reasons to analyse a code range in the next round: bits of range_state.run. */
enum {
	RUN_NEWS = 1,  /* a fact that it may depend on has changed */
	RUN_CUT = 2,   /* it was cut at the end of its flow, which may not change its results */
	RUN_LESS = 4,  /* it was cut where other code begins: its earlier results may include that code */
	RUN_EDGES = 8, /* there are edges into it; set only in addition to another reason */
};

/* How often range_state.is_callee may be withdrawn. After that it stays set, so that the fixpoint ends (fixpoint.c). */
#define CALLEE_LOSSES_MOST 4

/* Facts that few code ranges have. */
struct range_rare {
	struct detail_part *detail; /* with options.detail; else null */
	/* Owned. If the code range is `joined`: the join of all incoming states, by target (fixpoint.c); null: there are
	 * none. */
	struct joins *joins;
	/* Owned. If entry_refuted: the targets to which it jumps in the state of an entry, ended by 0. */
	uint64_t *tails;
	uint64_t result_sum; /* range_sum() of its last results, from round RECURRENCE_FROM on */
	uint32_t dispatch;   /* flow.found.dispatch and dispatch_otherwise */
	uint32_t dispatch_otherwise;
};

/*
 * The state of one code range. Every member on which the next round depends belongs to state_sum() (fixpoint.c). A
 * large file has more than a million code ranges, so the size of this struct is much of the memory that the analysis
 * needs: flags are single bits, and facts that few code ranges have are in range_rare. `evidence` and `framed_part`,
 * which workers read of other code ranges, share no byte with a member that workers write.
 */
struct range_state {
	struct range_rows rows;
	struct range_rare *rare; /* null: all rare members are 0. Read by range_rare() */
	uint64_t reached;        /* address of the end of its flow, including the padding after the flow */
	/* edges_sum() of the edges into it, as of the last time that it was marked because of edges. */
	uint64_t edges_seen;
	uint32_t padding; /* number of bytes of padding included in `reached` */
	/* Its identity, which never changes, while its number does; work.graph.place has the number. */
	uint32_t id;
	uint32_t last_round; /* the last round that analysed it */
	uint16_t jumps_by;   /* registers that it jumps through without a known target (flow.found.jumps_by) */

	/* What the code range is. */
	uint8_t kind;     /* enum range_kind */
	uint8_t evidence; /* EVIDENCE_* */
	uint8_t entered;  /* ENTRY_*: how links lead to its start; kept up to date by link_lists.c */
	uint8_t frame;    /* enum start_frame */
	uint8_t trial;    /* enum start_trial */
	/* Its start is called (ENTRY_CALLED), as of the last called_find(); once withdrawn CALLEE_LOSSES_MOST times, it
	 * stays set. */
	bool is_callee;
	uint8_t callee_losses; /* number of times that `is_callee` was withdrawn; at most CALLEE_LOSSES_MOST */
	bool framed_part;      /* range_is_framed_part(), as of the last called_find() */
	uint8_t misfit;        /* enum start_misfit */
	uint8_t misfit_losses; /* number of times that `misfit` has decreased; at most MISFIT_LOSSES_MOST */
	uint8_t last_start;    /* the start with which it was last analysed (enum flow_start) */
	/* Number of times that it was marked while it had edges, or had just lost them; stops at JOINED_FROM. */
	uint8_t edge_runs;
	uint8_t run;      /* why it is to be analysed in the next round (RUN_*); 0: it is not */
	uint8_t settling; /* enum settling */

	bool known_part : 1; /* only jumps lead to its start, and it was analysed in the frames that they bring */
	bool touched : 1;    /* in work.graph.touched */
	/* It is analysed with flow.in.relaxed, without which it does not end as a function. */
	bool relaxed_rules : 1;
	bool noreturn : 1;       /* it never returns; never withdrawn */
	bool address_sought : 1; /* misfits_find() has looked for its address in code */
	bool address_taken : 1;  /* misfits_find() has found its address in code */
	/* Analysed from the state of a function's entry, it returns to the address on top of the stack at its start
	 * (flow.found.returns_home); never withdrawn. */
	bool returns_home : 1;
	/* For lack of a proof, it was analysed without assuming a function's entry (flow.in.overdrawn), or without the
	 * rows that follow from one (flow.in.lift_unproven). */
	bool wants_proof : 1;
	/* Analysed from the state of a function's entry, it takes more bytes off the stack than an entry has there;
	 * never withdrawn. */
	bool entry_refuted : 1;
	bool cfi_part : 1; /* at its start, .eh_frame has a state other than that of a function's entry */
	/* It tail-calls a proven function in the state of an entry, which proves that it begins with an entry
	 * (refuted_starts.c). */
	bool tail_proved : 1;

	/* Results of the last analysis, and is_handler. */
	bool returns : 1; /* it may return (flow.found.may_return), or its results have not settled */
	/* It returns as C code does (flow.found.return_certain); own_stack_rows() also sets it if the code range
	 * tail-calls C. */
	bool returns_as_c : 1;
	bool returns_balanced : 1; /* analysed as a function, it ends as one */
	/* Analysed as a function, no exit is that of a function, and some exit has a wrong rsp. */
	bool exit_sp_mismatch : 1;
	/* It replaces rsp (flow.found.replaces_sp): a hand-made context, with a stack of its own, begins there. */
	bool switches_stack : 1;
	bool non_c_frame : 1;  /* it has no frames of C's kind, for example because it has a stack of its own */
	bool flows_to_end : 1; /* its flow reaches its last byte, so that it may run on past its end */
	bool keeps_frame : 1;  /* flow.found.keeps_frame */
	bool is_handler : 1;   /* its exits show that it is a handler; only valid within handlers_find() */
	bool cfi_one_row : 1;  /* .eh_frame has one row for the whole code range */
	bool cfi_denied : 1;   /* .eh_frame contradicts the code at some function entry inside the code range */

	/* About open code ranges. */
	bool empty : 1;          /* no flow has been found in it */
	bool was_empty : 1;      /* it was empty at some time, and has been marked again since */
	bool cut_is_neutral : 1; /* if it is cut at the end of its flow, its results do not change */

	/* Each new incoming state is joined with all earlier ones; never withdrawn, except by continuations_find(). */
	bool joined : 1;
};
_Static_assert(sizeof(struct range_state) <= 88, "the analysis of a large file has a million of these");

/* Returns the rare members of a code range for reading. */
static inline const struct range_rare *range_rare(const struct range_state *s)
{
	static const struct range_rare none;

	return s->rare ? s->rare : &none;
}

/* Returns the rare members of a code range for writing; allocates them if need be. */
static inline struct range_rare *range_rare_make(struct range_state *s)
{
	if (!s->rare)
		s->rare = mem_zero(1, sizeof(*s->rare));
	return s->rare;
}

/* Is the code range taken for a function on trial? */
static inline bool range_is_tried(const struct range_state *s)
{
	return s->trial == TRIAL_RUNNING || s->trial == TRIAL_PASSED;
}

/* Is the code range a continuation whose frame is known, and is it not called? */
static inline bool range_is_continuation(const struct range_state *s)
{
	return s->evidence & (EVIDENCE_CONTINUED | EVIDENCE_RETURNED) && !s->is_callee;
}

/* Does the code range begin in the frame of other code, and do only jumps and the code in front of it lead there? */
static inline bool range_is_only_led_to(const struct range_state *s)
{
	return s->frame == FRAME_OTHER && !s->is_callee && !(s->entered & (ENTRY_CALLED | ENTRY_REFERRED)) &&
	       !(s->evidence & ~(unsigned)EVIDENCE_LED);
}

/* Does the code range begin in the frame of other code, and is it not called? */
static inline bool range_is_framed_part(const struct range_state *s) { return s->frame != FRAME_OWN && !s->is_callee; }

#endif
