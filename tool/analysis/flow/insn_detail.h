/* SPDX-License-Identifier: MIT */
/*
 * Results of the flow analysis for each instruction of an address interval, which etch inspect code shows beside the
 * code. frames_options.detail requests them. (The unwind rows are made from the same states, but have only the rules.)
 */
#ifndef ANALYSIS_FLOW_INSN_DETAIL_H
#define ANALYSIS_FLOW_INSN_DETAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/orc.h>

/* Where is the value that a register held at the function's entry? */
enum detail_where {
	WHERE_LOST,     /* not known */
	WHERE_SAME,     /* still in the register */
	WHERE_CFA,      /* in memory at CFA + off */
	WHERE_RSP,      /* in memory at rsp + off; the distance from rsp to the CFA is unknown */
	WHERE_RBP,      /* in memory at rbp + off; the distance from rbp to the CFA is unknown */
	WHERE_REGISTER, /* in register `off` */
};

/* The state before a reached instruction. */
struct detail_insn {
	uint64_t addr;
	struct etch_rule rule; /* the unwind rule that the code proves; kind UNDEF: the code proves none */
	int32_t off[16];       /* per register: see enum detail_where */
	uint8_t where[16];     /* per register: enum detail_where; set for callee-saved registers except rsp */
	bool weak;             /* the state is weak: see struct state */
	bool dead;             /* only returns of noreturn calls would reach the instruction */
	bool ends;             /* control does not continue: a noreturn call, or a system call that exits */
};

/* An indirect jump through a table. */
struct detail_jump {
	uint64_t addr;
	uint64_t table;   /* address of the table; 0: unknown; ET_REL: the jump's operand before relocation */
	uint32_t section; /* ET_REL: the section in which `table` is an offset, set by the reader of relocations; else 0 */
	unsigned bytes, most; /* bytes per entry; number of entries by the bound in the code, or 0 without a bound */
	bool followed;        /* the analysis follows the table: all its entries lead to code */
	bool listed;          /* the jump's targets are in detail.targets; false if detail_targets_most() is exceeded */
	unsigned entries;     /* number of entries that the analysis follows */
	uint64_t start, end;  /* addresses of the code range that has the jump */
	const uint8_t *code;  /* bytes of the code range, in which the table may lie */
};

/* Entry `index` of the table of the jump at `addr`. */
struct detail_target {
	uint64_t addr;
	uint64_t target;
	unsigned index;
};

/* Exceptions that are thrown in [start, end) land at `pad`. */
struct detail_pad {
	uint64_t start, end, pad;
};

struct flow;
struct code_range;
struct elf_file;

/* A request, and what was found for it. Addresses are those of struct code_space. */
struct detail {
	uint64_t from, to; /* requested interval */
	bool vague; /* it is not known which functions begin in the interval: only the code range that contains `at` is
	               wanted */
	uint64_t at;
	struct detail_insn *insns; /* sorted by address; reached instructions only */
	size_t insn_count, insn_capacity;
	struct detail_jump *jumps;
	size_t jump_count, jump_capacity;
	struct detail_target *targets;
	size_t target_count, target_capacity;
	struct detail_pad *pads;
	size_t pad_count, pad_capacity;
};

/* The results for one code range. Each round of the analysis replaces the results of the round before. */
struct detail_part;
/* Replaces *part by the results of the code range that flow_run() and flow_states() have just analysed; *part becomes
 * null if the range is outside of the interval. */
void detail_take(const struct detail *d, struct detail_part **part, struct flow *f);
void detail_part_free(struct detail_part **part);
/* Appends the results of one code range, once its last round is over. */
void detail_add(struct detail *d, const struct detail_part *part);
struct flow_env;
/* Sorts all lists by address and reads the targets of the jump tables. */
void detail_sort(struct detail *d, const struct flow_env *env);
/* Returns the largest number of targets that may be listed for all jumps together. */
static inline uint64_t detail_targets_most(const struct detail *d) { return 65536 + 4 * (d->to - d->from); }
/* Sorts detail.targets. Call it after adding to this list, before detail_targets_of(). */
void detail_targets_sort(struct detail *d);
/* Returns the result for the instruction at an address, or null. */
const struct detail_insn *detail_at(const struct detail *d, uint64_t addr);
/* detail_jump_at() returns the jump at an address, or null. detail_targets_of() returns the first of this jump's
 * targets, which are consecutive in detail.targets, or null. */
const struct detail_jump *detail_jump_at(const struct detail *d, uint64_t addr);
const struct detail_target *detail_targets_of(const struct detail *d, uint64_t addr);
/* Returns the call site that contains an address, and so tells where an exception that is thrown there lands, or
 * null. */
const struct detail_pad *detail_pad_of(const struct detail *d, uint64_t addr);
void detail_free(struct detail *d);

#endif
