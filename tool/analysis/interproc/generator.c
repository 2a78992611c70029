/* SPDX-License-Identifier: MIT */
/*
 * frames_find(): finds the code ranges of a file, runs the fixpoint over them (fixpoint.c), and joins their rows and
 * findings into one list each.
 */
#include "analysis/facts/fixups.h"
#include "analysis/flow/insn_detail.h"
#include "analysis/runtimes/runtimes.h"
#include "analysis/interproc/continuation_walk.h"
#include "analysis/interproc/noreturn.h"
#include "analysis/interproc/other_frames.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/rounds.h"
#include "analysis/interproc/work.h"
#include "arch/x86/padding.h"
#include "output/segment.h"
#include "elf/hardening.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

static int reloc_order(const void *a, const void *b)
{
	const struct flow_reloc *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->target < y->target ? -1 : x->target > y->target;
}

/* Removes all relocations of an address except for the first, so that every lookup finds the same one: a damaged object
 * may have several. */
static size_t relocs_unique(struct flow_reloc *list, size_t count)
{
	size_t i, n = 0;

	for (i = 0; i < count; i++)
		if (!n || list[i].addr != list[n - 1].addr)
			list[n++] = list[i];
	return n;
}

/*
 * Sets env.relocs to the targets of the relocated branches and GOT references of an object file, sorted by address.
 * Returns 0, or -1 with a message in *e.
 */
static int relocs_read(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	struct flow_reloc *list = NULL;
	size_t count = 0, capacity = 0;
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
			mem_reserve(&list, &capacity, count, sizeof(*list));
			list[count++] = x;
		}
		free(r);
	}
	sort_if_needed(list, count, sizeof(*list), reloc_order);
	w->env.reloc_count = relocs_unique(list, count);
	w->env.relocs = mem_resize(list, w->env.reloc_count, sizeof(*list));
	return 0;
}

/* Appends a row, unless it continues the last row with the same rule and source. If the last row has the same address,
 * replaces that row. */
static void row_append(struct row_list *l, uint64_t addr, const struct etch_rule *rule, unsigned source)
{
	struct row *last = l->count ? &l->rows[l->count - 1] : NULL;

	if (last && !memcmp(&last->rule, rule, sizeof(*rule)) && (last->source == source || rule->kind == ETCH_RULE_UNDEF))
		return;
	if (last && last->addr == addr) {
		last->rule = *rule;
		last->source = (uint8_t)source;
		return;
	}
	mem_reserve(&l->rows, &l->capacity, l->count, sizeof(*l->rows));
	memset(&l->rows[l->count], 0, sizeof(l->rows[l->count]));
	l->rows[l->count].addr = addr;
	l->rows[l->count].rule = *rule;
	l->rows[l->count++].source = (uint8_t)source;
}

/* Does a code range without an FDE begin with the restorer, to which a signal handler returns? */
static bool is_restorer(const struct code_range *p, const struct range_rows *r)
{
	struct step s;

	return p->fde < 0 && r->count && r->rows[0].rule.kind == ETCH_RULE_SIGNAL && r->rows[0].addr == p->start &&
	       step_decode(NULL, p->bytes, p->end - p->start, p->start, &s) && !s.padding;
}

/*
 * Adds the row of the byte before a restorer. The kernel makes the restorer's address a return address without a call,
 * and unwinders look up the byte before a return address. If that byte is padding, it gets the restorer's row; if it
 * ends other code, the lookup is ambiguous, and the row is UNDEF.
 */
static void restorer_begin(struct work *w, size_t i)
{
	static const struct etch_rule none;
	const struct code_range *p = &w->ranges.list[i];
	const struct row *first = w->state[i].rows.rows;
	bool other = i && p[-1].end == p->start && w->state[i - 1].flows_to_end;

	if (space_at(&w->out->space, p->start)->addr != p->start)
		row_append(&w->out->rows, p->start - 1, other ? &none : &first->rule, first->source);
}

/* Appends the places of callee-saved registers in a code range to the list of the file. */
static void saves_append(struct save_list *l, const struct range_rows *r)
{
	uint32_t i;

	for (i = 0; i < r->save_count; i++) {
		mem_reserve(&l->rows, &l->capacity, l->count, sizeof(*l->rows));
		l->rows[l->count++] = range_saves(r)[i];
	}
}

/* ---- how much of the code is covered ---------------------------------------------------------- */

