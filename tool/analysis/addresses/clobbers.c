/* SPDX-License-Identifier: MIT */
/* Clobbered registers by recursion over direct calls; live registers by a backward dataflow over one function. */
#include "analysis/addresses/clobbers.h"

#include <stdlib.h>
#include <string.h>

/* Calls nested deeper than this are assumed to clobber all that the ABI allows. */
#define CLOBBER_DEPTH 8u

int func_clobbers_init(struct func_clobbers *c, const struct elf_file *f, const struct func_list *l, struct error *e)
{
	*c = (struct func_clobbers){.file = f,
	                            .list = l,
	                            .known = calloc(l->count + 1, 1),
	                            .vague = calloc(l->count + 1, sizeof(bool)),
	                            .lives = calloc(l->count + 1, sizeof(*c->lives)),
	                            .mask = calloc(l->count + 1, sizeof(uint16_t))};
	return c->known && c->vague && c->mask && c->lives ? 0 : error_set(e, "out of memory");
}

static void lives_free(struct func_lives *l);

void func_clobbers_free(struct func_clobbers *c)
{
	size_t i;

	for (i = 0; c->lives && i < c->list->count; i++)
		lives_free(c->lives[i]);
	free(c->lives);
	free(c->known);
	free(c->vague);
	free(c->mask);
	memset(c, 0, sizeof(*c));
}

uint16_t func_clobbers(struct func_clobbers *c, int32_t callee, struct error *e)
{
	const struct func *fn = &c->list->funcs[callee];
	struct func_code code = {0};
	uint16_t mask = 0, all = insn_call_clobbers();
	size_t i;

	if (c->known[callee] == 2)
		return c->mask[callee];
	if (c->known[callee] == 1 || c->depth >= CLOBBER_DEPTH)
		return all;
	c->known[callee] = 1;
	c->depth++;
	c->vague[callee] = fn->vague;
	if (func_decode(fn, &code, e) || !code.whole) {
		mask = all;
		c->vague[callee] = true;
	}
	for (i = 0; i < code.count && mask != all; i++) {
		const struct insn *in = &code.insns[i];
		bool pending = elf_is_object(c->file) && in->imm == 0; /* the target is in its relocation */
		const struct func *to;

		mask |= in->writes & all;
		if (in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND)
			mask = all;
		if (in->flow != FLOW_CALL && in->flow != FLOW_JUMP && in->flow != FLOW_BRANCH)
			continue;
		if (!pending && in->flow != FLOW_CALL && in->target >= fn->start && in->target < fn->end)
			continue;
		to = pending ? NULL
		             : func_find(c->list, elf_is_object(c->file) ? fn->section : elf_section_at(c->file, in->target),
		                         in->target);
		mask |= to && to->start == in->target ? func_clobbers(c, (int32_t)(to - c->list->funcs), e) : all;
		c->vague[callee] |= to && (to->vague || c->vague[to - c->list->funcs]);
	}
	c->depth--;
	c->known[callee] = 2;
	c->mask[callee] = mask;
	func_code_free(&code);
	return mask;
}

/* All registers that an instruction reads, also for addresses. */
static uint16_t uses(const struct insn *in)
{
	uint16_t mask = in->reads;

	if (in->base < 16)
		mask |= (uint16_t)(1u << in->base);
	if (in->index < 16)
		mask |= (uint16_t)(1u << in->index);
	return mask;
}

/* Transfer function: live registers before instruction i, from those before its successors. */
static uint16_t live_before(const struct func_clobbers *c, const struct func *fn, const struct func_code *code,
                            const uint16_t *live, size_t i)
{
	const struct insn *in = &code->insns[i];
	bool pending = elf_is_object(c->file) && in->imm == 0;
	uint16_t after = i + 1 < code->count ? live[i + 1] : 0xffff, there;
	uint16_t kept = (uint16_t)~insn_call_clobbers();
	bool inside = !pending && in->target >= fn->start && in->target < fn->end;
	size_t to = inside ? func_insn_at(code, in->target) : SIZE_MAX;

	switch (in->flow) {
	case FLOW_CALL:
	case FLOW_CALL_IND: return uses(in) | insn_call_arguments() | (after & kept);
	case FLOW_RETURN: return insn_return_values() | kept;
	case FLOW_STOP: return 0;
	case FLOW_JUMP_IND: return 0xffff;
	case FLOW_JUMP:
	case FLOW_BRANCH:
		there = to != SIZE_MAX ? live[to] : inside || in->flow == FLOW_BRANCH ? 0xffff : insn_call_arguments() | kept;
		return uses(in) | there | (in->flow == FLOW_BRANCH ? after : 0);
	default: return uses(in) | (after & (uint16_t)~in->writes);
	}
}

