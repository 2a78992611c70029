/* SPDX-License-Identifier: MIT */
#include "table/ex_table.h"
#include "elf/search.h"

#include "arch/x86/insn.h"
#include "code/pieces.h"
#include "code/vector.h"
#include "elf/dynamic.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSN_MOST 15u /* bytes of an instruction (SDM 2, 2.3.11) */

/* An address that an entry names, and what is there. */
struct spot {
	uint64_t addr;
	const char *why; /* no instruction begins there; null: one does */
	bool accesses;   /* it reads or writes memory */
	char text[96];   /* it, for people; where it does not access memory */
};

struct check {
	const struct elf_file *f;
	const struct code_space *space;
	const struct fixups *x;
	struct findings *out;
	struct error *e;
	struct cfi_file cfi;
	struct pieces pieces;
	struct flow_env env; /* for piece_at() */
	struct spot *spots;  /* by address */
	size_t spot_count;
	uint64_t *called;    /* sorted; found when first asked for */
	size_t called_count;
	bool called_known;
};

const char *ex_type_name(uint32_t data)
{
	static const char *const names[] = {"plain", "efault", "zero", "len"};
	struct etch_ex x = {.data = data};

	return etch_ex_type(&x) <= ETCH_EX_TYPE_LAST ? names[etch_ex_type(&x)] : "?";
}

/* ---- instructions ---------------------------------------------------------------- */

/* Decoding, from what begins a function on. */
struct sweep {
	uint64_t start, at;
	uint64_t last[INSN_MOST]; /* where the instructions before `at` begin */
	size_t count;             /* of them, ever */
	bool lost;                /* there were bytes that are no instruction: data, perhaps */
};

/* Where code begins of which addr is a part: a piece, or what lies behind one. */
static uint64_t sweep_start(const struct check *c, const struct code_section *code, uint64_t addr)
{
	const struct piece *p = piece_at(&c->env, addr);
	size_t lo;

	if (p)
		return p->start;
	lo = SEARCH(c->pieces.count, i, c->pieces.list[i].end <= addr);
	return lo && c->pieces.list[lo - 1].end > code->addr ? c->pieces.list[lo - 1].end : code->addr;
}

static const char *spot_boundary(struct sweep *w, const struct code_section *code, uint64_t addr)
{
	struct insn in;
	size_t i;

	while (w->at < addr) {
		uint64_t off = w->at - code->addr;
		unsigned len = 1;

		if (insn_decode(code->bytes + off, code->size - off, w->at, &in))
			len = in.len;
		else
			w->lost = true;
		if (w->at + len > addr)
			break;
		w->last[w->count++ % INSN_MOST] = w->at;
		w->at += len;
	}
	if (w->at != addr)
		return w->lost ? NULL : "it is inside of an instruction";
	for (i = 0; i < w->count && i < INSN_MOST && !w->lost; i++) { /* the second decoder goes past it? */
		uint64_t off = w->last[i] - code->addr;

		if (addr - w->last[i] < INSN_MOST &&
		    w->last[i] + insn_second_length(code->bytes + off, code->size - off, w->last[i]) > addr)
			return "the decoders disagree whether an instruction begins there";
	}
	return NULL;
}

static void spot_judge(const struct check *c, struct sweep *w, struct spot *spot)
{
	const struct code_section *code = space_at(c->space, spot->addr);
	uint64_t start = sweep_start(c, code, spot->addr), off = spot->addr - code->addr;
	const uint8_t *bytes = code->bytes + off;
	struct insn in;

	if (start != w->start || spot->addr < w->at)
		*w = (struct sweep){.start = start, .at = start};
	spot->why = spot_boundary(w, code, spot->addr);
	if (spot->why)
		return;
	if (!insn_decode(bytes, code->size - off, spot->addr, &in))
		spot->why = "there is no instruction";
	else if (insn_second_length(bytes, code->size - off, spot->addr) != in.len)
		spot->why = "the decoders disagree about the instruction there";
	else if (insn_accesses_memory(bytes, in.len))
		spot->accesses = true;
	else
		insn_text(bytes, in.len, spot->addr, spot->text, sizeof(spot->text));
}

