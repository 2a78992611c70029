/* SPDX-License-Identifier: MIT */
/*
 * Functions under an FDE that describes none of them: Dart's compiler writes one FDE over all of its code, and assembly
 * may have one pair of .cfi_startproc and .cfi_endproc around several functions. Symbols give their starts (ranges.c);
 * in a stripped file calls, address references and the code itself do. Starts become entries of their code range.
 *
 * Only addresses are considered whose row is .eh_frame's alone, not proven by code, and contradicts a function's entry.
 */
#include "analysis/interproc/work.h"
#include "support/search.h"

#include <string.h>

/* Candidates for starts of functions. */
struct starts {
	uint64_t *list; /* sorted */
	size_t count, room;
	struct flow flow;
};

/* Is this the prologue of code with a frame pointer: push %rbp; mov %rsp, %rbp, perhaps behind endbr64? */
static bool is_prologue(const uint8_t *bytes, uint64_t size)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa}, store[] = {0x55, 0x48, 0x89, 0xe5},
						 load[] = {0x55, 0x48, 0x8b, 0xec};

	if (size > sizeof(endbr) && !memcmp(bytes, endbr, sizeof(endbr))) {
		bytes += sizeof(endbr);
		size -= sizeof(endbr);
	}
	return size >= sizeof(store) && (!memcmp(bytes, store, sizeof(store)) || !memcmp(bytes, load, sizeof(load)));
}

/* The index of the row that covers an address; >= r->count: there is none. */
static size_t row_number(const struct range_rows *r, uint64_t addr)
{
	return SEARCH(r->count, i, r->rows[i].addr <= addr) - 1;
}

/* The row is .eh_frame's, not proven by code, and contradicts the state of a function's entry. */
static bool is_unproven(const struct row *row)
{
	return (row->source == ETCH_SOURCE_CFI || row->inferred) &&
	       state_witness(&state_at_entry, &row->rule) == WITNESS_DENIES;
}

/* May a function begin at an address of a code range (see the head of this file)? */
static bool may_begin(const struct work *w, uint32_t range, uint64_t addr)
{
	const struct range_rows *r = &w->state[range].rows;
	const struct code_range *p = &w->ranges.list[range];
	size_t i = row_number(r, addr);

	if (p->fde < 0 || p->plt || i >= r->count || !is_unproven(&r->rows[i]))
		return false;
	/* At its start an FDE may describe code entered with words pushed, as ld.so's resolvers are by the PLT. */
	return addr != p->start || r->rows[i].rule.cfa != ETCH_REG_RSP;
}

static bool start_put(struct starts *s, uint64_t addr)
{
	if (!room_make(&s->list, &s->room, s->count, sizeof(*s->list)))
		return false;
	s->list[s->count++] = addr;
	return true;
}

/* Makes the starts entries of the code ranges that hold them, and marks these. 0, or -1 and a message. */
static int entries_add(struct work *w, struct starts *s, struct error *e)
{
	struct code_ranges *p = &w->ranges;
	uint64_t *all;
	size_t i, k, n;

	s->count = words_unique(s->list, s->count);
	if (!s->count)
		return 0;
	all = malloc((p->entry_count + s->count) * sizeof(*all));
	if (!all)
		return error_set(e, "out of memory");
	memcpy(all, p->entries, p->entry_count * sizeof(*all));
	memcpy(all + p->entry_count, s->list, s->count * sizeof(*all));
	n = words_unique(all, p->entry_count + s->count);
	for (i = k = 0; i < p->count; i++) {
		struct code_range *x = &p->list[i];
		uint32_t had = x->entry_count;

		while (k < n && all[k] < x->start)
			k++;
		x->entry = (uint32_t)k;
		while (k < n && all[k] < x->end)
			k++;
		x->entry_count = (uint32_t)k - x->entry;
		if (x->entry_count != had)
			w->state[i].run |= RUN_NEWS;
	}
	free(p->entries);
	p->entries = all;
	p->entry_count = n;
	w->env.entries = all;
	return 0;
}

int wide_called(struct work *w, struct error *e)
{
	struct starts s = {0};
	bool ok = true;
	size_t i;
	int err;

	for (i = 0; ok && i < w->calls.count && !w->options->no_cfi; i++) {
		const struct link *x = &w->calls.list[i];

		if (x->to != NO_RANGE && x->kind != EXIT_REF && !w->ranges.list[x->from].inferred &&
		    may_begin(w, x->to, x->target))
			ok = start_put(&s, x->target);
	}
	err = ok ? entries_add(w, &s, e) : error_set(e, "out of memory");
	free(s.list);
	return err;
}

/* ---- starts that no call leads to ----------------------------------------------------------- */

/*
 * Candidate starts that one function may span. Mostly a function ends where the next candidate begins; one that spans
 * several has prologue-like code inside, behind jumps, as Dart has where it calls C.
 */
#define RUNS_MOST 4u
/* Bytes that are tried as one function, at most; bounds the memory of the analysis, which is per byte. */
#define TRIED_MOST (1u << 20)

/* The exits of a tried function: some are seen; some are not those of a function. */
struct ending {
	const struct flow *flow;
	bool some, wrong;
};

/* Are rsp and rbp those of the caller? Compilers with conventions of their own preserve no other register. */
static bool is_balanced(const struct state *s)
{
	const struct value *sp = &s->reg[ETCH_REG_RSP], *bp = &s->reg[ETCH_REG_RBP];

	return sp->kind == VALUE_CFA && sp->off == -8 && bp->kind == VALUE_ENTRY && bp->reg == ETCH_REG_RBP;
}

