/* SPDX-License-Identifier: MIT */
/*
 * The dataflow analysis of one code range. It finds every instruction that is reachable from the range's entries, and
 * computes the abstract state (state.h) before each, by a worklist, to the fixpoint. A failure concerns one code range
 * only.
 *
 * A jump table that cannot be read costs little. An indirect jump does not change the stack, so code that nothing else
 * reaches is given the state at the code range's indirect jumps, if these agree (jumps.c). A landing pad is given the
 * frame of the call site that throws, a fixup that of the instruction that faults.
 */
#ifndef ANALYSIS_FLOW_FLOW_H
#define ANALYSIS_FLOW_FLOW_H

#include "support/hash_index.h"
#include "analysis/dataflow/worklist.h"
#include "analysis/discover/ranges.h"
#include "analysis/facts/fixups.h"
#include "analysis/facts/cfi_file.h"
#include "analysis/flow/state.h"
#include "elf/symbols.h"
#include "support/error.h"

/*
 * Does an edge come from a jump in a state that contradicts that of a function's entry? Then the target is no function
 * for that jump, whatever a symbol or .eh_frame says (interproc/misfits.c).
 */
enum flow_misfit {
	MISFIT_NONE,
	/* It does, but only from jumps that may never be taken: those that lead to the end of their own code range, as
	 * __builtin_unreachable() may leave them, and entries of a jump table that perhaps lie beyond its end. */
	MISFIT_DOUBT,
	MISFIT_JUMP, /* It does, from some other jump. */
};

/* An edge from one code range to another that is neither a call nor a tail call; `state` holds at the target. */
struct flow_edge {
	uint64_t target;
	uint32_t from;  /* code range */
	uint32_t at;    /* with a misfit: offset of the first such jump in that code range */
	uint8_t misfit; /* enum flow_misfit */
	struct state state;
};

/* The kinds of references that a flow_exit can be. */
enum flow_exit_kind {
	EXIT_CALL = 0,
	EXIT_LAST = 1,  /* a call with only padding after it in its code range: perhaps noreturn */
	EXIT_FRESH = 2, /* a call whose next instruction has no other known predecessor */
	EXIT_TAIL = 3,  /* a tail call: a jump to a function's start in the state of an entry */
	EXIT_PART = 4,  /* a jump to the start of another code range, in this one's frame */
	EXIT_REF = 5,   /* an address taken in code, perhaps of a function */
	EXIT_LEFT = 6,  /* a call whose stack arguments are gone in the code after it: perhaps noreturn */
};

/* A reference from a code range to code: a call, a jump out of the range, or an address that is taken. */
struct flow_exit {
	uint64_t target; /* address, or FLOW_EXTERN | symbol number, or FLOW_SLOT | address of a GOT slot */
	uint32_t kind;   /* enum flow_exit_kind */
	uint32_t from;   /* code range */
	uint32_t to;     /* code range that holds the target, or NO_RANGE */
	uint32_t at;     /* EXIT_REF: offset of the instruction */
};
#define NO_RANGE       UINT32_MAX
#define FUNCTION_ALIGN 16u /* alignment, in bytes, that most compilers give functions */
#define FLOW_EXTERN    ((uint64_t)1 << 62)
#define FLOW_SLOT      ((uint64_t)1 << 61)

/*
 * A continuation: an address of code that an instruction passes on in a register, for other code to jump to, in the
 * frame of that instruction or of what it calls (interproc/continuations.c).
 */
struct flow_continuation {
	uint64_t at, label; /* addresses of the instruction and of the continuation */
	bool jumped, called;
	bool unknown;       /* the frame is not known */
	int32_t jump_moved; /* with `jumped`: rsp at the label minus rsp at the instruction */
	int32_t call_moved; /* with `called`: rsp at the label minus rsp at the start of the callee */
	uint16_t writes;    /* registers that have changed when control reaches the label */
};

/* A word of data that is an address of code once it is relocated, whatever the file contains there. */
struct flow_pointer {
	uint64_t place, target;
};

struct flow;
struct flow_env;

/*
 * Hooks for the code of a language runtime that keeps its frames on a stack of its own and returns by jumps
 * (runtime.own_stack). All except `enters` and `library` are called only for files that may have such code
 * (flow_env.own_stack).
 */
