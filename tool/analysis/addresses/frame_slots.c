/* SPDX-License-Identifier: MIT */
/*
 * Tracks the stack pointer from the entry of a function, and the words that are read relative to it (track_internal.h).
 * Each instruction is visited once: if two paths lead to an instruction with different stack pointers, the search
 * fails. So there is nothing to join, and this is no domain of dataflow/solver.h.
 */
#include "analysis/addresses/track_internal.h"

#include <etch/orc.h>

#include "support/memory.h"

#include <stdlib.h>

/* The state of the search. */
struct frame {
	const struct track_func *f;
	int64_t *depth; /* per instruction: the stack pointer before it minus the stack pointer at the entry */
	/* Per instruction: `depth` is known. */
	uint8_t *known;
	size_t *todo, count;
	bool framed; /* rbp may hold an address in the frame */
};

/* Records that control gets to instruction `to` with stack pointer `depth`. Returns false if it is known to get there
 * with another one. */
static bool frame_pass(struct frame *x, size_t to, int64_t depth)
{
	if (to >= x->f->code->count)
		return false;
	if (x->known[to])
		return x->depth[to] == depth;
	x->known[to] = 1;
	x->depth[to] = depth;
	x->todo[x->count++] = to;
	return true;
}

/* Follows an indirect jump: either it leads to the targets of the function's jump tables, or it is a tail call. */
static bool frame_pass_switch(struct frame *x, int64_t depth)
{
	const struct track_entries *e = x->f->entries;
	bool some = false;
	size_t k;

	for (k = 0; k < e->count; k++) {
		size_t to = func_insn_at(x->f->code, e->list[k]);

		if (to == SIZE_MAX)
			continue;
		if (!frame_pass(x, to, depth))
			return false;
		some = true;
	}
	return some || !depth;
}

static bool frame_step(struct frame *x, size_t k)
{
	const struct insn *in = &x->f->code->insns[k];
	int64_t depth = x->depth[k], by = 0;
	bool inside = func_holds(x->f->fn, in->target);

	if (!insn_stack_move(func_bytes_of(x->f->fn, in), in, &by))
		return false;
	depth += by;
	if (func_is_jump(in)) {
		if (inside ? !frame_pass(x, func_insn_at(x->f->code, in->target), depth) : depth != 0)
			return false; /* a part of this function that lies elsewhere may read the frame */
	}
	if (in->flow == FLOW_JUMP_IND && !frame_pass_switch(x, depth))
		return false;
	if (k + 1 == x->f->code->count && (in->flow == FLOW_CALL || in->padding))
		return true; /* this call does not return */
	return !func_falls_through(in) || frame_pass(x, k + 1, depth);
}

/* Finds the stack pointer before each instruction. Returns false if it is unknown before any of them. */
static bool frame_find(struct frame *x)
{
	const struct track_func *f = x->f;
	size_t k, i;
	bool known = frame_pass(x, 0, 0);

	for (k = 0; k < f->entries->count; k++)
		known &= f->entries->by_table[k] || func_insn_at(f->code, f->entries->list[k]) == SIZE_MAX;
	for (i = 0; known && i < x->count; i++)
		known = frame_step(x, x->todo[i]);
	for (k = 0; known && k < f->code->count; k++)
		known = x->known[k] || f->code->insns[k].padding;
	return known;
}

/* May instruction k read one of the 8 bytes at `slot`, or copy the stack pointer to a register? */
static bool may_read(const struct frame *x, size_t k, int64_t slot)
{
	const struct insn *in = &x->f->code->insns[k];
	int64_t at = x->depth[k] + in->disp, by;

	if (in->padding)
		return false;
	if (in->move == MOVE_COPY && in->src == ETCH_REG_RSP)
		return true;
	if (insn_stack_move(func_bytes_of(x->f->fn, in), in, &by) && by == 8 && in->move == MOVE_NONE &&
	    x->depth[k] < slot + 8 && slot < x->depth[k] + 8)
		return true; /* a pop */
	if ((in->base == ETCH_REG_RBP || in->index == ETCH_REG_RBP) && (in->mem == MEM_READ || in->mem == MEM_UPDATE))
		return x->framed;
	if ((in->mem != MEM_READ && in->mem != MEM_UPDATE) || (in->base != ETCH_REG_RSP && in->index != ETCH_REG_RSP))
		return false;
	return in->index != INSN_NO_REG || !in->mem_size || (at < slot + 8 && slot < at + in->mem_size);
}