static void filled_add(struct frames *out, uint64_t addr, uint64_t size)
{
	if (!size)
		return;
	mem_reserve(&out->filled, &out->filled_capacity, out->filled_count, sizeof(*out->filled));
	out->filled[out->filled_count++] = (struct filled){addr, size};
	out->padding += size;
}

/* Counts the bytes of [from, to), which lies in no code range, as padding or as `elsewhere`. */
static void gap_count(struct frames *out, struct step_cache *cache, uint64_t from, uint64_t to)
{
	size_t i = SEARCH(out->space.count, k, out->space.list[k].addr + out->space.list[k].size <= from);

	for (; i < out->space.count && out->space.list[i].addr < to; i++) {
		const struct code_section *c = &out->space.list[i];
		uint64_t start = from > c->addr ? from : c->addr, end = to < c->addr + c->size ? to : c->addr + c->size;
		uint64_t size = padding_size(cache, c->bytes + (start - c->addr), end - start, start, NULL);

		filled_add(out, start, size);
		out->elsewhere += end - start - size;
	}
}

/* Corrects the counts for the byte in front of a code range, which lies in a gap but has a row. */
static void before_count(struct frames *out, uint64_t addr)
{
	const struct filled *last = out->filled_count ? &out->filled[out->filled_count - 1] : NULL;

	out->covered++;
	if (last && last->addr + last->size > addr)
		out->padding_covered++;
	else
		out->elsewhere--;
}

/* Counts the padding after the flow of a code range: as covered if it has a row, otherwise as padding without a row. */
static void range_count(struct frames *out, const struct range_state *s, const struct code_range *p)
{
	uint64_t from = s->reached - s->padding, end = s->reached < p->end ? s->reached : p->end, at, next;
	size_t i = SEARCH(s->rows.count, k, s->rows.rows[k].addr <= from);

	if (!s->padding || from >= end)
		return;
	filled_add(out, from, end - from);
	for (at = from; at < end; at = next) {
		bool defined = i && !s->non_c_frame && s->rows.rows[i - 1].rule.kind != ETCH_RULE_UNDEF;

		next = i < s->rows.count && s->rows.rows[i].addr < end ? s->rows.rows[i].addr : end;
		if (defined)
			out->padding_covered += next - at;
		else
			out->undefined -= next - at;
		i++;
	}
}

/* Joins the rows and findings of all code ranges into those of the file, and frees them. The gaps between code ranges
 * get UNDEF rows. */
static void rows_join(struct work *w)
{
	static const struct etch_rule none, end = {.kind = ETCH_RULE_END};
	struct frames *out = w->out;
	struct step_cache *cache;
	uint64_t at = 0;
	size_t i, k, total = 0;
	bool before;

	for (i = 0; i < w->ranges.count; i++)
		total += w->state[i].rows.count;
	out->rows.capacity = total + total / 8 + 64;
	out->rows.rows = big_alloc(out->rows.capacity * sizeof(*out->rows.rows));
	cache = step_cache_new();
	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];
		struct range_rows *r = &w->state[i].rows;

		if (w->state[i].non_c_frame) {
			range_rows_free(r);
			out->undefined += p->end - p->start;
			row_append(&out->rows, p->start, &none, ETCH_SOURCE_CODE);
		}
		gap_count(out, cache, at, p->start);
		if (i && at != p->start)
			row_append(&out->rows, at, &none, ETCH_SOURCE_CODE);
		/* The start of a hand-made context is a return address that no call has pushed: a lookup of the byte before it
		 * must find the end of the stack. */
		before = w->state[i].switches_stack && i && at < p->start;
		if (before)
			row_append(&out->rows, p->start - 1, &end, ETCH_SOURCE_CODE);
		if (!w->state[i].non_c_frame && is_restorer(p, r)) {
			restorer_begin(w, i);
			before |= i && at < p->start;
		}
		if (before)
			before_count(out, p->start - 1);
		for (k = 0; k < r->count; k++) {
			uint64_t end = k + 1 < r->count ? r->rows[k + 1].addr : p->end;

			row_append(&out->rows, r->rows[k].addr, &r->rows[k].rule, r->rows[k].source);
			if (r->rows[k].rule.kind != ETCH_RULE_UNDEF)
				out->covered += end - r->rows[k].addr;
			else
				out->undefined += end - r->rows[k].addr;
		}
		range_count(out, &w->state[i], p);
		findings_take(&out->findings, &r->findings);
		saves_append(&out->saves, r);
		at = p->end;
		range_rows_free(r);
	}
	if (w->ranges.count)
		row_append(&out->rows, at, &none, ETCH_SOURCE_CODE);
	gap_count(out, cache, at, UINT64_MAX);
	step_cache_free(cache);
	for (i = 0; i < out->space.count; i++)
		out->text += out->space.list[i].size;
	out->functions = w->ranges.count;
}

