/* SPDX-License-Identifier: MIT */
/*
 * Starts of functions that symbols and FDEs do not give: targets of calls, addresses in data, and how the code there
 * ends. Adds code ranges at undiscovered targets, cuts and extends open ones, and decides which code ranges are
 * functions and which fragments (parts of functions). Called between rounds by driver.c.
 */
#include "analysis/interproc/work.h"

#include <string.h>

#ifndef SHT_RELR /* missing in elf.h before glibc 2.36 */
#define SHT_RELR 19
#endif

/* Rebuilds the index of code ranges where it is out of date. 0, or -1 and a message. */
static int index_renew(struct work *w, struct error *e)
{
	if (w->unindexed && !ranges_index(&w->env))
		return error_set(e, "out of memory");
	w->unindexed = false;
	return 0;
}

int undiscovered_add(struct work *w, struct error *e)
{
	struct code_ranges before = w->ranges;
	struct range_state *state;
	uint32_t *moved;
	size_t i, k;
	long added;

	w->undiscovered_count = words_unique(w->undiscovered, w->undiscovered_count);
	if (!w->undiscovered_count)
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
		added = ranges_add(&w->ranges, &w->out->space, w->undiscovered, w->undiscovered_count, e);
		for (i = k = 0; added > 0 && i < before.count; i++) {
			while (w->ranges.list[k].start != starts[i])
				k++;
			moved[i] = (uint32_t)k;
		}
		free(starts);
	}
	w->undiscovered_count = 0;
	w->env.ranges = w->ranges.list;
	w->env.range_count = w->ranges.count;
	if (added <= 0) {
		free(moved);
		return added ? -1 : index_renew(w, e);
	}
	state = calloc(w->ranges.count + 1, sizeof(*state));
	if (!state) {
		free(moved);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->ranges.count; i++)
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
	free(w->entry_kinds);
	w->entry_kinds = NULL;
	free(w->state);
	w->state = state;
	w->state_count = w->ranges.count;
	free(moved);
	return 0;
}

bool undiscovered_put(struct work *w, uint64_t target)
{
	if (!room_make(&w->undiscovered, &w->undiscovered_room, w->undiscovered_count, sizeof(*w->undiscovered)))
		return false;
	w->undiscovered[w->undiscovered_count++] = target;
	return true;
}

/* Notes a target as undiscovered, if it is an address of code and lies in no code range. False: out of memory. */
static bool undiscovered_note(struct work *w, uint64_t target)
{
	if ((target & (FLOW_EXTERN | FLOW_SLOT)) || range_at(&w->env, target) || !space_at(&w->out->space, target))
		return true;
	return undiscovered_put(w, target);
}

/* Collects the addresses of code that relocations put into data (work.data), sorted. 0, or -1 and a message. */
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

			if ((r[j].type != R_X86_64_RELATIVE && r[j].type != R_X86_64_IRELATIVE) ||
			    (addr & (FLOW_EXTERN | FLOW_SLOT)) || !space_at(&w->out->space, addr))
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

/* Sections that etch added are no evidence: a rewritten file has to yield the rows of the original. */
static bool is_own(const struct elf_section *s) { return !strncmp(s->name, ".etch", 5); }

/* False: the word at an offset of a data section is an address of code where no compiler starts a function. True also
 * outside of the section. */
static bool is_pointer(const struct work *w, const struct elf_section *s, uint64_t at)
{
	uint64_t word;

	if (at >= s->sh.sh_size || s->sh.sh_size - at < 8)
		return true;
	memcpy(&word, s->data + at, 8);
	return !space_at(&w->out->space, word) || word % FUNCTION_ALIGN == 0;
}

/* May addresses in data have no RELA entry? In files linked to a fixed address, and with packed relocations (RELR). */
static bool has_words(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (f->sections[i].sh.sh_type == SHT_RELR)
			return true;
	return f->eh.e_type == ET_EXEC;
}

#define END_MOST 8u /* bytes of a jump, call or return, at most */

/* Notes the words of data of such a file that are addresses of code. 0, or -1 and a message. */
static int words_note(struct work *w, struct error *e)
{
	const struct elf_file *f = w->file;
	bool words = has_words(f);
	uint64_t at, word;
	uint32_t i;

	/* Entries of jump tables are words as well: a word is taken for one if a neighbour cannot be a function. */
	for (i = 1; i < f->section_count && words; i++) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || s->sh.sh_type != SHT_PROGBITS || !(s->sh.sh_flags & SHF_ALLOC) ||
		    (s->sh.sh_flags & SHF_EXECINSTR) || is_own(s))
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8)
			if (is_pointer(w, s, at) && is_pointer(w, s, at - 8) && is_pointer(w, s, at + 8)) {
				memcpy(&word, s->data + at, 8);
				if (!undiscovered_note(w, word))
					return error_set(e, "out of memory");
			}
	}
	return 0;
}

