/* SPDX-License-Identifier: MIT */
/*
 * Implements `etch inspect code`: shows each instruction of a function with its unwind row, the places of saved
 * registers, the ways in which control reaches it, its targets, and its site.
 */
#include "inspect/view_code.h"
#include "shared/search.h"

#include "arch/x86/rule_text.h"
#include "arch/x86/fast_decoder.h"
#include "analysis/addresses/function.h"
#include "analysis/facts/cfi_file.h"
#include "analysis/facts/space.h"
#include "support/memory.h"
#include "support/progress.h"
#include "site/in_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the function -------------------------------------------------------------- */

/*
 * True if the address is in one of the symbols that begin at the start of a function: the symbol's size covers the
 * address, or it has no size.
 */
static bool is_in_symbol(const struct elf_symbol *list, uint32_t count, const struct func *fn, uint64_t addr)
{
	uint32_t i;

	for (i = 1; i < count; i++)
		if (list[i].section == fn->section && list[i].value == fn->start &&
		    (list[i].type == STT_FUNC || list[i].type == STT_GNU_IFUNC) &&
		    (!list[i].size || addr - fn->start < list[i].size))
			return true;
	return false;
}

/*
 * True if neither a symbol nor an FDE of a linked file shows which function contains an address. The range that
 * func_list_build() gives then extends to the next symbol or FDE, if there is one, and may contain any number of
 * functions.
 */
static bool is_undescribed(const struct elf_file *f, const struct func *fn, uint64_t addr)
{
	struct code_space space = {0};
	struct cfi_file cfi;
	bool described;

	if (elf_is_object(f) || is_in_symbol(f->symbols, f->symbol_count, fn, addr) ||
	    is_in_symbol(f->dynsyms, f->dynsym_count, fn, addr))
		return false;
	space_build(f, &space);
	cfi_file_open(f, &space, &cfi);
	described = cfi_file_at(&cfi, addr) >= 0;
	cfi_file_close(&cfi);
	space_free(&space);
	return !described;
}

/*
 * Extends a place inside a function to the whole function. Sets *vague if only the analysis can tell which function
 * that is. Returns 0, or -1 and a message.
 */
static int function_find(const struct elf_file *f, struct place *at, bool *vague, struct error *e)
{
	struct func_list list = {0};
	const struct func *fn = NULL;
	uint32_t i;

	if (at->function)
		return 0;
	func_list_build(f, &list);
	if (at->section)
		fn = func_find(&list, at->section, at->start);
	for (i = 1; i < f->section_count && !at->section && !fn; i++)
		if (f->sections[i].sh.sh_flags & SHF_EXECINSTR)
			fn = func_find(&list, i, at->start);
	if (fn) {
		*vague = is_undescribed(f, fn, at->start);
		*at = (struct place){fn->section, fn->start, fn->end, true};
	}
	func_list_free(&list);
	return fn ? 0 : error_set(e, "has no code at %" PRIx64, at->start);
}

/*
 * Returns the row that applies at an address, or null. *next keeps the position in the list for the next call, which
 * must have a higher address.
 */
static const struct row *row_at(const struct row_list *rows, uint64_t addr, size_t *next)
{
	while (*next < rows->count && rows->rows[*next].addr <= addr)
		(*next)++;
	return *next ? &rows->rows[*next - 1] : NULL;
}

