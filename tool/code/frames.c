/* SPDX-License-Identifier: MIT */
/*
 * All pieces of a file, in rounds: each piece by itself first; then again those
 * that others jump into, and those that call what has turned out not to return;
 * until nothing is new.
 */
#include "code/ocaml.h"
#include "code/work.h"
#include "elf/hardening.h"
#include "elf/memory.h"

#include <string.h>

/* Each round knows more than the one before; a file that needs more of them keeps
 * what it has. */
#define ROUNDS_MOST 64

static int reloc_order(const void *a, const void *b)
{
	const struct flow_reloc *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* What the branches of an object file refer to. */
static int relocs_read(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	struct flow_reloc *list = NULL;
	size_t count = 0, room = 0;
	uint32_t i;

	for (i = 1; i < f->section_count && elf_is_object(f); i++) {
		const struct code_section *c;
		struct elf_reloc *r;
		long n, k;

		if (f->sections[i].sh.sh_type != SHT_RELA)
			continue;
		c = space_of(&w->out->space, f->sections[i].sh.sh_info);
		if (!c)
			continue;
		n = elf_relocs(f, i, &r, e);
		if (n < 0) {
			free(list);
			return -1;
		}
		for (k = 0; k < n; k++) {
			const struct elf_symbol *y = r[k].symbol < f->symbol_count ? &f->symbols[r[k].symbol] : NULL;
			const struct code_section *to = y && y->section ? space_of(&w->out->space, y->section) : NULL;
			struct flow_reloc x = {c->addr + r[k].offset, FLOW_EXTERN | r[k].symbol};
			bool direct = r[k].type == R_X86_64_PC32 || r[k].type == R_X86_64_PLT32;

			if (!direct && r[k].type != R_X86_64_GOTPCREL && r[k].type != R_X86_64_GOTPCRELX &&
			    r[k].type != R_X86_64_REX_GOTPCRELX)
				continue;
			if (direct && to)
				x.target = to->addr + y->value + (uint64_t)r[k].addend + 4;
			if (!room_make(&list, &room, count, sizeof(*list))) {
				free(list);
				free(r);
				return error_set(e, "out of memory");
			}
			list[count++] = x;
		}
		free(r);
	}
	sort_if_needed(list, count, sizeof(*list), reloc_order);
	w->env.relocs = list;
	w->env.reloc_count = count;
	return 0;
}

static bool row_append(struct row_list *l, uint64_t addr, const struct etch_rule *rule, unsigned source)
{
	struct row *last = l->count ? &l->rows[l->count - 1] : NULL;

	if (last && !memcmp(&last->rule, rule, sizeof(*rule)) &&
	    (last->source == source || rule->kind == ETCH_RULE_UNDEF))
		return true;
	if (last && last->addr == addr) {
		last->rule = *rule;
		last->source = (uint8_t)source;
		return true;
	}
	if (!room_make(&l->rows, &l->room, l->count, sizeof(*l->rows)))
		return false;
	memset(&l->rows[l->count], 0, sizeof(l->rows[l->count]));
	l->rows[l->count].addr = addr;
	l->rows[l->count].rule = *rule;
	l->rows[l->count++].source = (uint8_t)source;
	return true;
}

/* Is a piece, of which .eh_frame says nothing, what a signal's handler returns to, from its first byte on? */
static bool is_restorer(const struct piece *p, const struct piece_rows *r)
{
	struct step s;

	return p->fde < 0 && r->count && r->rows[0].rule.kind == ETCH_RULE_SIGNAL && r->rows[0].addr == p->start &&
	       step_decode(NULL, p->bytes, p->end - p->start, p->start, &s) && !s.padding;
}

/*
 * No call has made its address a return address: who looks up the byte before finds what lies there. Where that is
 * padding it can have the row; where it is the end of other code, it is not known who asks.
 */
static bool restorer_begin(struct work *w, size_t i)
{
	static const struct etch_rule none;
	const struct piece *p = &w->pieces.list[i];
	const struct row *first = w->state[i].rows.rows;
	bool other = i && p[-1].end == p->start && w->state[i - 1].to_end;

	if (space_at(&w->out->space, p->start)->addr == p->start)
		return true;
	return row_append(&w->out->rows, p->start - 1, other ? &none : &first->rule, first->source);
}

static int rows_join(struct work *w, struct error *e)
{
	static const struct etch_rule none, end = {.kind = ETCH_RULE_END};
	struct frames *out = w->out;
	uint64_t at = 0;
	size_t i, k, total = 0;

	for (i = 0; i < w->pieces.count; i++)
		total += w->state[i].rows.count;
	out->rows.room = total + total / 8 + 64;
	out->rows.rows = big_alloc(out->rows.room * sizeof(*out->rows.rows));
	if (!out->rows.rows)
		return error_set(e, "out of memory");
	for (i = 0; i < w->pieces.count; i++) {
		const struct piece *p = &w->pieces.list[i];
		struct piece_rows *r = &w->state[i].rows;

		if (w->state[i].foreign) {
			piece_rows_free(r);
			r->undefined = p->end - p->start;
			if (!row_append(&out->rows, p->start, &none, ETCH_SOURCE_CODE))
				return error_set(e, "out of memory");
		}
		if (i && at != p->start && !row_append(&out->rows, at, &none, ETCH_SOURCE_CODE))
			return error_set(e, "out of memory");
		/* Its first address is a return address that no call has made: who looks up
		 * the byte before finds the end of the stack. */
		if (w->state[i].switches && i && at < p->start && !row_append(&out->rows, p->start - 1, &end, ETCH_SOURCE_CODE))
			return error_set(e, "out of memory");
		if (!w->state[i].foreign && is_restorer(p, r) && !restorer_begin(w, i))
			return error_set(e, "out of memory");
		for (k = 0; k < r->count; k++) {
			uint64_t end = k + 1 < r->count ? r->rows[k + 1].addr : p->end;

			if (!row_append(&out->rows, r->rows[k].addr, &r->rows[k].rule, r->rows[k].source))
				return error_set(e, "out of memory");
			if (r->rows[k].rule.kind != ETCH_RULE_UNDEF)
				out->covered += end - r->rows[k].addr;
		}
		out->undefined += r->undefined;
		if (!findings_take(&out->findings, &r->findings))
			return error_set(e, "out of memory");
		at = p->end;
		piece_rows_free(r);
	}
	if (w->pieces.count && !row_append(&out->rows, at, &none, ETCH_SOURCE_CODE))
		return error_set(e, "out of memory");
	out->functions = w->pieces.count;
	return 0;
}

/* From addresses of the space to the file's own, each with its section. */
static void finding_settle(const struct work *w, uint32_t *section, uint64_t *addr)
{
	const struct code_section *c = space_at(&w->out->space, *addr);

	*section = c ? c->section : 0;
	*addr = c && elf_is_object(w->file) ? *addr - c->addr : *addr;
}

static void findings_settle(const struct work *w)
{
	struct findings *l = &w->out->findings;
	size_t i, k;

	for (i = 0; i < l->count; i++) {
		finding_settle(w, &l->list[i].section, &l->list[i].addr);
		for (k = 0; k < l->list[i].fact_count; k++)
			if (l->list[i].facts[k].placed)
				finding_settle(w, &l->list[i].facts[k].section, &l->list[i].facts[k].addr);
	}
	findings_sort(l);
}

static int observe_prepare(struct work *w, struct error *e)
{
	struct elf_hardening hardening;

	elf_hardening_read(w->file, &hardening);
	w->ibt = hardening.ibt;
	return symbol_index_build(w->file, symbol_is_place, &w->env.names, e) ||
	       reached_init(&w->out->reached, &w->out->space, e) ? -1 : 0;
}

int frames_find(const struct elf_file *f, const struct frames_options *o, struct frames *out, struct error *e)
{
	struct work w = {.file = f, .options = o, .out = out, .lock = PTHREAD_MUTEX_INITIALIZER};
	int err = -1, more = 1, rounds;
	size_t i;

	memset(out, 0, sizeof(*out));
	/* The code, what .eh_frame knows of it, and where it can be cut. */
	if (space_build(f, &out->space, e) || cfi_file_open(f, &out->space, &w.cfi, e) ||
	    fixups_read(f, &out->space, &w.fixups, e) || pieces_build(f, &out->space, &w.cfi, &w.pieces, e) ||
	    ocaml_mark(f, &out->space, &w.pieces, e))
		goto out;
	w.env = (struct flow_env){.file = f, .cfi = &w.cfi, .pieces = w.pieces.list, .piece_count = w.pieces.count,
	                          .entries = w.pieces.entries, .space = &out->space, .fixups = &w.fixups};
	if (!pieces_index(&w.env)) {
		error_set(e, "out of memory");
		goto out;
	}
	if (noreturn_names(&w, e) || relocs_read(&w, e))
		goto out;
	w.state = calloc(w.pieces.count + 1, sizeof(*w.state));
	if (!w.state) {
		error_set(e, "out of memory");
		goto out;
	}
	w.state_count = w.pieces.count;
	haskell_open(&w);
	if (strays_data(&w, e))
		goto out;
	for (i = 0; i < w.pieces.count; i++)
		w.state[i].run |= RUN_NEWS;
	if (evidence_data(&w, e) || (o->observe && observe_prepare(&w, e)))
		goto out;
	for (rounds = 0; more > 0 && rounds < ROUNDS_MOST; rounds++) {
		if (round_run(&w, e))
			goto out;
		more = round_prepare(&w, e);
		if (more < 0)
			goto out;
	}
	if (o->observe && observe_edges(&w, e))
		goto out;
	foreign_spread(&w);
	if (!haskell_rows(&w)) {
		error_set(e, "out of memory");
		goto out;
	}
	err = rows_join(&w, e) || fixups_compare(&w, e) ? -1 : 0;
	findings_settle(&w);
out:
	for (i = 0; i < w.state_count; i++) {
		piece_rows_free(&w.state[i].rows);
		free(w.state[i].said);
		free(w.state[i].says);
	}
	free(w.state);
	free(w.edges.list);
	free(w.calls.list);
	free(w.tails.list);
	free(w.ways);
	free(w.list);
	free(w.strays);
	free(w.data);
	free(w.noreturn);
	for (i = 0; i < w.name_count; i++)
		free(w.names[i]);
	free(w.names);
	pieces_index_free(&w.env);
	free(w.env.relocs);
	haskell_free(&w);
	symbol_index_free(&w.env.names);
	pieces_free(&w.pieces);
	fixups_free(&w.fixups);
	cfi_file_close(&w.cfi);
	return err;
}

void frames_free(struct frames *fr)
{
	free(fr->rows.rows);
	findings_free(&fr->findings);
	reached_free(&fr->reached);
	space_free(&fr->space);
	memset(fr, 0, sizeof(*fr));
}
