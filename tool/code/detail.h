/* SPDX-License-Identifier: MIT */
/*
 * What the flow analysis knows of each instruction of one stretch of code: for people who
 * want to see it beside the code (etch inspect code). Asked for by frames_options.detail;
 * the rows are the short form of it.
 */
#ifndef CODE_DETAIL_H
#define CODE_DETAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/orc.h>

/* Where what a register held at the function's entry is now. */
enum detail_where {
	WHERE_LOST,     /* not known */
	WHERE_SAME,     /* in the register */
	WHERE_CFA,      /* in memory at CFA + off */
	WHERE_RSP,      /* in memory at rsp + off: where the way from rsp to the CFA is not known */
	WHERE_RBP,      /* likewise */
	WHERE_REGISTER, /* in register `off` */
};

struct detail_insn {
	uint64_t addr;
	struct etch_rule rule; /* what the code proves; kind UNDEF: nothing */
	int32_t off[16];       /* by register */
	uint8_t where[16];     /* enum detail_where; of callee-saved registers but rsp */
	bool weak;             /* come to only by what indirect jumps have in common, or the like */
	bool dead;             /* come to only behind calls that do not come back */
	bool ends;             /* a call that does not come back, or a system call */
};

/* An indirect jump through a table. */
struct detail_jump {
	uint64_t addr;
	uint64_t table;       /* 0: not known which; of an object file what stands there before relocation */
	uint32_t section;     /* of an object file: what who knows the relocation makes `table` an offset in; 0 */
	unsigned bytes, most; /* an entry; entries, as far as the code shows a bound (0: none) */
	bool followed;        /* each of them leads into code: targets below */
};

/* Entry `index` of the table of the jump at `addr`. */
struct detail_target {
	uint64_t addr;
	uint64_t target;
	unsigned index;
};

/* What is thrown in [start, end) lands there. */
struct detail_pad {
	uint64_t start, end, pad;
};

struct detail {
	uint64_t from, to; /* asked for, in addresses of the space; so is all else */
	struct detail_insn *insns; /* by address; those that flow comes to */
	size_t insn_count, insn_room;
	struct detail_jump *jumps;
	size_t jump_count, jump_room;
	struct detail_target *targets;
	size_t target_count, target_room;
	struct detail_pad *pads;
	size_t pad_count, pad_room;
};

struct flow;

/* Takes what flow_run() and flow_states() have found of a piece, in the place of what an
 * earlier run of it gave. False: out of memory. */
bool detail_take(struct detail *d, struct flow *f);
/* By address, when all is taken. */
void detail_sort(struct detail *d);
const struct detail_insn *detail_at(const struct detail *d, uint64_t addr);
/* The table of the jump at an address, or null; its first target. */
const struct detail_jump *detail_jump_at(const struct detail *d, uint64_t addr);
const struct detail_target *detail_targets_of(const struct detail *d, uint64_t addr);
/* Where what is thrown at an address lands, or null. */
const struct detail_pad *detail_pad_of(const struct detail *d, uint64_t addr);
void detail_free(struct detail *d);

#endif
