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

static int index_renew(struct work *w, struct error *e)
{
	if (w->unindexed && !pieces_index(&w->env))
		return error_set(e, "out of memory");
	w->unindexed = false;
	return 0;
}

int strays_add(struct work *w, struct error *e)
{
	struct pieces before = w->pieces;
	struct piece_state *state;
	uint32_t *moved;
	size_t i, k;
	long added;

	w->stray_count = words_unique(w->strays, w->stray_count);
	if (!w->stray_count)
		return index_renew(w, e);
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
		return added ? -1 : index_renew(w, e);
	}
	state = calloc(w->pieces.count + 1, sizeof(*state));
	if (!state) {
		free(moved);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->pieces.count; i++)
		state[i].run = RUN_NEWS;
	for (i = 0; i < before.count; i++)
		state[moved[i]] = w->state[i];
	w->unindexed = true;
	if (index_renew(w, e)) {
		free(state);
		free(moved);
		return -1;
	}
	links_settle(w, moved);
	free(w->ways);
	w->ways = NULL;
	free(w->state);
	w->state = state;
	w->state_count = w->pieces.count;
	free(moved);
	return 0;
}

bool stray_put(struct work *w, uint64_t target)
{
	if (!room_make(&w->strays, &w->stray_room, w->stray_count, sizeof(*w->strays)))
		return false;
	w->strays[w->stray_count++] = target;
	return true;
}

/* A target that lies in no piece. */
static bool stray_note(struct work *w, uint64_t target)
{
	if ((target & (FLOW_EXTERN | FLOW_SLOT)) || piece_at(&w->env, target) || !space_at(&w->out->space, target))
		return true;
	return stray_put(w, target);
}

/* What relocations put into data. */
static int data_read(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	size_t room = 0;
	uint32_t i;

	for (i = 1; i < f->section_count && !elf_is_object(f); i++) {
		struct elf_reloc *r;
		bool ok = true;
		long n, j;

		if (f->sections[i].sh.sh_type != SHT_RELA || !(f->sections[i].sh.sh_flags & SHF_ALLOC))
			continue;
		n = elf_relocs(f, i, &r, e);
		for (j = 0; j < n && ok; j++) {
			uint64_t addr = (uint64_t)r[j].addend;

			if ((r[j].type != R_X86_64_RELATIVE && r[j].type != R_X86_64_IRELATIVE) || (addr & (FLOW_EXTERN | FLOW_SLOT)) ||
			    !space_at(&w->out->space, addr))
				continue;
			ok = room_make(&w->data, &room, w->data_count, sizeof(*w->data));
			if (ok)
				w->data[w->data_count++] = addr;
		}
		if (n >= 0)
			free(r);
		if (!ok)
			return error_set(e, "out of memory");
	}
	w->data_count = words_unique(w->data, w->data_count);
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
		w->state[i].word = w->state[i].run != 0;
	return 0;
}

int strays_data(struct work *w, struct error *e)
{
	size_t i;

	if (data_read(w, e))
		return -1;
	for (i = 0; i < w->data_count; i++)
		if (!stray_note(w, w->data[i]))
			return error_set(e, "out of memory");
	return haskell_starts(w, e) ? -1 : strays_add(w, e);
}

/* The first of sorted words that is not below another. */
static size_t words_from(const uint64_t *list, size_t n, uint64_t word)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (list[mid] < word)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* A piece ends earlier than it did; `was`: where pieces ended that have been cut before. */
static void piece_cut(struct work *w, uint64_t *was, uint32_t i, uint64_t end, unsigned run)
{
	if (!was[i])
		was[i] = w->pieces.list[i].end;
	w->pieces.list[i].end = end;
	w->state[i].run |= (uint8_t)run;
}

#define CALL_SIZE 5u /* of a direct one */

/* Is there nothing in front of an address but padding, and a call before that? */
static bool is_behind_call(const struct work *w, const struct piece *p, uint64_t addr)
{
	uint64_t at = addr - p->start, from, off;
	struct step s;

	for (from = at - 1; from >= CALL_SIZE && at - from < FUNCTION_ALIGN; from--) {
		for (off = from; off < at && step_decode(NULL, p->bytes + off, at - off, p->start + off, &s) && s.padding; off += s.len)
			;
		if (off == at && step_decode(NULL, p->bytes + from - CALL_SIZE, CALL_SIZE, p->start + from - CALL_SIZE, &s) &&
		    s.flow == FLOW_CALL && space_at(&w->out->space, (uint64_t)s.imm))
			return true;
	}
	return false;
}

