/* SPDX-License-Identifier: MIT */
/* Drives the analysis of one code range: resets struct flow, enters the range at its start, symbols and incoming edges,
 * walks it, then its landing pads, jump tables and dead code. Also facts about calls, faults and landing pads. */
#include "analysis/flow/flow_internal.h"
#include "support/vector.h"

#include <stdlib.h>
#include <string.h>

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
	free(f->step_of_state);
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

/* ---- calls ---------------------------------------------------------------------- */

uint64_t flow_exit_target(const struct step *s)
{
	if (s->flow == FLOW_CALL || s->flow == FLOW_JUMP)
		return (uint64_t)s->imm;
	if (s->deref && s->b == INSN_PC_REG)
		return (uint64_t)s->imm & FLOW_EXTERN ? (uint64_t)s->imm : FLOW_SLOT | (uint64_t)s->imm;
	return 0;
}

/* Is a target a code range that was found to be noreturn since env->noreturn was made? */
static bool stops_at(const struct flow_env *env, uint64_t target)
{
	uint32_t i = range_number(env, target);

	return i != NO_RANGE && env->stops[i] && env->ranges[i].start == target;
}

bool flow_is_noreturn(const struct flow *f, const struct step *s)
{
	uint64_t target = flow_exit_target(s);

	if (target && f->env->stops && stops_at(f->env, target))
		return true;
	return target && noreturn_may_hold(f->env, target) && word_has(f->env->noreturn, f->env->noreturn_count, target);
}