/* Can the bytes before an offset be decoded as a jump, call or return that ends there? */
static bool is_behind_end(const struct code_section *c, uint64_t off)
{
	unsigned len;
	struct step s;

	for (len = 1; len <= END_MOST && len <= off; len++)
		if (step_decode(NULL, c->bytes + off - len, len, c->addr + off - len, &s) && s.len == len &&
		    s.flow != FLOW_NEXT && s.flow != FLOW_BRANCH)
			return true;
	return false;
}

/* May a function begin at an offset: behind such an instruction or padding? */
static bool may_begin(const struct code_section *c, uint64_t off)
{
	uint64_t from, at;
	struct step s;

	for (from = off; off - from < FUNCTION_ALIGN; from--) {
		for (at = from; at < off && step_decode(NULL, c->bytes + at, off - at, c->addr + at, &s) && s.padding;
		     at += s.len)
			;
		if (at == off && (!from || from < off || is_behind_end(c, from)))
			return true;
		if (!from)
			break;
	}
	return false;
}

/*
 * Numbers in data that happen to be addresses of code point into the middle of functions. A code range there would cut
 * the function's code range, and neither part would be found to be a function. So a word is kept only if linear
 * decoding from the previous one does not run through it, or if the bytes before it can end a function.
 */
static void words_sift(struct work *w)
{
	const struct code_section *c = NULL;
	uint64_t at = 0, end = 0; /* decoded up to `at`; decoding ends at `end` */
	bool goes_on = false;     /* the last instruction is no padding and falls through */
	size_t i, k = 0, next = 0;
	struct step s;

	w->undiscovered_count = words_unique(w->undiscovered, w->undiscovered_count);
	for (i = 0; i < w->undiscovered_count; i++) {
		uint64_t word = w->undiscovered[i];
		bool broken = word >= end;

		while (!broken && at < word) {
			broken = !step_decode(NULL, c->bytes + (at - c->addr), end - at, at, &s);
			at += broken ? 0 : s.len;
			goes_on = !s.padding && (s.flow == FLOW_NEXT || s.flow == FLOW_BRANCH);
		}
		if (!broken && (at > word || goes_on) && !may_begin(c, word - c->addr))
			continue;
		w->undiscovered[k++] = word;
		c = space_at(&w->out->space, word);
		end = c ? c->addr + c->size : word;
		while (next < w->ranges.count && w->ranges.list[next].start <= word)
			next++;
		if (next < w->ranges.count && w->ranges.list[next].start < end)
			end = w->ranges.list[next].start;
		at = word;
		goes_on = false;
	}
	w->undiscovered_count = k;
}

int undiscovered_in_words(struct work *w, struct error *e)
{
	size_t i;

	if (words_note(w, e))
		return -1;
	words_sift(w);
	if (undiscovered_add(w, e))
		return -1;
	for (i = 0; i < w->ranges.count; i++) /* only the new code ranges are marked here */
		w->state[i].word = w->state[i].run != 0;
	return 0;
}

int undiscovered_in_data(struct work *w, struct error *e)
{
	size_t i;

	if (data_read(w, e))
		return -1;
	for (i = 0; i < w->data_count; i++)
		if (!undiscovered_note(w, w->data[i]))
			return error_set(e, "out of memory");
	return ghc_starts(w, e) ? -1 : undiscovered_add(w, e);
}

/* The index of the first element >= word in a sorted list. */
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

/* Cuts a code range at `end` and marks it; was[]: its end before the first cut, 0: not cut. */
static void range_cut(struct work *w, uint64_t *was, uint32_t i, uint64_t end, unsigned run)
{
	if (!was[i])
		was[i] = w->ranges.list[i].end;
	w->ranges.list[i].end = end;
	w->state[i].run |= (uint8_t)run;
}

#define CALL_SIZE 5u /* bytes of a direct call */

