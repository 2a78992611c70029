/* SPDX-License-Identifier: MIT */
/*
 * The normalised code of one function: its instructions without addresses and without nops. The target of a jump is the
 * index of an instruction, and operands are references that do not depend on addresses (diff/refs.h).
 */
#ifndef DIFF_BODY_H
#define DIFF_BODY_H

#include "arch/x86/address_free.h"
#include "diff/image.h"

/* An instruction in the form in which it is compared. */
struct token {
	uint64_t hash; /* hash of the instruction; body_name() adds the hashes of its references to it */
	uint32_t insn; /* index in body.insns */
	int32_t jump;  /* index of the token that is the target of the jump, or -1 */
};

/* The code of one function. */
struct body {
	struct normal *insns; /* all instructions of the function */
	size_t insn_count, insn_capacity;
	struct token *tokens; /* the instructions except nops */
	size_t count, token_capacity;
	struct xref *refs; /* in the order of the instructions, without the references of jumps to targets inside the
	                      function (REF_INSIDE) */
	size_t ref_count, ref_capacity;
	struct place *own; /* the data addresses in the operands of the function, sorted */
	size_t own_count, own_capacity;
	uint64_t code;    /* hash, as in struct function */
	uint64_t content; /* hash, as in struct function */
	uint64_t labels;  /* hash of the targets of jump tables, and of the labels whose address is taken */
	bool whole;
};

/* A function of one of the files, with its body. */
struct body_side {
	const struct image *im;
	uint32_t func;
	const struct body *body;
};

/* Decodes a function: fills insns, own and whole. *b may be a body from an earlier call, whose memory is reused. */
void body_decode(const struct image *im, uint32_t func, struct body *b);
/* Fills all members. The hashes of tokens do not include references until body_name() adds them. */
void body_make(const struct image *im, uint32_t func, struct body *b);
/*
 * Adds references to the hashes of tokens. It uses the canonical numbers of functions (struct function.canon), so
 * match_functions() must have run.
 */
void body_name(const struct image *im, struct body *b);
void body_free(struct body *b);
/*
 * True if an instruction of the old file and one of the new file are equal, except that each refers to an address just
 * before something that both files have.
 */
bool body_neighbours(const struct body_side *old, size_t i, const struct body_side *new, size_t k);

/*
 * Returns a hash of a reference. References to the same thing have the same hash in both files, if that thing has a
 * name or known contents.
 */
uint64_t ref_canon(const struct image *im, const struct xref *r);

/* Returns the index of the first token at or after an address of the function. */
size_t body_token(const struct body *b, uint64_t addr);

/*
 * Writes the text of one instruction, with names instead of addresses. If its target is inside the function, `label`
 * stands for it.
 */
void body_text(const struct body_side *side, size_t token, const char *label, char *out, size_t size);
/*
 * Writes the name of the function to which a call, or a jump out of the function, leads. Returns false for any other
 * instruction.
 */
bool body_callee(const struct body_side *side, size_t token, char *out, size_t size);

#endif
