/* SPDX-License-Identifier: MIT */
/*
 * The dataflow analysis of one code range. It finds every instruction that is reachable from the range's entries, and
 * computes the abstract state (state.h) before each, by a worklist, to the fixpoint. A failure concerns one code range
 * only.
 *
 * A jump table that cannot be read costs little. An indirect jump does not change the stack, so code that nothing else
 * reaches is given the state at the code range's indirect jumps, if these agree (jumps.c). A landing pad is given the
 * frame of the call site that throws; a fixup is given the frame of the instruction that faults.
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
 * A misfit is an edge whose jump is in a state that contradicts the state at a function's entry. For that jump the
 * target is no function, whatever a symbol or .eh_frame says (interproc/refuted_starts.c). The values say which jumps
 * of an edge are in such a state.
 */
enum flow_misfit {
	/* none */
	MISFIT_NONE,
	/* only jumps that may never be executed: jumps to the end of their own code range, which __builtin_unreachable()
	 * may leave behind, and jumps by entries of a jump table that perhaps lie beyond its end */
	MISFIT_DOUBT,
	MISFIT_JUMP, /* at least one other jump */
};

/* An edge from one code range to another that is neither a call nor a tail call. `state` is the state at the target. */
struct flow_edge {
	uint64_t target;
	uint32_t from;  /* code range */
	uint32_t at;    /* with a misfit: offset in that code range of the jump for which `misfit` was set */
	uint8_t misfit; /* enum flow_misfit */
	struct state state;
};

/* The kinds of references that a struct flow_exit describes. */
enum flow_exit_kind {
	EXIT_CALL = 0,
	EXIT_LAST = 1,  /* a call after which its function has only padding (flow_is_end()): perhaps noreturn */
	EXIT_FRESH = 2, /* a call whose next instruction has no other known predecessor */
	EXIT_TAIL = 3,  /* a tail call: a jump to a function's start in the state of an entry */
	EXIT_PART = 4,  /* a jump to the start of another code range, with the frame of this range still in place */
	EXIT_REF = 5,   /* an instruction computes an address of code, perhaps that of a function */
	EXIT_LEFT = 6,  /* a call after which the code goes on as if the arguments pushed for it were not on the stack:
	                   perhaps noreturn */
};

/* A reference from a code range to code: a call, a jump out of the range, or an address of code that it computes. */
struct flow_exit {
	uint64_t target; /* address, or FLOW_EXTERN | symbol number, or FLOW_SLOT | address of a GOT slot */
	uint32_t kind;   /* enum flow_exit_kind */
	uint32_t from;   /* code range */
	uint32_t to;     /* code range that holds the target, or NO_RANGE */
	uint32_t at;     /* EXIT_REF: offset of the instruction in the code range */
};
#define NO_RANGE       UINT32_MAX
#define FUNCTION_ALIGN 16u /* alignment, in bytes, that most compilers give functions */
#define FLOW_EXTERN    ((uint64_t)1 << 62)
#define FLOW_SLOT      ((uint64_t)1 << 61)

/*
 * A continuation: an address of code that an instruction passes on in a register, so that other code jumps to it later.
 * That jump happens in the frame of the instruction, or in the frame of a function that the code calls after it
 * (interproc/continuations.c).
 */
struct flow_continuation {
	uint64_t at, label; /* addresses of the instruction and of the continuation */
	bool jumped, called;
	bool unknown;       /* the frame at the continuation is not known */
	int32_t jump_moved; /* with `jumped`: rsp at the label minus rsp at the instruction */
	int32_t call_moved; /* with `called`: rsp at the label minus rsp at the start of the callee */
	uint16_t writes;    /* registers that have changed when control reaches the label */
};

