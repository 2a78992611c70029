/* SPDX-License-Identifier: MIT */
/*
 * Does a function begin at the start of a code range, or is the code range a part of a function? Collects the evidence
 * for functions (calls, addresses in data, how the code ends) and for parts (jumps with a frame), and judges starts
 * between two rounds.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/range_starts.h"

#include <stdlib.h>
#include <string.h>

/* Updates is_callee of code range `i`. */
static void callee_find(struct work *w, size_t i)
{
	struct range_state *s = &w->state[i];
	bool is = s->entered & ENTRY_CALLED;

	if (is == s->is_callee || (!is && s->callee_losses == CALLEE_LOSSES_MOST))
		return;
	s->is_callee = is;
	s->callee_losses += !is;
	if (s->frame != FRAME_OWN || (!is && w->ranges.list[i].inferred))
		s->run |= RUN_NEWS;
}

/* Updates what depends on range_state.entered of code range `i`. Returns whether framed_part has changed. */
static bool touched_judge(struct work *w, uint32_t i)
{
	struct range_state *s = &w->state[i];
	bool was = s->framed_part;

	if (s->entered & ENTRY_LED)
		s->evidence |= EVIDENCE_LED;
	callee_find(w, i);
	/* The target of a call is a function, even if other code seemed to fall through into it. The target of a jump is
	 * code. */
	if ((s->kind == RANGE_PART && s->entered & ENTRY_CALLED && !s->exit_sp_mismatch) ||
	    (s->kind == RANGE_DATA && s->evidence & EVIDENCE_LED)) {
		s->kind = RANGE_FUNCTION;
		s->run |= RUN_NEWS;
	}
	if (s->known_part && s->entered & ENTRY_TAKEN) /* until now only jumps had led there */
		s->run |= RUN_NEWS;
	s->framed_part = range_is_framed_part(s);
	return s->framed_part != was;
}

/* With ETCH_CHECK_STEPS (make asan): checks that touched_judge() would change no code range. */
static void untouched_check(const struct work *w)
{
#ifdef ETCH_CHECK_STEPS
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		const struct range_state *s = &w->state[i];
		bool called = s->entered & ENTRY_CALLED;

		if ((called != s->is_callee && (called || s->callee_losses < CALLEE_LOSSES_MOST)) ||
		    (s->entered & ENTRY_LED && !(s->evidence & EVIDENCE_LED)) || s->framed_part != range_is_framed_part(s) ||
		    (s->kind == RANGE_PART && called && !s->exit_sp_mismatch) ||
		    (s->kind == RANGE_DATA && s->evidence & EVIDENCE_LED) || w->graph.place[s->id] != i)
			abort();
	}
#else
	(void)w;
#endif
}

/*
 * It is enough to look at the touched code ranges. What touched_judge() depends on changes only when a link to the
 * start is added or dropped (entered), or when the code range is analysed (frame, exit_sp_mismatch, kind); other passes
 * change kind only to values that are not judged here.
 */
void called_find(struct work *w)
{
	bool some = false;
	size_t i;

	for (i = 0; i < w->graph.touched_count; i++) {
		uint32_t k = w->graph.place[w->graph.touched[i]];

		w->state[k].touched = false;
		some |= touched_judge(w, k);
	}
	w->graph.touched_count = 0;
	untouched_check(w);
	for (i = 0; some && i < w->graph.tails.count; i++) /* code that tail-calls a part is a part, too */
		if (w->graph.tails.list[i].to != NO_RANGE && w->state[w->graph.place[w->graph.tails.list[i].to]].framed_part)
			w->state[w->graph.place[w->graph.tails.list[i].from]].run |= RUN_NEWS;
}

/* Is the word at an offset of a data section an address in the middle of a code range? If so, it and its neighbours are
 * taken for entries of a jump table. */
static bool is_label(const struct work *w, const struct elf_section *s, uint64_t at)
{
	uint64_t word;
	uint32_t k;

	if (at >= s->sh.sh_size || s->sh.sh_size - at < 8)
		return false;
	memcpy(&word, s->data + at, 8);
	if (word - w->env.index_base >= w->env.index_span)
		return false;
	k = range_number(&w->env, word);
	return k != NO_RANGE && w->ranges.list[k].start != word;
}

/* Takes the addends of the relocations in section i as evidence for functions. */
static void evidence_addends(struct work *w, uint32_t i)
{
	struct error ignored;
	long n = elf_relocs_count(w->file, i, &ignored), j;

	for (j = 0; j < n; j++) {
		struct elf_reloc r = elf_reloc_at(w->file, i, j);
		uint32_t k;

		if (r.type != R_X86_64_RELATIVE && r.type != R_X86_64_IRELATIVE)
			continue;
		k = range_number(&w->env, (uint64_t)r.addend & ~(FLOW_EXTERN | FLOW_SLOT));
		if (k != NO_RANGE && w->ranges.list[k].start == (uint64_t)r.addend)
			w->state[k].evidence |= EVIDENCE_FUNCTION;
	}
}

