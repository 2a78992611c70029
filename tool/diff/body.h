/* SPDX-License-Identifier: MIT */
/*
 * Normalised code: the instructions of one function without addresses. Alignment is not
 * part of it; a jump goes to the instruction of a number, an operand refers to what
 * diff/places.h says.
 */
#ifndef DIFF_BODY_H
#define DIFF_BODY_H

#include "arch/x86/normal.h"
#include "diff/image.h"

struct token {
	uint64_t hash; /* of the instruction; after body_name() of what it refers to as well */
	uint32_t insn; /* in body.insns */
	int32_t jump;  /* number of the instruction that it jumps to, or -1 */
};

struct body {
	struct normal *insns; /* all */
	size_t insn_count, insn_room;
	struct token *tokens; /* without nops */
	size_t count, token_room;
	struct xref *refs;     /* by instruction; kinds but REF_INSIDE of a jump */
	size_t ref_count, ref_room;
	struct place *own;    /* data that it refers to, sorted */
	size_t own_count, own_room;
	uint64_t code;        /* see struct function */
	uint64_t about;       /* likewise */
	uint64_t labels;      /* hash of where jump tables and addresses of labels lead */
	bool whole;
};

/* Fills insns and own. Reuses what is in *b. */
int body_decode(const struct image *im, uint32_t func, struct body *b, struct error *e);
/* ... and all the rest. */
int body_make(const struct image *im, uint32_t func, struct body *b, struct error *e);
/* Takes what instructions refer to into their hashes, by the canonical numbers of functions. */
void body_name(const struct image *im, struct body *b);
void body_free(struct body *b);
/* Are two instructions of two files the same but for an address just before something that
 * both have? */
bool body_near(const struct image *old, uint32_t old_func, const struct body *a, size_t i, const struct image *new,
               uint32_t new_func, const struct body *b, size_t k);

/* Equal for what refers to the same thing in both files, as far as it has a name or contents. */
uint64_t ref_canon(const struct image *im, const struct xref *r);

/* Number of the first token at or behind an address. */
size_t body_token(const struct body *b, uint64_t addr);

/* One instruction as people read it, with names in the place of addresses; `label`
 * stands for the target of a jump inside the function. */
void body_text(const struct image *im, uint32_t func, const struct body *b, size_t token, const char *label, char *out,
               size_t size);
/* Who is called, or jumped to outside, by name: false if the instruction is no such. */
bool body_callee(const struct image *im, uint32_t func, const struct body *b, size_t token, char *out, size_t size);

#endif