/* Predecessors by jumps within a function: the jumps to instruction i are from[first[i]] up to from[first[i + 1]],
 * exclusive. */
struct arrivals {
	uint32_t *first, *from;
};

/* Index of the instruction that a direct jump leads to inside its function, or SIZE_MAX. */
static size_t leads_to(const struct func_clobbers *c, const struct func *fn, const struct func_code *code, size_t i)
{
	const struct insn *in = &code->insns[i];
	bool pending = elf_is_object(c->file) && in->imm == 0;

	if ((in->flow != FLOW_JUMP && in->flow != FLOW_BRANCH) || pending || in->target < fn->start ||
	    in->target >= fn->end)
		return SIZE_MAX;
	return func_insn_at(code, in->target);
}

static bool arrivals_find(const struct func_clobbers *c, const struct func *fn, const struct func_code *code,
                          struct arrivals *out)
{
	size_t i, to;

	out->first = calloc(code->count + 2, sizeof(*out->first));
	out->from = calloc(code->count + 1, sizeof(*out->from));
	if (!out->first || !out->from)
		return false;
	for (i = 0; i < code->count; i++)
		if ((to = leads_to(c, fn, code, i)) != SIZE_MAX)
			out->first[to + 2]++;
	for (i = 2; i < code->count + 2; i++)
		out->first[i] += out->first[i - 1];
	for (i = 0; i < code->count; i++)
		if ((to = leads_to(c, fn, code, i)) != SIZE_MAX)
			out->from[out->first[to + 1]++] = (uint32_t)i;
	return true;
}

/* Live registers before each instruction: a worklist, first of all instructions from last to first, then of the
 * predecessors of those whose set has grown, to the fixpoint. False: out of memory. */
static bool live_solve(const struct func_clobbers *c, const struct func *fn, const struct func_code *code,
                       uint16_t *live)
{
	struct arrivals by = {0};
	uint32_t *todo = calloc(code->count + 1, sizeof(*todo));
	bool *queued = calloc(code->count + 1, sizeof(*queued)), ok;
	size_t n = 0, i, k;

	ok = todo && queued && arrivals_find(c, fn, code, &by);
	for (i = 0; ok && i < code->count; i++) {
		todo[n++] = (uint32_t)i;
		queued[i] = true;
	}
	while (n) {
		uint16_t mask;

		i = todo[--n];
		queued[i] = false;
		mask = live[i] | live_before(c, fn, code, live, i);
		if (mask == live[i])
			continue;
		live[i] = mask;
		for (k = by.first[i]; k < by.first[i + 1]; k++)
			if (!queued[by.from[k]]) {
				queued[by.from[k]] = true;
				todo[n++] = by.from[k];
			}
		if (i && !queued[i - 1]) {
			queued[i - 1] = true;
			todo[n++] = (uint32_t)i - 1;
		}
	}
	free(todo);
	free(queued);
	free(by.first);
	free(by.from);
	return ok;
}

/* The live registers of one function, for func_live(). */
struct func_lives {
	size_t count;   /* number of instructions; 0: the function could not be decoded */
	uint32_t *at;   /* per instruction: its offset in the function */
	uint16_t *live; /* per instruction: mask of live registers before it */
};

static void lives_free(struct func_lives *l)
{
	if (l) {
		free(l->at);
		free(l->live);
	}
	free(l);
}

static struct func_lives *lives_find(const struct func_clobbers *c, const struct func *fn, struct error *e)
{
	struct func_lives *l = calloc(1, sizeof(*l));
	struct func_code code = {0};
	bool ok = l != NULL;
	size_t i;

	if (ok && !func_decode(fn, &code, e) && code.whole && fn->end - fn->start <= UINT32_MAX) {
		l->at = calloc(code.count + 1, sizeof(*l->at));
		l->live = calloc(code.count + 1, sizeof(*l->live));
		ok = l->at && l->live && live_solve(c, fn, &code, l->live);
		for (i = 0; ok && i < code.count; i++)
			l->at[i] = (uint32_t)(code.insns[i].addr - fn->start);
		l->count = code.count;
	}
	func_code_free(&code);
	if (ok)
		return l;
	lives_free(l);
	error_set(e, "out of memory");
	return NULL;
}

uint16_t func_live(const struct func_clobbers *c, int32_t number, uint64_t addr, struct error *e)
{
	const struct func *fn = &c->list->funcs[number];
	struct func_lives *l = c->lives[number];
	size_t lo = 0, hi;

	if (!l)
		l = c->lives[number] = lives_find(c, fn, e);
	hi = l ? l->count : 0;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (fn->start + l->at[mid] < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return l && lo < l->count && fn->start + l->at[lo] == addr ? l->live[lo] : 0xffff;
}
