/* SPDX-License-Identifier: MIT */
/*
 * Walks over the instructions from an address on, along jumps and branches and past calls, and follows rsp and the
 * values of registers. Every jump through a register to a continuation must have the same rsp, relative to the start;
 * then the frame at the continuation is known, whichever of these jumps leads there. If the code itself passes on
 * addresses of continuations, the walk includes them and their jumps, since the continuation that is looked for may
 * meanwhile be in another register or on the stack. What a called function does is found once for each callee.
 *
 * This walk is no domain of dataflow/solver.h: if rsp differs between two paths to an instruction, the walk has failed,
 * so states are never joined.
 */
#include "analysis/interproc/continuation_walk.h"

#include "support/hash_index.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define VISITS_MOST 8192u    /* most instructions of one walk; if there are more, nothing is proven */
#define STEPS_MOST  4000000u /* most steps of all walks over a file */
#define DEPTH_MOST  12u      /* deepest nesting of calls that are followed */
#define STACK       ETCH_REG_RSP
#define ALL         0xffffu

/* What an instruction does with registers, as far as the walk needs it. */
enum op_kind {
	OP_OTHER, /* dst and other written registers get a computed value */
	OP_COPY,  /* dst = src */
	OP_LABEL, /* dst = target, an address of code */
	OP_LOAD,  /* dst = 8 bytes loaded from the stack */
	OP_JUMP,  /* jumps to src, or calls it */
	OP_FAILS, /* moves rsp by an unknown amount, or does not decode */
};

/* An instruction, reduced to what the walk needs. uint16_t members are masks of registers. */
struct op {
	uint64_t addr, target;
	int32_t moves; /* number of bytes that it adds to rsp */
	/* Registers whose values it uses in any other way than to copy or save them, or to jump to them. */
	uint16_t uses;
	uint16_t writes;
	uint8_t len, flow, kind, dst, src;
	bool spills; /* src is saved on the stack */
};

/* What is known before an instruction, on all paths that lead to it. */
struct visit {
	uint64_t addr;
	/* rsp minus rsp at the start of the walk. */
	int32_t moved;
	uint16_t fresh; /* registers that hold on some path the value that they had at the start of the walk */
	/* Registers that hold on some path the value that they had at the start of a continuation which this code passes
	 * on. */
	uint16_t local;
	uint16_t odd; /* registers that may hold a computed number, such as an entry of a jump table */
	/* The visit is in walk_over.todo. */
	bool queued;
};

/* The state of one walk. */
struct walk_over {
	struct visit *list;
	size_t count, capacity;
	struct hash_index index;
	uint32_t *todo;
	size_t todo_count, todo_capacity;
	uint64_t *labels; /* the continuations whose addresses the code passes on */
	size_t label_count, label_capacity;
	/* `fresh` or `local` registers that have been copied to another register or to the stack. */
	uint16_t saved;
	/* `fresh` registers whose values are used for anything other than a copy, a save or a jump. */
	uint16_t used;
	bool returns_moved; /* a return has an rsp other than that of the start */
	bool keeps_all;     /* go on along paths on which no register holds its value of the start any more */
	struct passed found;
};

/* The result of a walk over the code of a callee. */
struct callee {
	uint64_t addr;
	struct passed found;
};

/* The result of a walk from an address, in which one register or all registers are followed. */
struct followed {
	uint64_t addr;
	uint64_t at;    /* as in continuation_follow_waiting(); 0: not used */
	uint16_t fresh; /* the registers that are followed */
	struct passed found;
};

struct continuation_walk {
	const struct work *w;
	struct op *ops;
	size_t op_count, op_capacity;
	struct hash_index op_index;
	struct callee *callees;
	size_t callee_count, callee_capacity;
	struct hash_index callee_index;
	struct followed *followed;
	size_t followed_count, followed_capacity;
	struct hash_index followed_index;
	unsigned steps, depth;
};

/* ---- elements by address ----------------------------------------------------------------------- */

