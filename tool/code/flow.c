/* SPDX-License-Identifier: MIT */
/* What runs over a piece: from where it begins, and what others have found of it. */
#include "code/flow_parts.h"
#include "code/haskell.h"
#include "code/vector.h"

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

/* ---- calls ---------------------------------------------------------------------- */

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

void flow_exit_add(struct flow *f, uint64_t target, unsigned kind)
{
	if (!room_make(&f->exits, &f->exit_room, f->exit_count, sizeof(*f->exits)))
		f->failed = true;
	else
		f->exits[f->exit_count++] = (struct flow_exit){target, kind, f->number, piece_number(f->env, target)};
}

bool flow_is_tail_call(const struct flow *f, uint64_t target, const struct state *s)
{
	const struct piece *p;

	if (target & (FLOW_EXTERN | FLOW_SLOT))
		return true;
	p = piece_at(f->env, target);
	return p && p->start == target && state_is_entry(s);
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
	f->plain = false;
	f->asks = 0;
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

/* What .eh_frame says of an address of the piece, or null. */
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

/* Where .eh_frame has what no row can say, it does not have a function's beginning, whatever
 * symbol is there or jump goes there: GHC's code comes back to C so, with the return address
 * far up. */
static bool is_elsewhere(const struct flow *f, uint64_t addr)
{
	const struct etch_cfi_row *row = flow_cfi_at(f, addr);

	return row && row->rule.kind == ETCH_RULE_UNDEF && row->why;
}

/* The return address is where a call has just put it. */
static bool is_called(const struct state *s)
{
	return s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off == -8;
}

/* Most pieces ask for no numbers; following none of them is faster. */
static void numbers_settle(struct flow *f, bool numbered)
{
	size_t i;

	f->plain = !(numbered || f->numbered || f->haskell || f->fixup_count || flow_asks(f));
	for (i = 0; f->plain && i < f->state_count; i++)
		if (f->state_live[i] & LIVE)
			state_plain(&f->states[i]);
}

static bool run(struct flow *f, const struct flow_env *env, uint32_t number, const struct flow_edge *in, size_t in_count,
                bool numbered)
{
	struct state entry;
	uint32_t i, start = f->start;

	if (!prepare(f, env, number))
		return false;
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
	numbers_settle(f, numbered);
	flow_walk(f);
	if (f->pad_count)
		flow_walk_pads(f);
	jumps_follow(f);
	for (i = 0; i < HASKELL_TIMES && haskell_follow(f); i++)
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
	if (ok && f->plain && flow_asks(f)) /* not seen before it was walked */
		ok = run(f, env, number, in, in_count, true);
	f->plain_edges = !flow_asks(f);
	return ok;
}