/* Converts an address of the code space into a section and, for an object file, an offset in the section. */
static void finding_locate(const struct work *w, uint32_t *section, uint64_t *addr)
{
	const struct code_section *c = space_at(&w->out->space, *addr);

	*section = c ? c->section : 0;
	*addr = c && elf_is_object(w->file) ? *addr - c->addr : *addr;
}

/* Converts the addresses of all findings, and sorts the findings. */
static void findings_locate(const struct work *w)
{
	struct findings *l = &w->out->findings;
	size_t i, k;

	for (i = 0; i < l->count; i++) {
		finding_locate(w, &l->list[i].section, &l->list[i].addr);
		for (k = 0; k < l->list[i].fact_count; k++)
			if (l->list[i].facts[k].placed)
				finding_locate(w, &l->list[i].facts[k].section, &l->list[i].facts[k].addr);
	}
	findings_sort(l);
}

/* Reads what the findings about flow need: whether the file asks for indirect branch tracking, and its symbols. */
static void observe_prepare(struct work *w)
{
	struct elf_hardening hardening;

	elf_hardening_read(w->file, &hardening);
	w->ibt = hardening.ibt;
	reached_init(&w->out->reached, &w->out->space);
	symbol_index_build(w->file, symbol_is_place, &w->env.names);
}

/* Is the code range certainly code? It is if flow has been found in it, and it is not suspected of being data. */
static bool is_code(const struct work *w, size_t i) { return !w->state[i].empty && w->state[i].kind != RANGE_DATA; }

/*
 * Narrows the address range of a detail request in a file without symbols: to the code range that contains the address
 * or, if there is none, to the gap between two code ranges. A PLT is shown as a whole.
 */
static void detail_narrow(const struct work *w, struct detail *d)
{
	const struct code_range *list = w->ranges.list;
	size_t k = SEARCH(w->ranges.count, i, list[i].end <= d->at), next = k;

	if (k < w->ranges.count && list[k].start <= d->at) {
		if (list[k].plt)
			return;
		if (is_code(w, k)) {
			d->from = list[k].start > d->from ? list[k].start : d->from;
			d->to = list[k].end < d->to ? list[k].end : d->to;
			return;
		}
		next++;
	}
	while (k && !is_code(w, k - 1))
		k--;
	while (next < w->ranges.count && !is_code(w, next))
		next++;
	if (k && list[k - 1].end > d->from)
		d->from = list[k - 1].end;
	if (next < w->ranges.count && list[next].start < d->to)
		d->to = list[next].start;
}

/* Collects the details of the code ranges that overlap the requested address range. */
static void detail_join(struct work *w, struct detail *d)
{
	size_t i;

	if (d->vague)
		detail_narrow(w, d);
	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];

		if (p->start < d->to && p->end > d->from)
			detail_add(d, range_rare(&w->state[i])->detail);
	}
	detail_sort(d, &w->env);
}

/* Finds what an earlier run of etch added to the file: the last part of its segment, after what was moved there from
 * the file. */
static void own_find(struct work *w)
{
	struct segment_found at;
	struct error e;

	if (elf_is_object(w->file) || segment_find(w->file->bytes, w->file->size, &at, &e) <= 0 || at.first > at.size)
		return;
	w->own_addr = at.addr + at.first;
	w->own_size = at.size - at.first;
}

/* Reads what the file itself states: code, .eh_frame, exception tables, code ranges, names of noreturn functions.
 * Returns 0, or -1 with a message in *e. */
