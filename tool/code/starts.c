/* SPDX-License-Identifier: MIT */
/*
 * Where functions begin: symbols, FDEs and .eh_frame say most of it; calls, data
 * and how the code there ends say the rest.
 */
#include "code/work.h"

#include <string.h>

#ifndef SHT_RELR /* glibc 2.36 */
#define SHT_RELR 19
#endif

int strays_add(struct work *w, struct error *e)
{
	struct pieces before = w->pieces;
	struct piece_state *state;
	uint32_t *moved;
	size_t i, k;
	long added;

	w->stray_count = words_unique(w->strays, w->stray_count);
	if (!w->stray_count)
		return 0;
	moved = calloc(before.count + 1, sizeof(*moved));
	if (!moved)
		return error_set(e, "out of memory");
	{
		uint64_t *starts = malloc((before.count + 1) * sizeof(*starts));

		if (!starts) {
			free(moved);
			return error_set(e, "out of memory");
		}
		for (i = 0; i < before.count; i++)
			starts[i] = before.list[i].start;
		added = pieces_add(&w->pieces, &w->out->space, w->strays, w->stray_count, e);
		for (i = k = 0; added > 0 && i < before.count; i++) {
			while (w->pieces.list[k].start != starts[i])
				k++;
			moved[i] = (uint32_t)k;
		}
		free(starts);
	}
	w->stray_count = 0;
	w->env.pieces = w->pieces.list;
	w->env.piece_count = w->pieces.count;
	if (added <= 0) {
		free(moved);
		return (int)added;
	}
	state = calloc(w->pieces.count + 1, sizeof(*state));
	if (!state) {
		free(moved);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->pieces.count; i++)
		state[i].run = true;
	for (i = 0; i < before.count; i++)
		state[moved[i]] = w->state[i];
	for (i = 0; i < w->edge_count; i++)
		w->edges[i].from = moved[w->edges[i].from];
	if (!pieces_index(&w->env)) {
		free(state);
		free(moved);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->exit_count; i++) {
		w->exits[i].from = moved[w->exits[i].from];
		w->exits[i].to = piece_number(&w->env, w->exits[i].target);
	}
	free(w->state);
	w->state = state;
	w->state_count = w->pieces.count;
	free(moved);
	return 0;
}

/* A target that lies in no piece. */
static bool stray_note(struct work *w, uint64_t target)
{
	if ((target & (FLOW_EXTERN | FLOW_SLOT)) || piece_at(&w->env, target) || !space_at(&w->out->space, target))
		return true;
	if (!room_make(&w->strays, &w->stray_room, w->stray_count, sizeof(*w->strays)))
		return false;
	w->strays[w->stray_count++] = target;
	return true;
}

/* What relocations put into data. */
static int data_note(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	uint32_t i;

	for (i = 1; i < f->section_count && !elf_is_object(f); i++) {
		struct elf_reloc *r;
		bool ok = true;
		long n, j;

		if (f->sections[i].sh.sh_type != SHT_RELA || !(f->sections[i].sh.sh_flags & SHF_ALLOC))
			continue;
		n = elf_relocs(f, i, &r, e);
		for (j = 0; j < n && ok; j++)
			if (r[j].type == R_X86_64_RELATIVE || r[j].type == R_X86_64_IRELATIVE)
				ok = stray_note(w, (uint64_t)r[j].addend);
		if (n >= 0)
			free(r);
		if (!ok)
			return error_set(e, "out of memory");
	}
	return 0;
}

/* What etch has added says nothing of its own about the code: the rows of a rewritten file are those of the file. */
static bool is_own(const struct elf_section *s) { return !strncmp(s->name, ".etch", 5); }

/* Is the word at an offset of a section of data anything but a place where no compiler lets a function begin? */
static bool is_pointer(const struct work *w, const struct elf_section *s, uint64_t at)
{
	uint64_t word;

	if (at >= s->sh.sh_size || s->sh.sh_size - at < 8)
		return true;
	memcpy(&word, s->data + at, 8);
	return !space_at(&w->out->space, word) || word % FUNCTION_ALIGN == 0;
}

/* Does a file keep addresses as words of data alone: linked to its address, or with packed relocations (RELR)? */
static bool has_words(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (f->sections[i].sh.sh_type == SHT_RELR)
			return true;
	return f->eh.e_type == ET_EXEC;
}

/* Words in the data of such a file. */
static int words_note(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	bool words = has_words(f);
	uint64_t at, word;
	uint32_t i;

	/* Labels of jump tables are words as well: where one is among the neighbours of a word, it is one, too. */
	for (i = 1; i < f->section_count && words; i++) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || s->sh.sh_type != SHT_PROGBITS || !(s->sh.sh_flags & SHF_ALLOC) || (s->sh.sh_flags & SHF_EXECINSTR) ||
		    is_own(s))
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8)
			if (is_pointer(w, s, at) && is_pointer(w, s, at - 8) && is_pointer(w, s, at + 8)) {
				memcpy(&word, s->data + at, 8);
				if (!stray_note(w, word))
					return error_set(e, "out of memory");
			}
	}
	return 0;
}