/* Returns the index of the element whose first member, an address, equals `addr`, or HASH_INDEX_NONE. */
static uint32_t number_of(const struct hash_index *x, const void *list, size_t size, uint64_t addr)
{
	uint32_t hash = hash_word(addr), i;
	size_t at = hash;
	uint64_t key;

	while ((i = hash_index_next(x, hash, &at)) != HASH_INDEX_NONE) {
		memcpy(&key, (const char *)list + i * size, sizeof(key));
		if (key == addr)
			break;
	}
	return i;
}

/* ---- instructions ------------------------------------------------------------------------------ */

static uint16_t mask_of(unsigned r) { return r < 16 ? (uint16_t)(1u << r) : 0; }

/* Is the instruction's memory operand on the stack? */
static bool is_on_stack(const struct insn *in) { return in->base == STACK && in->index == INSN_NO_REG && !in->segment; }

static bool is_one(uint16_t mask) { return mask && !(mask & (mask - 1)); }

/* Is it a plain store of a register to the stack? */
static bool is_spill(const struct insn *in, uint16_t saved)
{
	return in->flow == FLOW_NEXT && in->mem == MEM_WRITE && in->mem_size == 8 && is_on_stack(in) && !in->writes &&
	       is_one(saved);
}

/* Sets `kind` and related members of *out for an instruction that moves rsp by a known amount, `by`. */
static void op_classify(struct continuation_walk *c, const struct insn *in, int64_t by, struct op *out)
{
	const bool plain = in->move == MOVE_NONE; /* it may be a push or a pop */
	const uint16_t saved = in->reads & (uint16_t)~mask_of(STACK);

	out->kind = OP_OTHER;
	if (in->padding) {
		out->writes = out->uses = 0;
	} else if ((in->flow == FLOW_JUMP_IND || in->flow == FLOW_CALL_IND) && in->mem == MEM_NONE) {
		out->kind = OP_JUMP;
		out->uses = 0;
	} else if (in->move == MOVE_COPY && in->src < 16) {
		out->kind = OP_COPY;
		out->uses = 0;
	} else if (in->move == MOVE_ADDRESS && in->base == INSN_PC_REG) {
		out->target = in->addr + in->len + (uint64_t)in->disp;
		out->kind = space_at(&c->w->out->space, out->target) ? OP_LABEL : OP_OTHER;
	} else if (in->move == MOVE_LOAD && is_on_stack(in)) {
		out->kind = OP_LOAD;
	} else if (by == 8 && plain && is_one(out->writes)) { /* a pop */
		out->kind = OP_LOAD;
		out->dst = (uint8_t)__builtin_ctz(out->writes);
	} else if (is_spill(in, saved) || (by == -8 && plain && in->mem == MEM_NONE && is_one(saved))) {
		out->spills = true;
		out->src = (uint8_t)__builtin_ctz(saved);
		out->uses = 0;
	}
}

/* Decodes the instruction at an address of a section into *out. */
static void op_make(struct continuation_walk *c, const struct code_section *s, uint64_t addr, struct op *out)
{
	const uint8_t *bytes = s->bytes + (addr - s->addr);
	struct insn in;
	int64_t by = 0;

	*out = (struct op){.addr = addr, .kind = OP_FAILS};
	if (!insn_decode(bytes, s->size - (addr - s->addr), addr, &in))
		return;
	out->len = in.len;
	out->flow = in.flow;
	out->target = in.target;
	out->writes = in.writes & (uint16_t)~mask_of(STACK);
	out->uses = (uint16_t)((in.reads | mask_of(in.base) | mask_of(in.index)) & ~mask_of(STACK));
	out->dst = in.dst;
	out->src = in.src;
	if ((in.reads | in.writes) & mask_of(STACK) && in.flow == FLOW_NEXT && !insn_stack_move(bytes, &in, &by) &&
	    in.writes & mask_of(STACK))
		return;
	out->moves = (int32_t)by;
	op_classify(c, &in, by, out);
}

