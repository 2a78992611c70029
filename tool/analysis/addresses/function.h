/* SPDX-License-Identifier: MIT */
/*
 * Divides code into functions, so that addresses of objects can be tracked: where each function begins and ends, and
 * its instructions.
 *
 * An executable section is divided at every known start of a function (function symbols, and the FDEs in
 * .eh_frame_hdr), so each byte belongs to one function. Padding belongs to the function before it. A function is not
 * `whole` if it does not decode up to its end, or if a branch leads into the middle of an instruction. This does not
 * affect other functions.
 */
#ifndef ANALYSIS_ADDRESSES_FUNCTION_H
#define ANALYSIS_ADDRESSES_FUNCTION_H

#include "arch/x86/insn.h"
#include "elf/file.h"

/* A function. */
struct func {
	uint32_t section;
	uint64_t start, end;  /* virtual addresses; in ET_REL offsets in the section */
	const uint8_t *bytes; /* end - start bytes, in the file's memory */
	/* This range may contain several functions: symbols are stripped, and no FDE begins here. */
	bool vague;
};

/* The instructions of one function. */
struct func_code {
	struct insn *insns;
	size_t count;
	bool whole; /* it decodes up to its end, and every branch inside it leads to the start of an instruction */
};

struct func_list {
	struct func *funcs; /* sorted by (section, start) */
	size_t count;
	/* Cache of decoded functions, shared by all passes that look at instructions. A function that is not decoded has
	 * null insns. At most about FUNC_HELD_MOST bytes are held. */
	struct func_code *codes;
	size_t held;
};
#define FUNC_HELD_MOST ((size_t)16 << 20)

/* Does an address lie in a function? It must be in the same section. */
static inline bool func_holds(const struct func *fn, uint64_t addr) { return addr >= fn->start && addr < fn->end; }

/* Returns the bytes of an instruction of a function. */
static inline const uint8_t *func_bytes_of(const struct func *fn, const struct insn *in)
{
	return fn->bytes + (in->addr - fn->start);
}

/* Is the instruction a direct jump or branch? */
static inline bool func_is_jump(const struct insn *in) { return in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH; }

/* May control reach the next instruction? Calls are assumed to return. */
static inline bool func_falls_through(const struct insn *in)
{
	return in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH || in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND;
}

/* Are the symbols of local functions and objects stripped? This is assumed of a linked file without any: every program
 * and library has some otherwise, at least those of the compiler's start-up files. */
bool func_symbols_lost(const struct elf_file *f);
/* Divides a file into functions. *out refers to the file's bytes; func_list_free() frees it. */
void func_list_build(const struct elf_file *f, struct func_list *out);
void func_list_free(struct func_list *l);
/* Returns the function that holds an address, or null. */
const struct func *func_find(const struct func_list *l, uint32_t section, uint64_t addr);

/* Decodes a function into *out, which must be zeroed or the result of an earlier call, whose array is reused. */
void func_decode(const struct func *fn, struct func_code *out);
/* Returns the instructions of function i of a list, from its cache. If the cache is full, decodes them into *spare,
 * which is used like the `out` of func_decode(). Not thread-safe. */
const struct func_code *func_code_of(struct func_list *l, size_t i, struct func_code *spare);
/* Empties the list's cache of instructions. */
void func_codes_drop(struct func_list *l);
/* Copies instructions into *out, which is used like the `out` of func_decode(). */
void func_code_copy(const struct func_code *from, struct func_code *out);
void func_code_free(struct func_code *c);
/* Returns the index of the instruction at `addr`, or SIZE_MAX if none begins there. */
size_t func_insn_at(const struct func_code *c, uint64_t addr);
/* Returns the index of the instruction that contains the byte at `addr`, or SIZE_MAX if there is none. */
size_t func_insn_over(const struct func_code *c, uint64_t addr);

#endif
