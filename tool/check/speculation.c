/* SPDX-License-Identifier: MIT */
/* Implements ETCH-H005 (straight-line speculation): returns and indirect jumps without an int3 after them. */
#include "arch/x86/opcodes.h"
#include "arch/x86/fast_decoder.h"
#include "check/check.h"
#include "elf/symbols.h"

#include <stdlib.h>
#include <string.h>

/*
 * A file is assumed to be built with -mharden-sls if an int3 follows at least this number and this percentage of its
 * returns (or jumps).
 */
#define BUILT_LEAST   8
#define BUILT_PERCENT 75

enum branch { BRANCH_RETURN, BRANCH_JUMP, BRANCH_KINDS };

static const char *const names[BRANCH_KINDS] = {"return", "indirect jump"};

struct kind_count {
	size_t all, stopped;
};

/* Collects the branches of one function without an int3 after them, to make one finding per kind of branch. */
struct reporter {
	struct subject *s;
	struct symbol_index symbols;
	bool asked[BRANCH_KINDS];
	const struct elf_symbol *function;
	uint32_t section;
	uint64_t first[BRANCH_KINDS];
	size_t count[BRANCH_KINDS];
};

/* Called for each branch; `stopped` means that an int3 follows it. Returns false to end the walk. */
typedef bool branch_fn(void *ctx, const struct code_section *c, uint64_t addr, enum branch kind, bool stopped);

/*
 * Calls `fn` for every return and indirect jump that the analysis has reached, except those of the PLT, which the
 * linker has written.
 */
static void branches_walk(const struct subject *s, branch_fn *fn, void *ctx)
{
	const struct code_space *space = &s->frames.space;
	struct step_cache *cache = step_cache_new();
	struct step in;
	uint64_t at;
	size_t i;

	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];

		if (!strncmp(s->file->sections[c->section].name, ".plt", 4))
			continue;
		for (at = c->addr; (at = reached_next(&s->frames.reached, space, i, at)) != UINT64_MAX; at++) {
			uint64_t off = at - c->addr;

			if (!step_decode(cache, c->bytes + off, c->size - off, at, &in) ||
			    (in.flow != FLOW_RETURN && in.flow != FLOW_JUMP_IND))
				continue;
			off += in.len;
			if (!fn(ctx, c, at, in.flow == FLOW_RETURN ? BRANCH_RETURN : BRANCH_JUMP,
			        insn_is_int3(c->bytes + off, c->size - off)))
				goto out;
		}
	}
out:
	step_cache_free(cache);
}

/*
 * Counts branches. If none of the first returns has an int3 after it, the file was not built with the option, and the
 * walk ends early.
 */
static bool branch_count(void *ctx, const struct code_section *c, uint64_t addr, enum branch kind, bool stopped)
{
	struct kind_count *counts = ctx;

	(void)c;
	(void)addr;
	counts[kind].all++;
	counts[kind].stopped += stopped;
	return counts[BRANCH_RETURN].all < 8 * BUILT_LEAST || counts[BRANCH_RETURN].stopped;
}

static void function_report(struct reporter *t)
{
	int k;

	for (k = 0; k < BRANCH_KINDS; k++) {
		if (t->count[k])
			finding_add(&t->s->found, "ETCH-H005", t->section, t->first[k],
			            t->count[k] > 1 ? "no int3 after this %s and %zu more in the function"
			                            : "no int3 after this %s",
			            names[k], t->count[k] - 1);
		t->count[k] = 0;
	}
}

static bool branch_report(void *ctx, const struct code_section *c, uint64_t addr, enum branch kind, bool stopped)
{
	uint64_t at = elf_is_object(((struct reporter *)ctx)->s->file) ? addr - c->addr : addr;
	struct reporter *t = ctx;
	const struct elf_symbol *y;

	if (stopped || !t->asked[kind])
		return true;
	y = symbol_index_find(&t->symbols, c->section, at);
	if (y != t->function || c->section != t->section)
		function_report(t);
	t->function = y;
	t->section = c->section;
	if (!t->count[kind]++)
		t->first[kind] = at;
	return true;
}

void check_speculation(struct subject *s)
{
	struct kind_count counts[BRANCH_KINDS] = {0};
	struct reporter t = {.s = s};
	bool any = false;
	int k;

	if (!s->options->sls)
		branches_walk(s, branch_count, counts);
	for (k = 0; k < BRANCH_KINDS; k++) {
		t.asked[k] = s->options->sls ||
		             (counts[k].all >= BUILT_LEAST && counts[k].stopped * 100 >= counts[k].all * BUILT_PERCENT);
		any |= t.asked[k] && (s->options->sls || counts[k].stopped < counts[k].all);
	}
	if (!any)
		return;
	symbol_index_build(s->file, symbol_is_function, &t.symbols);
	branches_walk(s, branch_report, &t);
	function_report(&t);
	symbol_index_free(&t.symbols);
}