/* Returns the instruction at an address; null if the address is not in code, or if an FDE or the PLT covers it. */
static const struct op *op_at(struct continuation_walk *c, uint64_t addr)
{
	const struct code_section *s;
	const struct code_range *p;
	uint32_t known = number_of(&c->op_index, c->ops, sizeof(*c->ops), addr);

	if (known != HASH_INDEX_NONE)
		return &c->ops[known];
	p = range_at(&c->w->env, addr);
	s = space_at(&c->w->out->space, addr);
	if (!s || (p && (p->fde >= 0 || p->plt)))
		return NULL;
	mem_reserve(&c->ops, &c->op_capacity, c->op_count, sizeof(*c->ops));
	op_make(c, s, addr, &c->ops[c->op_count]);
	hash_index_add(&c->op_index, hash_word(addr), (uint32_t)c->op_count);
	return &c->ops[c->op_count++];
}

/* ---- the walk ---------------------------------------------------------------------------------- */

/* Records that a path leads to v->addr with the state *v, and queues the visit if that adds anything. */
static void arrive(struct walk_over *o, const struct visit *v)
{
	struct visit *x;
	uint32_t i;
	bool first;

	if (!v->fresh && !o->keeps_all)
		return;
	i = number_of(&o->index, o->list, sizeof(*o->list), v->addr);
	first = i == HASH_INDEX_NONE;
	if (first) {
		mem_reserve(&o->list, &o->capacity, o->count, sizeof(*o->list));
		i = (uint32_t)o->count++;
		o->list[i] = *v;
		hash_index_add(&o->index, hash_word(v->addr), i);
	}
	x = &o->list[i];
	o->found.unsure |= x->moved != v->moved || o->count > VISITS_MOST;
	o->found.differ |= x->moved != v->moved && v->local; /* the address is inside a continuation */
	if (first || (!x->queued && ((v->fresh & ~x->fresh) | (v->local & ~x->local) | (v->odd & ~x->odd)))) {
		x->queued = true;
		mem_reserve(&o->todo, &o->todo_capacity, o->todo_count, sizeof(*o->todo));
		o->todo[o->todo_count++] = i;
	}
	x->fresh |= v->fresh;
	x->local |= v->local;
	x->odd |= v->odd;
}

/* Records jumps to continuations through the registers `by`, where rsp minus rsp at the start is `moved`. */
static void jumps_note(struct passed *p, unsigned way, uint16_t by, int32_t moved)
{
	p->differ |= p->jumps[way] && p->moved[way] != moved;
	p->unsure |= p->differ;
	p->jumps[way] = true;
	p->moved[way] = moved;
	p->by[way] |= by;
}

static void callee_find(struct continuation_walk *c, uint64_t addr, struct passed *out);

/* Follows a call: records the jumps to continuations that the callee makes, and removes the registers that it changes
 * from *v. */
static void walk_call(struct continuation_walk *c, struct walk_over *o, const struct op *in, struct visit *v)
{
	struct passed sub;
	unsigned way;

	if (in->kind == OP_JUMP && !(v->odd & mask_of(in->src))) { /* it calls a continuation */
		jumps_note(&o->found, BY_CALL, (v->fresh | v->local) & mask_of(in->src), 0);
		sub = (struct passed){0};
	} else if (in->flow == FLOW_CALL_IND || !op_at(c, in->target)) {
		sub = (struct passed){.writes = (uint16_t) ~(STEP_CALLEE_SAVED | mask_of(STACK))};
	} else {
		callee_find(c, in->target, &sub);
		o->found.unsure |= sub.unsure;
		for (way = 0; way < WAYS; way++)
			if (sub.by[way] & (v->fresh | v->local))
				jumps_note(&o->found, BY_CALL, sub.by[way] & v->fresh, sub.moved[way]);
	}
	o->found.writes |= sub.writes;
	v->fresh &= (uint16_t)~sub.writes;
	v->local &= (uint16_t)~sub.writes;
	v->odd |= sub.writes;
}

/* Applies to *v an instruction after which execution continues. */
static void walk_next(struct walk_over *o, const struct op *in, struct visit *v)
{
	uint16_t to = mask_of(in->dst), from = mask_of(in->src);
	bool odd = in->kind == OP_COPY && v->odd & from;

	o->used |= in->uses & v->fresh;
	if (in->spills || in->kind == OP_COPY) {
		o->saved |= (v->fresh | v->local) & from;
		o->keeps_all |= v->fresh & from;
	}
	if (in->kind == OP_LABEL) {
		mem_reserve(&o->labels, &o->label_capacity, o->label_count, sizeof(*o->labels));
		o->labels[o->label_count++] = in->target;
	}
	o->found.writes |= in->writes;
	v->fresh &= (uint16_t)~in->writes;
	v->local &= (uint16_t)~in->writes;
	v->odd |= in->writes;
	if ((in->kind == OP_COPY || in->kind == OP_LABEL || in->kind == OP_LOAD) && !odd)
		v->odd &= (uint16_t)~to;
	v->moved += in->moves;
}