static void ending_note(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct ending *x = ctx;
	uint32_t i = x->flow->at[addr - x->flow->range->start];

	(void)len, (void)same;
	if (!i || x->flow->steps[i - 1].flow != FLOW_RETURN)
		return;
	x->some = true;
	x->wrong |= !is_balanced(before);
}

/*
 * Is [start, end) a function? Analysed by itself, all its returns and all jumps out of it have to be balanced, and it
 * has to return. A candidate inside another function pops that function's frame too, which is not balanced. *ok is
 * false: out of memory.
 */
static bool is_function(const struct work *w, struct flow *f, const struct code_range *in, uint64_t start, uint64_t end,
                        bool *ok)
{
	const struct code_range p = {.start = start,
	                             .end = end,
	                             .bytes = in->bytes + (start - in->start),
	                             .fde = -1,
	                             .inferred = true,
	                             .open = true};
	struct ending x = {.flow = f};
	struct flow_env env = w->env;
	size_t i;

	env.ranges = &p;
	env.range_count = 1;
	env.index = NULL;
	env.spans = NULL;
	env.cfi = NULL;
	env.own_stack = false;
	f->cfi_count = f->guesses = 0;
	f->pushed = 0;
	f->relaxed = f->force_constants = false;
	*ok = flow_run(f, &env, 0, NULL, 0, START_FUNCTION);
	if (!*ok)
		return false;
	f->skip_below = 0;
	flow_states(f, ending_note, &x);
	for (i = 0; i < f->edge_count; i++)
		x.wrong |= !is_balanced(&f->edges[i].state);
	return x.some && !x.wrong && !f->broken;
}

/* Adds the prologues in [start, end) that lie behind padding or an instruction that does not fall through. False: out
 * of memory. */
static bool prologues_find(struct starts *s, const struct code_range *p, uint64_t start, uint64_t end)
{
	uint64_t at = start;
	bool behind = true;
	struct step in;

	while (at < end) {
		const uint8_t *bytes = p->bytes + (at - p->start);

		if (!step_decode(s->flow.cache, bytes, end - at, at, &in)) {
			at++;
			behind = true;
			continue;
		}
		if (behind && is_prologue(bytes, end - at) && !start_put(s, at))
			return false;
		behind = in.padding || in.flow == FLOW_JUMP || in.flow == FLOW_JUMP_IND || in.flow == FLOW_RETURN ||
		         in.flow == FLOW_STOP;
		at += in.len;
	}
	return true;
}

/* Adds the addresses in [start, end) that data holds, and a named start. Any of them may be a part of a function.
 * False: out of memory. */
static bool referred_find(const struct work *w, struct starts *s, const struct code_range *p, uint64_t start,
                          uint64_t end)
{
	size_t i = SEARCH(w->data_count, k, w->data[k] < start);
	bool ok = start != p->start || !p->named || start_put(s, start);

	for (; ok && i < w->data_count && w->data[i] < end; i++)
		ok = start_put(s, w->data[i]);
	return ok;
}

/* Drops the candidates from index `from` on that are no functions. False: out of memory. */
static bool starts_try(const struct work *w, struct starts *s, const struct code_range *p, size_t from, uint64_t end)
{
	size_t i, k, n;
	uint64_t done = 0;
	bool ok = true;

	n = from + words_unique(s->list + from, s->count - from);
	for (i = k = from; i < n && ok; i++) {
		bool is = false;
		size_t runs;

		for (runs = 1; ok && !is && s->list[i] >= done && runs <= RUNS_MOST && i + runs <= n; runs++) {
			uint64_t stop = i + runs < n ? s->list[i + runs] : end;

			if (stop - s->list[i] > TRIED_MOST)
				break;
			is = is_function(w, &s->flow, p, s->list[i], stop, &ok);
		}
		if (!is)
			continue;
		done = s->list[i] + s->flow.extent;
		s->list[k++] = s->list[i];
	}
	s->count = k;
	return ok;
}

/* Has a code range one row of .eh_frame for all of it, or does the code contradict .eh_frame at a function's entry? */
static bool is_wide(const struct work *w, size_t i)
{
	const struct code_range *p = &w->ranges.list[i];

	return p->fde >= 0 && !p->plt && (w->state[i].one_row || w->state[i].denied);
}

int wide_sweep(struct work *w, struct error *e)
{
	struct starts s = {0};
	bool ok = true;
	int err;
	size_t i, k, next;

	for (i = 0; ok && i < w->ranges.count && !w->options->no_cfi; i++) {
		const struct range_rows *r = &w->state[i].rows;
		const struct code_range *p = &w->ranges.list[i];

		for (k = 0; ok && k < r->count && is_wide(w, i); k = next) {
			uint64_t start = r->rows[k].addr, end;
			size_t from = s.count;

			for (next = k + 1; next < r->count && is_unproven(&r->rows[k]) && is_unproven(&r->rows[next]);)
				next++;
			end = next < r->count ? r->rows[next].addr : p->end;
			if (may_begin(w, (uint32_t)i, start))
				ok = prologues_find(&s, p, start, end) && referred_find(w, &s, p, start, end) &&
				     starts_try(w, &s, p, from, end);
		}
	}
	err = ok ? entries_add(w, &s, e) : error_set(e, "out of memory");
	free(s.list);
	flow_free(&s.flow);
	return err;
}