/* Takes the words of a section as evidence for functions. */
static void evidence_words(struct work *w, const struct elf_section *s)
{
	uint64_t at, word;
	uint32_t k;

	for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8) {
		memcpy(&word, s->data + at, 8);
		if (word - w->env.index_base >= w->env.index_span)
			continue;
		k = range_number(&w->env, word);
		if (k != NO_RANGE && w->ranges.list[k].start == word && !is_label(w, s, at - 8) && !is_label(w, s, at + 8))
			w->state[k].evidence |= EVIDENCE_FUNCTION;
	}
}

/* May a section of data hold addresses as plain words? */
static bool has_words(const struct work *w, const struct elf_section *s)
{
	switch (s->sh.sh_type) {
	case SHT_PROGBITS:
	case SHT_INIT_ARRAY:
	case SHT_FINI_ARRAY:
	case SHT_PREINIT_ARRAY: return !section_is_own(w, s);
	default: return false;
	}
}

/* If data contains the address of the start of a code range, takes that as evidence for a function. The address may be
 * the addend of a relocation, or a plain word. */
void evidence_data(struct work *w)
{
	const struct elf_file *f = w->file;
	uint32_t i;

	for (i = 1; i < f->section_count && !elf_is_object(f); i++) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || !(s->sh.sh_flags & SHF_ALLOC) || (s->sh.sh_flags & SHF_EXECINSTR))
			continue;
		if (s->sh.sh_type == SHT_RELA)
			evidence_addends(w, i);
		else if (has_words(w, s))
			evidence_words(w, s);
	}
}

/*
 * With options.no_cfi, a code range is a function if it is called or tail-called, or if its address is taken; it is
 * also one if all its returns are those of a function, with every register restored and the return address on top of
 * the stack. All others are RANGE_UNPROVEN.
 */
void starts_classify(struct work *w)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];
		bool evident;

		if (s->entered & ENTRY_TAKEN)
			s->evidence |= EVIDENCE_FUNCTION;
		/* exit_sp_mismatch is decisive even for code with a name: _dl_runtime_resolve has one, but the PLT pushes two
		 * words before it jumps there. */
		if (w->ranges.list[i].plt || w->ranges.list[i].outermost)
			continue;
		evident = s->evidence & EVIDENCE_FUNCTION;
		if (s->kind == RANGE_FUNCTION &&
		    (s->exit_sp_mismatch || (!evident && !s->returns_balanced && !w->ranges.list[i].named))) {
			s->kind = RANGE_UNPROVEN;
			s->run |= RUN_NEWS;
		} else if (evident && s->kind == RANGE_UNPROVEN && !s->exit_sp_mismatch) { /* there is evidence now */
			s->kind = RANGE_FUNCTION;
			s->run |= RUN_NEWS;
		}
	}
}

/* Are the edges from a code range invalid, because it is the entry point and has been cut? Then it ends in a noreturn
 * call, and the code after that does not have its frame. */
static bool is_void(const struct work *w, uint32_t from)
{
	return w->ranges.list[from].outermost && (w->state[from].run & RUN_LESS);
}

/* Is the frame of a code range unknown, because it was refuted that it begins with a function's entry? Then its jumps
 * are no evidence. If the code was found only by a reference, its jumps do count, since that code may be data, and so
 * may their targets. */
static bool is_refuted(const struct work *w, uint32_t i)
{
	return w->state[i].entry_refuted && w->state[i].wants_proof && !w->ranges.list[i].inferred;
}

/* If other code ranges jump to a code range with a frame, and it has no name and is never called, it is a part of them.
 * Its results so far, in which it was a function, are invalid, so it is marked and the edges from it are dropped. */
void parts_find(struct work *w)
{
	const struct code_range *p = w->ranges.list, *last = p + w->ranges.count;
	const struct edge *x = w->graph.edges.list, *end = x + w->graph.edges.count;
	size_t i, k;

	for (; x < end; x++) {
		struct range_state *s;

		while (p < last && p->start < x->target)
			p++;
		if (p == last)
			break;
		s = &w->state[p - w->ranges.list];
		if (p->start != x->target || x->entry || p->named || p->outermost || is_void(w, x->from) ||
		    is_refuted(w, x->from))
			continue;
		/* A part stays a part: its incoming edges may be missing for just one round. */
		if (s->entered & ENTRY_TAKEN || (s->kind != RANGE_FUNCTION && s->kind != RANGE_UNPROVEN))
			continue;
		/* Without balanced returns, the evidence may merely come from a jump table. */
		if (s->evidence & EVIDENCE_FUNCTION && s->returns_balanced)
			continue;
		if (s->kind == RANGE_FUNCTION)
			s->run |= RUN_NEWS;
		s->kind = RANGE_PART;
	}
	if (stage_has_ended(w, STAGE_STARTS))
		starts_classify(w);
	/* The edges from code ranges that will be analysed again are out of date. Drops them before edges_apply() uses
	 * them. */
	for (i = k = 0; i < w->graph.edges.count; i++)
		if (!w->state[w->graph.edges.list[i].from].run)
			w->graph.edges.list[k++] = w->graph.edges.list[i];
	w->graph.edges.count = k;
}