/* Records a jump through a register or memory. */
static void walk_jump(struct walk_over *o, const struct op *in, const struct visit *v)
{
	if (in->kind != OP_JUMP || v->odd & mask_of(in->src))
		o->found.unsure = true; /* it jumps through a jump table, or a pointer loaded from memory */
	else
		jumps_note(&o->found, BY_JUMP, (v->fresh | v->local) & mask_of(in->src), v->moved);
	o->found.waits |= v->fresh & (uint16_t)~mask_of(in->src);
}

/* Follows a direct jump in a walk that follows one register. The result for the target is computed once for all code
 * that jumps there. */
static void walk_join(struct continuation_walk *c, struct walk_over *o, uint64_t target, const struct visit *v)
{
	struct passed sub;

	if (!op_at(c, target))
		return;
	callee_find(c, target, &sub);
	o->found.unsure |= sub.unsure;
	o->found.differ |= sub.differ;
	o->found.writes |= sub.writes;
	if (sub.jumps[BY_JUMP])
		jumps_note(&o->found, BY_JUMP, sub.by[BY_JUMP] & v->fresh, v->moved + sub.moved[BY_JUMP]);
	if (sub.by[BY_CALL] & v->fresh)
		jumps_note(&o->found, BY_CALL, sub.by[BY_CALL] & v->fresh, sub.moved[BY_CALL]);
}

/* Walks over the instruction of visit i. `one`: the walk follows only one register. */
static void walk_step(struct continuation_walk *c, struct walk_over *o, uint32_t i, bool one)
{
	struct visit v = o->list[i], taken;
	const struct op *at = op_at(c, v.addr);
	struct op in;

	o->list[i].queued = v.queued = false;
	if (!at)
		return; /* code with an FDE is C, for which a continuation is a function */
	in = *at;   /* a copy, since the list may be moved */
	o->found.unsure |= in.kind == OP_FAILS || ++c->steps > STEPS_MOST;
	taken = v;
	taken.addr = in.target;
	v.addr += in.len;
	switch (in.flow) {
	case FLOW_RETURN: *(v.moved ? &o->returns_moved : &o->found.returns) = true; return;
	case FLOW_STOP: return;
	case FLOW_JUMP_IND: walk_jump(o, &in, &v); return;
	case FLOW_JUMP:
		if (one)
			walk_join(c, o, in.target, &v);
		else
			arrive(o, &taken);
		return;
	case FLOW_BRANCH: arrive(o, &taken); break;
	case FLOW_CALL:
	case FLOW_CALL_IND: walk_call(c, o, &in, &v); break;
	default: walk_next(o, &in, &v); break;
	}
	arrive(o, &v);
}

/* Walks from `addr`, following the registers `fresh`, and also from the continuations whose addresses the code passes
 * on. Unless `moved` is null, sets *moved to rsp at the instruction at `at`, relative to the start; if the walk does
 * not reach that instruction, the result is unsure. */
