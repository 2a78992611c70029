/* SPDX-License-Identifier: MIT */
/* Indirect jumps: their tables, and the code that nothing else reaches. */
#include "code/flow_parts.h"
#include "code/haskell.h"
#include "code/vector.h"

#include <stdlib.h>
#include <string.h>

/*
 * The state that all indirect jumps of the piece agree on, as far as rules go.
 * A jump in the state of a function's entry is a tail call, unless its target
 * comes from a table.
 */
static bool is_open(const struct flow *f, const struct flow_jump *j)
{
	struct etch_rule rule;

	if (j->what.most && j->entries == j->what.most)
		return false; /* all of its targets are known */
	if (j->table || f->piece->plt)
		return true;
	state_rule(&j->state, &rule);
	return !state_is_entry(&j->state) && rule.kind != ETCH_RULE_UNDEF;
}

/* Goes on from where it was when it was asked last, unless one of those jumps has changed since. */
static bool jumps_agree(struct flow *f, struct state *out)
{
	struct flow_agreed *a = &f->agreed;
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
			state_merge(&a->state, &j->state);
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

/* The number of the first table among the code that ends behind an offset. */
static size_t inner_at(const struct flow *f, uint64_t off)
{
	size_t lo = 0, hi = f->inner_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->inner[mid].end <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The first instruction from `off` on that nothing has reached and that is neither
 * padding nor in a table; the piece's size when there is none. */
static uint64_t unreached(struct flow *f, uint64_t off)
{
	uint64_t size = f->piece->end - f->piece->start, table;

	while (off < size) {
		size_t k = f->inner_count ? inner_at(f, off) : 0;
		uint32_t i;

		if (k < f->inner_count && f->inner[k].start <= off) {
			off = f->inner[k].end;
			continue;
		}
		if (f->at[off] && (f->seen[f->at[off] - 1] & FLOW_SCANNED)) {
			off += f->steps[f->at[off] - 1].len;
			continue;
		}
		i = flow_step(f, off);
		if (f->haskell && (table = haskell_table(f, off)) != 0) {
			off += table;
			continue;
		}
		if (i != NO_STEP && !f->steps[i].padding)
			return off;
		off += i == NO_STEP ? 1 : f->steps[i].len;
	}
	return size;
}

/* Where the entry of a table that is at `bytes` leads. */
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

/* Entry i of a jump table; 0: there is none. */
uint64_t jump_table_target(const struct flow *f, const struct value *t, unsigned i)
{
	uint64_t at = (uint64_t)(uint32_t)t->off + (uint64_t)i * t->reg;
	const struct piece *p = f->piece;
	const uint8_t *bytes = at >= p->start && at < p->end && p->end - at >= t->reg ? p->bytes + (at - p->start)
	                                                                              : elf_at(f->env->file, at, t->reg);

	return bytes ? entry_target(t, bytes) : 0;
}

/* In the middle of an instruction that has been reached? */
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

/* So many tables are looked through for each jump that is new; where more are new, they are sorted. */
#define FRESH_FEW 16u

/* Where the tables of the piece begin, in order. False: out of memory. */
static bool starts_sort(struct flow *f)
{
	uint32_t *list = f->jump_count ? malloc(f->jump_count * sizeof(*list)) : NULL;

	if (!list)
		return false;
	memcpy(list, f->table_at, f->jump_count * sizeof(*list));
	qsort(list, f->jump_count, sizeof(*list), word32_order);
	free(f->table_sorted);
	f->table_sorted = list;
	return true;
}

/* Another table of the piece begins among the entries of this one. */
static bool table_is_cut(const struct flow *f, const struct flow_jump *j)
{
	uint64_t at = (uint32_t)j->what.off, end = at + (uint64_t)j->what.most * j->what.reg;
	size_t lo = 0, hi = f->jump_count;

	for (; !f->table_sorted && lo < hi; lo++)
		if (f->table_at[lo] > at && f->table_at[lo] < end)
			return true;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->table_sorted[mid] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->jump_count && f->table_sorted[lo] < end;
}

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

/* A target in another piece, whose .eh_frame has another frame there: beyond the table's end.
 * (Where both are of one function, its cold part, they agree.) */
static bool lands_wrong(const struct flow *f, const struct flow_jump *j, uint64_t target)
{
	struct landing l = {.state = &j->state, .addr = target};
	long fde = f->env->cfi ? cfi_file_at(f->env->cfi, target) : -1;

	if (fde >= 0)
		cfi_file_rows(f->env->cfi, (size_t)fde, 0, landing_row, &l);
	return l.denied;
}

/* Has any of these bytes been taken for an instruction that is reached? */
static bool any_reached(const struct flow *f, uint64_t off, unsigned size)
{
	for (; size--; off++)
		if ((f->at[off] && (f->seen[f->at[off] - 1] & FLOW_SCANNED)) || inside_step(f, off))
			return true;
	return false;
}

/*
 * The entries of a table that lies among the code of the piece, and has no bound that the code
 * shows: it ends where code begins, at the lowest of its own targets behind it, if not before.
 */
static unsigned inner_entries(const struct flow *f, const struct value *t)
{
	uint64_t size = f->piece->end - f->piece->start, start = (uint32_t)t->off - f->piece->start;
	uint64_t off = start, end = size;
	unsigned i;

	for (i = 0; i < UINT16_MAX && end - off >= t->reg && !any_reached(f, off, t->reg); i++, off += t->reg) {
		uint64_t target = entry_target(t, f->piece->bytes + off) - f->piece->start;

		if (target >= size || (target >= start && target < off + t->reg) || inside_step(f, target))
			break;
		if (target >= start && target < end)
			end = target;
	}
	return i;
}

/* These bytes are a table: nobody takes them for code that has not been reached. */
static void inner_add(struct flow *f, uint64_t start, uint64_t end)
{
	size_t k = inner_at(f, start), more = 0;

	if (k < f->inner_count && f->inner[k].start < start)
		start = f->inner[k].start;
	while (k + more < f->inner_count && f->inner[k + more].start < end) {
		if (f->inner[k + more].end > end)
			end = f->inner[k + more].end;
		more++;
	}
	if (!more) {
		if (!room_make(&f->inner, &f->inner_room, f->inner_count, sizeof(*f->inner))) {
			f->failed = true;
			return;
		}
		memmove(f->inner + k + 1, f->inner + k, (f->inner_count++ - k) * sizeof(*f->inner));
	} else if (more > 1) {
		memmove(f->inner + k + 1, f->inner + k + more, (f->inner_count - k - more) * sizeof(*f->inner));
		f->inner_count -= more - 1;
	}
	f->inner[k] = (struct flow_inner){(uint32_t)start, (uint32_t)end};
}

/* Whether the table of a jump is such a one; then all of its entries are known. */
static bool is_inner(struct flow *f, struct flow_jump *j)
{
	uint64_t start = (uint32_t)j->what.off - f->piece->start;

	if (!j->table || !j->what.off || j->what.most || !flow_inside(f, (uint32_t)j->what.off))
		return false;
	j->what.most = (uint16_t)inner_entries(f, &j->what);
	if (j->what.most)
		inner_add(f, start, start + (uint64_t)j->what.most * j->what.reg);
	return j->what.most != 0;
}

/* How many entries of its table a jump can take, where the code shows a bound and all of
 * them lead to instructions. A bound that the compiler knew better is none. */
static unsigned table_entries(const struct flow *f, const struct flow_jump *j)
{
	unsigned i;

	if (!j->table || !j->what.off || elf_is_object(f->env->file) || table_is_cut(f, j))
		return 0;
	for (i = 0; i < j->what.most; i++) {
		uint64_t target = jump_table_target(f, &j->what, i);

		if (flow_inside(f, target) ? inside_step(f, target - f->piece->start)
		                           : !piece_at(f->env, target) || lands_wrong(f, j, target))
			return 0;
	}
	return i;
}

static void table_follow(struct flow *f, struct flow_jump *j)
{
	struct state s;
	unsigned i;

	j->fresh = false;
	j->entries = is_inner(f, j) ? j->what.most : j->what.most ? table_entries(f, j) : 0;
	if (j->table && j->what.off && !j->what.most)
		j->entries = j->guess;
	flow_agreed_undo(f, (size_t)(j - f->jumps));
	state_copy(&s, &j->state);
	state_unlimit(&s);
	s.weak |= !j->what.most;
	for (i = 0; i < j->entries; i++) {
		uint64_t target = jump_table_target(f, &j->what, i);

		if (flow_inside(f, target) && (j->what.most || !inside_step(f, target - f->piece->start)))
			flow_enter(f, target, &s);
	}
}

/* Jumps whose table is known lead there: those that are new, or have a new state. No jump becomes so
 * until all of these have been followed. */
static void tables_follow(struct flow *f)
{
	while (f->fresh_jump_count && !f->failed) {
		uint32_t *fresh = f->fresh_jumps;
		size_t count = f->fresh_jump_count, k;

		f->fresh_jumps = NULL;
		f->fresh_jump_count = f->fresh_jump_room = 0;
		qsort(fresh, count, sizeof(*fresh), word32_order);
		if (count > FRESH_FEW && !starts_sort(f))
			f->failed = true;
		for (k = 0; k < count && !f->failed; k++)
			table_follow(f, &f->jumps[fresh[k]]);
		free(fresh);
		free(f->table_sorted);
		f->table_sorted = NULL;
		flow_walk(f);
	}
}

/* Entries that are read of tables without a bound, of one piece. */
#define GUESS_MOST 65536u

/*
 * Up to where a piece is looked through for code that only its indirect jumps reach, in the state
 * that they agree on. Where nothing says where it ends, that is as far as its flow goes, and to the
 * targets of tables without a bound, as long as these lie in it: what is behind may be other functions.
 * They, too, begin in the state of an entry.
 */
static uint64_t looked_through(struct flow *f, const struct state *s)
{
	uint64_t end = f->hull;
	size_t k;
	unsigned i;

	if (!f->piece->open || f->haskell || state_is_entry(s))
		return f->piece->end - f->piece->start;
	for (k = 0; k < f->jump_count; k++) {
		const struct flow_jump *j = &f->jumps[k];

		for (i = 0; j->table && j->what.off && !j->what.most && f->guesses < GUESS_MOST; i++, f->guesses++) {
			uint64_t target = jump_table_target(f, &j->what, i);

			if (!flow_inside(f, target) || inside_step(f, target - f->piece->start))
				break;
			if (target - f->piece->start >= end)
				end = target - f->piece->start + 1;
		}
	}
	return end;
}

/* The place of the next table behind one: of those of the piece. */
static uint64_t next_table(const struct flow *f, uint64_t at)
{
	uint64_t next = UINT64_MAX;
	size_t k;

	for (k = 0; k < f->jump_count; k++)
		if (f->table_at[k] > at && f->table_at[k] < next)
			next = f->table_at[k];
	return next;
}

/* An index that is the logarithm of a width begins with that of 4 or 8. */
#define FIRST_MOST 3u

/* Entries of a table without a bound that lead to where code of the piece may be; a few at its beginning
 * that do not are counted with them. */
static unsigned guessed_entries(struct flow *f, const struct value *t)
{
	uint64_t end = next_table(f, (uint32_t)t->off), at = (uint32_t)t->off;
	unsigned i, good = 0;

	f->guesses += (uint32_t)(f->jump_count / 16);
	for (i = 0; at + t->reg <= end && i < UINT16_MAX && f->guesses < GUESS_MOST; i++, at += t->reg, f->guesses++) {
		uint64_t target = jump_table_target(f, t, i);

		if (flow_inside(f, target) && !inside_step(f, target - f->piece->start))
			good = i + 1;
		else if (good || i >= FIRST_MOST)
			break;
	}
	return good;
}

/* Code that nothing covers has such tables, each with a frame of its own: they are followed, before all that they
 * do not lead to is taken for what any jump may reach. */
static void guesses_follow(struct flow *f)
{
	for (; (f->haskell || (f->lenient && f->piece->open)) && f->guessed < f->jump_count && !f->failed; f->guessed++) {
		struct flow_jump *j = &f->jumps[f->guessed];

		if (!j->table || !j->what.off || j->what.most || j->fresh)
			continue;
		j->guess = (uint16_t)guessed_entries(f, &j->what);
		if (!j->guess)
			continue;
		if (!room_make(&f->fresh_jumps, &f->fresh_jump_room, f->fresh_jump_count, sizeof(*f->fresh_jumps))) {
			f->failed = true;
			return;
		}
		j->fresh = true;
		f->fresh_jumps[f->fresh_jump_count++] = (uint32_t)f->guessed;
		tables_follow(f);
	}
}

void jumps_follow(struct flow *f)
{
	uint64_t off = 0, end = 0;
	struct state s;

	tables_follow(f);
	guesses_follow(f);
	if (f->haskell && !haskell_switches(f))
		return;
	f->jumps_agreed = false; /* what they agree on is asked for in each call */
	while (f->jump_count && !f->failed) {
		if (!f->jumps_agreed) {
			if (!(f->haskell ? haskell_agree(f, &s) : jumps_agree(f, &s)))
				break;
			end = looked_through(f, &s);
			f->jumps_agreed = true;
			s.weak = true;
		}
		off = unreached(f, off);
		if (off >= end && off >= f->hull)
			break;
		flow_enter(f, f->piece->start + off, &s);
		flow_walk(f);
		tables_follow(f);
		guesses_follow(f);
		if (!flow_walked(f, off))
			off++; /* out of memory, or nothing decodes */
	}
}
