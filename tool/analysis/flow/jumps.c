/* SPDX-License-Identifier: MIT */
/* Indirect jumps: reads and follows jump tables. Then lets control enter the code that nothing else reaches, in the
 * state on which the other indirect jumps agree. An entry of a table is read from the file's bytes, or, since linkers
 * may leave 0 there, from the relocation that sets the entry when the file is loaded. */
#include "analysis/flow/flow_internal.h"
#include "arch/x86/padding.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

/* ---- entries of tables ---------------------------------------------------------------------- */

/* Returns the target of the entry at `bytes` of table t. The entry is an address of 8 bytes, or a distance of 4 bytes
 * from the table. */
static uint64_t entry_target(const struct value *t, const uint8_t *bytes)
{
	uint64_t target;
	int32_t rel;

	if (t->reg == 8) {
		memcpy(&target, bytes, 8);
		return target;
	}
	memcpy(&rel, bytes, 4);
	return (uint64_t)(uint32_t)t->off + (uint64_t)(int64_t)rel;
}

/* Does a relocation put an address of code in the word at address `at`? Then *target becomes that address of code. */
static bool is_relocated(const struct flow_env *env, uint64_t at, uint64_t *target)
{
	size_t i = SEARCH(env->pointer_count, k, env->pointers[k].place < at);

	if (i == env->pointer_count || env->pointers[i].place != at)
		return false;
	*target = env->pointers[i].target;
	return true;
}

uint64_t jump_table_entry(const struct flow_env *env, const struct code_range *p, const struct value *t, unsigned i)
{
	uint64_t at = (uint64_t)(uint32_t)t->off + (uint64_t)i * t->reg, target;
	const uint8_t *bytes;

	if (t->reg == 8 && is_relocated(env, at, &target))
		return target;
	bytes = at >= p->start && at < p->end && p->end - at >= t->reg ? p->bytes + (at - p->start)
	                                                               : elf_at(env->file, at, t->reg);
	return bytes ? entry_target(t, bytes) : 0;
}

uint64_t jump_table_target(const struct flow *f, const struct value *t, unsigned i)
{
	return jump_table_entry(f->in.env, f->in.range, t, i);
}

/* ---- which jumps are followed ---------------------------------------------------------------- */

/*
 * Is an indirect jump open, that is, may it reach code of this range that is not known to be its target? It is not open
 * if all entries of its table are known, nor if it is a tail call. A tail call is a jump without a table and with the
 * return address on top of the stack, or one that is a tail call by the calling convention (flow_jump_is_tail()), such
 * as the jump of an interpreter's handler to the next handler by a table in memory.
 */
static bool is_open(const struct flow *f, const struct flow_jump *j)
{
	struct etch_rule rule;

	if (j->what.most && j->entries == j->what.most)
		return false; /* all of its targets are known */
	if ((f->in.abi_flags & ABI_FRAMES_BY_RBP) && flow_jump_is_tail(f, j))
		return false;
	if (j->table || f->in.range->plt)
		return true;
	/* Only rsp is compared, unlike in state_is_entry(), since some conventions preserve no callee-saved register. */
	if (j->state.reg[ETCH_REG_RSP].kind == VALUE_CFA && j->state.reg[ETCH_REG_RSP].off == -8)
		return false;
	state_rule(&j->state, &rule);
	return rule.kind != ETCH_RULE_UNDEF;
}

/* Do the states at all open jumps prove the same unwind rule, and does their join prove it, too? Then *out becomes the
 * join. The join is continued where the last call has ended, unless flow_agreed_undo() has discarded it. */
static bool jumps_agree(struct flow *f, struct state *out)
{
	struct flow_agreed *a = &f->walk.agreed;
	struct etch_rule rule;

	for (; a->upto < f->jump_count; a->upto++) {
		const struct flow_jump *j = &f->jumps[a->upto];

		if (!is_open(f, j))
			continue;
		state_rule(&j->state, &rule);
		if (!a->some) {
			state_copy(&a->state, &j->state);
			a->rule = rule;
		} else {
			state_join(&a->state, &j->state);
			a->differ |= memcmp(&rule, &a->rule, sizeof(rule)) != 0;
		}
		a->some = true;
	}
	if (!a->some || a->differ)
		return false;
	state_copy(out, &a->state);
	state_rule(out, &rule);
	return !memcmp(&rule, &a->rule, sizeof(rule)) && rule.kind != ETCH_RULE_UNDEF;
}