static void walk_all(struct continuation_walk *c, uint64_t addr, uint16_t fresh, struct passed *out, uint64_t at,
                     int32_t *moved)
{
	struct walk_over o = {.keeps_all = fresh == ALL};
	struct visit first = {.addr = addr, .fresh = fresh};
	size_t i, done = 0;

	arrive(&o, &first);
	while (!o.found.unsure && (o.todo_count || (o.found.jumps[BY_JUMP] && done < o.label_count))) {
		if (o.todo_count) {
			walk_step(c, &o, o.todo[--o.todo_count], fresh != ALL);
			continue;
		}
		for (o.keeps_all = true, i = o.label_count; done < i; done++) {
			struct visit label = {.addr = o.labels[done], .moved = o.found.moved[BY_JUMP], .local = ALL};

			arrive(&o, &label);
		}
	}
	if (moved) {
		uint32_t there = number_of(&o.index, o.list, sizeof(*o.list), at);

		o.found.unsure |= there == HASH_INDEX_NONE;
		*moved = there != HASH_INDEX_NONE ? o.list[there].moved : 0;
	}
	*out = o.found;
	if (o.found.jumps[BY_JUMP]) /* one of these jumps may be through the register that holds the copy */
		out->by[BY_JUMP] |= o.saved;
	out->returns &= !o.returns_moved;
	out->waits &= (uint16_t)~o.used;
	out->by[BY_JUMP] &= (uint16_t)~o.used;
	out->by[BY_CALL] &= (uint16_t)~o.used;
	free(o.list);
	hash_index_free(&o.index);
	free(o.todo);
	free(o.labels);
}

/* Finds what the code from `addr` on does with the continuations in all registers. The result is cached. */
static void callee_find(struct continuation_walk *c, uint64_t addr, struct passed *out)
{
	uint32_t i = number_of(&c->callee_index, c->callees, sizeof(*c->callees), addr);

	if (i == HASH_INDEX_NONE) {
		mem_reserve(&c->callees, &c->callee_capacity, c->callee_count, sizeof(*c->callees));
		i = (uint32_t)c->callee_count++;
		/* This is the result for code that calls itself. */
		c->callees[i] = (struct callee){.addr = addr, .found.unsure = true};
		hash_index_add(&c->callee_index, hash_word(addr), i);
		if (c->depth < DEPTH_MOST) {
			c->depth++;
			walk_all(c, addr, ALL, out, 0, NULL);
			c->depth--;
			c->callees[i].found = *out;
		}
	}
	*out = c->callees[i].found;
}

bool continuation_returns(struct continuation_walk *c, uint64_t addr)
{
	struct passed found;

	callee_find(c, addr, &found);
	return !found.unsure && found.returns;
}

/* Returns the cached result of walk_all() for a key, or computes it. Code does not change between runs, so it is
 * computed once. */
static void follow(struct continuation_walk *c, const struct followed *key, struct passed *out)
{
	struct followed *x;
	uint32_t i = number_of(&c->followed_index, c->followed, sizeof(*c->followed), key->addr);
	int32_t moved = 0;

	if (i == HASH_INDEX_NONE) {
		mem_reserve(&c->followed, &c->followed_capacity, c->followed_count, sizeof(*c->followed));
		i = (uint32_t)c->followed_count++;
		c->followed[i] = (struct followed){.addr = key->addr};
		hash_index_add(&c->followed_index, hash_word(key->addr), i);
	}
	x = &c->followed[i];
	if (x->fresh != key->fresh || x->at != key->at) {
		*x = *key;
		walk_all(c, key->addr, key->fresh, &x->found, key->at, key->at ? &moved : NULL);
		x->found.moved[BY_JUMP] -= moved;
	}
	*out = x->found;
}

void continuation_follow(struct continuation_walk *c, uint64_t addr, unsigned r, struct passed *out)
{
	follow(c, &(struct followed){.addr = addr, .fresh = mask_of(r)}, out);
}

void continuation_follow_waiting(struct continuation_walk *c, uint64_t start, uint64_t at, struct passed *out)
{
	follow(c, &(struct followed){.addr = start, .at = at, .fresh = ALL}, out);
	out->unsure |= out->jumps[BY_CALL]; /* the address may be used by one of these calls */
}

struct continuation_walk *continuation_walk_new(const struct work *w)
{
	struct continuation_walk *c = mem_zero(1, sizeof(*c));

	c->w = w;
	return c;
}

void continuation_walk_rest(struct continuation_walk *c)
{
	free(c->ops);
	hash_index_free(&c->op_index);
	c->ops = NULL;
	c->op_count = c->op_capacity = 0;
}

void continuation_walk_free(struct continuation_walk *c)
{
	if (!c)
		return;
	continuation_walk_rest(c);
	free(c->callees);
	hash_index_free(&c->callee_index);
	free(c->followed);
	hash_index_free(&c->followed_index);
	free(c);
}