int strays_words(struct work *w, struct error *e)
{
	size_t i;

	if (words_note(w, e) || strays_add(w, e))
		return -1;
	for (i = 0; i < w->pieces.count; i++) /* no other is to be run yet */
		w->state[i].word = w->state[i].run;
	return 0;
}

int strays_data(struct work *w, struct error *e) { return data_note(w, e) || strays_add(w, e) ? -1 : 0; }

/* A call into the middle of a piece of which nothing says where it ends: a function begins there, and
 * that piece ends. */
static bool open_cut(struct work *w)
{
	bool some = false;
	size_t i;

	for (i = 0; i < w->exit_count; i++) {
		const struct flow_exit *x = &w->exits[i];
		struct piece *p = x->to != NO_PIECE ? &w->pieces.list[x->to] : NULL;

		if (!p || !p->open || x->kind == EXIT_PART || x->kind == EXIT_REF || x->target <= p->start || x->target >= p->end)
			continue;
		p->end = x->target;
		w->state[x->to].run = some = true;
	}
	return some;
}

int open_trim(struct work *w, struct error *e)
{
	bool some = open_cut(w), ok = true;
	size_t i;

	for (i = 0; i < w->pieces.count; i++) {
		struct piece *p = &w->pieces.list[i];

		if (!p->open || w->state[i].reached <= p->start || w->state[i].reached >= p->end)
			continue;
		p->end = w->state[i].reached;
		w->state[i].run = some = true;
	}
	if (!some)
		return 0;
	ok = pieces_index(&w->env);
	for (i = 0; ok && i < w->exit_count; i++) {
		w->exits[i].to = piece_number(&w->env, w->exits[i].target);
		ok = stray_note(w, w->exits[i].target);
	}
	for (i = 0; ok && i < w->edge_count; i++)
		ok = stray_note(w, w->edges[i].target);
	return ok ? data_note(w, e) : error_set(e, "out of memory");
}

/* Does an exit lead to where a piece begins? */
static bool is_start(const struct work *w, const struct flow_exit *x)
{
	return x->to != NO_PIECE && w->pieces.list[x->to].start == x->target;
}

/* What flips between flow and none comes to an end. */
#define EXTENDED_MOST 2

int open_extend(struct work *w, struct error *e)
{
	bool some = false;
	size_t i;

	for (i = 0; i < w->pieces.count; i++) {
		struct piece *p = &w->pieces.list[i];
		struct piece_state *s = &w->state[i];
		const struct code_section *c = s->run && s->empty && s->extended < EXTENDED_MOST ? space_at(&w->out->space, p->start) : NULL;

		if (!c)
			continue;
		s->extended++;
		p->end = c->addr + c->size;
		if (i + 1 < w->pieces.count && p[1].start < p->end)
			p->end = p[1].start;
		s->empty = false;
		some = true;
	}
	if (!some)
		return 0;
	if (!pieces_index(&w->env))
		return error_set(e, "out of memory");
	for (i = 0; i < w->exit_count; i++)
		w->exits[i].to = piece_number(&w->env, w->exits[i].target);
	return 0;
}

void called_find(struct work *w)
{
	struct piece_state *s;
	size_t i;

	for (i = 0; i < w->exit_count; i++) {
		const struct flow_exit *x = &w->exits[i];

		if (x->kind == EXIT_REF || !is_start(w, x))
			continue;
		s = &w->state[x->to];
		s->called = true;
		/* What a call leads to is a function, whatever seemed to fall into it before. */
		if (x->kind <= EXIT_FRESH && s->fragment && !s->unknown && !s->refuted) {
			s->fragment = s->dubious = false;
			s->run = true;
		}
	}
	for (i = 0; i < w->pieces.count; i++)
		if (w->state[i].called && w->state[i].dubious) {
			w->state[i].fragment = w->state[i].dubious = false;
			w->state[i].run = true;
		}
}

/* Each pass marks at least one more, and most are found in the first few. */
#define SPREADS_MOST 64

void foreign_spread(struct work *w)
{
	bool more = true;
	unsigned n;
	size_t i;

	for (n = 0; more && n < SPREADS_MOST; n++) {
		more = false;
		for (i = 0; i < w->exit_count; i++) {
			const struct flow_exit *x = &w->exits[i];
			struct piece_state *from = &w->state[x->from], *to;
			const struct piece *a = &w->pieces.list[x->from], *b;

			if ((x->kind != EXIT_TAIL && x->kind != EXIT_PART) || x->to == NO_PIECE)
				continue;
			to = &w->state[x->to];
			b = &w->pieces.list[x->to];
			if (from->foreign == to->foreign || a->fde >= 0 || b->fde >= 0 || a->plt || b->plt)
				continue;
			from->foreign = to->foreign = more = true;
		}
	}
}

/* Is the word at an offset of a section of data an address in the middle of a piece?
 * Then its neighbours are a jump table's as well. */
