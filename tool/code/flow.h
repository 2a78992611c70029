/* SPDX-License-Identifier: MIT */
/*
 * The flow of one piece of code: every instruction that can be reached from its
 * entries, and the state of the stack before each. Trouble is per piece (design
 * rule 8).
 *
 * A jump table need not be read: an indirect jump changes no stack state, so
 * where all of a piece agree, code that nothing direct reaches begins with their
 * state. An exception reaches its landing pad with the frame of its call site, a fault
 * its fixup with that of the instruction.
 */
#ifndef CODE_FLOW_H
#define CODE_FLOW_H

#include "code/fixups.h"
#include "code/lsda.h"
#include "code/state.h"
#include "elf/symbols.h"
#include "report/error.h"

/* A run of code that is looked at by itself: an FDE's range, a symbol's, or what
 * is between those where a call leads to. */
struct piece {
	uint64_t start, end;
	const uint8_t *bytes;
	long fde;         /* in cfi_file.fdes, or -1 */
	uint32_t entry, entry_count; /* symbols inside, not at its start: in frames' list */
	bool named;       /* a function symbol (not of a cold part), the file's entry, a PLT entry or a function of Go's
	                   * table is at its start */
	bool exported;    /* a symbol that other files can see is at its start */
	bool plt;
	bool outermost;   /* the file's entry point, or another function where a stack ends */
	const char *go;   /* the name of a function of Go's, which keeps no register for its caller but rbp; or null */
	bool ocaml;       /* of OCaml's compiler: a function keeps no register for its caller */
	bool handed;      /* the entry point jumps there, and nobody else leads there: a stack ends in it, too */
	bool stray;       /* found by what refers to it, in code that nothing covers */
	bool open;        /* nothing says where it ends: at what comes next, or where its flow ends */
};

/* Control that leaves a piece, other than as a call or a tail call. */
struct flow_edge {
	uint64_t target;
	uint32_t from; /* piece */
	struct state state;
};

enum flow_exit_kind {
	EXIT_CALL = 0,
	EXIT_LAST = 1,  /* a call with nothing but padding behind it in its piece */
	EXIT_FRESH = 2, /* a call; only from it the next instruction is reached, as far as is seen */
	EXIT_TAIL = 3,  /* a jump to the start of another piece, as if to call it */
	EXIT_PART = 4,  /* ... with a frame of this one */
	EXIT_REF = 5,   /* its address is taken: of a function, or of something else */
};

struct flow_exit {
	uint64_t target; /* address, or FLOW_EXTERN | symbol number, or FLOW_SLOT | address of a GOT slot */
	uint32_t kind;
	uint32_t from;   /* piece */
	uint32_t to;     /* piece that holds the target, or NO_PIECE */
};
#define NO_PIECE    UINT32_MAX
#define FUNCTION_ALIGN 16u /* of functions, by most compilers */
#define FLOW_EXTERN ((uint64_t)1 << 62)
#define FLOW_SLOT   ((uint64_t)1 << 61)

/* Most calls come back: a filter says so of most. */
#define NORETURN_BITS 16384u

/* What all pieces are looked at with; read-only meanwhile. */
struct flow_env {
	const struct elf_file *file;
	const struct cfi_file *cfi;
	const struct piece *pieces; /* sorted by start, none overlap */
	size_t piece_count;
	const uint64_t *entries;    /* addresses of symbols inside pieces */
	const uint64_t *noreturn;   /* exits that do not come back, sorted */
	size_t noreturn_count;
	uint64_t noreturn_bits[NORETURN_BITS / 64]; /* by hash: where none is, there is none in the list */
	const struct code_space *space;
	uint32_t *index;            /* of pieces by address: pieces_index() */
	struct piece_span { uint32_t start, end; } *spans; /* where they are, relative to index_base */
	uint64_t index_base, index_span;
	const struct fixups *fixups; /* may be null */
	bool haskell;               /* the file has code of GHC: code/haskell.h */
	struct symbol_index names;  /* for words about addresses; with observers only */
	struct flow_reloc *relocs;  /* ET_REL: in code, sorted by address */
	size_t reloc_count;
};

