/* SPDX-License-Identifier: MIT */
#include "code/flow_parts.h"
#include "code/haskell.h"
#include "code/vector.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ----------------------------------------------------------------- */

static bool steps_grow(struct flow *f)
{
	size_t want = f->step_room ? 2 * f->step_room : 1024;
	void *a = realloc(f->steps, want * sizeof(*f->steps));
	void *b, *c, *d;

	if (a)
		f->steps = a;
	b = realloc(f->step_at, want * sizeof(*f->step_at));
	if (b)
		f->step_at = b;
	c = realloc(f->leader, want * sizeof(*f->leader));
	if (c)
		f->leader = c;
	d = realloc(f->seen, want);
	if (d)
		f->seen = d;
	if (!a || !b || !c || !d)
		return false;
	f->step_room = want;
	return true;
}

static bool states_grow(struct flow *f)
{
	size_t want = f->state_room ? 2 * f->state_room : 128;
	void *a = realloc(f->states, want * sizeof(*f->states));
	void *b, *c;

	if (a)
		f->states = a;
	b = realloc(f->state_live, want);
	if (b)
		f->state_live = b;
	c = realloc(f->state_step, want * sizeof(*f->state_step));
	if (c)
		f->state_step = c;
	if (!a || !b || !c)
		return false;
	f->state_room = want;
	return true;
}

void flow_free(struct flow *f)
{
	step_cache_free(f->cache);
	free(f->at);
	free(f->starts);
	free(f->steps);
	free(f->step_at);
	free(f->leader);
	free(f->seen);
	free(f->states);
	free(f->state_live);
	free(f->state_step);
	free(f->heap);
	free(f->todo);
	free(f->pads);
	free(f->jumps);
	free(f->table_at);
	free(f->table_sorted);
	free(f->inner);
	free(f->paths);
	free(f->fresh_jumps);
	free(f->dead);
	free(f->edges);
	free(f->edge_hash);
	free(f->exits);
	memset(f, 0, sizeof(*f));
}

/* ---- leaders to walk from, the lowest first: nearly every path goes down ------ */

static void heap_push(struct flow *f, uint32_t off)
{
	size_t i, up;

	if (!room_make(&f->heap, &f->heap_room, f->heap_count, sizeof(*f->heap))) {
		f->failed = true;
		return;
	}
	for (i = f->heap_count++; i && f->heap[up = (i - 1) / 2] > off; i = up)
		f->heap[i] = f->heap[up];
	f->heap[i] = off;
}

static uint32_t heap_pop(struct flow *f)
{
	uint32_t top = f->heap[0], last = f->heap[--f->heap_count];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < f->heap_count) {
		down += down + 1 < f->heap_count && f->heap[down + 1] < f->heap[down];
		if (f->heap[down] >= last)
			break;
		f->heap[i] = f->heap[down];
		i = down;
	}
	if (f->heap_count)
		f->heap[i] = last;
	return top;
}

static void queue(struct flow *f, uint32_t state)
{
	if (f->state_live[state] & QUEUED)
		return;
	f->state_live[state] |= QUEUED;
	heap_push(f, f->step_at[f->state_step[state]]);
}

/* ---- steps --------------------------------------------------------------------- */

/* The relocation at an address, or null: in order of address, mostly, so that it is near to the
 * one that was asked for last. */
