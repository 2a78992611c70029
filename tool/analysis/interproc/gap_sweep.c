/* SPDX-License-Identifier: MIT */
/*
 * Finds functions in the gaps between code ranges of a linked file, to which no code range refers. They are called
 * through pointers that code computes, or only from other such functions: for example builtins of a virtual machine,
 * and functions of stripped programs that are not position-independent. Where .eh_frame and symbols say nothing, each
 * prologue is tried as the start of a function. Like any start of which only the address is known, the new code range
 * is judged once more by its exits and edges (may_be_data()).
 *
 * The bytes in front of a start are evidence of their own. Compilers put nops in front of a loop or a block, but int3
 * or zero bytes only between functions. If the returns at many starts after such filler prove functions, and few refute
 * them, the other such starts count as functions too: leaf functions without a prologue, and functions that never
 * return, such as those that throw. The proven functions may also show that the file's compiler preserves no registers
 * over calls (GraalVM's does not); then a correct rsp alone proves a function. The first run looks only for starts
 * after such filler, so that it precedes the code ranges that are made where numbers in code or data happen to equal
 * addresses inside these functions.
 *
 * If a code range was taken for data although code takes its address, it is searched like a gap: its end was not known
 * then, so that functions after it were analysed as part of it. Those functions are known by now.
 */
#include "analysis/interproc/tried_starts.h"
#include "analysis/interproc/range_starts.h"
#include "arch/x86/opcodes.h"
#include "shared/search.h"

/* Does a code range end at `addr`, with filler that its flow does not reach? Padding belongs to the open code range in
 * front of it. */
static bool is_after_filler(const struct work *w, const struct code_section *c, uint64_t addr)
{
	size_t k = SEARCH(w->ranges.count, i, w->ranges.list[i].end < addr);
	uint8_t last;

	if (addr == c->addr || k == w->ranges.count || w->ranges.list[k].end != addr || w->state[k].flows_to_end)
		return false;
	last = c->bytes[addr - c->addr - 1];
	return !last || insn_is_int3(&last, 1);
}

/* Adds the functions that are found in [start, end) of a section. */
static void gap_look(struct work *w, struct starts *s, const struct code_section *c, uint64_t start, uint64_t end)
{
	const struct code_range gap = {
		.start = start, .end = end, .bytes = c->bytes + (start - c->addr), .fde = -1, .inferred = true};
	size_t from = s->count;

	if (start % FUNCTION_ALIGN == 0 && is_after_filler(w, c, start))
		start_padded_put(s, start);
	prologues_find(s, &gap, start, end, false);
	starts_try(w, s, &gap, from, end);
}

/* Was code range `k` taken for data, and is its size unknown? Then none of its bytes count as code. */
static bool is_gap(const struct work *w, size_t k)
{
	const struct range_state *s = &w->state[k];

	return s->kind == RANGE_DATA && w->ranges.list[k].open;
}

/* Adds the functions that are found in the gaps of a section. *k is the first code range that may end after the
 * section's start. */
static void section_look(struct work *w, struct starts *s, const struct code_section *c, size_t *k)
{
	uint64_t at, end;

	for (at = c->addr; at < c->addr + c->size; at = end) {
		bool known;

		while (*k < w->ranges.count && w->ranges.list[*k].end <= at)
			++*k;
		end = c->addr + c->size;
		known = *k < w->ranges.count && w->ranges.list[*k].start <= at;
		if (known && !is_gap(w, *k)) {
			end = w->ranges.list[*k].end;
			continue;
		}
		if (*k + known < w->ranges.count && w->ranges.list[*k + known].start < end)
			end = w->ranges.list[*k + known].start;
		gap_look(w, s, c, at, end);
	}
}

/* Returns the number of the code range that begins at an address, or the number of code ranges if there is none. */
static size_t range_from(const struct work *w, uint64_t addr)
{
	size_t k = SEARCH(w->ranges.count, i, w->ranges.list[i].start < addr);

	return k < w->ranges.count && w->ranges.list[k].start == addr ? k : w->ranges.count;
}

/* Makes code ranges of the accepted starts. If a start was tried before and taken for data, its code range is analysed
 * as a function again. */
static void starts_take(struct work *w, const struct starts *s)
{
	size_t i, k;

	for (i = 0; i < s->count; i++) {
		k = range_from(w, s->list[i]);
		if (k == w->ranges.count) {
			undiscovered_put(w, s->list[i]);
			continue;
		}
		w->state[k].kind = RANGE_FUNCTION;
		w->state[k].run |= RUN_NEWS;
	}
	undiscovered_add(w);
	for (i = 0; i < s->placed.count; i++) {
		k = range_from(w, s->placed.list[i]);
		if (k < w->ranges.count)
			w->state[k].evidence |= EVIDENCE_PLACED;
	}
}

void gaps_sweep(struct work *w, bool padded_only)
{
	const struct code_space *space = &w->out->space;
	struct starts s = {.shown = w->starts.padding, .padded_only = padded_only};
	size_t i, k = 0;

	if (elf_is_object(w->file) || w->env.own_stack)
		return;
	s.shown.refuted = 0; /* the refuted ones are tried, and counted, again */
	for (i = 0; i < space->count; i++)
		section_look(w, &s, &space->list[i], &k);
	starts_learn(&s);
	w->starts.padding = s.shown;
	if (padded_only) {
		w->starts.padded = s.padded.list;
		w->starts.padded_count = s.padded.count;
		s.padded.list = NULL;
	}
	starts_take(w, &s);
	if (padded_only)
		w->starts.padding.prevails = w->starts.padding.regular && s.count >= w->ranges.count / 2;
	starts_free(&s);
}
