/* SPDX-License-Identifier: MIT */
/*
 * Normalised code: the instructions of one function without addresses. Nops are not part of it; the target of a jump
 * is the index of an instruction, and operands are references that do not depend on addresses (diff/refs.h).
 */
#ifndef DIFF_BODY_H
#define DIFF_BODY_H

#include "arch/x86/normal.h"
#include "diff/image.h"

/* An instruction in the form in which it is compared. */
struct token {
	uint64_t hash; /* hash of the instruction, to which body_name() adds the hash of what it refers to */
	uint32_t insn; /* index in body.insns */
	int32_t jump;  /* index of the token to which it jumps, or -1 */
};

/* The code of one function. */
struct body {
	struct normal *insns; /* all instructions */
	size_t insn_count, insn_capacity;
	struct token *tokens; /* the instructions except nops */
	size_t count, token_capacity;
	struct xref *refs; /* in the order of the instructions, without REF_INSIDE of jumps */
	size_t ref_count, ref_capacity;
	struct place *own; /* data addresses in its operands, sorted */
	size_t own_count, own_capacity;
	uint64_t code;    /* hash, as in struct function */
	uint64_t content; /* hash, as in struct function */
	uint64_t labels;  /* hash of the targets of jump tables and of labels whose address is taken */
	bool whole;
};

/* A function of one of the files, with its body. */
struct body_side {
	const struct image *im;
	uint32_t func;
	const struct body *body;
};

/* Fills insns, own and whole. *b may be a body from an earlier call, whose memory is reused. */
void body_decode(const struct image *im, uint32_t func, struct body *b);
/* Fills all members; the hashes of tokens do not include references yet. */
void body_make(const struct image *im, uint32_t func, struct body *b);
/* Adds references to the hashes of tokens, by the canonical numbers of functions. The functions must be matched
 * before. */
void body_name(const struct image *im, struct body *b);
void body_free(struct body *b);
/* True if two instructions of the two files are equal except for an address just before something that both files
 * have. */
bool body_neighbours(const struct body_side *old, size_t i, const struct body_side *new, size_t k);

/* Returns a hash that is equal in both files for references to the same thing, as far as that has a name or known
 * contents. */
uint64_t ref_canon(const struct image *im, const struct xref *r);

/* Returns the index of the first token at or after an address. */
size_t body_token(const struct body *b, uint64_t addr);

/* Disassembles one instruction, with names instead of addresses. `label` is written for a target inside the
 * function. */
void body_text(const struct body_side *side, size_t token, const char *label, char *out, size_t size);
/* Writes the name of the callee of a call, or of the target of a jump out of the function. False if the instruction
 * is neither. */
bool body_callee(const struct body_side *side, size_t token, char *out, size_t size);

#endif