struct flow_runtime {
	/* May a range be code with a stack of its own? */
	bool (*may_be)(const struct code_range *p);
	/* Does such code begin at an address of the code space, judging by the data in front of it? own_stack_begins()
	 * asks. */
	bool (*begins)(const struct flow_env *env, uint64_t addr);
	/* Finds the rule of such code in a program that is linked with the shared library `name`. Returns 1 and sets *out;
	 * -1 if the rule of that release is not known; 0 if the library is not one of the runtime. */
	int (*library)(const char *name, struct etch_rule *out);
	int32_t reserved; /* bytes above rsp that such code may use, and the farthest distance that it may move rsp */
	/* Is an indirect jump in state s the one by which C enters such code? Then *out is the rule of all such code. */
	bool (*enters)(const struct step *in, const struct state *s, struct etch_rule *out);
	/* Walks from the addresses to which the code of the range returns. Returns true if there were new ones; then it is
	 * to be called again, at most follow_most times. */
	bool (*follow)(struct flow *f);
	unsigned follow_most;
	/* Does the range have a jump table whose targets are not all known? */
	bool (*switches)(const struct flow *f);
	/* Do the states at its indirect jumps have the same rsp? Then *out is a state in which only rsp is known. */
	bool (*agree)(struct flow *f, struct state *out);
	/* Returns the size of the runtime's data at an offset, in front of reached code; 0 if there is none. */
	uint64_t (*table)(const struct flow *f, uint64_t off);
};

/* The bits of the filter in front of flow_env.noreturn. Most calls return, and the filter settles most lookups. */
#define NORETURN_BITS 16384u

/* Shared by the analyses of all code ranges; read-only while workers run. */
struct flow_env {
	const struct elf_file *file;
	const struct cfi_file *cfi;
	const struct code_range *ranges; /* sorted by start; none overlap */
	size_t range_count;
	const uint64_t *entries;  /* addresses of symbols inside code ranges, sorted: code_range.entry indexes it */
	const uint64_t *noreturn; /* targets (as flow_exit.target) of noreturn calls, sorted */
	size_t noreturn_count;
	const uint64_t *noreturn_named; /* those of `noreturn` that are known by name, sorted */
	size_t noreturn_named_count;
	uint64_t
		noreturn_bits[NORETURN_BITS / 64]; /* by noreturn_hash(): if the bit is 0, the target is not in `noreturn` */
	const bool *stops; /* per code range: it was found to be noreturn since `noreturn` was made; or null */
	const struct code_space *space;
	uint32_t *index; /* from address to code range: made by ranges_index() */
	struct range_span {
		uint32_t start, end;
	} * spans; /* the code ranges, relative to index_base */
	uint64_t index_base, index_span;
	const struct fixups *fixups; /* may be null */
	const struct notes *notes;   /* null: there are none */
	const struct flow_pointer
		*pointers; /* sorted by place; without those of SHT_RELR, whose words the file contains in full */
	size_t pointer_count;
	const struct flow_continuation *continuations; /* sorted by `at` */
	size_t continuation_count;
	uint8_t abi_flags; /* ABI_* of the file */
	bool handlers;     /* some code range is a handler (code_range.handler) */
	const struct flow_runtime *runtime;
	bool own_stack;            /* the file may have code of `runtime` */
	struct symbol_index names; /* symbol names for messages; only with observers (lint) */
	struct flow_reloc *relocs; /* ET_REL: relocations of code, sorted by address, at most one at each address */
	size_t reloc_count;
};

/* Does code with a stack of its own begin at an address? False in files without such code. */
static inline bool own_stack_begins(const struct flow_env *env, uint64_t addr)
{
	return env->own_stack && env->runtime->begins(env, addr);
}

static inline unsigned noreturn_hash(uint64_t target) { return (unsigned)(target * 0x9e3779b97f4a7c15u >> 50); }
static inline bool noreturn_may_hold(const struct flow_env *env, uint64_t target)
{
	return env->noreturn_bits[noreturn_hash(target) / 64] >> noreturn_hash(target) % 64 & 1;
}

/* ET_REL: the field at `addr` refers to `target`. */
struct flow_reloc {
	uint64_t addr;
	uint64_t target; /* address of the code space with the addend, or FLOW_EXTERN | symbol number */
};

/* An indirect jump, and the table from which it takes its target, if any. */
struct flow_jump {
	struct state state;
	struct value what;     /* the table's address and size, set by state_table() */
	unsigned entries;      /* number of entries that are followed */
	uint32_t step;         /* index of its instruction in flow.steps */
	bool table, has_state; /* `what` is valid; `state` is valid */
	bool is_new;           /* is in flow.walk.new_jumps */
	uint16_t unbounded;    /* number of plausible entries of a table without a bound, set by unbounded_entries() */
};