static inline unsigned noreturn_hash(uint64_t target) { return (unsigned)(target * 0x9e3779b97f4a7c15u >> 50); }
static inline bool noreturn_may_hold(const struct flow_env *env, uint64_t target)
{
	return env->noreturn_bits[noreturn_hash(target) / 64] >> noreturn_hash(target) % 64 & 1;
}

/* ET_REL: the field at `addr` refers to `target`. */
struct flow_reloc {
	uint64_t addr;
	uint64_t target; /* address of the space, or FLOW_EXTERN | symbol; addend included where an address */
};

/* An indirect jump, and the table that it takes its target from, if any. */
struct flow_jump {
	struct state state;
	struct value what;   /* as state_table() says */
	unsigned entries;    /* of the table that are followed */
	bool table, noted;
	bool fresh;          /* in flow.fresh_jumps */
	uint16_t guess;      /* entries of a table without a bound, as far as they can be such */
};

/* A worker's memory, used again for each piece. */
struct flow {
	const struct flow_env *env;
	const struct piece *piece;
	uint32_t number;           /* of the piece */
	size_t readable;           /* bytes from its start on that can be read: no fewer than it has */
	struct step_cache *cache;
	uint32_t *at;              /* per byte: number of the step that begins there, + 1 */
	size_t at_room;
	uint64_t *starts;          /* per byte a bit: a step begins there */
	struct step *steps;        /* in order of discovery */
	uint32_t *step_at;         /* their offsets */
	uint32_t *leader;          /* number of the state before the step + 1, where paths meet */
	uint8_t *seen;             /* STEP_* below */
	size_t step_count, step_room;
	struct state *states;
	uint8_t *state_live;       /* bit 0: has a value; bit 1: in the heap */
	uint32_t *state_step;
	size_t state_count, state_room;
	uint32_t *heap;            /* offsets of leaders whose state changed */
	size_t heap_count, heap_room;
	uint32_t *todo;            /* offsets to scan */
	size_t todo_count, todo_room;
	size_t reloc_near;         /* in env->relocs: the one that was found last */
	struct flow_pad { uint64_t start, end, pad; } *pads; /* call sites */
	size_t pad_count, pad_room;
	bool pads_held;            /* for now, calls do not throw */
	const struct fixup *fixups; /* of instructions of the piece */
	size_t fixup_count;
	int32_t pad_depth;         /* rsp, relative to the CFA, of the calls that throw: the highest */
	struct flow_dead { uint32_t off; struct state state; } *dead; /* behind calls that do not come back */
	size_t dead_count, dead_room;
	struct flow_jump *jumps;   /* indirect */
	size_t jump_count, jump_room;
	uint32_t guesses;          /* entries of tables without a bound that have been read */
	size_t guessed;            /* jumps that have been asked for such a table */
	uint32_t *table_at;        /* of each, where its table begins, or 0; as large as `jumps` */
	uint32_t *table_sorted;    /* the same in order, while many are followed; or null */
	struct flow_inner { uint32_t start, end; } *inner; /* tables among the code, in order: no code is there */
	size_t inner_count, inner_room;
	uint32_t *fresh_jumps;     /* numbers of those whose table is to be followed */
	size_t fresh_jump_count, fresh_jump_room;
	struct flow_agreed {       /* what the open ones of the first `upto` have in common */
		size_t upto;
		struct state state;
		struct etch_rule rule; /* of the first */
		bool some, differ;     /* there is one; not all have its rule */
	} agreed;
	bool jumps_agreed;         /* nothing has changed since jumps_agree() said yes */
	int32_t *paths;            /* helpers.c: once it is asked for, of the piece; or null */
	bool helpers;              /* calls what lies in the middle of it, by rules of its own */
	bool dirty;                /* a leader was found where a state had passed already */
	bool numbered;             /* set by the caller: numbers are followed (state.numbers) whether or not they matter */
	bool plain;                /* they are not */
	uint8_t asks;              /* with STIRS_ASKS: they matter */
	bool failed;               /* out of memory */
	bool lenient;              /* set by the caller: a second look at what ends as no function of a compiler does; tables
	                            * without a bound are followed, and what is called within keeps no registers */
	int32_t pushed;            /* set by the caller of flow_run(): bytes under the return address at the start */
	const struct etch_cfi_row *cfi; /* set by the caller too: what .eh_frame says of the piece */
	size_t cfi_count;
	uint8_t start;             /* enum flow_start, as flow_run() was told */
	uint64_t quiet;            /* flow_states(): up to here who is called need not be while nothing has changed; he sets it */
	uint64_t quiet_last, quiet_end; /* the last instruction that he was not called for, and its end */
	/* Results of the last piece. */
	int32_t lifted;            /* how far above its start's rsp it leaves, always; 0; after flow_states() */
	bool lowered;              /* or not always */
	bool switches;             /* begins by replacing rsp: where a context made by hand begins */
	bool ends;                 /* returns somewhere as the function that it was taken for */
	bool unbalanced;           /* returns with a frame left, or without a register (that is, unless from a
	                            * helper of its own); after flow_states() */
	bool refuted;              /* returns with a frame left, or with more taken than there was: never began so */
	bool odd;                  /* returns with rsp not known, or leaves the file in no state to do so; after flow_states() */
	bool haskell;              /* it may be code of GHC: haskell_may_be() */
	size_t followed;           /* steps that haskell_follow() has seen */
	bool foreign;              /* leaves as no C function can: no frame of C's kind */
	bool returned;             /* has a return */
	struct etch_rule run;      /* where it goes to code of GHC, as StgRun does; kind UNDEF: it does not */
	bool plain_edges;          /* its edges bring no numbers: they do not matter */
	bool returns;              /* may come back to its caller; after flow_states() */
	bool broken;               /* runs into what is no instruction; after flow_states() */
	struct flow_edge *edges;   /* one a target; complete after flow_states() */
	size_t edge_count, edge_room;
	uint32_t *edge_hash;
	size_t edge_hash_size;
	struct flow_exit *exits;   /* the same */
	size_t exit_count, exit_room;
	uint64_t fresh;            /* instructions decoded */
	uint64_t hull;             /* offset of the end of the last instruction that it reaches */
};
#define FLOW_SCANNED 1u
#define FLOW_WALKED  2u
#define FLOW_MOVES   4u /* behind it rules may be others, as of when it was walked last */