/* ... or padding, and a return before that? */
static bool is_behind_return(const struct piece *p, uint64_t addr)
{
	uint64_t at = addr - p->start, from, off;
	struct step s;

	for (from = at - 1; from >= 1 && at - from < FUNCTION_ALIGN; from--) {
		for (off = from; off < at && step_decode(NULL, p->bytes + off, at - off, p->start + off, &s) && s.padding; off += s.len)
			;
		if (off == at && step_decode(NULL, p->bytes + from - 1, 1, p->start + from - 1, &s) && s.flow == FLOW_RETURN)
			return true;
	}
	return false;
}

/* Its address is taken, and it lies where functions do: the call in front of it does not come back, or a return is there;
 * or it is what a signal's handler returns to. */
static bool is_next_function(const struct work *w, const struct piece *p, const struct link *x)
{
	if (x->kind != EXIT_REF || x->target <= p->start || x->target >= p->end)
		return false;
	if (x->target % FUNCTION_ALIGN == 0 && (is_behind_call(w, p, x->target) || is_behind_return(p, x->target)))
		return true;
	return code_is_sigreturn(p->bytes + (x->target - p->start), p->end - x->target);
}

/* A call into the middle of a piece of which nothing says where it ends: a function begins there, and
 * that piece ends. */
static bool open_cut(struct work *w, uint64_t *was)
{
	const struct links *each[] = {&w->calls, &w->tails};
	bool some = false;
	size_t k, i;

	for (k = 0; k < 2; k++)
		for (i = 0; i < each[k]->count; i++) {
			const struct link *x = &each[k]->list[i];
			const struct piece *p;

			if (x->start || x->to == NO_PIECE || x->kind == EXIT_PART)
				continue;
			p = &w->pieces.list[x->to];
			if (!p->open || x->target <= p->start || x->target >= p->end ||
			    (x->kind == EXIT_REF && !is_next_function(w, p, x)))
				continue;
			piece_cut(w, was, x->to, x->target, RUN_NEWS | RUN_LESS);
			some = true;
		}
	return some;
}

/* What refers to where pieces have been cut off refers to no piece now. */
static bool cuts_note(struct work *w, const uint64_t *was)
{
	struct links *each[] = {&w->calls, &w->tails};
	size_t k, i, n;
	bool ok = true;

	for (k = 0; k < 2; k++)
		for (i = 0; ok && i < each[k]->count; i++) {
			struct link *x = &each[k]->list[i];

			if (x->start || x->to == NO_PIECE || !was[x->to] || x->target < w->pieces.list[x->to].end)
				continue; /* where it was */
			link_lead(x, NO_PIECE, w->pieces.list);
			ok = stray_put(w, x->target);
		}
	for (i = 0; ok && i < w->pieces.count; i++) {
		uint64_t end = w->pieces.list[i].end;

		if (!was[i])
			continue;
		for (n = edges_from(&w->edges, end); ok && n < w->edges.count && w->edges.list[n].target < was[i]; n++)
			ok = stray_put(w, w->edges.list[n].target);
		for (n = words_from(w->data, w->data_count, end); ok && n < w->data_count && w->data[n] < was[i]; n++)
			ok = stray_put(w, w->data[n]);
	}
	return ok;
}

int open_trim(struct work *w, struct error *e)
{
	uint64_t *was = calloc(w->pieces.count + 1, sizeof(*was));
	bool some, ok;
	size_t k;

	if (!was)
		return error_set(e, "out of memory");
	some = open_cut(w, was);
	for (k = 0; k < w->list_count; k++) { /* of others nothing is new */
		uint32_t i = w->list[k];
		const struct piece *p = &w->pieces.list[i];

		if (p->open && w->state[i].reached > p->start && w->state[i].reached < p->end) {
			piece_cut(w, was, i, w->state[i].reached, RUN_CUT);
			some = true;
		}
	}
	w->unindexed |= some;
	ok = !some || cuts_note(w, was);
	free(was);
	return ok ? 0 : error_set(e, "out of memory");
}

/* What flips between flow and none comes to an end. */
#define EXTENDED_MOST 2

/* Will a piece have no flow in the coming round either? What is a part of something has it where others jump
 * to. Labels of jump tables, as words of data are, had better not take what lies behind them once more. */
static bool is_idle(const struct work *w, const struct piece *p, const struct piece_state *s)
{
	size_t n = s->fragment ? edges_from(&w->edges, p->start) : 0;

	return s->fragment && (n == w->edges.count || w->edges.list[n].target >= p->end);
}

int open_extend(struct work *w, struct error *e)
{
	bool some = false, words = has_words(w->file);
	size_t i;

	for (i = 0; i < w->pieces.count; i++) {
		struct piece *p = &w->pieces.list[i];
		struct piece_state *s = &w->state[i];
		uint8_t *times = !words && is_idle(w, p, s) ? &s->held : &s->extended;
		const struct code_section *c = s->run && s->empty && *times < EXTENDED_MOST ? space_at(&w->out->space, p->start) : NULL;

		if (!c)
			continue;
		(*times)++;
		p->end = c->addr + c->size;
		if (i + 1 < w->pieces.count && p[1].start < p->end)
			p->end = p[1].start;
		s->empty = false;
		s->run |= RUN_NEWS;
		some = true;
	}
	if (!some)
		return 0;
	if (!pieces_index(&w->env))
		return error_set(e, "out of memory");
	links_settle(w, NULL);
	return 0;
}