static int inline_order(const void *a, const void *b)
{
	const struct inline_row *x = *(const struct inline_row *const *)a, *y = *(const struct inline_row *const *)b;

	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Lists the sites of pv_call_inline in the function, sorted by address. */
static void inlines_find(const struct code *c, const struct inline_row ***out, size_t *count)
{
	const struct view *v = &c->view;
	size_t i, n = 0;

	*out = mem_alloc(v->tables.inline_count + 1, sizeof(**out));
	for (i = 0; v->in_place && i < v->tables.inline_count; i++) {
		const struct inline_row *x = &v->tables.inlines[i];

		if (x->site >= c->place.start && x->site < c->place.end && !in_place_is_dropped(&v->file, x))
			(*out)[n++] = x;
	}
	if (n)
		qsort(*out, n, sizeof(**out), inline_order);
	*count = n;
}

/* Returns the index of the first site at or after an address. */
static size_t site_first(const struct scan *s, uint32_t section, uint64_t addr)
{
	return SEARCH(s->site_count, i,
	              s->sites[i].section < section || (s->sites[i].section == section && s->sites[i].addr < addr));
}

static const struct site *site_at(const struct scan *s, uint32_t section, uint64_t addr)
{
	size_t i;

	for (i = site_first(s, section, addr);
	     i < s->site_count && s->sites[i].section == section && s->sites[i].addr == addr; i++)
		if (!s->sites[i].in_data)
			return &s->sites[i];
	return NULL;
}

/*
 * Makes the lines. They have the bytes of the file as it is, since in the copy of the view all sites have been
 * restored.
 */
static void lines_make(struct code *c)
{
	uint64_t addr = c->place.start, end = c->place.end, first = c->section->addr - c->base;
	const struct row *before = NULL;
	const struct inline_row **inlines;
	size_t hint = 0, inline_count, k = 0, capacity = 0;

	inlines_find(c, &inlines, &inline_count);
	while (addr < end) {
		struct code_line *l;

		mem_reserve(&c->lines, &capacity, c->line_count, sizeof(*c->lines));
		l = &c->lines[c->line_count++];
		memset(l, 0, sizeof(*l));
		l->addr = addr;
		l->bytes = c->file.sections[c->place.section].data + (addr - first);
		l->good = insn_decode(l->bytes, end - addr, addr, &l->in);
		l->len = l->good ? l->in.len : 1;
		l->row = row_at(c->rows, c->base + addr, &hint);
		l->changed = l->row != before;
		before = l->row;
		l->known = detail_at(&c->detail, c->base + addr);
		l->site = site_at(&c->view.scan, c->place.section, addr);
		while (k < inline_count && inlines[k]->site < addr)
			k++;
		l->inline_row = k < inline_count && inlines[k]->site == addr ? inlines[k] : NULL;
		l->fixup = fixup_find(c->view.fixups.list, c->view.fixups.count, c->base + addr);
		l->to = NO_LINE;
		addr += l->len;
	}
	free(inlines);
}

static uint32_t line_of(const struct code *c, uint64_t addr)
{
	uint32_t lo = SEARCH(c->line_count, i, c->lines[i].addr < addr);

	return lo < c->line_count && c->lines[lo].addr == addr ? lo : NO_LINE;
}

static void jumps_find(struct code *c)
{
	uint32_t i;

	c->jumps = mem_alloc((size_t)c->line_count + 1, sizeof(*c->jumps));
	for (i = 0; i < c->line_count; i++) {
		struct code_line *l = &c->lines[i];
		struct reference to;

		if (!l->good || (l->in.flow != FLOW_JUMP && l->in.flow != FLOW_BRANCH))
			continue;
		operand_target(c->operands, c->place.section, &l->in, &to);
		if (!to.placed || to.section != c->place.section)
			continue;
		l->to = line_of(c, to.addr);
		if (l->to != NO_LINE)
			c->jumps[c->jump_count++] = (struct jump){i, l->to};
	}
}

/* ---- incoming control flow ------------------------------------------------------ */

static int incoming_order(const void *a, const void *b)
{
	const struct incoming *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void incoming_add(struct code *c, uint64_t to, enum incoming_kind kind, uint64_t from, uint64_t index)
{
	if (to < c->detail.from || to >= c->detail.to)
		return;
	mem_reserve(&c->incoming_list, &c->incoming_capacity, c->incoming_count, sizeof(*c->incoming_list));
	c->incoming_list[c->incoming_count++] = (struct incoming){to, kind, from, index};
}

static void incoming_find(struct code *c)
{
	const struct fixups *x = &c->view.fixups;
	size_t i;

	for (i = 0; i < c->detail.target_count; i++)
		incoming_add(c, c->detail.targets[i].target, INCOMING_TABLE, c->detail.targets[i].addr,
		             c->detail.targets[i].index);
	for (i = 0; i < c->detail.pad_count; i++)
		incoming_add(c, c->detail.pads[i].pad, INCOMING_PAD, c->detail.pads[i].start,
		             c->detail.pads[i].end - c->detail.pads[i].start);
	for (i = 0; i < x->count; i++)
		if (x->list[i].to_in == PLACE_CODE)
			incoming_add(c, x->list[i].to, INCOMING_FIXUP, x->list[i].insn, 0);
	if (c->incoming_count)
		qsort(c->incoming_list, c->incoming_count, sizeof(*c->incoming_list), incoming_order);
}

const struct incoming *code_incoming(const struct code *c, const struct code_line *l, size_t *count)
{
	uint64_t at = c->base + l->addr;
	size_t lo = SEARCH(c->incoming_count, i, c->incoming_list[i].to < at), end;

	for (end = lo; end < c->incoming_count && c->incoming_list[end].to == at; end++)
		;
	*count = end - lo;
	return c->incoming_list + lo;
}

/* ---- text ------------------------------------------------------------------------- */

const char *code_flow_name(const struct code_line *l)
{
	static const char *const names[] = {
		[FLOW_NEXT] = "next",     [FLOW_JUMP] = "jump",
		[FLOW_BRANCH] = "branch", [FLOW_JUMP_IND] = "jump indirect",
		[FLOW_CALL] = "call",     [FLOW_CALL_IND] = "call indirect",
		[FLOW_RETURN] = "return", [FLOW_STOP] = "stop",
	};

	return l->good ? names[l->in.flow] : "bad";
}

void code_insn_text(const struct code_line *l, enum insn_syntax syntax, char *out, size_t size)
{
	if (l->good)
		insn_text_in(syntax, l->bytes, l->len, l->addr, out, size);
	else
		snprintf(out, size, ".byte 0x%02x", *l->bytes);
}

void code_where_text(const struct detail_insn *known, unsigned r, char *out, size_t size)
{
	int32_t off = known->off[r];

	switch (known->where[r]) {
	case WHERE_SAME: snprintf(out, size, "same"); break;
	case WHERE_CFA: snprintf(out, size, "cfa%+d", off); break;
	case WHERE_RSP:
	case WHERE_RBP:
		snprintf(out, size, "%s%+d", reg_text(known->where[r] == WHERE_RSP ? ETCH_REG_RSP : ETCH_REG_RBP), off);
		break;
	case WHERE_REGISTER: snprintf(out, size, "%s", reg_text((unsigned)off)); break;
	default: snprintf(out, size, "lost"); break;
	}
}

/* Returns the text between the name of a register and its place. */
static const char *place_sign(unsigned where)
{
	if (where == WHERE_LOST)
		return " ";
	return where == WHERE_REGISTER ? "=" : "@";
}

void code_saved_text(const struct code_line *l, char *out, size_t size)
{
	size_t n = 0;
	unsigned r;

	out[0] = 0;
	for (r = 0; r < 16 && l->known; r++) {
		unsigned where = l->known->where[r];
		char text[32];

		if (!(STEP_CALLEE_SAVED >> r & 1) || where == WHERE_SAME || n >= size)
			continue;
		code_where_text(l->known, r, text, sizeof(text));
		n += (size_t)snprintf(out + n, size - n, "%s%s%s%s", n ? " " : "", reg_text(r), place_sign(where), text);
	}
}

void code_place_name(const struct code *c, uint64_t addr, char *out, size_t size)
{
	const struct code_section *s = space_at(&c->frames.space, addr);

	snprintf(out, size, "?");
	if (s)
		operand_name(c->operands, s->section, elf_is_object(&c->file) ? addr - s->addr : addr, out, size);
}

void code_fixup_name(const struct code *c, const struct fixup *x, char *out, size_t size)
{
	if (x->to_in == PLACE_CODE)
		code_place_name(c, x->to, out, size);
	else
		snprintf(out, size, "?");
}

/*
 * Writes "may fault: efault of register 0, continues at read_int+0x9" for an instruction that may fault; "fixup" for
 * the target of a fixup; "-" for any other instruction.
 */
static void fixup_text(const struct code *c, const struct code_line *l, char *out, size_t size)
{
	const struct fixup *x = l->fixup;
	const struct etch_ex raw = {.data = x ? x->data : 0};
	const struct incoming *from;
	char to[256] = "?";
	size_t count, i;

	snprintf(out, size, "-");
	if (x)
		code_fixup_name(c, x, to, sizeof(to));
	if (x && etch_ex_type(&raw) == ETCH_EX_TYPE_PLAIN)
		snprintf(out, size, "may fault: continues at %s", to);
	else if (x)
		snprintf(out, size, "may fault: %s of register %u, continues at %s", ex_type_name(x->data), etch_ex_reg(&raw),
		         to);
	from = code_incoming(c, l, &count);
	for (i = 0; i < count && !x; i++)
		if (from[i].kind == INCOMING_FIXUP)
			snprintf(out, size, "fixup");
}

/*
 * Writes what a site is, for example "immediate of limits+8: mov32, live" or "direct call by ops+8 to run: call-rip,
 * live".
 */
static void site_text(const struct view *v, const struct site *s, char *out, size_t size)
{
	static const char *const kinds[] = {"load", "call", "store", "escape"};
	const char *name = v->scan.objects.list[s->object].name, *why, *live = "live", *branch = "";
	char form[32] = "", off[32] = "", target[256] = "";
	enum site_patch how;

	if (s->off_known && s->off)
		snprintf(off, sizeof(off), "%+" PRId64, s->off);
	if (!site_kind_is_patched(s->kind)) {
		snprintf(out, size, "%s of %s%s", kinds[s->kind], name, off);
		return;
	}
	how = site_patch(&v->scan, s, &why);
	if (!s->reason)
		site_form_name(&s->entry, form, sizeof(form));
	else
		snprintf(form, sizeof(form), "%s", s->kind == SITE_LOAD ? "no immediate form" : "no form");
	if (s->kind == SITE_CALL) {
		view_target(v, s, target, sizeof(target));
		branch = s->entry.form == ETCH_FORM_JMP ? " jump" : " call";
	}
	if (why)
		live = "not live: ";
	else if (how == SITE_BY_SWAP)
		live = "live by swap";
	snprintf(out, size, "%s%s %s %s%s%s%s: %s, %s%s", view_state(v, s), branch, s->kind == SITE_CALL ? "by" : "of",
	         name, off, target[0] && target[0] != '-' ? " to " : "", target[0] != '-' ? target : "", form, live,
	         why ? why : "");
}

void code_site_text(const struct code *c, const struct code_line *l, char *out, size_t size)
{
	char name[256];

	if (l->site) {
		site_text(&c->view, l->site, out, size);
	} else if (l->inline_row) {
		operand_name(c->operands, elf_section_at(&c->file, l->inline_row->func), l->inline_row->func, name,
		             sizeof(name));
		snprintf(out, size, "call of %s compiled in place: %s", name,
		         c->view.in_place[l->inline_row - c->view.tables.inlines] ? "in place now" : "called now");
	} else {
		fixup_text(c, l, out, size);
	}
}

/* ---- loading ------------------------------------------------------------------------ */

/*
 * Loads the rows of the table or, if there is none, those made from the code. Also runs the flow analysis for its
 * details. Returns 0, or -1 and a message.
 */
static int rows_load(struct code *c, struct error *e)
{
	const struct frames_options how = {
		.no_cfi = c->options->no_cfi, .jobs = c->options->jobs, .progress = true, .detail = &c->detail};
	const struct code_section *s;
	int err;

	if (!c->options->no_cfi && unwind_view_load(&c->file, UNWIND_TABLE, &c->table, e))
		return -1;
	s = space_of(&c->view.space, c->place.section);
	/* The range comes from a symbol, whose values may be malformed. */
	if (!s || c->place.start - (elf_is_object(&c->file) ? 0 : s->addr) >= s->size)
		return error_set(e, "has no code for '%.200s'", c->options->at);
	c->base = elf_is_object(&c->file) ? s->addr : 0;
	if (c->place.end - c->place.start > s->addr - c->base + s->size - c->place.start)
		c->place.end = s->addr - c->base + s->size;
	c->detail.from = c->base + c->place.start;
	c->detail.to = c->base + c->place.end;
	c->detail.at = c->base + c->asked;
	err = frames_find(&c->view.file, &how, &c->frames, e);
	progress_end();
	if (err)
		return -1;
	c->place.start = c->detail.from - c->base;
	c->place.end = c->detail.to - c->base;
	c->section = space_of(&c->frames.space, c->place.section);
	c->generated = !c->table.table;
	c->rows = c->generated ? &c->frames.rows : &c->table.rows;
	return 0;
}

static int code_load(struct code *c, struct error *e)
{
	if (inspect_open(&c->file, c->path, e) || place_find(&c->file, c->options->at, &c->place, e))
		return -1;
	c->asked = c->place.start;
	if (function_find(&c->file, &c->place, &c->detail.vague, e) || view_load(&c->view, c->path, e) || rows_load(c, e))
		return -1;
	c->operands = operands_open(&c->view.file, &c->frames.space, e);
	if (!c->operands)
		return -1;
	lines_make(c);
	jumps_find(c);
	if (elf_is_object(&c->file))
		object_jump_tables_find(c);
	incoming_find(c);
	c->sources = lines_open(&c->file);
	return 0;
}

int show_code(const char *path, const struct code_options *options, struct error *e)
{
	struct code c = {.path = path, .options = options};
	int err = code_load(&c, e);

	if (!err && options->format == FORMAT_JSON)
		json_print(code_json(&c));
	else if (!err && options->format == FORMAT_TSV)
		code_tsv(&c);
	else if (!err)
		code_text(&c);
	lines_close(c.sources);
	operands_close(c.operands);
	free(c.incoming_list);
	free(c.jumps);
	free(c.lines);
	detail_free(&c.detail);
	frames_free(&c.frames);
	unwind_view_free(&c.table);
	view_free(&c.view);
	elf_close(&c.file);
	return err;
}