/* Does padding lie before an address, and a direct call before that? */
static bool is_behind_call(const struct work *w, const struct code_range *p, uint64_t addr)
{
	uint64_t at = addr - p->start, from, off;
	struct step s;

	for (from = at - 1; from >= CALL_SIZE && at - from < FUNCTION_ALIGN; from--) {
		for (off = from; off < at && step_decode(NULL, p->bytes + off, at - off, p->start + off, &s) && s.padding;
		     off += s.len)
			;
		if (off == at && step_decode(NULL, p->bytes + from - CALL_SIZE, CALL_SIZE, p->start + from - CALL_SIZE, &s) &&
		    s.flow == FLOW_CALL && space_at(&w->out->space, (uint64_t)s.imm))
			return true;
	}
	return false;
}

/* Does padding lie before an address, and a return before that? */
static bool is_behind_return(const struct code_range *p, uint64_t addr)
{
	uint64_t at = addr - p->start, from, off;
	struct step s;

	for (from = at - 1; from >= 1 && at - from < FUNCTION_ALIGN; from--) {
		for (off = from; off < at && step_decode(NULL, p->bytes + off, at - off, p->start + off, &s) && s.padding;
		     off += s.len)
			;
		if (off == at && step_decode(NULL, p->bytes + from - 1, 1, p->start + from - 1, &s) && s.flow == FLOW_RETURN)
			return true;
	}
	return false;
}

/* Is the target of an address reference, inside a code range, the start of another function? It is aligned, and behind
 * padding and a return or a (then noreturn) call; or it is the restorer that a signal handler returns to. */
static bool is_next_function(const struct work *w, const struct code_range *p, const struct link *x)
{
	if (x->kind != EXIT_REF || x->target <= p->start || x->target >= p->end)
		return false;
	if (x->target % FUNCTION_ALIGN == 0 && (is_behind_call(w, p, x->target) || is_behind_return(p, x->target)))
		return true;
	return code_is_sigreturn(p->bytes + (x->target - p->start), p->end - x->target);
}

/* Cuts open code ranges where a call or the like leads inside: a function begins there. Returns whether it cut any. */
static bool open_cut(struct work *w, uint64_t *was)
{
	const struct links *each[] = {&w->calls, &w->tails};
	bool some = false;
	size_t k, i;

	for (k = 0; k < 2; k++)
		for (i = 0; i < each[k]->count; i++) {
			const struct link *x = &each[k]->list[i];
			const struct code_range *p;

			if (x->start || x->to == NO_RANGE || x->kind == EXIT_PART)
				continue;
			p = &w->ranges.list[x->to];
			if (!p->open || x->target <= p->start || x->target >= p->end ||
			    (x->kind == EXIT_REF && !is_next_function(w, p, x)))
				continue;
			range_cut(w, was, x->to, x->target, RUN_NEWS | RUN_LESS);
			some = true;
		}
	return some;
}

/* Makes all references to the parts that were cut off undiscovered targets. False: out of memory. */
static bool cuts_note(struct work *w, const uint64_t *was)
{
	struct links *each[] = {&w->calls, &w->tails};
	size_t k, i, n;
	bool ok = true;

	for (k = 0; k < 2; k++)
		for (i = 0; ok && i < each[k]->count; i++) {
			struct link *x = &each[k]->list[i];

			if (x->start || x->to == NO_RANGE || !was[x->to] || x->target < w->ranges.list[x->to].end)
				continue; /* not affected */
			link_lead(x, NO_RANGE, w->ranges.list);
			ok = undiscovered_put(w, x->target);
		}
	for (i = 0; ok && i < w->ranges.count; i++) {
		uint64_t end = w->ranges.list[i].end;

		if (!was[i])
			continue;
		for (n = edges_from(&w->edges, end); ok && n < w->edges.count && w->edges.list[n].target < was[i]; n++)
			ok = undiscovered_put(w, w->edges.list[n].target);
		for (n = words_from(w->data, w->data_count, end); ok && n < w->data_count && w->data[n] < was[i]; n++)
			ok = undiscovered_put(w, w->data[n]);
	}
	return ok;
}

int open_trim(struct work *w, struct error *e)
{
	uint64_t *was = calloc(w->ranges.count + 1, sizeof(*was));
	bool some, ok;
	size_t k;

	if (!was)
		return error_set(e, "out of memory");
	some = open_cut(w, was);
	for (k = 0; k < w->list_count; k++) { /* only the last round may have changed `reached` */
		uint32_t i = w->list[k];
		const struct code_range *p = &w->ranges.list[i];

		if (p->open && w->state[i].reached > p->start && w->state[i].reached < p->end) {
			range_cut(w, was, i, w->state[i].reached, RUN_CUT);
			some = true;
		}
	}
	w->unindexed |= some;
	ok = !some || cuts_note(w, was);
	free(was);
	return ok ? 0 : error_set(e, "out of memory");
}