void called_find(struct work *w)
{
	size_t i;

	for (i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];

		if (w->ways[i] & WAY_LED)
			s->called = true;
		/* What a call leads to is a function, whatever seemed to fall into it before. */
		if ((w->ways[i] & WAY_CALLED && s->fragment && !s->unknown && !s->refuted) || (s->called && s->dubious)) {
			s->fragment = s->dubious = false;
			s->run |= RUN_NEWS;
		}
	}
}

/* Each pass marks at least one more, and most are found in the first few. */
#define SPREADS_MOST 64

/* One of two that a jump joins is such code: so is the other. */
static bool foreign_join(struct work *w, size_t from, size_t to)
{
	const struct piece *a = &w->pieces.list[from], *b = &w->pieces.list[to];

	if (w->state[from].foreign == w->state[to].foreign || a->fde >= 0 || b->fde >= 0 || a->plt || b->plt)
		return false;
	w->state[from].foreign = w->state[to].foreign = true;
	return true;
}

/* Jumps that have led into the middle of a piece, which has been cut there since, are no links. */
static bool foreign_edges(struct work *w)
{
	bool more = false;
	size_t i, k = 0;

	for (i = 0; i < w->edges.count; i++) {
		while (k + 1 < w->pieces.count && w->pieces.list[k + 1].start <= w->edges.list[i].target)
			k++;
		if (w->pieces.list[k].start <= w->edges.list[i].target && w->edges.list[i].target < w->pieces.list[k].end)
			more |= foreign_join(w, w->edges.list[i].from, k);
	}
	return more;
}

void foreign_spread(struct work *w)
{
	bool more = true;
	unsigned n;
	size_t i;

	for (n = 0; more && n < SPREADS_MOST; n++) {
		more = false;
		for (i = 0; i < w->tails.count; i++)
			if (w->tails.list[i].to != NO_PIECE)
				more |= foreign_join(w, w->tails.list[i].from, w->tails.list[i].to);
		if (w->env.haskell)
			more |= foreign_edges(w);
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

	for (i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];

		if (w->ways[i] & WAY_TAKEN)
			s->evident = true;
		/* _dl_runtime_resolve: named, but entered with two words of the PLT's on the stack. */
		if (w->pieces.list[i].plt || w->pieces.list[i].outermost)
			continue;
		if (!s->fragment && (s->refuted || (!s->evident && !s->sound && !w->pieces.list[i].named))) {
			s->fragment = s->unknown = true;
			s->run |= RUN_NEWS;
		} else if (s->evident && s->unknown && !s->refuted) { /* now it is */
			s->fragment = s->unknown = false;
			s->run |= RUN_NEWS;
		}
	}
}

/* The entry point has turned out to be shorter. It ends in a call, and what came behind that jumped with its stack. */
static bool is_void(const struct work *w, uint32_t from)
{
	return w->pieces.list[from].outermost && (w->state[from].run & RUN_LESS);
}

/* Marks the starts that others jump to with a frame of theirs. */
static void entered_find(struct work *w)
{
	const struct edge *x = w->edges.list, *end = x + w->edges.count;
	size_t i;

	for (i = 0; i < w->pieces.count && x < end; i++) {
		const struct piece *p = &w->pieces.list[i];

		while (x < end && x->target < p->start)
			x++;
		for (; x < end && x->target == p->start; x++)
			if (!x->entry && !p->named && !p->outermost && !is_void(w, x->from))
				w->ways[i] |= WAY_ENTERED;
	}
}

/* A start that others jump to with a frame of theirs, that has no name and that
 * nobody calls: a part of them. What such a piece said while it was taken for a
 * function is void. */
void fragments_find(struct work *w)
{
	size_t i, k;

	entered_find(w);
	for (i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];
		bool fragment = (w->ways[i] & (WAY_ENTERED | WAY_TAKEN)) == WAY_ENTERED &&
		                !(s->evident && s->sound); /* data may be a jump table */

		/* Once a fragment, always one: that its edges are gone for a round means nothing. */
		if (fragment && s->unknown)
			s->unknown = false;
		if (fragment && !s->fragment) {
			s->fragment = true;
			s->run |= RUN_NEWS;
		}
	}
	if (w->judged)
		evidence_judge(w);
	/* Their edges go now, before they mislead others. */
	for (i = k = 0; i < w->edges.count; i++)
		if (!w->state[w->edges.list[i].from].run)
			w->edges.list[k++] = w->edges.list[i];
	w->edges.count = k;
}
