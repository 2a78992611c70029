/* SPDX-License-Identifier: MIT */
/* Decodes a function and replaces the addresses in its instructions by references. */
#include "diff/address_fields.h"
#include "diff/jump_tables.h"
#include "shared/search.h"

#include "arch/x86/insn.h"
#include "support/memory.h"
#include "support/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decoding --------------------------------------------------------------------------- */

static bool is_padding(const struct function *fn, const struct normal *n)
{
	const uint8_t *p = fn->bytes + (n->addr - fn->start);
	unsigned i;

	if (n->nop)
		return true;
	if (fn->sized)
		return false;
	for (i = 0; i < n->len && !p[i]; i++)
		;
	return n->trap || i == n->len;
}

static void own_add(const struct image *im, struct body *b, const struct operand *o)
{
	if (o->how == BY_THREAD || !o->place.section || place_is_code(im, o->place.section))
		return;
	mem_reserve(&b->own, &b->own_capacity, b->own_count, sizeof(*b->own));
	b->own[b->own_count++] = o->place;
}

void body_decode(const struct image *im, uint32_t func, struct body *b)
{
	const struct function *fn = &im->funcs[func];
	uint64_t size = fn->end - fn->start, at = 0;
	struct operand ops[OPERANDS_MOST];
	size_t i;
	unsigned k, n;

	b->insn_count = b->own_count = 0;
	b->whole = true;
	while (at < size) {
		struct normal *in;

		mem_reserve(&b->insns, &b->insn_capacity, b->insn_count, sizeof(*b->insns));
		in = &b->insns[b->insn_count++];
		if (!normal_decode(fn->bytes + at, size - at, fn->start + at, in)) {
			*in = (struct normal){.addr = fn->start + at, .len = 1, .code_len = 1, .code = {fn->bytes[at]}};
			b->whole = false;
		}
		at += in->len;
	}
	while (b->insn_count && is_padding(fn, &b->insns[b->insn_count - 1]))
		b->insn_count--;
	for (i = 0; i < b->insn_count; i++)
		for (n = operands_find(im, fn, &b->insns[i], ops), k = 0; k < n; k++)
			own_add(im, b, &ops[k]);
	if (b->own_count > 1)
		qsort(b->own, b->own_count, sizeof(*b->own), place_order);
}

/* ---- tokens ------------------------------------------------------------------------------- */

size_t body_token(const struct body *b, uint64_t addr)
{
	return SEARCH(b->count, i, b->insns[b->tokens[i].insn].addr < addr);
}

/* Copies the bytes of an instruction, with zeros in the fields that hold addresses. */
static void code_mask(const struct normal *n, const struct operand *ops, unsigned count, uint8_t code[NORMAL_MOST])
{
	unsigned k;

	memcpy(code, n->code, NORMAL_MOST);
	for (k = 0; k < count && !n->branch; k++)
		memset(code + ops[k].at, 0, ops[k].len);
}

/* Adds an instruction as a token, together with the references of its operands. */
static void token_add(const struct image *im, uint32_t func, struct body *b, uint32_t insn)
{
	const struct body_side side = {im, func, b};
	const struct normal *n = &b->insns[insn];
	struct operand ops[OPERANDS_MOST];
	unsigned count = operands_find(im, &im->funcs[func], n, ops), k;
	uint8_t code[NORMAL_MOST];
	struct token *t;
	uint64_t h = 0;

	mem_reserve(&b->tokens, &b->token_capacity, b->count, sizeof(*b->tokens));
	code_mask(n, ops, count, code);
	for (k = 0; k < count; k++)
		h = mix(h, ops[k].class);
	t = &b->tokens[b->count++];
	*t = (struct token){.hash = mix(h, hash_bytes(code, n->code_len)), .insn = insn, .jump = -1};
	for (k = 0; k < count; k++) {
		struct xref r;

		operand_ref(&side, n, &ops[k], &r, NULL, 0);
		mem_reserve(&b->refs, &b->ref_capacity, b->ref_count, sizeof(*b->refs));
		r.insn = (uint32_t)(b->count - 1);
		b->refs[b->ref_count++] = r;
	}
}

/* Sets the target index of jumps inside the function, and removes the references of these jumps. */
static void jumps_number(struct body *b)
{
	size_t i, n = 0;

	for (i = 0; i < b->ref_count; i++) {
		struct token *t = &b->tokens[b->refs[i].insn];

		if (b->refs[i].kind == REF_INSIDE && b->insns[t->insn].branch)
			t->jump = (int32_t)body_token(b, b->refs[i].value);
		else
			b->refs[n++] = b->refs[i];
	}
	b->ref_count = n;
}

#define ENTRIES_LEAST 1024u /* jump table entries to read per function, apart from ENTRIES_MORE per instruction */
#define ENTRIES_MORE  64u   /* jump table entries to read per instruction */

