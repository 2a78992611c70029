/* SPDX-License-Identifier: MIT */
/*
 * A symbol or .eh_frame may say that a function begins at a place to which code jumps in a state other than that of a
 * function's entry (a misfit; enum flow_misfit). Compilers that split hot from cold code make such jumps, and so does
 * assembly that divides a function into two. For the jump, the place is no function. What really begins there depends
 * on what else leads there:
 *
 *   only such jumps: it is a part of the functions that jump there, and begins with their frames;
 *   calls or tail calls as well: it is both, so that no state holds for all paths, and nothing is proven;
 *   perhaps calls as well, since other files can refer to it by name, or its address is taken: likewise.
 *
 * However, if the code returns to the address on top of the stack at its start, it is a function, and the jumps are
 * never taken: the program would not survive one. Compilers leave such jumps where the end of a switch without a
 * default is reached: gcc jumps to where its cold part would be, and another function is there.
 *
 * Likewise, code that takes more bytes off the stack than an entry has there is not reached by tail calls or pointers.
 * And if .eh_frame agrees with the jumps, what looks like a tail call may also be such a jump, from code without a
 * frame: then only calls count.
 *
 * A jump that may never be taken (MISFIT_DOUBT) is weaker: if .eh_frame says that a function begins at its target, the
 * start merely counts as unproven. Without .eh_frame such a jump counts like any other.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/range_starts.h"
#include "arch/x86/opcodes.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* The starts whose addresses are searched for in the code, sorted. */
struct wanted {
	uint64_t *list;
	size_t count, capacity;
};

/* If `addr` is one of these starts, records that its address is taken. */
static void taken_note(struct work *w, const struct wanted *x, uint64_t addr)
{
	uint32_t k;

	if (!word_has(x->list, x->count, addr))
		return;
	k = range_number(&w->env, addr);
	if (k != NO_RANGE && w->ranges.list[k].start == addr)
		w->state[k].address_taken = true;
}

/*
 * Searches a section of code for these addresses. It looks at every byte, whether an instruction is there or not: if a
 * number happens to equal an address, that only removes a proof. A distance of 0 does not count, since nops used as
 * padding in front of a start contain it.
 */
static void bytes_search(struct work *w, const struct wanted *x, const struct code_section *c)
{
	uint64_t first = x->list[0], span = x->list[x->count - 1] - first, at, to;
	bool fixed = w->file->eh.e_type == ET_EXEC;
	uint32_t word;

	for (at = 0; at + sizeof(word) <= c->size; at++) {
		memcpy(&word, c->bytes + at, sizeof(word));
		to = c->addr + at + sizeof(word) + (uint64_t)(int64_t)(int32_t)word; /* relative to the next instruction */
		if (word && to - first <= span && !insn_is_branch_field(c->bytes + at, at))
			taken_note(w, x, to);
		if (fixed && word - first <= span)
			taken_note(w, x, word);
	}
}

/* Searches the relocations of an object file for these addresses. */
static void relocs_search(struct work *w, const struct wanted *x)
{
	const struct elf_file *f = w->file;
	const struct code_space *space = &w->out->space;
	struct error ignored;
	size_t i;
	uint32_t k;

	for (i = 0; i < w->env.reloc_count; i++) {
		const struct flow_reloc *r = &w->env.relocs[i];
		const struct code_section *c = space_at(space, r->addr);

		if (c && !insn_is_branch_field(c->bytes + (r->addr - c->addr), r->addr - c->addr))
			taken_note(w, x, r->target);
	}
	for (k = 1; k < f->section_count; k++) {
		const struct elf_section *s = &f->sections[k];
		const struct elf_section *to = s->sh.sh_info < f->section_count ? &f->sections[s->sh.sh_info] : NULL;
		struct elf_reloc *r;
		long n, j;

		if (s->sh.sh_type != SHT_RELA || !to || !(to->sh.sh_flags & SHF_ALLOC) || !strcmp(to->name, ".eh_frame"))
			continue;
		n = elf_relocs(f, k, &r, &ignored);
		for (j = 0; j < n; j++) {
			const struct elf_symbol *y = r[j].symbol < f->symbol_count ? &f->symbols[r[j].symbol] : NULL;
			const struct code_section *c = y && y->section ? space_of(space, y->section) : NULL;

			if (c && (r[j].type == R_X86_64_64 || r[j].type == R_X86_64_32 || r[j].type == R_X86_64_32S))
				taken_note(w, x, c->addr + y->value + (uint64_t)r[j].addend);
		}
		if (n >= 0)
			free(r);
	}
}

/* Sets address_taken of those of the starts whose addresses are found. evidence_data() has already collected the
 * evidence from relocations and words of data. */
static void taken_find(struct work *w, const struct wanted *x)
{
	const struct code_space *space = &w->out->space;
	size_t i;

	if (!x->count)
		return;
	if (elf_is_object(w->file)) {
		relocs_search(w, x);
		return;
	}
	for (i = 0; i < space->count; i++)
		bytes_search(w, x, &space->list[i]);
}

/* What the edges to a start show. */
struct led {
	unsigned misfit; /* enum flow_misfit: the highest of any edge */
	/* Some edges bring the state of an entry: they are tail calls, analysed before it was known that code begins
	 * there. */
	bool entry;
};

/* Summarises the edges to the start of code range i. *k is an edge index, below which all edges lead below that start;
 * it is moved past the edges to the start. */
static struct led led_by(const struct work *w, uint32_t i, size_t *k)
{
	const struct edge *x = w->graph.edges.list;
	uint64_t start = w->ranges.list[i].start;
	struct led by = {MISFIT_NONE, false};

