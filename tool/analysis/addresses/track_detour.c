/* SPDX-License-Identifier: MIT */
/*
 * Handles jumps into code of another function that does nothing but jump back, such as the cold part of the function in
 * .text.unlikely. Registers that this code does not touch have the same values afterwards as before. The walk collects
 * which registers a few instructions touch. It visits each instruction once and joins nothing, so it is no domain of
 * dataflow/solver.h.
 */
#include "analysis/addresses/track_internal.h"

#include <etch/orc.h>

#include "elf/file.h"
#include "support/memory.h"

#include <stdlib.h>

/* Limit for the number of instructions of a detour. */
#define DETOUR_MOST 64u

/* The walk over a detour. */
struct walk {
	const struct track *t;
	const struct func_code *code; /* the instructions of the function to which the jump leads */
	struct detour *out;
	size_t todo[DETOUR_MOST], todo_count; /* indexes of the instructions to visit, each listed once */
};

/* Adds i to a list, unless it is there already. Returns false if the list is full. */
static bool index_add(size_t *list, size_t *count, size_t i)
{
	size_t k;

	for (k = 0; k < *count; k++)
		if (list[k] == i)
			return true;
	if (*count == DETOUR_MOST)
		return false;
	list[(*count)++] = i;
	return true;
}

/* Adds the target of a jump, which must be in the tracked function or in the same function as the jump. Returns false
 * if it is in neither, or if there are too many. */
static bool target_add(struct walk *w, const struct insn *in)
{
	uint64_t addr = in->target;
	size_t i = func_insn_at(w->t->f->code, addr);

	if (i != SIZE_MAX) {
		if (w->out->count == DETOUR_BACK_MOST)
			return false;
		w->out->from[w->out->count] = in->addr;
		w->out->back[w->out->count++] = i;
		return true;
	}
	i = func_insn_at(w->code, addr);
	return i != SIZE_MAX && index_add(w->todo, &w->todo_count, i);
}

/* May an instruction fault when it accesses memory? Then control might continue at a fixup or a landing pad. */
static bool may_fault(const struct insn *in)
{
	bool frame = in->base == ETCH_REG_RSP || in->base == ETCH_REG_RBP, fixed = in->base == INSN_PC_REG;

	return in->string || (in->mem != MEM_NONE && (!(frame || fixed) || in->index != INSN_NO_REG));
}

/* Follows one instruction. Returns false if it calls, returns, moves the stack pointer, may fault, or is not
 * understood. */
static bool insn_follow(struct walk *w, size_t i)
{
	const struct insn *in = &w->code->insns[i];

	if (may_fault(in) || in->barrier || in->writes >> ETCH_REG_RSP & 1)
		return false;
	w->out->touched |= insn_uses(in) | in->writes;
	switch (in->flow) {
	case FLOW_STOP: return true;
	case FLOW_JUMP: return target_add(w, in);
	case FLOW_BRANCH:
		if (!target_add(w, in))
			return false;
		break;
	case FLOW_NEXT: break;
	default: return false;
	}
	return i + 1 < w->code->count && index_add(w->todo, &w->todo_count, i + 1);
}

bool track_detour(const struct track *t, const struct insn *in, struct detour *out)
{
	struct func_clobbers *c = t->f->clobbers;
	struct func_code spare = {0};
	struct walk w = {.t = t, .out = out};
	size_t first, i;
	bool ok;

	*out = (struct detour){0};
	if (!c || in->callee < 0 || elf_is_object(c->file) || &c->list->funcs[in->callee] == t->f->fn)
		return false;
	w.code = func_code_of(c->list, (size_t)in->callee, &spare);
	first = func_insn_at(w.code, in->entry);
	ok = first != SIZE_MAX && index_add(w.todo, &w.todo_count, first);
	for (i = 0; i < w.todo_count && ok; i++)
		ok = insn_follow(&w, w.todo[i]);
	func_code_free(&spare);
	return ok;
}

/* The jumps out of the function that begin detours. */
struct ways {
	struct way {
		uint32_t part; /* number of the function to which the jump leads */
		struct detour detour;
	} * list;
	size_t count, capacity;
};

static void ways_find(const struct track *t, struct ways *out)
{
	const struct func_code *c = t->f->code;
	size_t i;

	for (i = 0; i < c->count; i++) {
		const struct insn *in = &c->insns[i];

		if (!func_is_jump(in) || in->callee < 0 || !t->f->entries->ways[in->callee])
			continue;
		mem_reserve(&out->list, &out->capacity, out->count, sizeof(*out->list));
		if (track_detour(t, in, &out->list[out->count].detour))
			out->list[out->count++].part = (uint32_t)in->callee;
	}
}

/* Do all jumps to the part begin detours, and does one of these detours jump back by x? */
static bool return_is_followed(const struct track *t, const struct ways *w, const struct track_return *x)
{
	uint32_t followed = 0;
	bool passed = false;
	size_t i, k;

	for (i = 0; i < w->count; i++) {
		if (w->list[i].part != x->part)
			continue;
		followed++;
		for (k = 0; k < w->list[i].detour.count; k++)
			passed |= w->list[i].detour.from[k] == x->insn;
	}
	return passed && followed == t->f->entries->ways[x->part];
}

void track_detours_back(struct track *t)
{
	const struct track_entries *x = t->f->entries;
	struct ways w = {0};
	bool any = false;
	size_t i, k;

	if (!x->return_count || x->anywhere || !t->f->clobbers || t->f->fn->vague)
		return;
	ways_find(t, &w);
	t->by_detour = mem_zero(x->count + 1, sizeof(*t->by_detour));
	for (i = 0; i < x->count; i++) {
		t->by_detour[i] = x->by_part[i];
		for (k = 0; k < x->return_count; k++)
			if (x->returns[k].to == x->list[i])
				t->by_detour[i] &= return_is_followed(t, &w, &x->returns[k]);
		any |= t->by_detour[i];
	}
	free(w.list);
	if (any)
		return;
	free(t->by_detour);
	t->by_detour = NULL;
}