/*
 * Hashes the targets of a jump table, as indices of tokens. At most *left more entries are read directly; a table with
 * more entries is read through the cache of diff/jump_tables.h.
 */
static uint64_t table_code(const struct image *im, uint32_t func, const struct body *b, const struct xref *r,
                           uint64_t h, size_t *left)
{
	unsigned width = r->more & 15;
	size_t n = r->more >> 4, i;
	struct place at = {r->section, r->value}, to;

	if (n > *left)
		return mix(h, jump_table_code(im, at, width, n, func, b));
	*left -= n;
	for (i = 0; i < n && place_entry(im, at, width, i, &to); i++)
		h = mix(h, image_function(im, to.section, to.addr) == func ? body_token(b, to.addr) : UINT32_MAX);
	return mix(h, n);
}

static uint64_t ref_code(const struct image *im, uint32_t func, const struct body *b, const struct xref *r, uint64_t h,
                         size_t *left)
{
	h = mix(h, r->kind);
	switch (r->kind) {
	case REF_INSIDE: return mix(h, body_token(b, r->value));
	case REF_TABLE: return table_code(im, func, b, r, h, left);
	case REF_FUNCTION: return mix(h, r->more);
	case REF_DATA: return mix(h, ref_canon(im, r));
	default: return mix(mix(h, r->value), r->more);
	}
}

#define CONTENT_LEAST 3 /* least number of names and constants that identify a function */

/*
 * Returns a hash of the names and constants in a function, or 0 if there are too few. Another compiler may change every
 * instruction, but not these.
 */
static uint64_t content(const struct body *b)
{
	uint64_t h = 0;
	size_t i, n = 0;

	for (i = 0; i < b->ref_count; i++)
		if (b->refs[i].kind == REF_NAMED || b->refs[i].kind == REF_CONTENT) {
			h = mix(mix(h, b->refs[i].value), b->refs[i].more);
			n++;
		}
	return n < CONTENT_LEAST ? 0 : h;
}

void body_make(const struct image *im, uint32_t func, struct body *b)
{
	size_t left[2], i;

	b->count = b->ref_count = 0;
	body_decode(im, func, b);
	for (i = 0; i < b->insn_count; i++)
		if (!b->insns[i].nop)
			token_add(im, func, b, (uint32_t)i);
	jumps_number(b);
	b->code = b->count;
	for (i = 0; i < b->count; i++)
		b->code = mix(mix(b->code, b->tokens[i].hash), (uint64_t)(int64_t)b->tokens[i].jump);
	left[0] = left[1] = ENTRIES_LEAST + ENTRIES_MORE * b->count;
	for (b->labels = i = 0; i < b->ref_count; i++) {
		b->code = ref_code(im, func, b, &b->refs[i], mix(b->code, b->refs[i].insn), &left[0]);
		if (b->refs[i].kind == REF_TABLE || b->refs[i].kind == REF_INSIDE)
			b->labels = ref_code(im, func, b, &b->refs[i], b->labels, &left[1]);
	}
	b->content = content(b);
}

uint64_t ref_canon(const struct image *im, const struct xref *r)
{
	switch (r->kind) {
	case REF_FUNCTION: return mix(im->funcs[r->value].canon, r->more);
	case REF_NAMED: return mix(r->value, r->more);
	case REF_DATA:
		return mix(REF_DATA, r->more & PLACE_TLS ? 0 : name_hash(&im->names, im->file.sections[r->more].name));
	case REF_TABLE: return mix(REF_TABLE, r->more);
	case REF_INSIDE: return REF_INSIDE;
	default: return mix(r->kind, r->value);
	}
}

void body_name(const struct image *im, struct body *b)
{
	size_t i;

	for (i = 0; i < b->ref_count; i++) {
		struct token *t = &b->tokens[b->refs[i].insn];

		t->hash = mix(t->hash, ref_canon(im, &b->refs[i]));
	}
}

static const struct normal *token_insn(const struct body *b, size_t token) { return &b->insns[b->tokens[token].insn]; }

static const struct function *side_function(const struct body_side *s) { return &s->im->funcs[s->func]; }

static const uint8_t *insn_bytes(const struct body_side *s, const struct normal *n)
{
	return side_function(s)->bytes + (n->addr - side_function(s)->start);
}

#define NEAR_MOST 16 /* greatest distance in bytes from a pointer to the start of the object that follows it */

/*
 * With by > 0, returns the canonical hash of what begins `by` bytes after the address of an operand, or 0 if nothing
 * begins there. With by = 0, returns 0 if a named object begins at the address itself, or if the address is not one of
 * data; otherwise a value other than 0.
 */