	while (*k < w->graph.edges.count && x[*k].target < start)
		++*k;
	for (; *k < w->graph.edges.count && x[*k].target == start; ++*k) {
		if (x[*k].misfit > by.misfit && x[*k].from != i)
			by.misfit = x[*k].misfit;
		by.entry |= x[*k].entry;
	}
	return by;
}

/* May an edge with index k or higher lead to the start of code range i? */
static inline bool is_led(const struct work *w, size_t i, size_t k)
{
	return k < w->graph.edges.count && w->graph.edges.list[k].target <= w->ranges.list[i].start;
}

/* Is a start presumed to be that of a function, although no call or tail call of it is known? Not if its code refutes
 * that. */
static bool is_presumed(const struct code_range *p, const struct range_state *s)
{
	if (s->entry_refuted)
		return false;
	return p->exported || p->function || s->entered & ENTRY_TAKEN || s->evidence & EVIDENCE_FUNCTION ||
	       s->address_taken;
}

/* Returns what begins at the start of a code range (enum start_misfit), given a summary of the edges to it. */
static uint8_t judge(const struct work *w, uint32_t i, struct led by)
{
	const struct code_range *p = &w->ranges.list[i];
	const struct range_state *s = &w->state[i];

	if (by.misfit == MISFIT_NONE || s->returns_home || p->plt || p->outermost || p->entry_tail || p->part)
		return START_FITS;
	if (s->entered & ENTRY_CALLED)
		return START_CALLED;
	if (!s->entry_refuted && (by.entry || s->entered & ENTRY_TAILED))
		return START_TAILED;
	return is_presumed(p, s) || (by.misfit == MISFIT_DOUBT && p->fde >= 0 && !w->options->no_cfi) ? START_PRESUMED
	                                                                                              : START_JUMPED;
}

/* Stores the judgement `is` about the start of code range i, and marks the code range if that is a change. */
static void judged(struct work *w, uint32_t i, uint8_t is)
{
	struct range_state *s = &w->state[i];

	if (is == s->misfit || (is < s->misfit && s->misfit_losses == MISFIT_LOSSES_MOST))
		return;
	s->misfit_losses += is < s->misfit;
	s->misfit = is;
	s->run |= RUN_NEWS;
}

/* Does the code range of *s have an edge that brings the state of an entry to an address? */
static bool brings_entry(const struct work *w, const struct range_state *s, uint64_t target)
{
	size_t i;

	for (i = edges_from(&w->graph.edges, target); i < w->graph.edges.count && w->graph.edges.list[i].target == target;
	     i++)
		if (w->graph.edges.list[i].entry && w->graph.edges.list[i].from == w->graph.place[s->id])
			return true;
	return false;
}

/* Is it certain that a function begins at an address? It is if the address is called, or if the code there returns to
 * the address on top of the stack at its start. */
static bool is_function(const struct work *w, uint64_t addr)
{
	uint32_t to = range_number(&w->env, addr);

	return to != NO_RANGE && w->ranges.list[to].start == addr &&
	       (w->state[to].entered & ENTRY_CALLED || w->state[to].returns_home);
}

/* Does a code range make a tail call, in the state of an entry, to a start where is_function() holds? Only code that
 * has the return address on top of the stack does that. */
static bool is_tail_proved(const struct work *w, const struct range_state *s)
{
	const uint64_t *tails = range_rare(s)->tails;
	size_t end, i = links_of(&w->graph.tails, s->id, &end);
	uint32_t k;

	for (; i < end; i++) {
		const struct link *x = &w->graph.tails.list[i];

		if (link_is_tail(x->kind) && is_function(w, x->target) &&
		    (x->kind == EXIT_TAIL || brings_entry(w, s, x->target)))
			return true;
	}
	for (k = 0; tails && tails[k]; k++)
		if (is_function(w, tails[k]))
			return true;
	return false;
}

void proofs_find(struct work *w)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		if (!s->wants_proof || s->tail_proved || !is_tail_proved(w, s))
			continue;
		s->tail_proved = true;
		s->run |= RUN_NEWS;
	}
}

/* Should the address of a start be searched for in the code? Evidence of other kinds needs no search. Where .eh_frame
 * agrees with the jumps, no such evidence is needed. */
static bool is_sought(const struct work *w, size_t i)
{
	const struct code_range *p = &w->ranges.list[i];

	return !w->state[i].address_sought && !w->state[i].cfi_part && (p->named || (p->fde >= 0 && !w->options->no_cfi));
}

void misfits_find(struct work *w)
{
	struct wanted wanted = {0};
	size_t k, i;

	for (k = 0; !w->starts.has_misfits && k < w->graph.edges.count; k++)
		w->starts.has_misfits = w->graph.edges.list[k].misfit != MISFIT_NONE;
	if (!w->starts.has_misfits)
		return;
	for (k = i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];
		uint8_t is;

		if (!s->misfit && !is_led(w, i, k))
			continue;
		is = judge(w, (uint32_t)i, led_by(w, (uint32_t)i, &k));
		if (is != START_JUMPED || !is_sought(w, i)) {
			judged(w, (uint32_t)i, is);
			continue;
		}
		s->address_sought = true;
		mem_reserve(&wanted.list, &wanted.capacity, wanted.count, sizeof(*wanted.list));
		wanted.list[wanted.count++] = w->ranges.list[i].start;
	}
	taken_find(w, &wanted);
	for (i = 0; i < wanted.count; i++) {
		uint32_t number = range_number(&w->env, wanted.list[i]);

		k = edges_from(&w->graph.edges, wanted.list[i]);
		judged(w, number, judge(w, number, led_by(w, number, &k)));
	}
	free(wanted.list);
}