/*
 * An open code range without flow was cut to one byte. With a new fact (RUN_NEWS) flow may enter it, so it is extended
 * again as far as it can reach. A cut (RUN_CUT, RUN_LESS) alone is no such fact.
 */
int open_extend(struct work *w, struct error *e)
{
	bool some = false;
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct code_range *p = &w->ranges.list[i];
		struct range_state *s = &w->state[i];
		const struct code_section *c;

		if (!s->run || !s->empty)
			continue;
		s->emptied = true;
		c = s->run & RUN_NEWS ? space_at(&w->out->space, p->start) : NULL;
		if (!c)
			continue;
		p->end = c->addr + c->size;
		if (i + 1 < w->ranges.count && p[1].start < p->end)
			p->end = p[1].start;
		s->empty = false;
		some = true;
	}
	if (!some)
		return 0;
	if (!ranges_index(&w->env))
		return error_set(e, "out of memory");
	links_settle(w, NULL);
	return 0;
}

/* Changes from called to not called of a code range, at most: then it stays called (termination, see settle.c). */
#define TURNS_MOST 4

static void direct_find(struct work *w, size_t i)
{
	struct range_state *s = &w->state[i];
	bool direct = w->entry_kinds[i] & ENTRY_CALLED;

	if (direct == s->direct || (!direct && s->turns == TURNS_MOST))
		return;
	s->direct = direct;
	s->turns += !direct;
	if (s->framed || (!direct && w->ranges.list[i].inferred))
		s->run |= RUN_NEWS;
}

/* Updates range_state.part; marks those that tail-call a code range that has become a part: they are parts too. */
static void parts_find(struct work *w)
{
	bool some = false;
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];
		bool part = s->framed && !s->direct;

		some |= part != s->part;
		s->part = part;
	}
	for (i = 0; some && i < w->tails.count; i++)
		if (w->tails.list[i].to != NO_RANGE && w->state[w->tails.list[i].to].part)
			w->state[w->tails.list[i].from].run |= RUN_NEWS;
}

void called_find(struct work *w)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		if (w->entry_kinds[i] & ENTRY_LED)
			s->called = true;
		direct_find(w, i);
		/* The target of a call is a function, even if other code seemed to fall into it. */
		if ((w->entry_kinds[i] & ENTRY_CALLED && s->fragment && !s->unknown && !s->exit_sp_mismatch) ||
		    (s->called && s->maybe_data)) {
			s->fragment = s->maybe_data = false;
			s->run |= RUN_NEWS;
		}
	}
	parts_find(w);
}

/* Union-find over code ranges connected by jumps, which share non_c_frame. Returns the representative of a set, with
 * path halving. */
static uint32_t set_of(uint32_t *in, uint32_t i)
{
	while (in[i] != i)
		i = in[i] = in[in[i]];
	return i;
}

static void non_c_frames_join(const struct work *w, uint32_t *in, uint32_t from, uint32_t to)
{
	const struct code_range *a = &w->ranges.list[from], *b = &w->ranges.list[to];

	if (a->fde < 0 && b->fde < 0 && !a->plt && !b->plt)
		in[set_of(in, from)] = set_of(in, to);
}

/* Joins along the edges: a jump into the middle of a code range that was cut there since is an edge, not a link. */
static void non_c_edges(const struct work *w, uint32_t *in)
{
	uint32_t k = 0;
	size_t i;

	for (i = 0; i < w->edges.count; i++) {
		while (k + 1 < w->ranges.count && w->ranges.list[k + 1].start <= w->edges.list[i].target)
			k++;
		if (w->ranges.list[k].start <= w->edges.list[i].target && w->edges.list[i].target < w->ranges.list[k].end)
			non_c_frames_join(w, in, w->edges.list[i].from, k);
	}
}