bool frame_slot_is_variable(const struct track_func *f, size_t i)
{
	const struct insn *in = &f->code->insns[i];
	size_t n = f->code->count, k;
	struct frame x;
	bool variable;

	if (in->mem != MEM_WRITE || in->mem_size != 8 || in->base != ETCH_REG_RSP || in->index != INSN_NO_REG ||
	    in->segment || !f->code->whole || f->fn->vague || f->entries->anywhere || f->entries->pad_count ||
	    f->entries->fault_count)
		return false;
	x = (struct frame){
		f, mem_zero(n + 1, sizeof(*x.depth)), mem_zero(n + 1, 1), mem_alloc(n + 1, sizeof(*x.todo)), 0, false};
	variable = frame_find(&x);
	for (k = 0; k < n && !x.framed; k++)
		x.framed = f->code->insns[k].move == MOVE_ADDRESS && f->code->insns[k].dst == ETCH_REG_RBP &&
		           f->code->insns[k].base == ETCH_REG_RSP;
	for (k = 0; k < n && variable; k++)
		variable = !may_read(&x, k, x.depth[i] + in->disp);
	free(x.depth);
	free(x.known);
	free(x.todo);
	return variable;
}

/* The pushed word must be overwritten within this many instructions. */
#define OVERWRITE_REACH 16

/* Does an instruction certainly read no memory in the `size` bytes at rsp? */
static bool reads_elsewhere(const struct insn *in, int64_t size)
{
	if (in->mem != MEM_READ && in->mem != MEM_UPDATE)
		return true;
	if (in->index != INSN_NO_REG || !in->mem_size || in->segment)
		return false;
	if (in->base == ETCH_REG_RSP)
		return in->disp >= size || in->disp + (int64_t)in->mem_size <= 0;
	return in->base == INSN_PC_REG;
}

/* Is an instruction a push of a register? */
static bool is_register_push(const struct track_func *f, const struct insn *in)
{
	int64_t by;

	return in->mem == MEM_NONE && in->move == MOVE_NONE && !in->newer && (in->writes >> ETCH_REG_RSP & 1) &&
	       insn_stack_move(func_bytes_of(f->fn, in), in, &by) && by == -8;
}

/* Returns the number of the 8 bytes at rsp that an instruction overwrites; 0 or less if it overwrites none. */
static int64_t overwritten_at_top(const struct insn *in)
{
	int64_t from = in->disp > 0 ? in->disp : 0;
	int64_t to = in->disp + (int64_t)in->mem_size < 8 ? in->disp + (int64_t)in->mem_size : 8;

	if (in->mem != MEM_WRITE || in->base != ETCH_REG_RSP || in->index != INSN_NO_REG || in->segment)
		return 0;
	return to - from;
}

bool frame_push_is_overwritten(const struct track_func *f, size_t i)
{
	const struct insn *in;
	size_t k;

	if (f->entries->fault_count || !is_register_push(f, &f->code->insns[i]))
		return false;
	for (k = i + 1; k < f->code->count && k <= i + OVERWRITE_REACH; k++) {
		in = &f->code->insns[k];
		if (in->flow != FLOW_NEXT || in->newer || in->string || (in->writes >> ETCH_REG_RSP & 1) ||
		    !reads_elsewhere(in, 8))
			return false;
		if (overwritten_at_top(in) >= 4)
			return true;
	}
	return false;
}
