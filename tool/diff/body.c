/* SPDX-License-Identifier: MIT */
#include "diff/body.h"
#include "elf/search.h"

#include "arch/x86/insn.h"
#include "report/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERANDS_MOST 3 /* of one instruction that refer to something: two in fact */

enum operand_how {
	BY_PLACE,
	BY_SYMBOL, /* a relocation's symbol and addend */
	BY_THREAD, /* an offset from the thread pointer */
};

/* A field of an instruction that is no number but says where something lies. */
struct operand {
	uint8_t at, len; /* place in the bytes */
	uint8_t how;
	bool branch;
	uint32_t class;  /* what the field is to hold: the address, its distance, that of a slot... */
	const struct elf_symbol *symbol;
	int64_t addend;  /* BY_THREAD: the offset */
	struct place place;
};

#define CLASS_PC    1u
#define CLASS_SLOT  2u
#define CLASS_ABS   3u
#define CLASS_OTHER 16u /* + relocation type */

/* ---- operands: object files -------------------------------------------------------- */

static unsigned reloc_size(uint32_t type)
{
	switch (type) {
	case R_X86_64_TLSDESC_CALL: /* marks an instruction, fills nothing */
	case R_X86_64_NONE:
		return 0;
	case R_X86_64_8:
	case R_X86_64_PC8:
		return 1;
	case R_X86_64_16:
	case R_X86_64_PC16:
		return 2;
	case R_X86_64_64:
	case R_X86_64_PC64:
	case R_X86_64_GOTOFF64:
	case R_X86_64_GOT64:
	case R_X86_64_GOTPCREL64:
	case R_X86_64_GOTPC64:
	case R_X86_64_GOTPLT64:
	case R_X86_64_PLTOFF64:
	case R_X86_64_SIZE64:
	case R_X86_64_DTPOFF64:
	case R_X86_64_TPOFF64:
		return 8;
	default:
		return 4;
	}
}

/* Class of a relocation; *pc: it counts from the field, not from 0. */
static uint32_t reloc_class(uint32_t type, bool *pc)
{
	*pc = true;
	switch (type) {
	case R_X86_64_PC8:
	case R_X86_64_PC16:
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		return CLASS_PC;
	case R_X86_64_GOTPCREL:
	case R_X86_64_GOTPCRELX:
	case R_X86_64_REX_GOTPCRELX:
		return CLASS_SLOT;
	case R_X86_64_GOTTPOFF:
	case R_X86_64_TLSGD:
	case R_X86_64_TLSLD:
	case R_X86_64_GOTPC32:
	case R_X86_64_GOTPC32_TLSDESC:
		return CLASS_OTHER + type;
	default:
		*pc = false;
		return type == R_X86_64_32 || type == R_X86_64_32S ? CLASS_ABS : CLASS_OTHER + type;
	}
}

static unsigned operands_of_object(const struct image *im, const struct function *fn, const struct normal *n,
                                   struct operand *out)
{
	const struct elf_reloc *r = place_reloc(im, fn->section, n->addr, n->addr + n->len);
	const struct place_relocs *all = &im->places.relocs[fn->section];
	unsigned count = 0;
	bool filled = false, pc;

	for (; r && r < all->list + all->count && r->offset < n->addr + n->len && count < OPERANDS_MOST; r++) {
		unsigned at = (unsigned)(r->offset - n->addr), size = reloc_size(r->type);
		struct operand *o = &out[count];

		if (!size || at + size > n->len || r->symbol >= im->file.symbol_count)
			continue;
		*o = (struct operand){.at = (uint8_t)at, .len = (uint8_t)size, .how = BY_SYMBOL, .branch = n->branch,
		                      .symbol = &im->file.symbols[r->symbol], .addend = r->addend};
		o->class = reloc_class(r->type, &pc);
		if (pc)
			o->addend = (int64_t)((uint64_t)o->addend + n->len - at);
		o->place = (struct place){o->symbol->section, o->symbol->value + (uint64_t)o->addend};
		filled |= n->branch || at == n->disp_at;
		count++;
	}
	if ((n->branch || n->pc) && !filled && count < OPERANDS_MOST) /* the assembler knew: the same section */
		out[count++] = (struct operand){.at = n->branch ? n->imm_at : n->disp_at,
		                                .len = n->branch ? n->imm_len : n->disp_len, .branch = n->branch,
		                                .class = CLASS_PC, .place = {fn->section, n->target}};
	return count;
}