enum flow_start {
	START_FUNCTION, /* a function begins there: certain */
	START_ASSUMED,  /* as far as is known */
	START_PART,     /* only where edges lead, with the state that they bring */
};

/* Looks at a piece. `in`: edges of others into it, sorted by target. Results in
 * *f. False: out of memory. */
bool flow_run(struct flow *f, const struct flow_env *env, uint32_t piece, const struct flow_edge *in, size_t in_count,
              enum flow_start start);

/*
 * The states of the last piece in order of address: called for each instruction
 * that was reached, with the state before it; `same`: nothing that rules are made of
 * has changed since the last call, which was for the instruction just before.
 */
typedef void flow_state_fn(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same);
void flow_states(struct flow *f, flow_state_fn *fn, void *ctx);

/* Once more, by who wants to look only: results stay as they are. */
void flow_look(struct flow *f, flow_state_fn *fn, void *ctx);

/* The piece that holds an address, or null. */
const struct piece *piece_at(const struct flow_env *env, uint64_t addr);
/* Its number, or NO_PIECE; addr may be a flow_exit.target. */
uint32_t piece_number(const struct flow_env *env, uint64_t addr);

/* Makes env->index and env->spans, which piece_at() is faster with; owned. False: out of memory. */
bool pieces_index(struct flow_env *env);
void pieces_index_free(struct flow_env *env);

void flow_free(struct flow *f);

#endif
