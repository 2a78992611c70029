/* SPDX-License-Identifier: MIT */
/*
 * Code as functions: where each begins and ends, and its instructions.
 *
 * An executable section is cut at every known start (function symbols, FDEs of
 * .eh_frame_hdr), so that each byte belongs to one piece, padding to the piece
 * before it. Trouble is per function: one that does not decode to its end, or
 * in which a branch lands inside an instruction, is not `whole`, and the others
 * do not notice.
 */
#ifndef CODE_FUNC_H
#define CODE_FUNC_H

#include "arch/x86/insn.h"
#include "elf/file.h"

struct func {
	uint32_t section;
	uint64_t start, end; /* virtual addresses; in ET_REL offsets in the section */
	const uint8_t *bytes; /* end - start of them */
	bool vague;           /* other functions may lie in it: symbols are stripped, and no FDE begins it */
};

struct func_list {
	struct func *funcs; /* sorted by (section, start) */
	size_t count;
};

/* The instructions of one function. */
struct func_code {
	struct insn *insns;
	size_t count;
	bool whole; /* decodes to its end, and every branch inside lands on an instruction */
};

/* Has the file lost the symbols of local functions and objects? Every program and library that
 * is linked as usual has some, of the compiler's start-up files. */
bool func_symbols_lost(const struct elf_file *f);
int func_list_build(const struct elf_file *f, struct func_list *out, struct error *e);
void func_list_free(struct func_list *l);
/* The function that holds an address, or null. */
const struct func *func_find(const struct func_list *l, uint32_t section, uint64_t addr);

/* Decodes a function; reuses out's array. -1 only when out of memory. */
int func_decode(const struct func *fn, struct func_code *out, struct error *e);
void func_code_free(struct func_code *c);
/* Index of the instruction at `addr`, or SIZE_MAX when none begins there. */
size_t func_insn_at(const struct func_code *c, uint64_t addr);
/* Index of the instruction that holds the byte at `addr`, or SIZE_MAX. */
size_t func_insn_over(const struct func_code *c, uint64_t addr);

/*
 * Which registers a call of a function may change, from its code and that of the
 * functions it calls, as far as they are in the file: never more than the ABI
 * allows. Remembered per function.
 */
struct func_clobbers {
	const struct elf_file *file;
	const struct func_list *list;
	uint8_t *known;  /* 0 no, 1 being worked on, 2 yes */
	bool *vague;     /* the compiler, which knew the callee, may have known of fewer */
	uint16_t *mask;
	unsigned depth;
	struct func_lives **lives; /* of each that func_live() was asked about */
};
int func_clobbers_init(struct func_clobbers *c, const struct elf_file *f, const struct func_list *l, struct error *e);
void func_clobbers_free(struct func_clobbers *c);
uint16_t func_clobbers(struct func_clobbers *c, int32_t callee, struct error *e);
static inline bool func_is_start(const struct func_clobbers *c, int32_t fn, uint64_t addr)
{
	return c->list->funcs[fn].start == addr;
}
/* Registers whose value at `addr` may be used from there on, in function number
 * `fn` and behind it: liveness, with the ABI for what leaves the function. */
uint16_t func_live(const struct func_clobbers *c, int32_t fn, uint64_t addr, struct error *e);

#endif