/* ---- operands: linked files ---------------------------------------------------------- */

/* In a file that is not relocatable any number may be an address. In code it is one only
 * where a function begins: flags and sizes look like the rest. */
static bool number_is_place(const struct image *im, int64_t v, struct place *out)
{
	uint32_t fn;

	*out = (struct place){v > 0 ? place_section(im, (uint64_t)v) : 0, (uint64_t)v};
	if (!out->section && v > 1)
		return place_section(im, (uint64_t)v - 1) != 0; /* the end of something */
	if (!out->section || !place_is_code(im, out->section))
		return out->section != 0;
	fn = image_function(im, out->section, out->addr);
	return fn != NO_FUNC && im->funcs[fn].start == out->addr;
}

static unsigned operands_of_linked(const struct image *im, const struct normal *n, struct operand *out)
{
	struct place at;
	unsigned count = 0;

	if (n->branch || n->pc) {
		at = (struct place){place_section(im, n->target), n->target};
		out[count++] = (struct operand){.at = n->branch ? n->imm_at : n->disp_at,
		                                .len = n->branch ? n->imm_len : n->disp_len, .branch = n->branch,
		                                .class = CLASS_PC, .place = at};
	}
	if (n->segment && n->disp_len == 4 && !n->based && n->disp < 0)
		out[count++] = (struct operand){.at = n->disp_at, .len = 4, .how = BY_THREAD, .class = CLASS_ABS,
		                                .addend = n->disp};
	if (!im->places.fixed || n->branch)
		return count;
	if (n->disp_len == 4 && !n->pc && !n->segment && number_is_place(im, n->disp, &at))
		out[count++] = (struct operand){.at = n->disp_at, .len = 4, .class = CLASS_ABS, .place = at};
	if (n->imm_len >= 4 && count < OPERANDS_MOST && number_is_place(im, n->imm, &at))
		out[count++] = (struct operand){.at = n->imm_at, .len = n->imm_len, .class = CLASS_ABS, .place = at};
	return count;
}

static unsigned operands_find(const struct image *im, const struct function *fn, const struct normal *n,
                              struct operand *out)
{
	return elf_is_object(&im->file) ? operands_of_object(im, fn, n, out) : operands_of_linked(im, n, out);
}

/* What an operand refers to; *text, unless null, gets it for people. */
static void operand_ref(const struct image *im, uint32_t func, const struct body *b, const struct normal *n,
                        const struct operand *o, struct xref *out, char *text, size_t size)
{
	const struct function *fn = &im->funcs[func];
	struct ref_use use = {.func = func, .own = b->own, .own_count = b->own_count};

	if (o->how == BY_THREAD) {
		if (ref_thread(im, o->addend, out, text, size))
			return;
		*out = (struct xref){.kind = REF_NUMBER, .value = (uint64_t)o->addend};
		if (text)
			snprintf(text, size, "%" PRId64, o->addend);
		return;
	}
	if (!o->branch && o->class != CLASS_SLOT && o->at == n->disp_at && n->disp_len && !n->based)
		use.access = normal_access(fn->bytes + (n->addr - fn->start), n->len);
	if (o->how == BY_SYMBOL)
		ref_symbol(im, o->symbol, o->addend, &use, out, text, size);
	else
		ref_place(im, o->place, &use, out, text, size);
}

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

static int own_add(const struct image *im, struct body *b, const struct operand *o, struct error *e)
{
	if (o->how == BY_THREAD || !o->place.section || place_is_code(im, o->place.section))
		return 0;
	if (!list_grow((void **)&b->own, b->own_count, &b->own_room, sizeof(*b->own)))
		return error_set(e, "out of memory");
	b->own[b->own_count++] = o->place;
	return 0;
}

int body_decode(const struct image *im, uint32_t func, struct body *b, struct error *e)
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

		if (!list_grow((void **)&b->insns, b->insn_count, &b->insn_room, sizeof(*b->insns)))
			return error_set(e, "out of memory");
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
			if (own_add(im, b, &ops[k], e))
				return -1;
	if (b->own_count > 1)
		qsort(b->own, b->own_count, sizeof(*b->own), place_order);
	return 0;
}

/* ---- tokens ------------------------------------------------------------------------------- */