static bool is_inner(const struct work *w, const struct elf_section *s, uint64_t at)
{
	uint64_t word;
	uint32_t k;

	if (at >= s->sh.sh_size || s->sh.sh_size - at < 8)
		return false;
	memcpy(&word, s->data + at, 8);
	if (word - w->env.index_base >= w->env.index_span)
		return false;
	k = piece_number(&w->env, word);
	return k != NO_PIECE && w->pieces.list[k].start != word;
}

/* Data that holds a piece's address: relocations that put it there, or words as
 * they are in the file. */
int evidence_data(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	uint32_t i;
	uint64_t at, word;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		uint32_t k;

		if (elf_is_object(f) || !s->data || !(s->sh.sh_flags & SHF_ALLOC) || (s->sh.sh_flags & SHF_EXECINSTR))
			continue;
		if (s->sh.sh_type == SHT_RELA) {
			struct elf_reloc *r;
			long n = elf_relocs(f, i, &r, e), j;

			for (j = 0; j < n; j++) {
				k = r[j].type == R_X86_64_RELATIVE || r[j].type == R_X86_64_IRELATIVE
				            ? piece_number(&w->env, (uint64_t)r[j].addend & ~(FLOW_EXTERN | FLOW_SLOT)) : NO_PIECE;
				if (k != NO_PIECE && w->pieces.list[k].start == (uint64_t)r[j].addend)
					w->state[k].evident = true;
			}
			if (n >= 0)
				free(r);
			continue;
		}
		if (is_own(s))
			continue;
		if (s->sh.sh_type != SHT_PROGBITS && s->sh.sh_type != SHT_INIT_ARRAY && s->sh.sh_type != SHT_FINI_ARRAY &&
		    s->sh.sh_type != SHT_PREINIT_ARRAY)
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8) {
			memcpy(&word, s->data + at, 8);
			if (word - w->env.index_base >= w->env.index_span)
				continue;
			k = piece_number(&w->env, word);
			if (k != NO_PIECE && w->pieces.list[k].start == word && !is_inner(w, s, at - 8) && !is_inner(w, s, at + 8))
				w->state[k].evident = true;
		}
	}
	return 0;
}

/*
 * Without .eh_frame's rows, what is called, jumped to as if to call it, or has its
 * address taken is known to begin as functions do; and what ends as they do, every
 * register back and the return address on top, wherever it returns.
 */
void evidence_judge(struct work *w)
{
	size_t i;

	for (i = 0; i < w->exit_count; i++)
		if (w->exits[i].kind != EXIT_PART && is_start(w, &w->exits[i]))
			w->state[w->exits[i].to].evident = true;
	for (i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];

		/* _dl_runtime_resolve: named, but entered with two words of the PLT's on the stack. */
		if (w->pieces.list[i].plt || w->pieces.list[i].outermost)
			continue;
		if (!s->fragment && (s->refuted || (!s->evident && !s->sound && !w->pieces.list[i].named))) {
			s->fragment = s->unknown = s->run = true;
		} else if (s->evident && s->unknown && !s->refuted) { /* now it is */
			s->fragment = s->unknown = false;
			s->run = true;
		}
	}
}

/* A start that others jump to with a frame of theirs, that has no name and that
 * nobody calls: a part of them. What such a piece said while it was taken for a
 * function is void. */
int fragments_find(struct work *w, struct error *e)
{
	uint64_t *starts = malloc((w->edge_count + 1) * sizeof(*starts));
	size_t n = 0, i, k;
	bool *called;

	if (!starts)
		return error_set(e, "out of memory");
	for (i = 0; i < w->edge_count; i++) {
		const struct piece *p = piece_at(&w->env, w->edges[i].target);

		if (p && p->start == w->edges[i].target && !p->named && !p->outermost &&
		    !state_is_entry(&w->edges[i].state))
			starts[n++] = p->start;
	}
	n = words_unique(starts, n);
	called = calloc(n + 1, sizeof(*called));
	if (!called) {
		free(starts);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->exit_count && n; i++) {
		const struct flow_exit *x = &w->exits[i];
		const uint64_t *at;

		if (x->kind == EXIT_PART || x->to == NO_PIECE || w->pieces.list[x->to].named)
			continue;
		at = bsearch(&x->target, starts, n, sizeof(*starts), word_order);
		if (at)
			called[at - starts] = true;
	}
	for (i = k = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];
		bool fragment = false;

		while (k < n && starts[k] < w->pieces.list[i].start)
			k++;
		if (k < n && starts[k] == w->pieces.list[i].start)
			fragment = !called[k] && !(s->evident && s->sound); /* data may be a jump table */
		/* Once a fragment, always one: that its edges are gone for a round means nothing. */
		if (fragment && s->unknown)
			s->unknown = false;
		if (fragment && !s->fragment)
			s->fragment = s->run = true;
	}
	free(starts);
	free(called);
	if (w->judged)
		evidence_judge(w);
	/* Their edges go now, before they mislead others. */
	for (i = k = 0; i < w->edge_count; i++)
		if (!w->state[w->edges[i].from].run)
			w->edges[k++] = w->edges[i];
	w->edge_count = k;
	return 0;
}
