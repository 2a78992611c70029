/* SPDX-License-Identifier: MIT */
/* Drives the analysis of one code range: resets struct flow; lets control enter the range at its start, at its symbols
 * and by the edges that lead into it; walks it; then walks its landing pads, the targets of its jump tables, and code
 * that only follows noreturn calls. Also contains functions about calls, faults and landing pads that other files of
 * the flow analysis use. */
#include "analysis/flow/flow_internal.h"
#include "shared/search.h"
#include "support/bounds.h"
#include "support/memory.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

void flow_free(struct flow *f)
{
	step_cache_free(f->cache);
	free(f->at);
	free(f->starts);
	free(f->steps);
	free(f->tails);
	free(f->step_at);
	free(f->leader);
	free(f->seen);
	free(f->states);
	free(f->state_live);
	free(f->step_of_state);
	worklist_free(&f->walk.list);
	free(f->walk.todo);
	free(f->walk.pads);
	free(f->jumps);
	free(f->walk.table_at);
	free(f->walk.table_sorted);
	free(f->walk.inner);
	free(f->walk.paths);
	free(f->walk.new_jumps);
	free(f->walk.dead);
	free(f->found.edges);
	hash_index_free(&f->walk.edge_index);
	free(f->found.exits);
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

/* Does a code range begin at `target` that was found to be noreturn after env->noreturn was made? */
static bool stops_at(const struct flow_env *env, uint64_t target)
{
	uint32_t i = range_number(env, target);

	return i != NO_RANGE && env->stops[i] && env->ranges[i].start == target;
}

bool flow_is_noreturn(const struct flow *f, const struct step *s)
{
	uint64_t target = flow_exit_target(s);

	if (code_convention(f->in.range)->calls_return)
		return target && word_has(f->in.env->noreturn_named, f->in.env->noreturn_named_count, target);
	if (!target)
		return false;
	if (noreturn_may_hold(f->in.env, target) && word_has(f->in.env->noreturn, f->in.env->noreturn_count, target))
		return true;
	return f->in.env->stops && stops_at(f->in.env, target);
}

/* In the file's entry point all calls count as returning: hlt stands after the call of main. */
bool flow_comes_back(const struct flow *f, const struct step *s)
{
	return f->in.range->outermost || !flow_is_noreturn(f, s);
}

/* A callback for lsda_call_sites(). */
static void pad_add(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	struct flow *f = ctx;

	if (!pad)
		return;
	mem_reserve(&f->walk.pads, &f->walk.pad_capacity, f->walk.pad_count, sizeof(*f->walk.pads));
	f->walk.pads[f->walk.pad_count++] = (struct flow_pad){start, end, pad};
}

static int pad_order(const void *a, const void *b)
{
	const struct flow_pad *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* A binary search is possible since call sites do not overlap. */
uint64_t flow_pad_of(const struct flow *f, uint64_t addr)
{
	size_t lo = SEARCH(f->walk.pad_count, i, f->walk.pads[i].end <= addr);

	return lo < f->walk.pad_count && f->walk.pads[lo].start <= addr ? f->walk.pads[lo].pad : 0;
}

const struct fixup *flow_fixup_of(const struct flow *f, uint64_t addr)
{
	const struct fixup *x = fixup_find(f->in.fixups, f->in.fixup_count, addr);

	return x && fixup_counts(f->in.env->fixups, x) ? x : NULL;
}

const struct fixup *flow_fixup_next(const struct flow *f, const struct fixup *x)
{
	const struct fixup *end = f->in.fixups + f->in.fixup_count, *y;

	for (y = x + 1; y < end && y->insn == x->insn; y++)
		if (f->in.env->fixups->tables[y->table].other_format)
			return y;
	return NULL;
}

/*
 * A fault leaves the registers as they were before the instruction (SDM 3, 6.6), except those that a string instruction
 * has advanced. Then the fault handler changes one register, which the type of the exception table's entry tells.
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
 * At a landing pad the frame is that of the call, but without the arguments pushed for it, which the unwinder drops
 * (DW_CFA_GNU_args_size). All calls that throw in a function have the same frame except for these arguments, so rsp is
 * the highest rsp at any of them (flow.walk.pad_depth).
 */
void flow_land(const struct flow *f, const struct state *call, struct state *out)
{
	state_copy(out, call);
	if (out->reg[ETCH_REG_RSP].kind == VALUE_CFA && out->reg[ETCH_REG_RSP].off < f->walk.pad_depth)
		out->reg[ETCH_REG_RSP].off = f->walk.pad_depth;
	state_call(out);
	out->weak = true; /* the size of the arguments is not proven; .eh_frame takes precedence */
}

void flow_exit_add(struct flow *f, uint64_t target, unsigned kind)
{
	mem_reserve(&f->found.exits, &f->walk.exit_capacity, f->found.exit_count, sizeof(*f->found.exits));
	f->found.exits[f->found.exit_count++] =
		(struct flow_exit){.target = target, .kind = kind, .from = f->in.number, .to = range_number(f->in.env, target)};
}

bool flow_may_tail_call(const struct flow *f, uint64_t target)
{
	const struct code_range *p;

	if (target & (FLOW_EXTERN | FLOW_SLOT))
		return true;
	p = range_at(f->in.env, target);
	return p && p->start == target && !p->part;
}

bool flow_is_tail_call(const struct flow *f, uint64_t target, const struct state *s)
{
	return target & (FLOW_EXTERN | FLOW_SLOT) || (state_is_entry(s) && flow_may_tail_call(f, target));
}

/* ---- a code range ------------------------------------------------------------------------------- */

/* For code ranges of up to this many bytes, flow.at is cleared as a whole. For larger ones, only the elements that
 * steps have set are cleared, which may be few. */
#define CLEARED_WHOLE 512u

/* Clears the elements of flow.at that the analysis of the last code range has set. */
static void at_reset(struct flow *f)
{
	size_t i;

	if (f->walk.at_size <= CLEARED_WHOLE) {
		memset(f->at, 0, f->walk.at_size * sizeof(*f->at));
		return;
	}
	for (i = 0; i < f->step_count; i++) /* only elements at the offsets of steps are not 0 */
		f->at[f->step_at[i]] = 0;
}

/* Makes flow.at and flow.starts all 0 for a range of `size` bytes. flow.step_at must still have the steps of the last
 * code range. */
static void at_clear(struct flow *f, uint64_t size)
{
	uint64_t capacity = size + size / 2 + 64;

	if (size > f->walk.at_capacity) {
		free(f->at);
		free(f->starts);
		f->at = mem_zero(capacity, sizeof(*f->at));
		f->starts = mem_alloc(capacity / 64 + 1, sizeof(*f->starts));
		f->walk.at_capacity = capacity;
	} else if (f->at) {
		at_reset(f);
	}
	f->walk.at_size = size;
	memset(f->starts, 0, (size / 64 + 1) * sizeof(*f->starts));
}

/* Returns the number of bytes of the file from `bytes` on, or 0 if `bytes` is not in the file. */
static size_t readable_from(const struct elf_file *f, const uint8_t *bytes)
{
	size_t at = (size_t)(bytes - f->bytes);

	return bytes >= f->bytes && at < f->size ? f->size - at : 0;
}

/* Resets the results of the last code range, but keeps the memory of the arrays. */
static void result_reset(struct flow_result *r) { *r = (struct flow_result){.edges = r->edges, .exits = r->exits}; }

/* Resets the data of the walk over the last code range, but keeps the memory of the arrays. */
static void scratch_reset(struct flow_scratch *w)
{
	free(w->paths);
	worklist_clear(&w->list);
	hash_index_clear(&w->edge_index);
	*w = (struct flow_scratch){
		.at_capacity = w->at_capacity,
		.at_size = w->at_size,
		.step_capacity = w->step_capacity,
		.state_capacity = w->state_capacity,
		.jump_capacity = w->jump_capacity,
		.edge_capacity = w->edge_capacity,
		.exit_capacity = w->exit_capacity,
		.reloc_near = w->reloc_near,
		.table_at = w->table_at,
		.edge_index = w->edge_index,
		.list = w->list,
		.todo = w->todo,
		.todo_capacity = w->todo_capacity,
		.pads = w->pads,
		.pad_capacity = w->pad_capacity,
		.dead = w->dead,
		.dead_capacity = w->dead_capacity,
		.inner = w->inner,
		.inner_capacity = w->inner_capacity,
		.new_jumps = w->new_jumps,
		.new_jump_capacity = w->new_jump_capacity,
		.pad_depth = INT32_MIN,
		.pads_deferred = true,
	};
}

/* Sets those members of *in that flow_run()'s caller does not set. */
static void input_set(struct flow_input *in, const struct flow_env *env, uint32_t number)
{
	const struct code_range *p = &env->ranges[number];

	in->env = env;
	in->range = p;
	in->number = number;
	in->own_stack = env->own_stack && env->runtime->may_be(p);
	in->readable = readable_from(env->file, p->bytes);
	in->fixups = env->fixups ? fixups_of(env->fixups, p->start, p->end, &in->fixup_count) : NULL;
	in->fixup_count = in->fixups ? in->fixup_count : 0;
	in->noted = env->notes != NULL;
	in->throws = in->fixup_count || (in->noted && flow_notes_find(in));
	in->abi_flags =
		env->abi_flags | (code_convention(p)->frames_by_rbp ? ABI_FRAMES_BY_RBP : 0) | (in->handler ? ABI_HANDLER : 0);
	in->settles = in->abi_flags & (ABI_FRAMES_BY_RBP | ABI_HANDLER);
}

bool flow_prepare(struct flow *f, const struct flow_env *env, uint32_t number)
{
	const struct code_range *p = &env->ranges[number];
	uint64_t size = p->end - p->start;

	if (size >= UINT32_MAX)
		return false;
	if (!f->cache)
		f->cache = step_cache_new();
	input_set(&f->in, env, number);
	scratch_reset(&f->walk);
	result_reset(&f->found);
	at_clear(f, size);
	f->step_count = f->state_count = f->jump_count = 0;
	if (p->fde >= 0 && !p->plt) {
		lsda_call_sites(env->file, env->cfi, (size_t)p->fde, pad_add, f);
		if (f->walk.pad_count)
			qsort(f->walk.pads, f->walk.pad_count, sizeof(*f->walk.pads), pad_order);
	}
	return true;
}

/* Does the first instruction of the code range load another stack pointer? Code whose address makecontext() puts on a
 * new stack as a return address, without a call, does so. */
static bool switches_stack(const struct flow *f)
{
	const struct step *s = f->at[0] ? &f->steps[f->at[0] - 1] : NULL;

	return s && s->a == ETCH_REG_RSP && (s->op == STEP_MOVE || s->op == STEP_LOAD) && s->b != ETCH_REG_RSP;
}

/* Does the code range have a landing pad at this address? */
static bool is_pad(const struct flow *f, uint64_t addr)
{
	size_t i;

	for (i = 0; i < f->walk.pad_count; i++)
		if (f->walk.pads[i].pad == addr)
			return true;
	return false;
}

const struct etch_cfi_row *flow_cfi_at(const struct flow *f, uint64_t addr)
{
	size_t lo = SEARCH(f->in.cfi_count, i, f->in.cfi[i].end <= addr);

	return lo < f->in.cfi_count && f->in.cfi[lo].start <= addr ? &f->in.cfi[lo] : NULL;
}

/* Does .eh_frame rule out that a function begins at an address, even if a symbol is there or a jump leads there? It
 * does if its rule has no equivalent row, or if the return address has been moved, as at places where code with a stack
 * of its own returns to C. */
static bool is_elsewhere(const struct flow *f, uint64_t addr)
{
	const struct etch_cfi_row *row = flow_cfi_at(f, addr);

	return row && ((row->rule.kind == ETCH_RULE_UNDEF && row->why) || row->rule.ra == ETCH_RA_SLOT);
}

/* Is rsp at the return address, as directly after a call? */
static bool is_called(const struct state *s)
{
	return s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off == -8;
}

void flow_unknown_state(struct state *s)
{
	memset(s, 0, sizeof(*s));
	s->reg[ETCH_REG_RSP].kind = VALUE_ALIGNED;
	s->known = 1u << ETCH_REG_RSP;
	s->align = 1;
	s->lowest = INT32_MAX;
	s->constants = EFFECT_CONSTANT;
	s->weak = true;
}

/* Does a state prove no unwind rule? An edge in such a state is not followed to a handler of an interpreter. It comes
 * from code that continues in another frame, as after an exception; this code has loaded rbp, so the handler finds the
 * frame by rbp, as it does when it is entered in any other way. */
static bool is_unknown(const struct state *s)
{
	struct etch_rule rule;

	state_rule(s, &rule);
	return rule.kind == ETCH_RULE_UNDEF;
}

/* Decides whether the walk follows constants. Most code ranges need none, and the analysis is faster without them. */
static void constants_settle(struct flow *f, bool force_constants)
{
	size_t i;

	f->found.no_constants =
		!(force_constants || f->in.force_constants || f->in.own_stack || f->in.fixup_count || flow_needs_constants(f));
	for (i = 0; f->found.no_constants && i < f->state_count; i++)
		if (f->state_live[i] & LIVE)
			state_drop_constants(&f->states[i]);
}

/*
 * Does the code range begin in the frame of other code, which rbp points to? A range that is a part (code_range.part)
 * does in code whose callers find their frames by rbp, unless one of the edges `in` leads to its start in another
 * state.
 */
static bool begins_amidst(const struct flow *f, const struct flow_edge *in, size_t count)
{
	size_t i;

	if (!f->in.range->part || !(f->in.abi_flags & ABI_FRAMES_BY_RBP))
		return false;
	for (i = 0; i < count; i++)
		if (in[i].target == f->in.range->start && !flow_has_frame(&in[i].state))
			return false;
	return true;
}

/* Lets control enter the start of the code range in the frame that rbp points to. */
static void enter_amidst(struct flow *f)
{
	struct state s;

	state_handler(&s);
	flow_enter(f, f->in.range->start, &s);
}

/* Must edge x into the code range be ignored? */
static bool is_refused(const struct flow *f, const struct flow_edge *x)
{
	bool first = x->target == f->in.range->start;

	return f->in.range->plt || (first && f->in.start == START_FUNCTION) ||
	       (is_called(&x->state) && (f->in.framed || f->in.overdrawn || is_elsewhere(f, x->target))) ||
	       (f->in.handler && is_unknown(&x->state));
}

/* Lets control enter the code range: at its start, at symbols in it, and by the edges `in` that lead into it. */
static void range_enter(struct flow *f, const struct flow_env *env, const struct flow_edge *in, size_t in_count)
{
	struct state entry;
	uint32_t i;

	state_entry(&entry);
	if (f->in.range->plt && plt_is_first(f->in.range->bytes, flow_size(f)))
		entry.reg[ETCH_REG_RSP].off -= 8;
	entry.reg[ETCH_REG_RSP].off -= f->in.pushed;
	if (env->notes)
		flow_note_enter(f);
	if ((f->in.start != START_PART || f->in.range->plt) && !is_pad(f, f->in.range->start))
		flow_enter(f, f->in.range->start, &entry);
	if (begins_amidst(f, in, in_count))
		enter_amidst(f);
	if (f->in.framed || f->in.overdrawn) { /* its frame is unknown, but it is walked, since its calls are results */
		if (f->in.handler)
			state_handler(&entry);
		else
			flow_unknown_state(&entry);
		flow_enter(f, f->in.range->start, &entry);
	}
	for (i = 0; i < f->in.range->entry_count; i++)
		if (!is_elsewhere(f, env->entries[f->in.range->entry + i]))
			flow_enter(f, env->entries[f->in.range->entry + i], &entry);
	for (i = 0; i < in_count; i++) /* some edges are never taken: those that __builtin_unreachable() leaves */
		if (!is_refused(f, &in[i]))
			flow_enter(f, in[i].target, &in[i].state);
}

/* Analyses the code range once. With `force_constants` the walk follows constants even if they do not seem to be
 * needed. */
static void run_once(struct flow *f, const struct flow_env *env, uint32_t number, const struct flow_edge *in,
                     size_t in_count, bool force_constants)
{
	uint32_t i;

	if (!flow_prepare(f, env, number))
		bounds_exhausted(); /* the range has 4 GiB of code without the start of another function */
	if (f->in.start == START_NOWHERE)
		return;
	range_enter(f, env, in, in_count);
	constants_settle(f, force_constants);
	flow_walk(f);
	if (f->walk.pad_count)
		flow_walk_pads(f);
	jumps_follow(f);
	for (i = 0; f->in.own_stack && i < f->in.env->runtime->follow_most && f->in.env->runtime->follow(f); i++)
		jumps_follow(f);
	flow_dead_follow(f);
	f->found.replaces_sp = switches_stack(f);
}

void flow_run(struct flow *f, const struct flow_env *env, uint32_t number, const struct flow_edge *in, size_t in_count,
              enum flow_start start)
{
	f->in.start = (uint8_t)start;
	run_once(f, env, number, in, in_count, false);
	if (f->found.no_constants && flow_needs_constants(f)) /* the walk has shown that constants are needed */
		run_once(f, env, number, in, in_count, true);
	f->walk.edges_drop_constants = !flow_needs_constants(f);
}