size_t body_token(const struct body *b, uint64_t addr)
{
	return SEARCH(b->count, i, b->insns[b->tokens[i].insn].addr < addr);
}

/* The bytes of an instruction without those that say where an operand lies. */
static void code_mask(const struct normal *n, const struct operand *ops, unsigned count, uint8_t code[NORMAL_MOST])
{
	unsigned k;

	memcpy(code, n->code, NORMAL_MOST);
	for (k = 0; k < count && !n->branch; k++)
		memset(code + ops[k].at, 0, ops[k].len);
}

static int token_add(const struct image *im, uint32_t func, struct body *b, uint32_t insn, struct error *e)
{
	const struct normal *n = &b->insns[insn];
	struct operand ops[OPERANDS_MOST];
	unsigned count = operands_find(im, &im->funcs[func], n, ops), k;
	uint8_t code[NORMAL_MOST];
	struct token *t;
	uint64_t h = 0;

	if (!list_grow((void **)&b->tokens, b->count, &b->token_room, sizeof(*b->tokens)))
		return error_set(e, "out of memory");
	code_mask(n, ops, count, code);
	for (k = 0; k < count; k++)
		h = mix(h, ops[k].class);
	t = &b->tokens[b->count++];
	*t = (struct token){.hash = mix(h, hash_bytes(code, n->code_len)), .insn = insn, .jump = -1};
	for (k = 0; k < count; k++) {
		struct xref r;

		operand_ref(im, func, b, n, &ops[k], &r, NULL, 0);
		if (!list_grow((void **)&b->refs, b->ref_count, &b->ref_room, sizeof(*b->refs)))
			return error_set(e, "out of memory");
		r.insn = (uint32_t)(b->count - 1);
		b->refs[b->ref_count++] = r;
	}
	return 0;
}

/* Jumps inside by number; their refs go. */
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

/* Entries of a jump table, by number. */
static uint64_t table_code(const struct image *im, uint32_t func, const struct body *b, const struct xref *r, uint64_t h)
{
	unsigned width = r->more & 15;
	size_t n = r->more >> 4, i;
	struct place at = {0}, to;

	at.addr = r->value;
	for (i = 0; i < b->own_count; i++) /* its section */
		if (b->own[i].addr == r->value)
			at.section = b->own[i].section;
	for (i = 0; i < n && at.section && place_entry(im, at, width, i, &to); i++)
		h = mix(h, image_function(im, to.section, to.addr) == func ? body_token(b, to.addr) : UINT32_MAX);
	return mix(h, n);
}

static uint64_t ref_code(const struct image *im, uint32_t func, const struct body *b, const struct xref *r, uint64_t h)
{
	h = mix(h, r->kind);
	switch (r->kind) {
	case REF_INSIDE:
		return mix(h, body_token(b, r->value));
	case REF_TABLE:
		return table_code(im, func, b, r, h);
	case REF_FUNCTION:
		return mix(h, r->more);
	case REF_DATA:
		return mix(h, ref_canon(im, r));
	default:
		return mix(mix(h, r->value), r->more);
	}
}

#define ABOUT_LEAST 3 /* names and constants that tell a function */

/* Names and constants outlive a change of compiler that leaves no instruction alone. */
static uint64_t about(const struct body *b)
{
	uint64_t h = 0;
	size_t i, n = 0;

	for (i = 0; i < b->ref_count; i++)
		if (b->refs[i].kind == REF_NAMED || b->refs[i].kind == REF_CONTENT) {
			h = mix(mix(h, b->refs[i].value), b->refs[i].more);
			n++;
		}
	return n < ABOUT_LEAST ? 0 : h;
}

int body_make(const struct image *im, uint32_t func, struct body *b, struct error *e)
{
	size_t i;

	b->count = b->ref_count = 0;
	if (body_decode(im, func, b, e))
		return -1;
	for (i = 0; i < b->insn_count; i++)
		if (!b->insns[i].nop && token_add(im, func, b, (uint32_t)i, e))
			return -1;
	jumps_number(b);
	b->code = b->count;
	for (i = 0; i < b->count; i++)
		b->code = mix(mix(b->code, b->tokens[i].hash), (uint64_t)(int64_t)b->tokens[i].jump);
	for (b->labels = i = 0; i < b->ref_count; i++) {
		b->code = ref_code(im, func, b, &b->refs[i], mix(b->code, b->refs[i].insn));
		if (b->refs[i].kind == REF_TABLE || b->refs[i].kind == REF_INSIDE)
			b->labels = ref_code(im, func, b, &b->refs[i], b->labels);
	}
	b->about = about(b);
	return 0;
}