/* What is known of the start of a code range. */
enum flow_start {
	START_FUNCTION, /* a function certainly begins there */
	START_ASSUMED,  /* it is assumed to begin a function, for want of evidence */
	START_PART,     /* it is only a place to which edges lead, with the states that they bring */
	START_NOWHERE,  /* no path leads into it */
};

/* The input of the analysis of one code range. */
struct flow_input {
	/* Set by flow_run(). */
	const struct flow_env *env;
	const struct code_range *range;
	uint32_t number;            /* index of the code range in env->ranges */
	uint8_t start;              /* enum flow_start */
	bool own_stack;             /* the range may be code of env->runtime */
	size_t readable;            /* bytes of the file from the range's start on: at least the size of the range */
	const struct fixup *fixups; /* those of instructions of the code range */
	size_t fixup_count;
	uint8_t abi_flags;                    /* ABI_* of all states */
	bool noted;                           /* the file has notes (env->notes) */
	const struct note *notes, *notes_end; /* those of the range, including those at its end */
	bool settles; /* every decoded step is adjusted to its context; otherwise see is_settled() */
	bool throws;  /* any instruction may have an edge of its own: there are fixups, or notes of edges */
	/* Set by the caller. */
	const struct etch_cfi_row *cfi; /* rows of .eh_frame for the range, sorted */
	size_t cfi_count;
	int32_t pushed;     /* bytes that are already pushed below the return address at the start */
	int32_t overdrawn;  /* not 0: an analysis from a function's entry took this many bytes more off the stack than an
	                       entry has there, so the range does not begin with an entry */
	bool lift_unproven; /* nothing proves that the range begins with a function's entry: see lifts() in
	                       unwind/row_choice.c */
	uint32_t unproven; /* from this offset on, no state is proven (flow_result.left_over); 0: there is no such offset */
	bool framed;       /* the range begins in an unknown frame */
	bool handler;      /* with `framed`: that frame is an interpreter's, and rbp points to it (handlers.c) */
	bool relaxed; /* this is the second analysis of code that did not end like compiled code: it follows tables without
	                 a bound, and lets local helpers change registers */
	bool force_constants; /* follow constants (state.constants) even if they are not needed */
};

/* The results of the analysis of the code range; complete after flow_states(). */
struct flow_result {
	struct flow_edge *edges; /* one per target */
	size_t edge_count;
	struct flow_exit *exits;
	size_t exit_count;
	uint64_t insn_count; /* number of instructions decoded */
	uint64_t unread;     /* offset + 1 of the first instruction that is reached but that etch does not decode, though
	                        processors may; 0: there is none */
	uint64_t extent;     /* offset of the end of the last reached instruction */
	struct etch_rule runtime_rule; /* the rule by runtime->enters(); kind UNDEF: none */
	uint32_t
		dispatch; /* table of a jump that is not followed, in a frame of push %rbp; mov %rsp, %rbp; 0: there is none */
	uint32_t dispatch_otherwise; /* the same for another frame */
	int32_t exit_sp_delta;       /* rsp at all exits, minus the rsp expected at a return; 0: there is none */
	uint16_t jumps_by;           /* registers of the indirect jumps without a known target */
	bool exit_sp_varies;         /* some exit has another rsp, or an unknown one, so exit_sp_delta does not count */
	bool exit_sp_certain;  /* some exit of exit_sp_delta leaves as a function does: by a return, or by a jump after the
	                          restore of a callee-saved register or the end of a frame */
	bool exit_sp_mismatch; /* it leaves with part of a frame, or has popped more than it pushed: it did not begin as a
	                          function */
	bool exit_sp_unknown;  /* it returns with rsp unknown, or jumps out of the file in a state other than an entry's */
	bool exits_balanced;   /* some exit is a return or tail call in the state of an entry */
	bool returns_unbalanced; /* it returns with part of a frame, or with a callee-saved register lost; local helpers
	                            excepted */
	bool inner_returns;     /* a return is in the state of an entry, which is weak, after a jump that is not followed */
	bool returns_to_caller; /* it has a return with rsp as at entry, or a tail call after the restore of a register */
	bool return_certain;    /* it has a return that is reached in a state that is not weak */
	bool returns_home;      /* such a return leads to the return address of the start: by the top of the stack, or by a
	                           register that holds it */
	int32_t overdrawn; /* over the exits where the return address is neither on the stack nor where control goes: the
	                      most bytes that they have taken off the stack in excess of an entry's; 0: there is none */
	uint32_t called;   /* offset to which the first call, in order of address, returns; 0: there is none */
	bool left_over;    /* after a call, a return has taken down a frame, yet part of the frame is left by its state: the
	                      call has taken words off the stack, so no state after a call is proven */
	bool may_return;   /* it may return to its caller */
	bool non_c_frame;  /* it leaves in a way that no C function can, so its frames are not C's */
	bool keeps_frame;  /* of a handler: it returns, or makes a tail call, from the frame that rbp points to */
	bool breaks_frame; /* of a handler: an exit shows that its frame is another */
	bool replaces_sp;  /* its first instruction replaces rsp, as it does where makecontext() contexts begin */
	bool broken;       /* it runs into bytes that do not decode */
	bool no_constants; /* constants were not followed */
};