static int work_open(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	struct code_space *space = &w->out->space;
	size_t i;

	space_build(f, space);
	own_find(w);
	if (w->options->notes) {
		w->out->notes = *w->options->notes;
		*w->options->notes = (struct notes){0};
	} else if (w->options->profile && w->options->profile->read(w->options->profile, f, space, &w->out->notes, e)) {
		return -1;
	}
	cfi_file_open(f, space, &w->cfi);
	if (fixups_read(f, space, &w->fixups, e) || patched_edges_add(f, space, &w->fixups, e) ||
	    runtimes_ranges(f, space, &w->cfi, &w->ranges, e))
		return -1;
	w->env = (struct flow_env){.file = f,
	                           .cfi = &w->cfi,
	                           .ranges = w->ranges.list,
	                           .range_count = w->ranges.count,
	                           .entries = w->ranges.entries,
	                           .space = space,
	                           .fixups = &w->fixups,
	                           .runtime = runtimes_own_stack()};
	if (w->options->profile)
		noted_ranges(w);
	ranges_index(&w->env);
	noreturn_names(w);
	if (relocs_read(w, e))
		return -1;
	w->state = mem_zero(w->ranges.count, sizeof(*w->state));
	w->state_count = w->ranges.count;
	identities_grow(w, 0);
	for (i = 0; i < w->ranges.count; i++)
		w->graph.place[i] = w->state[i].id = (uint32_t)i;
	return 0;
}

/* Prepares the first round: makes code ranges at the addresses that data refers to, takes data as evidence for
 * functions, and marks all code ranges. */
static void work_begin(struct work *w)
{
	size_t i;

	noreturn_ahead(w);
	own_stack_open(w);
	undiscovered_in_data(w);
	for (i = 0; i < w->ranges.count; i++)
		w->state[i].run |= RUN_NEWS;
	evidence_data(w);
	if (w->options->observe)
		observe_prepare(w);
}

/* Frees what only the rounds need. */
static void rounds_free(struct work *w)
{
	size_t i;

	for (i = 0; i < w->state_count; i++) {
		struct range_state *s = &w->state[i];

		joins_clear(s);
		tails_clear(s);
	}
	state_pool_free(&w->graph.states);
	free(w->graph.edges.list);
	w->graph.edges = (struct edges){0};
	links_free(&w->graph.calls);
	links_free(&w->graph.tails);
}

/* Runs the passes after the last round, which need all code ranges to be known, then makes the lists of the file. */
static void work_finish(struct work *w)
{
	const struct frames_options *o = w->options;

	if (o->observe)
		observe_edges(w);
	non_c_frames_spread(w);
	own_stack_rows(w);
	rounds_free(w);
	big_trim(w->file->size);
	rows_join(w);
	fixups_compare(w);
	if (o->detail)
		detail_join(w, o->detail);
	findings_locate(w);
}

static void work_close(struct work *w)
{
	size_t i;

	rounds_free(w);
	for (i = 0; i < w->state_count; i++) {
		range_rows_free(&w->state[i].rows);
		if (w->state[i].rare)
			detail_part_free(&w->state[i].rare->detail);
		free(w->state[i].rare);
	}
	free(w->state);
	free(w->frames.continuations);
	continuation_walk_free(w->frames.walk);
	free(w->graph.place);
	free(w->graph.touched);
	free(w->graph.entries);
	free(w->rounds.worklist);
	free(w->starts.undiscovered);
	free(w->starts.data);
	free(w->starts.padded);
	free(w->starts.pointers);
	free(w->returns.noreturn);
	free(w->returns.noreturn_named);
	for (i = 0; i < w->returns.name_count; i++)
		free(w->returns.names[i]);
	free(w->returns.names);
	ranges_index_free(&w->env);
	free(w->env.relocs);
	own_stack_free(w);
	symbol_index_free(&w->env.names);
	ranges_free(&w->ranges);
	fixups_free(&w->fixups);
	cfi_file_close(&w->cfi);
}

int frames_find(const struct elf_file *f, const struct frames_options *o, struct frames *out, struct error *e)
{
	struct work w = {.file = f, .options = o, .out = out, .rounds.lock = PTHREAD_MUTEX_INITIALIZER};
	int err;

	memset(out, 0, sizeof(*out));
	state_pool_open(&w.graph.states);
	err = work_open(&w, e);
	if (!err) {
		work_begin(&w);
		fixpoint_find(&w);
		work_finish(&w);
	}
	if (o->saves != SAVES_NONE) {
		out->cfi = w.cfi;
		memset(&w.cfi, 0, sizeof(w.cfi));
	}
	work_close(&w);
	return err;
}

void frames_free(struct frames *fr)
{
	free(fr->rows.rows);
	free(fr->filled);
	free(fr->saves.rows);
	cfi_file_close(&fr->cfi);
	findings_free(&fr->findings);
	reached_free(&fr->reached);
	space_free(&fr->space);
	notes_free(&fr->notes);
	memset(fr, 0, sizeof(*fr));
}