int non_c_frames_spread(struct work *w, struct error *e)
{
	uint32_t *in = malloc((w->ranges.count + 1) * sizeof(*in));
	bool *non_c_frame = calloc(w->ranges.count + 1, sizeof(*non_c_frame)); /* by representative */
	size_t i;

	if (!in || !non_c_frame) {
		free(in);
		free(non_c_frame);
		return error_set(e, "out of memory");
	}
	for (i = 0; i < w->ranges.count; i++)
		in[i] = (uint32_t)i;
	for (i = 0; i < w->tails.count; i++)
		if (w->tails.list[i].to != NO_RANGE)
			non_c_frames_join(w, in, w->tails.list[i].from, w->tails.list[i].to);
	if (w->env.own_stack)
		non_c_edges(w, in);
	for (i = 0; i < w->ranges.count; i++)
		non_c_frame[set_of(in, (uint32_t)i)] |= w->state[i].non_c_frame;
	for (i = 0; i < w->ranges.count; i++)
		w->state[i].non_c_frame = non_c_frame[set_of(in, (uint32_t)i)];
	free(in);
	free(non_c_frame);
	return 0;
}

/* Is the word at an offset of a data section an address in the middle of a code range? Then it and its neighbours are
 * entries of a jump table. */
static bool is_inner(const struct work *w, const struct elf_section *s, uint64_t at)
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

/* Evidence is the start of a code range in data: as the addend of a relocation, or as a plain word. */
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
				        ? range_number(&w->env, (uint64_t)r[j].addend & ~(FLOW_EXTERN | FLOW_SLOT))
				        : NO_RANGE;
				if (k != NO_RANGE && w->ranges.list[k].start == (uint64_t)r[j].addend)
					w->state[k].has_evidence = true;
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
			k = range_number(&w->env, word);
			if (k != NO_RANGE && w->ranges.list[k].start == word && !is_inner(w, s, at - 8) && !is_inner(w, s, at + 8))
				w->state[k].has_evidence = true;
		}
	}
	return 0;
}

/*
 * Without .eh_frame a code range is a function if it is called, tail-called, or has its address taken; or if all its
 * returns are those of a function, with every register restored and the return address on top. The rest becomes
 * fragments.
 */
void starts_classify(struct work *w)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		if (w->entry_kinds[i] & ENTRY_TAKEN)
			s->has_evidence = true;
		/* Why exit_sp_mismatch comes first: _dl_runtime_resolve has a name, but the PLT has pushed two words. */
		if (w->ranges.list[i].plt || w->ranges.list[i].outermost)
			continue;
		if (!s->fragment &&
		    (s->exit_sp_mismatch || (!s->has_evidence && !s->returns_balanced && !w->ranges.list[i].named))) {
			s->fragment = s->unknown = true;
			s->run |= RUN_NEWS;
		} else if (s->has_evidence && s->unknown && !s->exit_sp_mismatch) { /* evidence has come since */
			s->fragment = s->unknown = false;
			s->run |= RUN_NEWS;
		}
	}
}

/* Edges from an entry point that was cut are void: it ends in a noreturn call, and the code behind has no such
 * frame. */
static bool is_void(const struct work *w, uint32_t from)
{
	return w->ranges.list[from].outermost && (w->state[from].run & RUN_LESS);
}

/* Sets ENTRY_JUMPED of code ranges whose start has an incoming edge with a frame. */
static void entered_find(struct work *w)
{
	const struct edge *x = w->edges.list, *end = x + w->edges.count;
	size_t i;

	for (i = 0; i < w->ranges.count && x < end; i++) {
		const struct code_range *p = &w->ranges.list[i];

		while (x < end && x->target < p->start)
			x++;
		for (; x < end && x->target == p->start; x++)
			if (!x->entry && !p->named && !p->outermost && !is_void(w, x->from))
				w->entry_kinds[i] |= ENTRY_JUMPED;
	}
}

/* A code range that others jump to with a frame, without a name and never called, is a part of them. Its results from
 * when it was taken for a function are void, so it is marked and its edges are dropped. */
void fragments_find(struct work *w)
{
	size_t i, k;

	entered_find(w);
	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];
		bool fragment = (w->entry_kinds[i] & (ENTRY_JUMPED | ENTRY_TAKEN)) == ENTRY_JUMPED &&
		                !(s->has_evidence && s->returns_balanced); /* has_evidence alone may be from a jump table */

		/* A fragment is not reset here: its incoming edges may be missing for one round only. */
		if (fragment && s->unknown)
			s->unknown = false;
		if (fragment && !s->fragment) {
			s->fragment = true;
			s->run |= RUN_NEWS;
		}
	}
	if (w->classified)
		starts_classify(w);
	/* Edges from code ranges that are to be analysed again are void; drop them before edges_apply() uses them. */
	for (i = k = 0; i < w->edges.count; i++)
		if (!w->state[w->edges.list[i].from].run)
			w->edges.list[k++] = w->edges.list[i];
	w->edges.count = k;
}