static int spot_order(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int spots_find(struct check *c)
{
	struct sweep w = {.start = UINT64_MAX};
	size_t i, n = 0;

	c->spots = calloc(2 * c->x->count + 1, sizeof(*c->spots));
	if (!c->spots)
		return error_set(c->e, "out of memory");
	for (i = 0; i < c->x->count; i++) {
		if (c->x->list[i].insn_in == PLACE_CODE)
			c->spots[n++].addr = c->x->list[i].insn;
		if (c->x->list[i].to_in == PLACE_CODE)
			c->spots[n++].addr = c->x->list[i].to;
	}
	if (n)
		qsort(c->spots, n, sizeof(*c->spots), spot_order);
	for (i = 0; i < n; i++)
		if (!i || c->spots[i].addr != c->spots[c->spot_count - 1].addr)
			c->spots[c->spot_count++] = c->spots[i];
	for (i = 0; i < c->spot_count; i++)
		spot_judge(c, &w, &c->spots[i]);
	return 0;
}

static const struct spot *spot_of(const struct check *c, uint64_t addr)
{
	struct spot key = {.addr = addr};

	return bsearch(&key, c->spots, c->spot_count, sizeof(key), spot_order);
}

/* ---- entries --------------------------------------------------------------------- */

/* An address as people know it. */
static void describe(const struct check *c, uint64_t addr, uint8_t in, char *out, size_t size)
{
	const struct code_section *code = in == PLACE_CODE ? space_at(c->space, addr) : NULL;

	if (code)
		elf_describe(c->f, code->section, elf_is_object(c->f) ? addr - code->addr : addr, out, size);
	else if (!elf_is_object(c->f) && elf_section_at(c->f, addr))
		elf_describe(c->f, elf_section_at(c->f, addr), addr, out, size);
	else
		snprintf(out, size, "0x%" PRIx64, addr);
}

__attribute__((format(printf, 5, 6)))
static int finding(struct check *c, const char *id, uint32_t section, uint64_t addr, const char *format, ...)
{
	struct finding *x;
	va_list args;

	va_start(args, format);
	x = finding_addv(c->out, id, section, addr, format, args);
	va_end(args);
	return x ? 0 : error_set(c->e, "out of memory");
}

/* About an entry: at its instruction. */
static int say(struct check *c, const struct fixup *x, const char *id, const char *text)
{
	const struct code_section *code = x->insn_in == PLACE_CODE ? space_at(c->space, x->insn) : NULL;

	if (code)
		return finding(c, id, code->section, elf_is_object(c->f) ? x->insn - code->addr : x->insn, "%s", text);
	return finding(c, id, c->x->tables[x->table].section, x->at, "%s", text);
}

static int say_to(struct check *c, const struct fixup *x, const char *id, const char *format, const char *why)
{
	char text[256], to[160];

	describe(c, x->to, x->to_in, to, sizeof(to));
	snprintf(text, sizeof(text), format, to, why);
	return say(c, x, id, text);
}

/* What is called by a direct call; where instructions begin is not looked at, so that it
 * is too much rather than too little. */
static int calls_find(struct check *c)
{
	size_t room = 0, i;
	uint64_t at, target;

	for (i = 0; i < c->space->count; i++) {
		const struct code_section *code = &c->space->list[i];

		for (at = 0; at + 5 <= code->size; at++) {
			target = insn_call_target(code->bytes + at, code->addr + at);
			if (!target || !space_at(c->space, target))
				continue;
			if (!room_make(&c->called, &room, c->called_count, sizeof(*c->called)))
				return error_set(c->e, "out of memory");
			c->called[c->called_count++] = target;
		}
	}
	c->called_count = words_unique(c->called, c->called_count);
	c->called_known = true;
	return 0;
}

/* Is the fixup in the function of the instruction, in a part of one, or in code that is
 * nothing but a fixup? -1: out of memory. */
static int is_own(struct check *c, const struct fixup *x)
{
	const struct piece *from = piece_at(&c->env, x->insn), *to = piece_at(&c->env, x->to);

	if (!to || !from || to == from || !to->named)
		return 1;
	if (x->to != to->start || elf_is_object(c->f)) /* whose calls are relocations */
		return x->to == to->start;
	if (!c->called_known && calls_find(c))
		return -1;
	return !word_has(c->called, c->called_count, x->to);
}

static int entry_check(struct check *c, const struct fixup *x, const struct fixup *before)
{
	struct etch_ex raw = {.data = x->data};
	const struct spot *insn, *to;
	char text[256];
	int own;

	if (x->insn_in == PLACE_NONE || !etch_ex_valid(&raw))
		return 0;
	if (x->insn_in == PLACE_DATA)
		return say(c, x, "ETCH-X003", "the instruction that may fault is none: it is data");
	insn = spot_of(c, x->insn);
	if (insn->why) {
		snprintf(text, sizeof(text), "the instruction that may fault is none: %s", insn->why);
		return say(c, x, "ETCH-X003", text);
	}
	if (!insn->accesses) {
		snprintf(text, sizeof(text), "the instruction that may fault accesses no memory: %s", insn->text);
		if (say(c, x, "ETCH-X004", text))
			return -1;
	}
	if (before && before->insn_in == PLACE_CODE && before->insn == x->insn &&
	    say_to(c, x, "ETCH-X007", "a second entry for the same instruction, to %s: %s",
	           before->to == x->to && before->data == x->data ? "the same as the first" : "the first one counts"))
		return -1;
	if (etch_ex_type(&raw) != ETCH_EX_TYPE_PLAIN && insn_is_stack_register(etch_ex_reg(&raw)) &&
	    say(c, x, "ETCH-X006", "the entry changes or reads the stack pointer as if it were a value"))
		return -1;
	if (x->to_in == PLACE_NONE && elf_is_object(c->f))
		return 0; /* defined elsewhere: the link step sees it */
	if (x->to_in != PLACE_CODE)
		return say_to(c, x, "ETCH-X005", "goes on at %s: %s", "there is no code, and libetch takes none of the table");
	to = spot_of(c, x->to);
	if (to->why)
		return say_to(c, x, "ETCH-X005", "goes on at %s: %s", to->why);
	if (x->to == x->insn)
		return say_to(c, x, "ETCH-X005", "goes on at %s: %s", "that is where it faulted, it would never end");
	own = is_own(c, x);
	return own ? own > 0 ? 0 : -1 : say_to(c, x, "ETCH-X005", "goes on at %s: %s", "that is inside of another function");
}

/* A table that lies once is not searched: one finding will do. */
static int bad_say(struct check *c, uint32_t table)
{
	char text[256];
	size_t i;

	for (i = 0; i < c->x->count; i++) {
		struct etch_ex raw = {.data = c->x->list[i].data};

		if (c->x->list[i].table != table || etch_ex_valid(&raw))
			continue;
		snprintf(text, sizeof(text), "libetch takes no entry of this exception table, and it is not sorted: %zu of %zu are "
		         "malformed, the first of them has data 0x%x", c->x->tables[table].bad, c->x->tables[table].count, raw.data);
		return say(c, &c->x->list[i], "ETCH-X001", text);
	}
	return 0;
}

static int tables_check(struct check *c)
{
	uint32_t i;

	for (i = 0; i < c->x->table_count; i++) {
		const struct fixup_table *t = &c->x->tables[i];
		const struct elf_section *sec = &c->f->sections[t->section];
		const char *why = t->foreign || t->bad ? NULL : ex_table_fixed(c->f, t);
		int err = 0;

		if (t->bad)
			err = bad_say(c, i);
		else if (t->foreign)
			err = finding(c, "ETCH-X002", 0, 0, "section %s is not etch's and stays as it is: %s", sec->name,
			                       t->foreign);
		else if (why)
			err = finding(c, "ETCH-X002", 0, 0, "section %s stays as it is: %s", sec->name, why);
		else if (!elf_is_object(c->f) && (sec->sh.sh_addr & 3))
			err = finding(c, "ETCH-X001", t->section, sec->sh.sh_addr,
			                       "the exception table is not aligned to 4 bytes: libetch takes none of it");
		if (err)
			return -1;
	}
	return 0;
}

int ex_table_check(const struct elf_file *f, const struct code_space *space, const struct fixups *x,
                   struct findings *out, struct error *e)
{
	struct check c = {.f = f, .space = space, .x = x, .out = out, .e = e};
	int err = tables_check(&c);
	size_t i;

	if (err || !x->count)
		return err;
	err = cfi_file_open(f, space, &c.cfi, e) || pieces_build(f, space, &c.cfi, &c.pieces, e) ? -1 : 0;
	c.env = (struct flow_env){.pieces = c.pieces.list, .piece_count = c.pieces.count};
	if (!err)
		err = spots_find(&c);
	for (i = 0; i < x->count && !err; i++)
		err = entry_check(&c, &x->list[i], i ? &x->list[i - 1] : NULL);
	free(c.spots);
	free(c.called);
	pieces_free(&c.pieces);
	cfi_file_close(&c.cfi);
	return err;
}

/* ---- sorting ---------------------------------------------------------------------- */

const char *ex_table_fixed(const struct elf_file *f, const struct fixup_table *t)
{
	const struct elf_section *s = &f->sections[t->section];
	struct dynamic_reloc *r;
	struct error e;
	size_t n = 0;

	if (elf_is_object(f))
		return NULL;
	if (t->bad)
		return "an entry is malformed";
	if (elf_section_rela(f, t->section, 1))
		return "the file has the relocations of its entries (--emit-relocs), which sorting would make wrong";
	if (dynamic_relocs_read(f, s->sh.sh_addr, s->sh.sh_addr + s->sh.sh_size, &r, &n, &e))
		return "its dynamic relocations are malformed";
	free(r);
	return n ? "the dynamic linker changes it" : NULL;
}

static int live_order(const void *a, const void *b)
{
	const struct fixup *x = a, *y = b;

	if (x->insn != y->insn)
		return x->insn < y->insn ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int table_sort(struct elf_file *f, const struct fixups *x, uint32_t index, size_t *dropped, struct error *e)
{
	const struct fixup_table *t = &x->tables[index];
	const struct elf_section *s = &f->sections[t->section];
	struct fixup *live = calloc(t->count + 1, sizeof(*live));
	struct etch_ex *out = calloc(t->count + 1, sizeof(*out));
	size_t n = 0, i, gap = 0, dead;
	int err = 0;

	if (!live || !out) {
		free(live);
		free(out);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < x->count; i++)
		if (x->list[i].table == index && x->list[i].insn_in != PLACE_NONE)
			live[n++] = x->list[i];
	if (n)
		qsort(live, n, sizeof(*live), live_order);
	dead = t->count - n;
	while (gap < n && live[gap].insn < s->sh.sh_addr)
		gap++; /* an empty entry's own address comes here */
	for (i = 0; i < n && !err; i++) {
		uint64_t at = s->sh.sh_addr + (i < gap ? i : i + dead) * sizeof(*out);
		struct etch_ex *p = &out[i < gap ? i : i + dead];
		int64_t insn = (int64_t)(live[i].insn - at);
		int64_t to = (int64_t)(live[i].to - at - offsetof(struct etch_ex, fixup));

		*p = (struct etch_ex){.insn = (int32_t)insn, .fixup = (int32_t)to, .data = live[i].data};
		if (p->insn != insn || p->fixup != to)
			err = error_set(e, "section %s: more than 2 GiB away from the code", s->name);
	}
	if (!err && t->count)
		memcpy((uint8_t *)s->data, out, t->count * sizeof(*out));
	*dropped += dead;
	free(live);
	free(out);
	return err;
}

int ex_table_sort(struct elf_file *f, const struct fixups *x, size_t *dropped, struct error *e)
{
	uint32_t i;

	*dropped = 0;
	for (i = 0; i < x->table_count; i++)
		if (!x->tables[i].foreign && !ex_table_fixed(f, &x->tables[i]) && table_sort(f, x, i, dropped, e))
			return -1;
	return 0;
}