/* Returns the index of the first element of flow.walk.inner that ends after an offset. */
static size_t inner_at(const struct flow *f, uint64_t off)
{
	return SEARCH(f->walk.inner_count, i, f->walk.inner[i].end <= off);
}

/* Returns the offset of the first unreached instruction, from `off` on, that is neither padding nor in a jump table, or
 * the code range's size if there is none. */
static uint64_t unreached(struct flow *f, uint64_t off)
{
	uint64_t size = flow_size(f), table, zeros;

	while (off < size) {
		size_t k = f->walk.inner_count ? inner_at(f, off) : 0;
		uint32_t i;

		if (k < f->walk.inner_count && f->walk.inner[k].start <= off) {
			off = f->walk.inner[k].end;
			continue;
		}
		if (f->at[off] && (f->seen[f->at[off] - 1] & FLOW_SCANNED)) {
			off += f->steps[f->at[off] - 1].len;
			continue;
		}
		if (!f->in.own_stack && (zeros = padding_zeros(f->in.range->bytes + off, size - off))) {
			off += zeros;
			continue;
		}
		i = flow_step(f, off);
		if (f->in.own_stack && (table = f->in.env->runtime->table(f, off)) != 0) {
			off += table;
			continue;
		}
		if (i != NO_STEP && !f->steps[i].padding)
			return off;
		off += i == NO_STEP ? 1 : f->steps[i].len;
	}
	return size;
}

/*
 * Are the bytes at `off` data in front of a function, such as a language runtime may put there? They are if linear
 * decoding from `off` on runs across the start of the next function. Returns the offset of that function, or 0 if they
 * are not such data.
 */
static uint64_t data_until(const struct flow *f, uint64_t off)
{
	const struct code_range *p = f->in.range;
	const uint64_t *entry = f->in.env->entries + p->entry;
	size_t i = SEARCH(p->entry_count, k, entry[k] <= p->start + off);
	uint64_t to = i < p->entry_count ? entry[i] - p->start : 0;
	struct step s;

	while (
		off < to &&
		step_decode_in(f->cache, p->bytes + off, p->end - p->start - off, f->in.readable - off, p->start + off, &s) &&
		s.flow == FLOW_NEXT)
		off += s.len;
	return off > to ? to : 0;
}

/* Is an offset in the middle of a walked instruction? */
static bool inside_step(const struct flow *f, uint64_t off)
{
	unsigned back;

	if (f->at[off])
		return false;
	for (back = 1; back < 15 && back <= off; back++) {
		uint32_t i = f->at[off - back];

		if (i && (f->seen[i - 1] & FLOW_WALKED))
			return f->steps[i - 1].len > back;
	}
	return false;
}