/* Calls of the entry point always count as returning: hlt stands behind them. */
bool flow_comes_back(const struct flow *f, const struct step *s)
{
	return f->range->outermost || !flow_is_noreturn(f, s);
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

/* Landing pad of the instruction at addr, or 0. Call sites do not overlap. */
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
 * The state at a fixup. A fault leaves the registers as before the instruction (SDM 3, 6.6), except those that a string
 * instruction has advanced; the fault handler then changes one register, by the entry's type.
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

/*
 * The state at a call's landing pad: the frame of the call without the stack arguments pushed for it, which the
 * unwinder drops (DW_CFA_GNU_args_size). All throwing calls of a function share one frame, so rsp is the highest of
 * theirs (flow.pad_depth).
 */
void flow_land(const struct flow *f, const struct state *call, struct state *out)
{
	state_copy(out, call);
	if (out->reg[ETCH_REG_RSP].kind == VALUE_CFA && out->reg[ETCH_REG_RSP].off < f->pad_depth)
		out->reg[ETCH_REG_RSP].off = f->pad_depth;
	state_call(out);
	out->weak = true; /* the size of the arguments is not proven; .eh_frame takes precedence */
}

void flow_exit_add(struct flow *f, uint64_t target, unsigned kind)
{
	if (!room_make(&f->exits, &f->exit_room, f->exit_count, sizeof(*f->exits)))
		f->failed = true;
	else
		f->exits[f->exit_count++] = (struct flow_exit){target, kind, f->number, range_number(f->env, target)};
}

bool flow_is_tail_call(const struct flow *f, uint64_t target, const struct state *s)
{
	const struct code_range *p;

	if (target & (FLOW_EXTERN | FLOW_SLOT))
		return true;
	p = range_at(f->env, target);
	return p && p->start == target && state_is_entry(s);
}

/* ---- a code range ------------------------------------------------------------------------------- */

/* Clears flow.at and flow.starts for `size` bytes. False: out of memory. */
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

/* Bytes of the file from `bytes` on; 0 if `bytes` is not in it. */
static size_t readable_from(const struct elf_file *f, const uint8_t *bytes)
{
	size_t at = (size_t)(bytes - f->bytes);

	return bytes >= f->bytes && at < f->size ? f->size - at : 0;
}

bool flow_prepare(struct flow *f, const struct flow_env *env, uint32_t number)
{
	const struct code_range *p = &env->ranges[number];
	uint64_t size = p->end - p->start;

	if (!f->cache)
		f->cache = step_cache_new(); /* null is allowed: decoding is then slower */
	f->env = env;
	f->range = p;
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
	f->no_constants = false;
	f->effects_seen = 0;
	f->dirty = f->failed = f->returns = f->broken = f->unbalanced = f->exit_sp_mismatch = f->exit_sp_unknown = f->ends =
		f->gives = f->non_c_frame = f->returned = f->jumps_agreed = f->helpers = false;
	f->run.kind = ETCH_RULE_UNDEF;
	f->own_stack = env->own_stack && env->runtime->may_be(p);
	f->followed = 0;
	f->fresh = 0;
	f->extent = 0;
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

/* Does the code range begin by replacing rsp? makecontext() pushes the address of such code as a return address,
 * without a call. */
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

const struct etch_cfi_row *flow_cfi_at(const struct flow *f, uint64_t addr)
{
	size_t lo = 0, hi = f->cfi_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->cfi[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->cfi_count && f->cfi[lo].start <= addr ? &f->cfi[lo] : NULL;
}

/* Does .eh_frame rule out that a function begins at an address, whatever symbol or jump target is there? It does where
 * its rule has no equivalent row, or the return address has been moved: GHC's code returns to C at such a place. */
static bool is_elsewhere(const struct flow *f, uint64_t addr)
{
	const struct etch_cfi_row *row = flow_cfi_at(f, addr);

	return row && ((row->rule.kind == ETCH_RULE_UNDEF && row->why) || row->rule.ra == ETCH_RA_SLOT);
}

/* Is rsp where a call leaves it: at the return address? */
static bool is_called(const struct state *s)
{
	return s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off == -8;
}

/* The state of an unknown frame: rsp is the base of a realigned frame, all else is unknown. */
static void state_unknown(struct state *s)
{
	memset(s, 0, sizeof(*s));
	s->reg[ETCH_REG_RSP].kind = VALUE_ALIGNED;
	s->known = 1u << ETCH_REG_RSP;
	s->align = 1;
	s->lowest = INT32_MAX;
	s->constants = EFFECT_CONSTANT;
	s->weak = true;
}

/* Decides whether constants are followed. Most code ranges need none, and the analysis is faster without. */
static void constants_settle(struct flow *f, bool force_constants)
{
	size_t i;

	f->no_constants =
		!(force_constants || f->force_constants || f->own_stack || f->fixup_count || flow_needs_constants(f));
	for (i = 0; f->no_constants && i < f->state_count; i++)
		if (f->state_live[i] & LIVE)
			state_drop_constants(&f->states[i]);
}

static bool run(struct flow *f, const struct flow_env *env, uint32_t number, const struct flow_edge *in,
                size_t in_count, bool force_constants)
{
	struct state entry;
	uint32_t i, start = f->start;

	if (!flow_prepare(f, env, number))
		return false;
	if (start == START_NOWHERE)
		return true;
	state_entry(&entry);
	if (f->range->plt && plt_is_first(f->range->bytes, f->range->end - f->range->start))
		entry.reg[ETCH_REG_RSP].off -= 8;
	entry.reg[ETCH_REG_RSP].off -= f->pushed;
	if ((start != START_PART || f->range->plt) && !is_pad(f, f->range->start))
		flow_enter(f, f->range->start, &entry);
	if (f->framed) { /* walked all the same: the calls that it makes are results */
		state_unknown(&entry);
		flow_enter(f, f->range->start, &entry);
	}
	for (i = 0; i < f->range->entry_count; i++)
		if (!is_elsewhere(f, env->entries[f->range->entry + i]))
			flow_enter(f, env->entries[f->range->entry + i], &entry);
	for (i = 0; i < in_count; i++) /* not every edge is ever taken: __builtin_unreachable() */
		if (!f->range->plt && (start != START_FUNCTION || in[i].target != f->range->start) &&
		    !(is_called(&in[i].state) && (f->framed || is_elsewhere(f, in[i].target))))
			flow_enter(f, in[i].target, &in[i].state);
	constants_settle(f, force_constants);
	flow_walk(f);
	if (f->pad_count)
		flow_walk_pads(f);
	jumps_follow(f);
	for (i = 0; f->own_stack && i < f->env->runtime->follow_most && f->env->runtime->follow(f); i++)
		jumps_follow(f);
	flow_dead_follow(f);
	f->switches = switches_stack(f);
	return !f->failed;
}

bool flow_run(struct flow *f, const struct flow_env *env, uint32_t number, const struct flow_edge *in, size_t in_count,
              enum flow_start start)
{
	bool ok;

	f->start = (uint8_t)start;
	ok = run(f, env, number, in, in_count, false);
	if (ok && f->no_constants && flow_needs_constants(f)) /* the need has only shown in the walk */
		ok = run(f, env, number, in, in_count, true);
	f->edges_no_constants = !flow_needs_constants(f);
	return ok;
}