/* A call site of the LSDA. */
struct flow_pad {
	uint64_t start, end, pad;
};

/* Code after a noreturn call, with the state at that call. */
struct flow_dead {
	uint32_t off;
	struct state state;
};

/* A jump table inside the range, as offsets. */
struct flow_inner {
	uint32_t start, end;
};

/* The join of the states at the open indirect jumps (is_open() in jumps.c) among the first `upto`. */
struct flow_agreed {
	size_t upto;
	struct state state;
	struct etch_rule rule; /* rule of the first open jump */
	bool some, differ;     /* there is an open jump; not all of them have the rule of the first */
};

/* The data that the walk over a code range needs for itself. */
struct flow_scratch {
	size_t at_capacity, step_capacity, state_capacity, jump_capacity, edge_capacity,
		exit_capacity;    /* of arrays elsewhere in struct flow */
	size_t at_size;       /* size of the range; flow.at is 0 from this index on */
	struct worklist list; /* blocks whose state has changed, as indexes in flow.states; ordered by offset, since most
	                         edges lead forward */
	uint32_t *todo;       /* offsets to decode from */
	size_t todo_count, todo_capacity;
	size_t reloc_near;     /* index in env->relocs of the last lookup */
	struct flow_pad *pads; /* sorted */
	size_t pad_count, pad_capacity;
	int32_t pad_depth;      /* the highest rsp - CFA of all calls that throw */
	bool pads_deferred;     /* this is the first walk: landing pads wait until pad_depth is known */
	struct flow_dead *dead; /* in the order of the walk */
	size_t dead_count, dead_capacity;
	uint32_t unbounded_count; /* entries read so far from tables without a bound */
	size_t unbounded_next;    /* the jumps before this index have been examined for such a table */
	uint32_t *table_at;       /* per jump: low 32 bits of its table's address, or 0; same capacity as flow.jumps */
	uint32_t *table_sorted;   /* a sorted copy of table_at while tables_follow() has many jumps; or null */
	struct flow_inner *inner; /* sorted and disjoint: they are not decoded as code */
	size_t inner_count, inner_capacity;
	uint32_t *new_jumps; /* indexes of jumps whose tables are still to be followed */
	size_t new_jump_count, new_jump_capacity;
	struct flow_agreed agreed;
	size_t runtime_next;          /* env->runtime->follow() has seen the steps before this index */
	int32_t *paths;               /* ends.c: number of jumps over each offset, made on demand; or null */
	struct hash_index edge_index; /* the edges by target */
	uint8_t effects;              /* union of the steps' effects; with EFFECT_NEEDS_CONSTANT, constants are needed */
	bool jumps_agreed;            /* jumps_agree() has returned true and no jump has changed since */
	bool has_helpers;             /* the range has calls of targets inside of it */
	bool takes_own_address;       /* the range has a call of the next instruction, to obtain its own address */
	bool has_traps;               /* the range links exception handlers into a list (traps.c) */
	bool by_note;                 /* the edge that is being walked is a NOTE_EDGE */
	bool dirty;                   /* a block was split after a walk had passed it; all blocks must be walked again */
	bool edges_drop_constants;    /* constants are dropped from the edges of the range, since they are not needed */
};

/*
 * A callback for each reached instruction, in order of address, with the state before it. `same`: the unwind rule is
 * that of the last call, which was for the instruction just before.
 */
typedef void flow_state_fn(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same);

/*
 * The analysis of one code range: its instructions, its basic blocks with their states, and its indirect jumps. They
 * last until the next flow_run(). Each worker has one struct flow, and reuses its memory for the next range.
 */