/* A word of data at `place` that becomes the address `target` of code when it is relocated, whatever the file contains
 * at `place`. */
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
	/* Does such code begin at an address of the code space, judging by the data in front of it? Called by
	 * own_stack_begins(). */
	bool (*begins)(const struct flow_env *env, uint64_t addr);
	/* Finds the unwind rule of such code in a program that is linked with the shared library `name`. Returns 1 and sets
	 * *out; -1 if the rule of that release of the runtime is not known; 0 if the library does not belong to the
	 * runtime. */
	int (*library)(const char *name, struct etch_rule *out);
	int32_t reserved; /* bytes above rsp that such code may use, and the farthest distance that it may move rsp */
	/* Is the indirect jump `in`, in state s, the one by which C enters such code? Then *out becomes the unwind rule of
	 * all such code. */
	bool (*enters)(const struct step *in, const struct state *s, struct etch_rule *out);
	/* Walks the code at the addresses to which the code of the range returns. Returns true if it found addresses that
	 * were not walked before; then it is to be called again, at most follow_most times. */
	bool (*follow)(struct flow *f);
	unsigned follow_most;
	/* Does the range have a jump table whose targets are not all known? */
	bool (*switches)(const struct flow *f);
	/* Do the states at the range's indirect jumps have the same rsp? Then *out becomes a state in which only rsp is
	 * known. */
	bool (*agree)(struct flow *f, struct state *out);
	/* Returns the number of bytes of the runtime's data that begin at an offset of the range, in front of reached code;
	 * 0 if there are none. */
	uint64_t (*table)(const struct flow *f, uint64_t off);
};

/* Number of bits of the filter that is asked before the list flow_env.noreturn is searched. Most calls return, and for
 * most of these the filter already says so. */
#define NORETURN_BITS 16384u

/* Shared by the analyses of all code ranges; read-only while workers run. */
struct flow_env {
	const struct elf_file *file;
	const struct cfi_file *cfi;
	const struct code_range *ranges; /* sorted by start; none overlap */
	size_t range_count;
	const uint64_t *entries;  /* addresses of symbols inside code ranges, sorted; code_range.entry is an index in it */
	const uint64_t *noreturn; /* targets (as flow_exit.target) of noreturn calls, sorted */
	size_t noreturn_count;
	const uint64_t *noreturn_named; /* the elements of `noreturn` that are known by name, sorted */
	size_t noreturn_named_count;
	/* by noreturn_hash(): if the bit is 0, the target is not in `noreturn` */
	uint64_t noreturn_bits[NORETURN_BITS / 64];
	const bool *stops; /* per code range: true if it was found to be noreturn after `noreturn` was made; or null */
	const struct code_space *space;
	uint32_t *index; /* from address to code range; made by ranges_index() */
	struct range_span {
		uint32_t start, end;
	} * spans; /* the code ranges, relative to index_base */
	uint64_t index_base, index_span;
	const struct fixups *fixups;         /* may be null */
	const struct notes *notes;           /* null: there are none */
	const struct flow_pointer *pointers; /* sorted by place; without the words that SHT_RELR relocates, since the file
	                                        contains their addresses in full */
	size_t pointer_count;
	const struct flow_continuation *continuations; /* sorted by `at` */
	size_t continuation_count;
	uint8_t abi_flags; /* ABI_* of the file */
	bool handlers;     /* some code range is a handler of an interpreter (code_range.handler) */
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
	struct value what;     /* with `table`: the table's address and size, set by state_table() */
	unsigned entries;      /* number of entries that are followed */
	uint32_t step;         /* index of its instruction in flow.steps */
	bool table, has_state; /* the jump takes its target from a table, and `what` is valid; `state` is valid */
	bool is_new;           /* the jump is in flow.walk.new_jumps */
	uint16_t unbounded;    /* number of plausible entries of a table without a bound, set by unbounded_entries() */
};

