/* SPDX-License-Identifier: MIT */
/* Finds the registers that calls may change, by recursion over direct calls; and the live registers, by a backward
 * analysis of one function with the dataflow solver. */
#include "analysis/addresses/clobbers.h"

#include "analysis/dataflow/solver.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

/* Calls that are nested more deeply than this are assumed to change all registers that the ABI allows. */
#define CLOBBER_DEPTH 8u

void func_clobbers_init(struct func_clobbers *c, const struct elf_file *f, struct func_list *l)
{
	*c = (struct func_clobbers){.file = f,
	                            .list = l,
	                            .known = mem_zero(l->count + 1, 1),
	                            .vague = mem_zero(l->count + 1, sizeof(bool)),
	                            .lives = mem_zero(l->count + 1, sizeof(*c->lives)),
	                            .mask = mem_zero(l->count + 1, sizeof(uint16_t))};
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

/* Is the target of a direct jump or call unknown, because only a relocation has it? */
static bool is_pending(const struct func_clobbers *c, const struct insn *in)
{
	return elf_is_object(c->file) && in->imm == 0;
}

/* Does a direct jump lead into its own function? Returns false if a relocation has its target. */
static bool stays_inside(const struct func_clobbers *c, const struct func *fn, const struct insn *in)
{
	return func_is_jump(in) && !is_pending(c, in) && func_holds(fn, in->target);
}

/* Returns the function that contains the target of a direct jump or call in function fn, or null if there is none or it
 * is unknown. */
static const struct func *target_function(const struct func_clobbers *c, const struct func *fn, const struct insn *in)
{
	uint32_t section = elf_is_object(c->file) ? fn->section : elf_section_at(c->file, in->target);

	return is_pending(c, in) ? NULL : func_find(c->list, section, in->target);
}

/* Returns the mask of the registers that an instruction of function `callee` may change, including those that the
 * function to which it leads may change. */
static uint16_t insn_clobbers(struct func_clobbers *c, int32_t callee, const struct insn *in)
{
	const uint16_t all = insn_call_clobbers();
	const struct func *fn = &c->list->funcs[callee], *to;
	uint16_t mask = in->writes & all;

	if (in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND)
		return all;
	if ((in->flow != FLOW_CALL && !func_is_jump(in)) || stays_inside(c, fn, in))
		return mask;
	to = target_function(c, fn, in);
	if (!to)
		return all;
	mask |= to->start == in->target ? func_clobbers(c, (int32_t)(to - c->list->funcs)) : all;
	c->vague[callee] |= to->vague || c->vague[to - c->list->funcs];
	return mask;
}

uint16_t func_clobbers(struct func_clobbers *c, int32_t callee)
{
	const struct func *fn = &c->list->funcs[callee];
	const struct func_code *code;
	struct func_code spare = {0};
	uint16_t mask = 0, all = insn_call_clobbers();
	size_t i;

	if (c->known[callee] == 2)
		return c->mask[callee];
	if (c->known[callee] == 1 || c->depth >= CLOBBER_DEPTH)
		return all;
	c->known[callee] = 1;
	c->depth++;
	c->vague[callee] = fn->vague;
	code = func_code_of(c->list, (size_t)callee, &spare);
	if (!code->whole) {
		mask = all;
		c->vague[callee] = true;
	}
	for (i = 0; i < code->count && mask != all; i++)
		mask |= insn_clobbers(c, callee, &code->insns[i]);
	c->depth--;
	c->known[callee] = 2;
	c->mask[callee] = mask;
	func_code_free(&spare);
	return mask;
}

/* The domain of the analysis of live registers in one function. It is a backward analysis whose nodes are
 * instructions. */
struct liveness {
	const struct func_clobbers *c;
	const struct func *fn;
	const struct func_code *code;
	uint16_t *after; /* per instruction: mask of the registers that are live after it */
	/* The direct jumps that lead to instruction i have the indexes from[first[i]], ..., up to but not including
	 * from[first[i + 1]]. */
	uint32_t *first, *from;
	struct worklist list;
};

/* Returns the index of the instruction to which direct jump i leads inside its function, or SIZE_MAX. */
static size_t leads_to(const struct liveness *l, size_t i)
{
	const struct insn *in = &l->code->insns[i];

	return stays_inside(l->c, l->fn, in) ? func_insn_at(l->code, in->target) : SIZE_MAX;
}

/* Returns the initial state of a node: the registers that are live after instruction i because code outside of the
 * function may read them. */
static uint16_t live_outside(const struct liveness *l, size_t i)
{
	const struct insn *in = &l->code->insns[i];
	uint16_t kept = (uint16_t)~insn_call_clobbers(), last = i + 1 < l->code->count ? 0 : 0xffff;

	switch (in->flow) {
	case FLOW_RETURN: return insn_return_values() | kept;
	case FLOW_STOP: return 0;
	case FLOW_JUMP_IND: return 0xffff;
	case FLOW_JUMP:
	case FLOW_BRANCH:
		if (leads_to(l, i) == SIZE_MAX)
			return stays_inside(l->c, l->fn, in) || in->flow == FLOW_BRANCH ? 0xffff : insn_call_arguments() | kept;
		return in->flow == FLOW_BRANCH ? last : 0;
	default: return last;
	}
}

/* Returns the registers that are live before instruction i. */
static uint16_t live_before(const struct liveness *l, size_t i)
{
	const struct insn *in = &l->code->insns[i];
	uint16_t after = l->after[i], kept = (uint16_t)~insn_call_clobbers();

	switch (in->flow) {
	case FLOW_CALL:
	case FLOW_CALL_IND: return insn_uses(in) | insn_call_arguments() | (after & kept);
	case FLOW_RETURN:
	case FLOW_STOP:
	case FLOW_JUMP_IND: return after;
	case FLOW_JUMP:
	case FLOW_BRANCH: return insn_uses(in) | after;
	default: return insn_uses(in) | (after & (uint16_t)~in->writes);
	}
}

static bool live_join(void *ctx, uint32_t i, const void *state)
{
	struct liveness *l = ctx;
	uint16_t mask = l->after[i] | *(const uint16_t *)state;

	if (mask == l->after[i])
		return false;
	l->after[i] = mask;
	return true;
}

static void live_transfer(void *ctx, uint32_t i);
static const struct dataflow_domain live_registers = {.join = live_join, .transfer = live_transfer};

/* Passes the registers that are live before instruction i to the instructions that lead to it. */
static void live_transfer(void *ctx, uint32_t i)
{
	struct liveness *l = ctx;
	uint16_t before = live_before(l, i);
	uint32_t k;

	for (k = l->first[i]; k < l->first[i + 1]; k++)
		dataflow_pass(&live_registers, &l->list, l, l->from[k], &before);
	if (i && func_falls_through(&l->code->insns[i - 1]))
		dataflow_pass(&live_registers, &l->list, l, i - 1, &before);
}

static void jumps_find(struct liveness *l)
{
	size_t n = l->code->count, i, to;

	for (i = 0; i < n; i++)
		if ((to = leads_to(l, i)) != SIZE_MAX)
			l->first[to + 2]++;
	for (i = 2; i < n + 2; i++)
		l->first[i] += l->first[i - 1];
	for (i = 0; i < n; i++)
		if ((to = leads_to(l, i)) != SIZE_MAX)
			l->from[l->first[to + 1]++] = (uint32_t)i;
}

/* Sets live[k], for each instruction k, to the mask of the registers that are live before it. */
static void live_solve(const struct func_clobbers *c, const struct func *fn, const struct func_code *code,
                       uint16_t *live)
{
	struct liveness l = {.c = c,
	                     .fn = fn,
	                     .code = code,
	                     .after = mem_zero(code->count + 1, sizeof(*l.after)),
	                     .first = mem_zero(code->count + 2, sizeof(*l.first)),
	                     .from = mem_zero(code->count + 1, sizeof(*l.from))};
	size_t i;

	jumps_find(&l);
	for (i = 0; i < code->count; i++) {
		l.after[i] = live_outside(&l, i);
		dataflow_visit(&live_registers, &l.list, &l, (uint32_t)i);
	}
	dataflow_solve(&live_registers, &l.list, &l);
	for (i = 0; i < code->count; i++)
		live[i] = live_before(&l, i);
	free(l.after);
	free(l.first);
	free(l.from);
	worklist_free(&l.list);
}

/* The live registers at each instruction of one function, for func_live(). */
struct func_lives {
	size_t count;   /* number of instructions; 0 if the function could not be decoded */
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

static struct func_lives *lives_find(const struct func_clobbers *c, size_t number)
{
	const struct func *fn = &c->list->funcs[number];
	struct func_lives *l = mem_zero(1, sizeof(*l));
	struct func_code spare = {0};
	const struct func_code *code = func_code_of(c->list, number, &spare);
	size_t i;

	if (code->whole && fn->end - fn->start <= UINT32_MAX) {
		l->at = mem_zero(code->count + 1, sizeof(*l->at));
		l->live = mem_zero(code->count + 1, sizeof(*l->live));
		live_solve(c, fn, code, l->live);
		for (i = 0; i < code->count; i++)
			l->at[i] = (uint32_t)(code->insns[i].addr - fn->start);
		l->count = code->count;
	}
	func_code_free(&spare);
	return l;
}

uint16_t func_live(const struct func_clobbers *c, int32_t number, uint64_t addr)
{
	const struct func *fn = &c->list->funcs[number];
	struct func_lives *l = c->lives[number];
	size_t at;

	if (!l)
		l = c->lives[number] = lives_find(c, (size_t)number);
	at = SEARCH(l->count, i, fn->start + l->at[i] < addr);
	return at < l->count && fn->start + l->at[at] == addr ? l->live[at] : 0xffff;
}