static const struct flow_reloc *reloc_at(struct flow *f, uint64_t addr)
{
	const struct flow_reloc *list = f->env->relocs;
	size_t i = f->reloc_near, n = f->env->reloc_count, lo = 0, hi = n, step;

	if (i + 1 < n && list[i + 1].addr == addr)
		return &list[f->reloc_near = i + 1];
	if (i < n && list[i].addr < addr) {
		for (lo = i, step = 1; lo + step < n && list[lo + step].addr < addr; step *= 2)
			lo += step;
		hi = lo + step < n ? lo + step + 1 : n;
	} else if (i < n && list[i].addr == addr) {
		return &list[i];
	} else {
		for (hi = i < n ? i : n, step = 1; hi > step && list[hi - step].addr >= addr; step *= 2)
			hi -= step;
		lo = hi > step ? hi - step : 0;
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (list[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	f->reloc_near = lo;
	return lo < n && list[lo].addr == addr ? &list[lo] : NULL;
}

/* In an object file, a direct target is what the relocation says. */
static void step_relocate(struct flow *f, struct step *s, uint64_t addr)
{
	const struct flow_reloc *r;
	uint64_t field = addr + s->len - 4u;

	if (s->flow == FLOW_JUMP || s->flow == FLOW_BRANCH || s->flow == FLOW_CALL) {
		if (s->len <= sizeof(uint32_t))
			return; /* it goes by a byte */
		r = reloc_at(f, field);
		if (r)
			s->imm = (int64_t)r->target;
	} else if ((s->flow == FLOW_JUMP_IND || s->flow == FLOW_CALL_IND) && s->deref && s->b == INSN_PC_REG) {
		r = reloc_at(f, field);
		s->imm = r && (r->target & FLOW_EXTERN) ? (int64_t)r->target : 0;
	}
}

void flow_exit_add(struct flow *f, uint64_t target, unsigned kind)
{
	if (!room_make(&f->exits, &f->exit_room, f->exit_count, sizeof(*f->exits)))
		f->failed = true;
	else
		f->exits[f->exit_count++] = (struct flow_exit){target, kind, f->number, piece_number(f->env, target)};
}

/* What depends on where a direct call or jump leads. */
static void step_settle(struct flow *f, struct step *s, uint64_t addr)
{
	if (f->env->reloc_count)
		step_relocate(f, s, addr);
	/* Behind what the entry point calls. Where nothing says where it ends, other code may be behind that. */
	if (s->op == STEP_HALT && f->piece->outermost && f->piece->open)
		s->flow = FLOW_STOP;
	/* A call of what follows it is how position-independent code once asked where it is. (Or the function that
	 * it calls lies there, if nothing says that it does not.) */
	if (s->flow == FLOW_CALL && (uint64_t)s->imm == addr + s->len && addr + s->len < f->piece->end &&
	    (!f->piece->open || flow_asks_where(f, addr + s->len - f->piece->start))) {
		s->flow = FLOW_NEXT;
		s->op = STEP_PUSH;
		s->a = INSN_NO_REG;
		s->imm = 8;
		s->touches |= 1u << ETCH_REG_RSP;
	}
}

static inline __attribute__((always_inline)) uint32_t step_make(struct flow *f, uint64_t off)
{
	uint64_t addr = f->piece->start + off;
	size_t n = f->step_count;
	struct step *s;

	if (n == f->step_room && !steps_grow(f)) {
		f->failed = true;
		return NO_STEP;
	}
	s = &f->steps[n];
	if (!step_decode_in(f->cache, f->piece->bytes + off, f->piece->end - addr, f->readable - off, addr, s))
		return NO_STEP;
	if (s->flow != FLOW_NEXT || s->op == STEP_HALT)
		step_settle(f, s, addr);
	f->step_at[n] = (uint32_t)off;
	f->leader[n] = 0;
	f->seen[n] = 0;
	f->step_count = n + 1;
	f->fresh++;
	f->at[off] = (uint32_t)n + 1;
	f->starts[off / 64] |= (uint64_t)1 << off % 64;
	return (uint32_t)n;
}

uint32_t flow_step_new(struct flow *f, uint64_t off) { return step_make(f, off); }

/* How far back the block of an instruction is looked for. */
#define BLOCK_MOST 4096u

/* A state has gone past a place where now paths meet: the block that it came from
 * is walked again. Where that is not found, all are. */
static void walked_again(struct flow *f, uint64_t off)
{
	uint64_t from, at, least = off > BLOCK_MOST ? off - BLOCK_MOST : 0;

	for (from = off; from-- > least;) {
		uint32_t i = f->at[from] ? f->at[from] - 1 : NO_STEP;

		if (i == NO_STEP || !f->leader[i] || !(f->state_live[f->leader[i] - 1] & LIVE))
			continue;
		for (at = from; at < off && f->at[at]; at += f->steps[f->at[at] - 1].len)
			;
		if (at == off) {
			queue(f, f->leader[i] - 1);
			return;
		}
	}
	f->dirty = true;
}

/* Paths meet here. Returns the number of the step, or NO_STEP. */
static uint32_t leader_make(struct flow *f, uint64_t off)
{
	uint32_t i = flow_step(f, off);

	if (i == NO_STEP || f->leader[i])
		return i;
	if (f->state_count == f->state_room && !states_grow(f)) {
		f->failed = true;
		return NO_STEP;
	}
	if (f->seen[i] & FLOW_WALKED)
		walked_again(f, off);
	f->state_live[f->state_count] = 0;
	f->state_step[f->state_count] = i;
	f->leader[i] = (uint32_t)++f->state_count;
	return i;
}

static void todo_add(struct flow *f, uint64_t off)
{
	if (!room_make(&f->todo, &f->todo_room, f->todo_count, sizeof(*f->todo)))
		f->failed = true;
	else
		f->todo[f->todo_count++] = (uint32_t)off;
}

/* ---- calls ------------------------------------------------------------------------ */

uint64_t flow_exit_target(const struct step *s)
{
	if (s->flow == FLOW_CALL || s->flow == FLOW_JUMP)
		return (uint64_t)s->imm;
	if (s->deref && s->b == INSN_PC_REG)
		return (uint64_t)s->imm & FLOW_EXTERN ? (uint64_t)s->imm : FLOW_SLOT | (uint64_t)s->imm;
	return 0;
}

bool flow_is_noreturn(const struct flow *f, const struct step *s)
{
	uint64_t target = flow_exit_target(s);

	return target && noreturn_may_hold(f->env, target) && word_has(f->env->noreturn, f->env->noreturn_count, target);
}

/* What the entry point calls is not asked for: there is hlt behind it. */
bool flow_comes_back(const struct flow *f, const struct step *s)
{
	return f->piece->outermost || !flow_is_noreturn(f, s);
}

static void pad_add(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	struct flow *f = ctx;

	if (!pad)
		return;
	if (!room_make(&f->pads, &f->pad_room, f->pad_count, sizeof(*f->pads)))
		f->failed = true;
	else
		f->pads[f->pad_count++] = (struct flow_pad){start, end, pad};
}

static int pad_order(const void *a, const void *b)
{
	const struct flow_pad *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Landing pad of the instruction at addr, or 0: of ranges that do not overlap. */
uint64_t flow_pad_of(const struct flow *f, uint64_t addr)
{
	size_t lo = 0, hi = f->pad_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->pads[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->pad_count && f->pads[lo].start <= addr ? f->pads[lo].pad : 0;
}

const struct fixup *flow_fixup_of(const struct flow *f, uint64_t addr)
{
	const struct fixup *x = fixup_find(f->fixups, f->fixup_count, addr);

	return x && fixup_counts(f->env->fixups, x) ? x : NULL;
}

/*
 * A fault is taken before the instruction has done anything (SDM 3, 6.6), but that a
 * string instruction has counted so far; then the entry changes a register.
 */
void flow_fault(const struct fixup *x, const struct step *in, const struct state *before, struct state *out)
{
	const struct etch_ex raw = {.data = x->data};
	unsigned changed = in->writes & ~STEP_CALLEE_SAVED & ~(1u << ETCH_REG_RSP), r;

	state_copy(out, before);
	if (etch_ex_type(&raw) == ETCH_EX_TYPE_LEN)
		changed |= 1u << STEP_COUNT_REG;
	else if (etch_ex_type(&raw) != ETCH_EX_TYPE_PLAIN)
		changed |= 1u << etch_ex_reg(&raw);
	for (r = 0; r < 16; r++)
		if (changed >> r & 1)
			out->reg[r] = (struct value){0};
}

/* ---- first pass: what is reached, and where paths meet ------------------------------- */

/* Control may go to an address: paths meet there, if it is in the piece. */
static void scan_later(struct flow *f, uint64_t addr)
{
	if (!flow_inside(f, addr))
		return;
	leader_make(f, addr - f->piece->start);
	todo_add(f, addr - f->piece->start);
}

/* An exception, or a fault, goes on elsewhere. */
static void scan_throws(struct flow *f, uint64_t addr)
{
	uint64_t pad = f->pad_count ? flow_pad_of(f, addr) : 0;
	const struct fixup *fixup = f->fixup_count ? flow_fixup_of(f, addr) : NULL;

	if (pad)
		scan_later(f, pad);
	if (fixup)
		scan_later(f, fixup->to);
}

/* Where an instruction leads that does not just go on. False: not to the next one. */
static bool scan_leaves(struct flow *f, const struct step *in, uint64_t behind)
{
	switch (in->flow) {
	case FLOW_JUMP:
	case FLOW_BRANCH:
		scan_later(f, (uint64_t)in->imm);
		return in->flow == FLOW_BRANCH;
	case FLOW_CALL:
		if ((uint64_t)in->imm != f->piece->start)
			scan_later(f, (uint64_t)in->imm); /* a function within */
		/* fall through */
	case FLOW_CALL_IND:
		return flow_comes_back(f, in) && !(f->piece->open && flow_is_end(f, in, behind));
	default:
		return in->flow == FLOW_NEXT;
	}
}

/* From an offset on, to where a path ends, or falls into what another has reached. */
static void scan_from(struct flow *f, uint64_t off)
{
	bool throws = f->pad_count || f->fixup_count;
	uint64_t size = f->piece->end - f->piece->start;

	while (off < size) {
		uint32_t i = f->at[off] ? f->at[off] - 1 : step_make(f, off);
		unsigned len;

		if (i == NO_STEP)
			return;
		if (f->seen[i] & FLOW_SCANNED) {
			leader_make(f, off);
			return;
		}
		f->seen[i] |= FLOW_SCANNED;
		len = f->steps[i].len;
		if (throws)
			scan_throws(f, f->piece->start + off);
		if (f->steps[i].flow != FLOW_NEXT) {
			struct step in = f->steps[i]; /* the list may move */

			if (!scan_leaves(f, &in, off + len))
				return;
		}
		off += len;
	}
}

static void scan(struct flow *f)
{
	while (f->todo_count && !f->failed)
		scan_from(f, f->todo[--f->todo_count]);
}

/* ---- second pass: states ---------------------------------------------------------------- */

static void reach(struct flow *f, uint32_t i, const struct state *s)
{
	uint32_t k = f->leader[i] - 1;

	if (!(f->state_live[k] & LIVE)) {
		state_copy(&f->states[k], s);
		f->state_live[k] |= LIVE;
		queue(f, k);
	} else if (s->dead && !f->states[k].dead) {
		return; /* it has nothing to say to code that is alive */
	} else if (state_merge(&f->states[k], s)) {
		queue(f, k);
	}
}

bool flow_is_tail_call(const struct flow *f, uint64_t target, const struct state *s)
{
	const struct piece *p;

	if (target & (FLOW_EXTERN | FLOW_SLOT))
		return true;
	p = piece_at(f->env, target);
	return p && p->start == target && state_is_entry(s);
}

static void follow(struct flow *f, uint64_t target, const struct state *s)
{
	if (!flow_inside(f, target))
		return; /* exits.c, once all states are final */
	target -= f->piece->start;
	if (target < f->at_room && f->at[target] && f->leader[f->at[target] - 1])
		reach(f, f->at[target] - 1, s);
}

/* A new indirect jump; its number + 1, or 0. */
static uint32_t jump_make(struct flow *f)
{
	size_t room = f->jump_room;

	if (!room_make(&f->jumps, &f->jump_room, f->jump_count, sizeof(*f->jumps)) ||
	    (room != f->jump_room && !room_make(&f->table_at, &room, room, sizeof(*f->table_at)))) {
		f->failed = true;
		return 0;
	}
	memset(&f->jumps[f->jump_count], 0, sizeof(*f->jumps));
	return (uint32_t)++f->jump_count;
}

static void jump_note(struct flow *f, uint32_t step, const struct state *s)
{
	struct step *in = &f->steps[step];
	size_t i = in->number ? in->number : (in->number = jump_make(f));

	if (!i--)
		return;
	if (f->jumps[i].noted && state_same(&f->jumps[i].state, s))
		return;
	f->jumps_agreed = false;
	flow_agreed_undo(f, i);
	if (!f->jumps[i].fresh && !room_make(&f->fresh_jumps, &f->fresh_jump_room, f->fresh_jump_count, sizeof(*f->fresh_jumps))) {
		f->failed = true;
		return;
	}
	if (!f->jumps[i].fresh)
		f->fresh_jumps[f->fresh_jump_count++] = (uint32_t)i;
	f->jumps[i].noted = f->jumps[i].fresh = true;
	state_copy(&f->jumps[i].state, s);
	f->jumps[i].table = state_table(s, in, &f->jumps[i].what);
	f->table_at[i] = f->jumps[i].table ? (uint32_t)f->jumps[i].what.off : 0;
}

/*
 * A call throws: its landing pad begins with its frame, less the arguments that
 * were pushed for it, which the unwinder drops (DW_CFA_GNU_args_size). All that
 * throw in a function have one frame, so it is that of the call with the least.
 */
void flow_land(const struct flow *f, const struct state *call, struct state *out)
{
	state_copy(out, call);
	if (out->reg[ETCH_REG_RSP].kind == VALUE_CFA && out->reg[ETCH_REG_RSP].off < f->pad_depth)
		out->reg[ETCH_REG_RSP].off = f->pad_depth;
	state_call(out);
	out->weak = true; /* .eh_frame knows how much was pushed */
}

/*
 * Others reach an instruction with rsp elsewhere than a call before it would leave
 * it: then that call does not come back, or the others' code would be wrong.
 */
static bool clashes(const struct flow *f, uint32_t step, const struct state *s)
{
	uint32_t k = f->leader[step] - 1;
	struct value mine = s->reg[ETCH_REG_RSP], its = f->states[k].reg[ETCH_REG_RSP];

	return (f->state_live[k] & LIVE) && mine.kind == VALUE_CFA && its.kind == VALUE_CFA && mine.off != its.off;
}

static void dead_note(struct flow *f, uint32_t off, const struct state *call)
{
	if (off >= f->piece->end - f->piece->start)
		return;
	if (!room_make(&f->dead, &f->dead_room, f->dead_count, sizeof(*f->dead))) {
		f->failed = true;
		return;
	}
	f->dead[f->dead_count].off = off;
	state_copy(&f->dead[f->dead_count++].state, call);
}

/*
 * Code behind calls that do not come back and that nothing else reaches, clang's jump
 * behind a throw: nobody will be there, and if that is wrong it is by such a call's
 * return. It says nothing about the rest of the piece. Where nothing says that the piece goes on, it may be
 * another function.
 */
static void dead_follow(struct flow *f)
{
	size_t i;

	for (i = f->piece->open ? 0 : f->dead_count; i-- > 0 && !f->failed;) { /* of two walks past a call the last one counts */
		struct state s;
		uint32_t k;

		if (flow_walked(f, f->dead[i].off))
			continue;
		k = flow_step(f, f->dead[i].off);
		if (k == NO_STEP || f->steps[k].padding)
			continue;
		state_copy(&s, &f->dead[i].state);
		state_call(&s);
		s.weak = s.dead = true;
		flow_enter(f, f->piece->start + f->dead[i].off, &s);
		flow_walk(f);
	}
}

/* Where a walk has come to. */
struct walk {
	uint32_t off;
	bool called; /* by a call before it */
	struct compared c;
	struct state s;
};

/* It may go on at a landing pad, or at a fixup. */
static void walk_throws(struct flow *f, const struct walk *w, const struct step *in)
{
	bool calls = in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND;
	uint64_t addr = f->piece->start + w->off, pad = f->pad_count && calls ? flow_pad_of(f, addr) : 0;
	const struct fixup *fixup = f->fixup_count ? flow_fixup_of(f, addr) : NULL;
	struct state there;

	if (pad && f->pads_held) {
		if (w->s.reg[ETCH_REG_RSP].kind == VALUE_CFA && w->s.reg[ETCH_REG_RSP].off > f->pad_depth)
			f->pad_depth = w->s.reg[ETCH_REG_RSP].off;
	} else if (pad) {
		flow_land(f, &w->s, &there);
		follow(f, pad, &there);
	}
	if (fixup && flow_inside(f, fixup->to)) {
		flow_fault(fixup, in, &w->s, &there);
		follow(f, fixup->to, &there);
	}
}

static void walk_branch(struct flow *f, const struct walk *w, const struct step *in)
{
	struct state taken;

	if (!in->writes && !flow_may_learn(&w->c, in->cond, &w->s)) {
		follow(f, (uint64_t)in->imm, &w->s);
		return;
	}
	state_copy(&taken, &w->s);
	flow_branch_taken(in, &taken, w->off, &w->c);
	follow(f, (uint64_t)in->imm, &taken);
}

/* Does a call come back, to an instruction of the piece? */
static bool walk_call(struct flow *f, const struct walk *w, const struct step *in)
{
	uint32_t behind = w->off + in->len;
	struct state entry;

	if (in->flow == FLOW_CALL && flow_inside(f, (uint64_t)in->imm) && (uint64_t)in->imm != f->piece->start) {
		state_entry(&entry);
		f->helpers = true;
		follow(f, (uint64_t)in->imm, &entry);
	}
	if (flow_comes_back(f, in))
		return !(f->piece->open && flow_is_end(f, in, behind));
	dead_note(f, behind, &w->s);
	return false;
}

/* One instruction; false: the walk ends with it. */
static bool walk_step(struct flow *f, struct walk *w, uint32_t number)
{
	struct step in = f->steps[number]; /* the list may move */

	switch (in.flow) {
	case FLOW_BRANCH:
		walk_branch(f, w, &in);
		break;
	case FLOW_JUMP:
		follow(f, (uint64_t)in.imm, &w->s);
		return false;
	case FLOW_JUMP_IND:
		jump_note(f, number, &w->s);
		return false;
	case FLOW_RETURN:
	case FLOW_STOP:
		return false;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		if (!walk_call(f, w, &in))
			return false;
		w->called = true;
		break;
	default:
		break;
	}
	if (flow_is_exit(&in, &w->s))
		return false;
	if (!flow_advance_same(&in, &w->s, w->off, &w->c))
		f->seen[number] |= FLOW_MOVES;
	return true;
}

/* From where paths meet, to where the path ends, or meets others. */
static void walk_from(struct flow *f, uint32_t start)
{
	uint64_t size = f->piece->end - f->piece->start;
	bool throws = f->pad_count || f->fixup_count, on = true;
	struct walk w;

	w.off = start;
	w.called = false;
	w.c = (struct compared){0};
	while (on && w.off < size && f->at[w.off]) {
		uint32_t i = f->at[w.off] - 1;
		unsigned len = f->steps[i].len;

		if (f->leader[i] && w.off != start) {
			if (!w.called || !clashes(f, i, &w.s))
				reach(f, i, &w.s);
			break;
		}
		if (f->leader[i])
			state_copy(&w.s, &f->states[f->leader[i] - 1]);
		f->seen[i] = (uint8_t)((f->seen[i] | FLOW_WALKED) & ~FLOW_MOVES);
		w.called = false;
		if (throws)
			walk_throws(f, &w, &f->steps[i]);
		if (!flow_idle(&f->steps[i], &w.s, &w.c))
			on = walk_step(f, &w, i);
		w.off += len;
	}
	if (w.off != start && w.off > f->hull)
		f->hull = w.off;
}

void flow_walk(struct flow *f)
{
	size_t i;

	if (f->dirty) { /* once more over what has gone past new leaders */
		f->dirty = false;
		for (i = 0; i < f->state_count; i++)
			if (f->state_live[i] & LIVE)
				queue(f, (uint32_t)i);
	}
	while (f->heap_count && !f->failed) {
		uint32_t off = heap_pop(f);

		f->state_live[f->leader[f->at[off] - 1] - 1] &= (uint8_t)~QUEUED;
		walk_from(f, off);
	}
}

void flow_enter(struct flow *f, uint64_t addr, const struct state *s)
{
	uint32_t i = leader_make(f, addr - f->piece->start);

	if (i == NO_STEP)
		return;
	todo_add(f, addr - f->piece->start);
	scan(f);
	if (!f->failed)
		reach(f, i, s);
}

/* ---- a piece ------------------------------------------------------------------------------- */

/* No step is known of so many bytes. False: out of memory. */
static bool at_clear(struct flow *f, uint64_t size)
{
	uint64_t room = size + size / 2 + 64;

	if (size > f->at_room) {
		free(f->at);
		free(f->starts);
		f->at_room = 0;
		f->at = malloc(room * sizeof(*f->at));
		f->starts = malloc((room / 64 + 1) * sizeof(*f->starts));
		if (!f->at || !f->starts)
			return false;
		f->at_room = room;
	}
	memset(f->at, 0, size * sizeof(*f->at));
	memset(f->starts, 0, (size / 64 + 1) * sizeof(*f->starts));
	return true;
}

/* How much can be read from there on: code lies in the file. */
static size_t readable_from(const struct elf_file *f, const uint8_t *bytes)
{
	size_t at = (size_t)(bytes - f->bytes);

	return bytes >= f->bytes && at < f->size ? f->size - at : 0;
}

static bool prepare(struct flow *f, const struct flow_env *env, uint32_t number)
{
	const struct piece *p = &env->pieces[number];
	uint64_t size = p->end - p->start;

	if (!f->cache)
		f->cache = step_cache_new(); /* without one it works too */
	f->env = env;
	f->piece = p;
	f->number = number;
	f->readable = readable_from(env->file, p->bytes);
	f->step_count = f->state_count = f->heap_count = f->todo_count = f->pad_count = 0;
	f->dead_count = f->jump_count = f->fresh_jump_count = f->inner_count = f->exit_count = 0;
	f->fixups = env->fixups ? fixups_of(env->fixups, p->start, p->end, &f->fixup_count) : NULL;
	f->fixup_count = f->fixups ? f->fixup_count : 0;
	f->agreed.upto = 0;
	f->agreed.some = f->agreed.differ = false;
	f->pads_held = true;
	f->pad_depth = INT32_MIN;
	f->dirty = f->failed = f->returns = f->broken = f->unbalanced = f->refuted = f->odd = f->ends = f->foreign = f->returned = f->jumps_agreed = f->helpers = false;
	f->run.kind = ETCH_RULE_UNDEF;
	f->haskell = env->haskell && haskell_may_be(p);
	f->followed = 0;
	f->fresh = 0;
	f->hull = 0;
	f->guesses = 0;
	f->guessed = 0;
	free(f->paths);
	f->paths = NULL;
	f->lifted = 0;
	f->lowered = false;
	if (f->edge_count)
		memset(f->edge_hash, 0, f->edge_hash_size * sizeof(*f->edge_hash));
	f->edge_count = 0;
	if (size >= UINT32_MAX)
		return false;
	if (!at_clear(f, size))
		return false;
	if (p->fde >= 0 && !p->plt) {
		lsda_call_sites(env->file, env->cfi, (size_t)p->fde, pad_add, f);
		if (f->pad_count)
			qsort(f->pads, f->pad_count, sizeof(*f->pads), pad_order);
	}
	return !f->failed;
}

/* Does the piece begin with an instruction that puts another value in rsp? What
 * makecontext() has pushed as a return address is such a place: nobody called it. */
static bool switches_stack(const struct flow *f)
{
	const struct step *s = f->at[0] ? &f->steps[f->at[0] - 1] : NULL;

	return s && s->a == ETCH_REG_RSP && (s->op == STEP_MOVE || s->op == STEP_LOAD) && s->b != ETCH_REG_RSP;
}

static bool is_pad(const struct flow *f, uint64_t addr)
{
	size_t i;

	for (i = 0; i < f->pad_count; i++)
		if (f->pads[i].pad == addr)
			return true;
	return false;
}

/* Where .eh_frame has what no row can say, it does not have a function's beginning, whatever
 * symbol is there or jump goes there: GHC's code comes back to C so, with the return address
 * far up. */
static bool is_elsewhere(const struct flow *f, uint64_t addr)
{
	size_t lo = 0, hi = f->cfi_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->cfi[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->cfi_count && f->cfi[lo].start <= addr && f->cfi[lo].rule.kind == ETCH_RULE_UNDEF && f->cfi[lo].why;
}

/* The return address is where a call has just put it. */
static bool is_called(const struct state *s)
{
	return s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off == -8;
}

bool flow_run(struct flow *f, const struct flow_env *env, uint32_t number, const struct flow_edge *in, size_t in_count,
              enum flow_start start)
{
	struct state entry;
	uint32_t i;

	if (!prepare(f, env, number))
		return false;
	f->start = (uint8_t)start;
	state_entry(&entry);
	if (f->piece->plt && plt_is_first(f->piece->bytes, f->piece->end - f->piece->start))
		entry.reg[ETCH_REG_RSP].off -= 8;
	entry.reg[ETCH_REG_RSP].off -= f->pushed;
	if ((start != START_PART || f->piece->plt) && !is_pad(f, f->piece->start))
		flow_enter(f, f->piece->start, &entry);
	for (i = 0; i < f->piece->entry_count; i++)
		if (!is_elsewhere(f, env->entries[f->piece->entry + i]))
			flow_enter(f, env->entries[f->piece->entry + i], &entry);
	for (i = 0; i < in_count; i++) /* that not all edges do happen is certain too: __builtin_unreachable() */
		if (!f->piece->plt && (start != START_FUNCTION || in[i].target != f->piece->start) &&
		    !(is_called(&in[i].state) && is_elsewhere(f, in[i].target)))
			flow_enter(f, in[i].target, &in[i].state);
	flow_walk(f);
	if (f->pad_count) { /* once more, now that it is known where calls throw from */
		f->pads_held = false;
		f->dirty = true;
		flow_walk(f);
	}
	jumps_follow(f);
	for (i = 0; i < HASKELL_TIMES && haskell_follow(f); i++)
		jumps_follow(f);
	dead_follow(f);
	f->switches = switches_stack(f);
	return !f->failed;
}