/* What is known about the start of a code range. */
enum flow_start {
	START_FUNCTION, /* a function certainly begins there */
	START_ASSUMED,  /* nothing shows what begins there; it is assumed to be a function */
	START_PART,     /* it is no function's: control enters only by edges, whose states count */
	START_NOWHERE,  /* no path leads into the code range */
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
	const struct fixup *fixups; /* the fixups of instructions of the code range */
	size_t fixup_count;
	uint8_t abi_flags;                    /* ABI_* of all states */
	bool noted;                           /* the file has notes (env->notes) */
	const struct note *notes, *notes_end; /* the notes at addresses of the range, including the address of its end */
	bool settles; /* every decoded step is adjusted to its context; if false, only some steps are: see is_settled() */
	bool throws;  /* any instruction may have an edge besides its control flow: there are fixups, or notes of edges */
	/* Set by the caller. */
	const struct etch_cfi_row *cfi; /* rows of .eh_frame for the range, sorted */
	size_t cfi_count;
	int32_t pushed;     /* bytes that are already pushed below the return address at the start */
	int32_t overdrawn;  /* if not 0: an earlier analysis, which took the start for a function's entry, found that the
	                       code takes this many bytes more off the stack than are there at an entry; so the range does
	                       not begin with an entry */
	bool lift_unproven; /* nothing proves that the range begins with a function's entry; used by lifts() in
	                       unwind/row_choice.c */
	uint32_t unproven;  /* states from this offset on count as not proven (flow_result.left_over); 0: there is no such
	                       offset */
	bool framed;        /* the range begins in an unknown frame */
	/* only if `framed` is set: the unknown frame is an interpreter's, and rbp points to it (handlers.c) */
	bool handler;
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
	uint64_t unread; /* 1 + offset of the first reached instruction that etch does not decode, though newer processors
	                    may; 0: there is none */
	uint64_t extent; /* offset of the end of the last reached instruction */
	struct etch_rule runtime_rule; /* the rule that runtime->enters() found; kind UNDEF: none */
	uint32_t dispatch; /* address of the table of a jump that is not followed, made in a frame of push %rbp; mov %rsp,
	                      %rbp; 0: there is none */
	uint32_t dispatch_otherwise; /* address of the table of a jump that is not followed, made in any other frame; 0:
	                                there is none */
	int32_t exit_sp_delta;       /* rsp at all exits, minus the rsp expected at a return; 0: there is none */
	uint16_t jumps_by;           /* mask of the registers through which indirect jumps without a known target go */
	bool exit_sp_varies;         /* at some exit rsp is different, or unknown, so exit_sp_delta does not count */
	/* some exit that exit_sp_delta describes leaves as a function does: by a return, or by a jump after a callee-saved
	 * register has been restored or words have been dropped from the stack */
	bool exit_sp_certain;
	bool exit_sp_mismatch; /* the code leaves while part of a frame is on the stack, or has popped more than it pushed,
	                          so it did not begin as a function */
	bool exit_sp_unknown; /* the code returns while rsp is unknown, or jumps to another file in a state that is not that
	                         of a function's entry */
	bool exits_balanced;  /* some exit is a return or tail call in the state that a function's entry has
	                         (state_is_entry()) */
	bool returns_unbalanced; /* the code returns while part of a frame is on the stack, or without having restored a
	                            callee-saved register; returns of local helpers do not count */
	bool inner_returns;     /* some return is in the state that a function's entry has, but this state is weak, since it
	                           comes from a jump that is not followed */
	bool returns_to_caller; /* some return has rsp as it was at the start, in a state that is not weak; or there is a
	                           tail call after the restore of a callee-saved register */
	bool return_certain;    /* some return is reached in a state that is not weak */
	bool returns_home; /* in a state that is not weak, the code goes to the return address that was on top of the stack
	                      at its start: by a return, by a jump through a register that holds it, or by way of a tail
	                      call through the PLT */
	int32_t overdrawn; /* the most bytes that the code has taken off the stack, beyond those that are there at an entry,
	                      at an exit where the return address is neither on top of the stack nor the target; 0: there is
	                      no such exit */
	uint32_t called;   /* offset to which the call with the lowest address returns; 0: there is no call that returns */
	bool left_over;  /* the range has a call and a return in front of which the code takes down its frame, although part
	                    of the frame would still be there by the state: so a call has taken words off the stack, and no
	                    state after a call is proven */
	bool may_return; /* the code may return to its caller */
	bool non_c_frame;  /* the code leaves in a way that no C function can, so its frames are not those of C */
	bool keeps_frame;  /* of a handler of an interpreter: it returns, or makes a tail call, from the frame that rbp
	                      points to */
	bool breaks_frame; /* of a handler: an exit shows that rbp does not point to its frame */
	bool replaces_sp;  /* the first instruction of the range loads another stack pointer, as where contexts of
	                      makecontext() begin */
	bool broken;       /* control reaches bytes that do not decode */
	bool no_constants; /* the analysis did not follow constants (state.constants) */
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

/* The join of the states at those of the first `upto` indirect jumps that are open (is_open() in jumps.c). */
struct flow_agreed {
	size_t upto;
	struct state state;
	struct etch_rule rule; /* rule of the first open jump */
	bool some, differ; /* at least one of these jumps is open; not all of the open ones have the rule of the first */
};

/* The data that the walk over a code range needs for itself. */
struct flow_scratch {
	size_t at_capacity, step_capacity, state_capacity, jump_capacity, edge_capacity,
		exit_capacity;    /* capacities of arrays elsewhere in struct flow */
	size_t at_size;       /* size of the range; flow.at is 0 from this index on */
	struct worklist list; /* blocks whose state has changed, as indexes in flow.states; ordered by offset, since most
	                         edges lead forward */
	uint32_t *todo;       /* offsets to decode from */
	size_t todo_count, todo_capacity;
	size_t reloc_near;     /* index in env->relocs that the last lookup found; the next lookup begins there */
	struct flow_pad *pads; /* sorted */
	size_t pad_count, pad_capacity;
	int32_t pad_depth;      /* the highest rsp - CFA of all calls that throw */
	bool pads_deferred;     /* this is the first walk: landing pads wait until pad_depth is known */
	struct flow_dead *dead; /* in the order in which the walk found them */
	size_t dead_count, dead_capacity;
	uint32_t unbounded_count; /* number of entries read so far from tables without a bound */
	size_t unbounded_next;    /* the jumps before this index have been examined for a table without a bound */
	uint32_t *table_at;       /* per jump: low 32 bits of its table's address, or 0; same capacity as flow.jumps */
	uint32_t *table_sorted;   /* a sorted copy of table_at while tables_follow() has many jumps; or null */
	struct flow_inner *inner; /* jump tables inside the range, sorted and disjoint; they are not decoded as code */
	size_t inner_count, inner_capacity;
	uint32_t *new_jumps; /* indexes of jumps whose tables are still to be followed */
	size_t new_jump_count, new_jump_capacity;
	struct flow_agreed agreed;
	size_t runtime_next;          /* env->runtime->follow() has examined the steps before this index */
	int32_t *paths;               /* ends.c: number of jumps over each offset, made on demand; or null */
	struct hash_index edge_index; /* finds edges by their target */
	uint8_t effects;   /* union of the effects of all steps; if it has EFFECT_NEEDS_CONSTANT, constants are needed */
	bool jumps_agreed; /* jumps_agree() has returned true and no jump has changed since */
	bool has_helpers;  /* the range has calls whose targets are inside the range */
	bool takes_own_address;    /* the range has a call of the next instruction, to obtain its own address */
	bool has_traps;            /* the range links exception handlers into a list (traps.c) */
	bool by_note;              /* the walk is passing a state along an edge that comes from a NOTE_EDGE */
	bool dirty;                /* a block was split after a walk had passed it; all blocks must be walked again */
	bool edges_drop_constants; /* edges are added without constants, since the range does not need these */
};

/*
 * A callback, called for each reached instruction in order of address with the state before it. `same` is set if the
 * callback was last called for the instruction directly before this one, and the unwind rule is still the same.
 */
typedef void flow_state_fn(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same);

/*
 * The analysis of one code range: its instructions, its basic blocks with their states, and its indirect jumps. These
 * are valid until the next flow_run(). Each worker has one struct flow, and reuses its memory for the next range.
 */
struct flow {
	struct flow_input in;
	struct flow_result found;
	struct flow_scratch walk;
	struct step_cache *cache;
	uint32_t *at;       /* per byte of the range: 1 + index in `steps` of the step that begins there; 0: none */
	uint64_t *starts;   /* bitmap with one bit per byte of the range, set where a step begins */
	struct step *steps; /* decoded instructions, in order of discovery */
	uint32_t *step_at;  /* per step: its offset in the range */
	uint32_t *leader; /* per step: if it begins a basic block, 1 + index in `states` of the block's state; if not, 0 */
	uint8_t *seen;    /* per step: FLOW_* below */
	size_t step_count;
	struct state *states;    /* before the first instruction of each basic block */
	uint8_t *state_live;     /* per state: LIVE and THROWS, see flow_internal.h */
	uint32_t *step_of_state; /* per state: index of the step that it precedes */
	size_t state_count;
	struct flow_jump *jumps; /* indirect jumps */
	size_t jump_count;
	/* per step: number of bytes from rsp up to the return address, as tails.c finds it; negative: unknown */
	int32_t *tails;
	size_t tail_capacity;
	/* The callback of flow_states() may set `below`: flow_states() then does not call it for instructions that end at
	 * or below this address, as long as the rule stays the same. `last` and `end` are the address and the end of the
	 * last instruction skipped so. */
	struct flow_skip {
		uint64_t below, last, end;
	} skip;
	/* Set around flow_states() or flow_look() to learn where callee-saved registers are (state_saves()). */
	struct flow_saves {
		flow_state_fn *fn;  /* called before the other callback, for instructions at which the places of these registers
		                       may change; or null */
		unsigned registers; /* mask of the registers on which these places depend, as state_saves() returns it; set by
		                       fn; 0 without fn */
		bool again;         /* set by fn: it wants to be called for the next instruction, too */
	} saves;
};
#define FLOW_SCANNED 1u  /* control flow reaches it, so flow_reach() has decoded its successors, too */
#define FLOW_WALKED  2u  /* a state has reached it */
#define FLOW_MOVES   4u  /* the last walk found that it may change the unwind rule */
#define FLOW_IDLE    8u  /* the last walk found that it leaves the state as it is */
#define FLOW_NUMBER  16u /* tails.c: it stores a number that is no address of code */

/* Analyses a code range. `in` are the edges from other code ranges into it, sorted by target. The results are in *f. A
 * range of 4 GiB or more ends the process, as lack of memory does. */
void flow_run(struct flow *f, const struct flow_env *env, uint32_t range, const struct flow_edge *in, size_t in_count,
              enum flow_start start);

/* Reports the states of the code range of the last flow_run(), and completes the results in *f: exits, edges, flags. */
void flow_states(struct flow *f, flow_state_fn *fn, void *ctx);

/* Reports the states again, without touching the results. */
void flow_look(struct flow *f, flow_state_fn *fn, void *ctx);

/* tails.c: may flow_tail_rule() find rules in the code range? */
bool flow_has_tails(const struct flow *f);
/* Finds, for flow_tail_rule(), at what distance from rsp the code after each instruction needs the return address
 * (flow.tails). Called before flow_states(). */
void flow_tails_find(struct flow *f);
/* After flow_tails_find(), in the callback of flow_states(): replaces *out, which is the rule that the state proves
 * before an instruction, by the rule that follows from the tail calls and handlers after it. Returns false if these
 * show no rule, or if the rule of the state is better. */
bool flow_tail_rule(const struct flow *f, uint64_t addr, const struct state *s, struct etch_rule *out);

/*
 * May a code range return to its caller? Decides by reachability alone: from the range's start, its symbols, and the
 * sorted addresses `in` to which other ranges jump. Returns true where states would be needed to decide.
 */
bool flow_gets_out(struct flow *f, const struct flow_env *env, uint32_t range, const uint64_t *in, size_t in_count);

/* Does a function seem to begin with this instruction, decoded from `bytes`: endbr64, a push of a callee-saved
 * register, or an allocation on the stack? */
bool step_begins_function(const struct step *s, const uint8_t *bytes, uint64_t size);
/* Does the code at an offset pop the return address that a call of this code pushes? Then no function begins there. */
bool code_pops_return_address(const struct code_range *p, uint64_t off);

/* Returns the code range that contains an address, or null. */
const struct code_range *range_at(const struct flow_env *env, uint64_t addr);
/* Returns the index in env->ranges of the code range that contains an address, or NO_RANGE. addr may be any
 * flow_exit.target. */
uint32_t range_number(const struct flow_env *env, uint64_t addr);

/* Makes env->index and env->spans, which speed up range_at(). ranges_index_free() frees them. */
void ranges_index(struct flow_env *env);
/* Updates env->index and env->spans after the end of code range i has moved up from `was`. */
void range_index_extend(struct flow_env *env, size_t i, uint64_t was);
void ranges_index_free(struct flow_env *env);

void flow_free(struct flow *f);

#endif