struct flow {
	struct flow_input in;
	struct flow_result found;
	struct flow_scratch walk;
	struct step_cache *cache;
	uint32_t *at;       /* per byte of the range: index + 1 of the step that begins there; 0: none */
	uint64_t *starts;   /* bitmap, with a bit per byte: a step begins there */
	struct step *steps; /* decoded instructions, in order of discovery */
	uint32_t *step_at;  /* per step: its offset in the range */
	uint32_t *leader;   /* per step that begins a basic block: index + 1 of its state; else 0 */
	uint8_t *seen;      /* per step: FLOW_* below */
	size_t step_count;
	struct state *states;    /* before the first instruction of each basic block */
	uint8_t *state_live;     /* per state: LIVE, THROWS of flow_internal.h */
	uint32_t *step_of_state; /* per state: its step */
	size_t state_count;
	struct flow_jump *jumps; /* indirect jumps */
	size_t jump_count;
	int32_t *tails; /* tails.c, per step: distance of the return address above rsp; negative: unknown */
	size_t tail_capacity;
	/* Set by the callback of flow_states(), which then skips instructions that end at or below `below` while the rule
	 * stays the same. `last` and `end` are the address and the end of the last instruction skipped. */
	struct flow_skip {
		uint64_t below, last, end;
	} skip;
	/* Set around flow_states() or flow_look() to learn where callee-saved registers are (state_saves()). */
	struct flow_saves {
		flow_state_fn *fn;  /* called before the other callback, where these places may change; or null */
		unsigned registers; /* set by fn, as by state_saves(); 0 without fn */
		bool again;         /* set by fn: it wants to be called for the next instruction, too */
	} saves;
};
#define FLOW_SCANNED 1u  /* decoded as reachable */
#define FLOW_WALKED  2u  /* a state has reached it */
#define FLOW_MOVES   4u  /* by the last walk, it may change the unwind rule */
#define FLOW_IDLE    8u  /* by the last walk, it leaves the state as it is */
#define FLOW_NUMBER  16u /* tails.c: it stores a number that is no address of code */

/* Analyses a code range. `in` are the edges from other code ranges into it, sorted by target. The results are in *f. A
 * range of 4 GiB ends the process, as lack of memory does. */
void flow_run(struct flow *f, const struct flow_env *env, uint32_t range, const struct flow_edge *in, size_t in_count,
              enum flow_start start);

/* Reports the states of the code range of the last flow_run(), and completes the results in *f: exits, edges, flags. */
void flow_states(struct flow *f, flow_state_fn *fn, void *ctx);

/* Reports the states again, without touching the results. */
void flow_look(struct flow *f, flow_state_fn *fn, void *ctx);

/* tails.c: may flow_tail_rule() find rules in the code range? */
bool flow_has_tails(const struct flow *f);
/* Finds where the instructions that follow need the return address, for flow_tail_rule(). Called before
 * flow_states(). */
void flow_tails_find(struct flow *f);
/* After flow_tails_find(), in the callback of flow_states(): replaces *out, which is the rule that the state proves
 * before an instruction, by the rule that follows from the tail calls and handlers after it. Returns false if these
 * show no rule, or if the other one is better. */
bool flow_tail_rule(const struct flow *f, uint64_t addr, const struct state *s, struct etch_rule *out);

/*
 * May a code range return to its caller? Decides by reachability alone, from the range's start, its symbols and the
 * addresses `in` to which others jump; returns true where states would be needed to decide.
 */
bool flow_gets_out(struct flow *f, const struct flow_env *env, uint32_t range, const uint64_t *in, size_t in_count);

/* Does a function seem to begin with this instruction, decoded from `bytes`: endbr64, a push of a callee-saved
 * register, or an allocation on the stack? */
bool step_begins_function(const struct step *s, const uint8_t *bytes, uint64_t size);
/* Does the code at an offset pop the return address that a call of it pushes? Then no function begins there. */
bool code_pops_return_address(const struct code_range *p, uint64_t off);

/* Returns the code range that contains an address, or null. */
const struct code_range *range_at(const struct flow_env *env, uint64_t addr);
/* Returns the index of that code range, or NO_RANGE. addr may be a flow_exit.target. */
uint32_t range_number(const struct flow_env *env, uint64_t addr);

/* Makes env->index and env->spans, which speed up range_at(). ranges_index_free() frees them. */
void ranges_index(struct flow_env *env);
/* Updates what ranges_index() has made, after the end of code range i has moved up from `was`. */
void range_index_extend(struct flow_env *env, size_t i, uint64_t was);
void ranges_index_free(struct flow_env *env);

void flow_free(struct flow *f);

#endif