uint64_t ref_canon(const struct image *im, const struct xref *r)
{
	switch (r->kind) {
	case REF_FUNCTION:
		return mix(im->funcs[r->value].canon, r->more);
	case REF_NAMED:
		return mix(r->value, r->more);
	case REF_DATA:
		return mix(REF_DATA, r->more & PLACE_TLS ? 0 : hash_text(im->file.sections[r->more].name));
	case REF_TABLE:
		return mix(REF_TABLE, r->more);
	case REF_INSIDE:
		return REF_INSIDE;
	default:
		return mix(r->kind, r->value);
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

#define NEAR_MOST 16 /* bytes before something that a pointer may start at */

/* What begins `by` bytes further on, or 0; with 0: what is there, unless it is the start of
 * something with a name. */
static uint64_t near_canon(const struct image *im, const struct operand *o, int by)
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

bool body_near(const struct image *old, uint32_t old_func, const struct body *a, size_t i, const struct image *new,
               uint32_t new_func, const struct body *b, size_t k)
{
	const struct normal *m = &a->insns[a->tokens[i].insn], *n = &b->insns[b->tokens[k].insn];
	struct operand x[OPERANDS_MOST], y[OPERANDS_MOST];
	unsigned p = operands_find(old, &old->funcs[old_func], m, x), q = operands_find(new, &new->funcs[new_func], n, y);
	uint8_t code[2][NORMAL_MOST];
	int by;

	if (p != 1 || q != 1 || x[0].how == BY_THREAD || y[0].how == BY_THREAD || x[0].branch || y[0].branch ||
	    x[0].at != y[0].at || m->code_len != n->code_len)
		return false;
	code_mask(m, x, 1, code[0]);
	code_mask(n, y, 1, code[1]);
	/* Only where an address is computed: what is accessed is in something. */
	if (memcmp(code[0], code[1], m->code_len) ||
	    (m->pc && normal_access(old->funcs[old_func].bytes + (m->addr - old->funcs[old_func].start), m->len)))
		return false;
	if (ref_bounds_meet(old, x[0].place.addr, new, y[0].place.addr))
		return true;
	if (!near_canon(old, &x[0], 0) || !near_canon(new, &y[0], 0))
		return false;
	for (by = 1; by <= NEAR_MOST; by++) {
		uint64_t canon = near_canon(old, &x[0], by);

		if (canon && canon == near_canon(new, &y[0], by))
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

/* ---- for people ---------------------------------------------------------------------------- */

#define MARK 0x5e7c4001u /* stands for a field until its name is known; one more for each */

/* Replaces the mark of a field by its name. */
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

void body_text(const struct image *im, uint32_t func, const struct body *b, size_t token, const char *label, char *out,
               size_t size)
{
	const struct function *fn = &im->funcs[func];
	const struct normal *n = &b->insns[b->tokens[token].insn];
	struct operand ops[OPERANDS_MOST];
	unsigned count = operands_find(im, fn, n, ops), k;
	uint8_t bytes[NORMAL_MOST];
	char names[OPERANDS_MOST][440];

	memcpy(bytes, fn->bytes + (n->addr - fn->start), n->len);
	for (k = 0; k < count; k++) {
		uint64_t mark = MARK + k;
		struct xref r;

		names[k][0] = 0;
		operand_ref(im, func, b, n, &ops[k], &r, names[k], sizeof(names[k]));
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

bool body_callee(const struct image *im, uint32_t func, const struct body *b, size_t token, char *out, size_t size)
{
	const struct normal *n = &b->insns[b->tokens[token].insn];
	struct operand ops[OPERANDS_MOST];
	unsigned count = operands_find(im, &im->funcs[func], n, ops);
	struct xref r;

	if (!count || n->flow == FLOW_NEXT || n->flow == FLOW_RETURN)
		return false;
	out[0] = 0;
	operand_ref(im, func, b, n, &ops[0], &r, out, size);
	return (r.kind == REF_FUNCTION || r.kind == REF_NAMED) && out[0];
}
