/* SPDX-License-Identifier: MIT */
/*
 * Implements ETCH-H004: targets of indirect calls and jumps without an endbr64, in a file whose property note promises
 * indirect branch tracking. (analysis/lint/jump_targets.c checks the targets of jump tables.)
 */
#include "check/branch_targets.h"

#include "arch/x86/opcodes.h"
#include "arch/x86/fast_decoder.h"
#include "elf/hardening.h"
#include "shared/search.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

#define TAKERS_SHOWN 3
/*
 * If at least this many places, and the majority of all, have no endbr64, one finding about the note replaces the
 * findings about places.
 */
#define FILE_LEAST   64
#define PLACES_SHOWN 8 /* number of places that this finding lists */

static int target_order(const void *a, const void *b)
{
	const struct target *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* Returns the number of words that are at or below addr, which is the index of the last of them + 1. */
static size_t word_below(const uint64_t *list, size_t n, uint64_t addr) { return SEARCH(n, i, list[i] <= addr); }

/* True if the function around an address contains a tracked indirect jump. */
static bool jumps_around(const struct branches *b, uint64_t addr)
{
	size_t i = word_below(b->starts, b->start_count, addr);
	uint64_t start = i ? b->starts[i - 1] : 0, end = i < b->start_count ? b->starts[i] : UINT64_MAX;

	i = word_below(b->jumps, b->jump_count, end - 1);
	return i && b->jumps[i - 1] >= start;
}

static bool counts(const struct branches *b, const struct target *t)
{
	if (word_has(b->starts, b->start_count, t->at))
		return true;
	return t->inside &&
	       (t->always || (reached_at(&b->s->frames.reached, &b->s->frames.space, t->at) && jumps_around(b, t->at)));
}

/* Returns how many of the n entries about one place count. If none does, the place is not a target. */
static size_t takers(const struct branches *b, const struct target *list, size_t n)
{
	size_t i, k = 0;

	for (i = 0; i < n; i++)
		k += counts(b, &list[i]);
	return k;
}

static bool has_endbr(const struct branches *b, uint64_t at)
{
	const struct code_section *c = space_at(&b->s->frames.space, at);
	uint64_t off = at - c->addr;

	/*
	 * The code that calls sigreturn needs no endbr64: a return of a signal handler enters it, not an indirect branch.
	 */
	return insn_is_endbr(c->bytes + off, c->size - off) || code_is_sigreturn(c->bytes + off, c->size - off);
}

/* Adds the finding about one place; the n entries of `list` are about it. */
static void place_report(struct branches *b, const struct target *list, size_t n)
{
	const struct code_section *c = space_at(&b->s->frames.space, list->at);
	struct finding *x = finding_add(&b->s->found, "ETCH-H004", c->section, plain_addr(b, c, list->at),
	                                "this target of an indirect branch has no endbr64");
	size_t i, shown = 0;

	for (i = 0; i < n && shown < TAKERS_SHOWN; i++) {
		if (!counts(b, &list[i]))
			continue;
		shown++;
		if (list[i].section)
			finding_fact_at(x, list[i].section, list[i].from, list[i].how, "%s",
			                b->s->file->sections[list[i].section].name);
		else
			finding_fact(x, list[i].how, "%s", list[i].what);
	}
}

/* Adds the one finding for a file whose code was not compiled to have what its property note promises. */
static void file_report(struct branches *b, size_t missing, size_t all)
{
	struct findings *tables = &b->s->frames.findings;
	struct finding *x = finding_add(&b->s->found, "ETCH-H004", 0, 0,
	                                "%zu of %zu indirect branch targets have no endbr64: the property note says IBT, "
	                                "but the code was not compiled for it",
	                                missing, all);
	size_t i, k, n = 0, shown = 0;

	for (i = 0; i < b->count && shown < PLACES_SHOWN; i = k) {
		const struct code_section *c = space_at(&b->s->frames.space, b->list[i].at);

		for (k = i + 1; k < b->count && b->list[k].at == b->list[i].at; k++)
			;
		if (!takers(b, &b->list[i], k - i) || has_endbr(b, b->list[i].at))
			continue;
		shown++;
		finding_fact_at(x, c->section, plain_addr(b, c, b->list[i].at), "for example", "%s", b->list[i].how);
	}
	for (i = 0; i < tables->count; i++) { /* removes the findings about jump tables, which the new finding includes */
		if (strcmp(tables->list[i].id, "ETCH-H004"))
			tables->list[n++] = tables->list[i];
		else
			finding_free(&tables->list[i]);
	}
	tables->count = n;
}

static void targets_report(struct branches *b)
{
	size_t i, k, missing = 0, all = 0;
	int pass;

	if (b->count)
		qsort(b->list, b->count, sizeof(*b->list), target_order);
	b->jump_count = words_unique(b->jumps, b->jump_count);
	for (pass = 0; pass < 2; pass++) {
		if (pass && missing >= FILE_LEAST && missing * 2 > all) {
			file_report(b, missing, all);
			return;
		}
		for (i = 0; i < b->count; i = k) {
			for (k = i + 1; k < b->count && b->list[k].at == b->list[i].at; k++)
				;
			if (!takers(b, &b->list[i], k - i))
				continue;
			if (!pass) {
				all++;
				missing += !has_endbr(b, b->list[i].at);
			} else if (!has_endbr(b, b->list[i].at)) {
				place_report(b, &b->list[i], k - i);
			}
		}
	}
}

int check_branches(struct subject *s, struct error *e)
{
	struct elf_hardening hardening;
	struct branches b = {.s = s};
	int err;

	elf_hardening_read(s->file, &hardening);
	if (!hardening.ibt)
		return 0;
	err = branches_collect(&b, e);
	if (!err)
		targets_report(&b);
	branches_free(&b);
	return err;
}