static int word32_order(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* For up to this many new jumps, table_is_cut() searches flow.walk.table_at linearly; for more, the list is sorted
 * first. */
#define FRESH_FEW 16u

/* Sorts flow.walk.table_at into table_sorted. */
static void starts_sort(struct flow *f)
{
	uint32_t *list = mem_copy(f->walk.table_at, f->jump_count * sizeof(*list));

	qsort(list, f->jump_count, sizeof(*list), word32_order);
	free(f->walk.table_sorted);
	f->walk.table_sorted = list;
}

/* Does another table of the code range begin among the entries of the table of j? Then the bound of the table of j is
 * too high. */
static bool table_is_cut(const struct flow *f, const struct flow_jump *j)
{
	uint64_t at = (uint32_t)j->what.off, end = at + (uint64_t)j->what.most * j->what.reg;
	size_t i;

	if (f->walk.table_sorted) {
		i = SEARCH(f->jump_count, k, f->walk.table_sorted[k] <= at);
		return i < f->jump_count && f->walk.table_sorted[i] < end;
	}
	for (i = 0; i < f->jump_count; i++)
		if (f->walk.table_at[i] > at && f->walk.table_at[i] < end)
			return true;
	return false;
}

/* The data of landing_row(), which flow_lands_wrong() uses to ask whether the row of .eh_frame at `addr` contradicts
 * the state. */
struct landing {
	const struct state *state;
	uint64_t addr;
	bool denied;
};

static void landing_row(void *ctx, const struct etch_cfi_row *row)
{
	struct landing *l = ctx;

	if (l->addr >= row->start && l->addr < row->end && row->rule.kind == ETCH_RULE_CALL)
		l->denied = state_witness(l->state, &row->rule) == WITNESS_DENIES;
}

bool flow_lands_wrong(const struct flow *f, const struct flow_jump *j, uint64_t target)
{
	struct landing l = {.state = &j->state, .addr = target};
	long fde = f->in.env->cfi ? cfi_file_at(f->in.env->cfi, target) : -1;

	if (fde >= 0)
		cfi_file_rows(f->in.env->cfi, (size_t)fde, 0, landing_row, &l);
	return l.denied;
}

/* Does any of the `size` bytes at `off` belong to a reached instruction? */
static bool any_reached(const struct flow *f, uint64_t off, unsigned size)
{
	for (; size--; off++)
		if ((f->at[off] && (f->seen[f->at[off] - 1] & FLOW_SCANNED)) || inside_step(f, off))
			return true;
	return false;
}

/*
 * Returns the number of entries of a table inside the code range for which the code shows no bound. The table ends at
 * the first reached code after its start, at the lowest of its own targets that lies after its start, or at the first
 * entry that is not a plausible target, whichever comes first.
 */
static unsigned inner_entries(const struct flow *f, const struct value *t)
{
	uint64_t size = flow_size(f), start = (uint32_t)t->off - f->in.range->start;
	uint64_t off = start, end = size;
	unsigned i;

	for (i = 0; i < UINT16_MAX && end - off >= t->reg && !any_reached(f, off, t->reg); i++, off += t->reg) {
		uint64_t target = jump_table_target(f, t, i) - f->in.range->start;

		if (target >= size || (target >= start && target < off + t->reg) || inside_step(f, target))
			break;
		if (target >= start && target < end)
			end = target;
	}
	return i;
}

/* Adds [start, end) to flow.walk.inner, merged with the elements that it overlaps, so that unreached() skips it. */
static void inner_add(struct flow *f, uint64_t start, uint64_t end)
{
	size_t k = inner_at(f, start), more = 0;

	if (k < f->walk.inner_count && f->walk.inner[k].start < start)
		start = f->walk.inner[k].start;
	while (k + more < f->walk.inner_count && f->walk.inner[k + more].start < end) {
		if (f->walk.inner[k + more].end > end)
			end = f->walk.inner[k + more].end;
		more++;
	}
	if (!more) {
		mem_reserve(&f->walk.inner, &f->walk.inner_capacity, f->walk.inner_count, sizeof(*f->walk.inner));
		memmove(f->walk.inner + k + 1, f->walk.inner + k, (f->walk.inner_count++ - k) * sizeof(*f->walk.inner));
	} else if (more > 1) {
		memmove(f->walk.inner + k + 1, f->walk.inner + k + more,
		        (f->walk.inner_count - k - more) * sizeof(*f->walk.inner));
		f->walk.inner_count -= more - 1;
	}
	f->walk.inner[k] = (struct flow_inner){(uint32_t)start, (uint32_t)end};
}

/* If a jump has a table inside the code range for which the code shows no bound, sets what.most to the number of
 * entries by inner_entries(). Returns false if the jump has no such table, or if the table has no entries. */
static bool inner_bound(struct flow *f, struct flow_jump *j)
{
	uint64_t start = (uint32_t)j->what.off - f->in.range->start;

	if (!j->table || !j->what.off || j->what.most || !flow_inside(f, (uint32_t)j->what.off))
		return false;
	j->what.most = (uint16_t)inner_entries(f, &j->what);
	if (j->what.most)
		inner_add(f, start, start + (uint64_t)j->what.most * j->what.reg);
	return j->what.most != 0;
}

/* Returns the number of entries of a jump's table, if the code shows a bound and all entries lead to instructions; else
 * 0. So a bound that is higher than the table is long, as it is if the compiler knew a lower one, counts as no
 * bound. */
static unsigned table_entries(const struct flow *f, const struct flow_jump *j)
{
	unsigned i;

	if (!j->table || !j->what.off || elf_is_object(f->in.env->file) || table_is_cut(f, j))
		return 0;
	for (i = 0; i < j->what.most; i++) {
		uint64_t target = jump_table_target(f, &j->what, i);

		if (flow_inside(f, target) ? inside_step(f, target - f->in.range->start)
		                           : !range_at(f->in.env, target) || flow_lands_wrong(f, j, target))
			return 0;
	}
	return i;
}

/* Determines how many entries of a jump's table can be followed, and lets control enter their targets that are inside
 * the code range. The state there is weak if the table has no bound. */
static void table_follow(struct flow *f, struct flow_jump *j)
{
	struct state s;
	unsigned i;

	j->is_new = false;
	if (inner_bound(f, j))
		j->entries = j->what.most;
	else if (j->what.most)
		j->entries = table_entries(f, j);
	else
		j->entries = j->table && j->what.off ? j->unbounded : 0;
	flow_agreed_undo(f, (size_t)(j - f->jumps));
	state_copy(&s, &j->state);
	state_unlimit(&s);
	s.weak |= !j->what.most;
	for (i = 0; i < j->entries; i++) {
		uint64_t target = jump_table_target(f, &j->what, i);

		if (flow_inside(f, target) && (j->what.most || !inside_step(f, target - f->in.range->start)))
			flow_enter(f, target, &s);
	}
}

/* Follows the tables of all jumps that are new or have a new state, until there are none. After each batch the states
 * are propagated, which may add such jumps. */
static void tables_follow(struct flow *f)
{
	while (f->walk.new_jump_count) {
		uint32_t *fresh = f->walk.new_jumps;
		size_t count = f->walk.new_jump_count, k;

		f->walk.new_jumps = NULL;
		f->walk.new_jump_count = f->walk.new_jump_capacity = 0;
		qsort(fresh, count, sizeof(*fresh), word32_order);
		if (count > FRESH_FEW)
			starts_sort(f);
		for (k = 0; k < count; k++)
			table_follow(f, &f->jumps[fresh[k]]);
		free(fresh);
		free(f->walk.table_sorted);
		f->walk.table_sorted = NULL;
		flow_walk(f);
	}
}

/* The maximum number of entries, per code range, that are read from tables without a bound. */
#define UNBOUNDED_MOST 65536u

/*
 * Returns the offset up to which a code range is searched for code that only its indirect jumps reach. s is the state
 * on which these agree. In an open code range, after whose function others may follow, the search ends with the reached
 * code and the targets of tables without a bound. But if s is the state at a function's entry, all of the range is
 * searched, since other functions begin in that state, too.
 */
static uint64_t looked_through(struct flow *f, const struct state *s)
{
	uint64_t end = f->found.extent;
	size_t k;
	unsigned i;

	if (!f->in.range->open || f->in.own_stack || state_is_entry(s))
		return flow_size(f);
	for (k = 0; k < f->jump_count; k++) {
		const struct flow_jump *j = &f->jumps[k];

		for (i = 0; j->table && j->what.off && !j->what.most && f->walk.unbounded_count < UNBOUNDED_MOST;
		     i++, f->walk.unbounded_count++) {
			uint64_t target = jump_table_target(f, &j->what, i);

			if (!flow_inside(f, target) || inside_step(f, target - f->in.range->start))
				break;
			if (target - f->in.range->start >= end)
				end = target - f->in.range->start + 1;
		}
	}
	return end;
}

/* Returns the address of the next table of the code range after `at`, or UINT64_MAX. */
static uint64_t next_table(const struct flow *f, uint64_t at)
{
	uint64_t next = UINT64_MAX;
	size_t k;

	for (k = 0; k < f->jump_count; k++)
		if (f->walk.table_at[k] > at && f->walk.table_at[k] < next)
			next = f->walk.table_at[k];
	return next;
}

/* The number of entries at the start of a table that may be unused. For example, an index that is the logarithm of a
 * width begins at 2 (4 bytes) or 3 (8 bytes). */
#define FIRST_MOST 3u

/* Returns the number of entries of a table without a bound, up to the last plausible target inside the code range. Up
 * to FIRST_MOST implausible entries at its beginning are included. */
static unsigned unbounded_entries(struct flow *f, const struct value *t)
{
	uint64_t end = next_table(f, (uint32_t)t->off), at = (uint32_t)t->off;
	unsigned i, good = 0;

	f->walk.unbounded_count += (uint32_t)(f->jump_count / 16);
	for (i = 0; at + t->reg <= end && i < UINT16_MAX && f->walk.unbounded_count < UNBOUNDED_MOST;
	     i++, at += t->reg, f->walk.unbounded_count++) {
		uint64_t target = jump_table_target(f, t, i);

		if (flow_inside(f, target) && !inside_step(f, target - f->in.range->start))
			good = i + 1;
		else if (good || i >= FIRST_MOST)
			break;
	}
	return good;
}

/* Follows tables without a bound in code without symbols and FDEs, where each jump may have another frame. This is done
 * before the remaining code gets the state on which all jumps agree. */
static void unbounded_follow(struct flow *f)
{
	for (; (f->in.own_stack || (f->in.relaxed && f->in.range->open)) && f->walk.unbounded_next < f->jump_count;
	     f->walk.unbounded_next++) {
		struct flow_jump *j = &f->jumps[f->walk.unbounded_next];

		if (!j->table || !j->what.off || j->what.most || j->is_new)
			continue;
		j->unbounded = (uint16_t)unbounded_entries(f, &j->what);
		if (!j->unbounded)
			continue;
		mem_reserve(&f->walk.new_jumps, &f->walk.new_jump_capacity, f->walk.new_jump_count, sizeof(*f->walk.new_jumps));
		j->is_new = true;
		f->walk.new_jumps[f->walk.new_jump_count++] = (uint32_t)f->walk.unbounded_next;
		tables_follow(f);
	}
}

/* A jump whose table the analysis does not understand adds no edge. The code that remains unreached is entered in the
 * state on which all such jumps of the range agree, as a weak state. If they disagree, this code gets no state, and its
 * rows come from .eh_frame. */
void jumps_follow(struct flow *f)
{
	uint64_t off = 0, end = 0, to;
	struct state s;

	tables_follow(f);
	unbounded_follow(f);
	if (f->in.own_stack && !f->in.env->runtime->switches(f))
		return;
	f->walk.jumps_agreed = false; /* each call decides this again */
	/* In code that links exception handlers into a list (traps.c), rsp differs from place to place, so that these jumps
	 * agree proves nothing about code that other jumps reach. */
	while (f->jump_count && !f->walk.has_traps) {
		if (!f->walk.jumps_agreed) {
			if (!(f->in.own_stack ? f->in.env->runtime->agree(f, &s) : jumps_agree(f, &s)))
				break;
			end = looked_through(f, &s);
			f->walk.jumps_agreed = true;
			s.weak = true;
		}
		off = unreached(f, off);
		if (off >= end && off >= f->found.extent)
			break;
		to = f->in.range->entry_count ? data_until(f, off) : 0;
		if (to) {
			off = to;
			continue;
		}
		flow_enter(f, f->in.range->start + off, &s);
		flow_walk(f);
		tables_follow(f);
		unbounded_follow(f);
		if (!flow_walked(f, off))
			off++; /* the bytes do not decode */
	}
}