static uint64_t neighbour_canon(const struct image *im, const struct operand *o, int by)
{
	static const struct ref_use any = {.func = NO_FUNC};
	struct place at = {o->place.section, o->place.addr + (uint64_t)(int64_t)by};
	struct xref r;

	if (!elf_is_object(&im->file))
		at.section = place_section(im, at.addr);
	if (!at.section || place_is_code(im, at.section))
		return 0;
	ref_place(im, at, &any, &r, NULL, 0);
	if (!by)
		return r.kind != REF_NAMED || r.more;
	return r.kind == REF_CONTENT || (r.kind == REF_NAMED && !r.more) ? ref_canon(im, &r) : 0;
}

bool body_neighbours(const struct body_side *old, size_t i, const struct body_side *new, size_t k)
{
	const struct normal *m = token_insn(old->body, i), *n = token_insn(new->body, k);
	struct operand x[OPERANDS_MOST], y[OPERANDS_MOST];
	unsigned p = operands_find(old->im, side_function(old), m, x);
	unsigned q = operands_find(new->im, side_function(new), n, y);
	uint8_t code[2][NORMAL_MOST];
	int by;

	if (p != 1 || q != 1 || x[0].how == BY_THREAD || y[0].how == BY_THREAD || x[0].branch || y[0].branch ||
	    x[0].at != y[0].at || m->code_len != n->code_len)
		return false;
	code_mask(m, x, 1, code[0]);
	code_mask(n, y, 1, code[1]);
	/* An address that is accessed must be inside an object; only an address that is computed may be just before one. */
	if (memcmp(code[0], code[1], m->code_len) || (m->pc && normal_access(insn_bytes(old, m), m->len)))
		return false;
	if (ref_bounds_meet(old->im, x[0].place.addr, new->im, y[0].place.addr))
		return true;
	if (!neighbour_canon(old->im, &x[0], 0) || !neighbour_canon(new->im, &y[0], 0))
		return false;
	for (by = 1; by <= NEAR_MOST; by++) {
		uint64_t canon = neighbour_canon(old->im, &x[0], by);

		if (canon && canon == neighbour_canon(new->im, &y[0], by))
			return true;
	}
	return false;
}

void body_free(struct body *b)
{
	free(b->insns);
	free(b->tokens);
	free(b->refs);
	free(b->own);
	memset(b, 0, sizeof(*b));
}

/* ---- text ------------------------------------------------------------------------------------ */

#define MARK 0x5e7c4001u /* placeholder for the first operand; each further operand has the next number */

/* Replaces the placeholder for operand number `which` in a disassembled text by a name. */
static void mark_replace(char *text, size_t size, unsigned which, const char *name)
{
	char mark[24], tail[600];
	char *p;

	snprintf(mark, sizeof(mark), "0x%x", MARK + which);
	p = strstr(text, mark);
	if (!p)
		return;
	snprintf(tail, sizeof(tail), "%s", p + strlen(mark));
	snprintf(p, size - (size_t)(p - text), "%s%s", name, tail);
}

static void branch_text(char *text, size_t size, const char *to)
{
	char *p = strrchr(text, ' ');
	size_t n = p ? (size_t)(p - text) : strlen(text);

	snprintf(text + n, size - n, " %s", to);
}

void body_text(const struct body_side *side, size_t token, const char *label, char *out, size_t size)
{
	const struct normal *n = token_insn(side->body, token);
	struct operand ops[OPERANDS_MOST];
	unsigned count = operands_find(side->im, side_function(side), n, ops), k;
	uint8_t bytes[NORMAL_MOST];
	char names[OPERANDS_MOST][440];

	memcpy(bytes, insn_bytes(side, n), n->len);
	for (k = 0; k < count; k++) {
		uint64_t mark = MARK + k;
		struct xref r;

		names[k][0] = 0;
		operand_ref(side, n, &ops[k], &r, names[k], sizeof(names[k]));
		if (r.kind == REF_INSIDE)
			snprintf(names[k], sizeof(names[k]), "%s", label);
		if (!n->branch && ops[k].len >= 4)
			memcpy(bytes + ops[k].at, &mark, ops[k].len);
	}
	insn_text(bytes, n->len, n->addr, out, size);
	for (k = 0; k < count; k++)
		if (n->branch)
			branch_text(out, size, names[k]);
		else
			mark_replace(out, size, k, names[k]);
	plain(out);
}

bool body_callee(const struct body_side *side, size_t token, char *out, size_t size)
{
	const struct normal *n = token_insn(side->body, token);
	struct operand ops[OPERANDS_MOST];
	unsigned count = operands_find(side->im, side_function(side), n, ops);
	struct xref r;

	if (!count || n->flow == FLOW_NEXT || n->flow == FLOW_RETURN)
		return false;
	out[0] = 0;
	operand_ref(side, n, &ops[0], &r, out, size);
	return (r.kind == REF_FUNCTION || r.kind == REF_NAMED) && out[0];
}
