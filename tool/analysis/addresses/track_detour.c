/* SPDX-License-Identifier: MIT */
/*
 * Branches into code of another function that only leads back, as into a function's cold part in .text.unlikely: the
 * registers that it does not touch hold behind it what they held in front of it.
 */
#include "analysis/addresses/track_internal.h"

#include <etch/orc.h>

#include "elf/file.h"

/* Instructions of such code that are followed. */
#define DETOUR_MOST 64u

struct walk {
	const struct track *t;
	const struct func_code *code; /* of the function that the branch leads to */
	struct detour *out;
	size_t todo[DETOUR_MOST], todo_count; /* instructions, each once */
};

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

/* The target of a jump: in the tracked function, or in the other one. */
static bool target_add(struct walk *w, uint64_t addr)
{
	size_t i = func_insn_at(w->t->f->code, addr);

	if (i != SIZE_MAX) {
		if (w->out->count == DETOUR_BACK_MOST)
			return false;
		w->out->back[w->out->count++] = i;
		return true;
	}
	i = func_insn_at(w->code, addr);
	return i != SIZE_MAX && index_add(w->todo, &w->todo_count, i);
}

/* Does it access memory where it may fault, and perhaps go on at a fixup or a landing pad? */
static bool may_fault(const struct insn *in)
{
	bool frame = in->base == ETCH_REG_RSP || in->base == ETCH_REG_RBP, fixed = in->base == INSN_PC_REG;

	return in->string || (in->mem != MEM_NONE && (!(frame || fixed) || in->index != INSN_NO_REG));
}

/* Follows one instruction. False: it calls, returns, moves the stack pointer, may fault, or is not understood. */
static bool insn_follow(struct walk *w, size_t i)
{
	const struct insn *in = &w->code->insns[i];

	if (may_fault(in) || in->barrier || in->writes >> ETCH_REG_RSP & 1)
		return false;
	w->out->touched |= insn_uses(in) | in->writes;
	switch (in->flow) {
	case FLOW_STOP: return true;
	case FLOW_JUMP: return target_add(w, in->target);
	case FLOW_BRANCH:
		if (!target_add(w, in->target))
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
