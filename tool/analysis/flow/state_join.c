/* SPDX-License-Identifier: MIT */
/* The lattice of abstract states: join and comparison of states, refinement by compares, and removal of values that are
 * no longer known or needed. */
#include "analysis/flow/state_internal.h"

/* Returns the join of two values: what is known of a value that is a on one path and b on another. It never raises the
 * bound of a, since a loop would raise it again and again. */
static struct value value_join(struct value a, struct value b)
{
	if (value_same(a, b))
		return a;
	if (a.kind == VALUE_ENTRY && b.kind == VALUE_ENTRY && a.reg == b.reg) {
		a.reloaded = 0;
		return a;
	}
	if ((a.kind == VALUE_BELOW || a.kind == VALUE_CONST) && (b.kind == VALUE_BELOW || b.kind == VALUE_CONST))
		return a.off == b.off || a.off > b.off ? value_of(VALUE_BELOW, 0, a.off) : VALUE_NONE;
	return VALUE_NONE;
}

/* Returns the slot of a state at the same place as another state's slot, or null. */
static const struct slot *slot_like(const struct state *s, const struct slot *x)
{
	return slot_at(s, value_of(x->aligned ? VALUE_ALIGNED : VALUE_CFA, 0, x->at));
}

/* Joins the registers of `other` into those of *s. Returns true if any has changed. */
static bool registers_join(struct state *s, const struct state *other)
{
	bool changed = false;
	unsigned mask;

	for (mask = s->known; mask; mask &= mask - 1) {
		unsigned r = (unsigned)__builtin_ctz(mask);
		struct value b = other->reg[r], m;

		if (!memcmp(&s->reg[r], &b, sizeof(b)) || s->reg[r].kind == VALUE_ANY) /* most joins change nothing */
			continue;
		if (b.kind == VALUE_ALIGNED && s->align != other->align)
			b = VALUE_NONE;
		m = value_join(s->reg[r], b);
		if (!value_same(m, s->reg[r])) {
			s->reg[r] = m;
			changed = true;
		}
	}
	s->known &= other->known;
	return changed;
}

/* Drops those slots of *s that `other` does not have with the same value. Returns true if it has dropped any. */
static bool slots_join(struct state *s, const struct state *other)
{
	bool changed = false;
	unsigned i;

	if (s->slot_count == other->slot_count && s->align == other->align &&
	    !memcmp(s->slot, other->slot, s->slot_count * sizeof(s->slot[0])))
		return false;
	for (i = 0; i < s->slot_count;) {
		const struct slot *mine = &s->slot[i];
		const struct slot *its = mine->aligned && s->align != other->align ? NULL : slot_like(other, mine);

		if (its && value_same(its->value, mine->value)) {
			i++;
		} else {
			slot_drop(s, i);
			changed = true;
		}
	}
	return changed;
}

bool state_join(struct state *s, const struct state *other)
{
	bool changed = (other->weak && !s->weak) || (s->dead && !other->dead);

	if (s->frame != other->frame && s->frame != FRAME_MIXED) {
		s->frame = FRAME_MIXED;
		changed = true;
	}
	s->weak |= other->weak;
	s->dead &= other->dead;
	if (s->align && s->align != other->align) {
		state_unalign(s);
		changed = true;
	}
	changed |= registers_join(s, other);
	return slots_join(s, other) || changed;
}

bool state_same(const struct state *a, const struct state *b)
{
	unsigned i;

	if (a->align != b->align || a->slot_count != b->slot_count || a->frame != b->frame)
		return false;
	for (i = 0; i < 16; i++)
		if (!value_same(a->reg[i], b->reg[i]))
			return false;
	for (i = 0; i < a->slot_count; i++) {
		const struct slot *x = &a->slot[i];
		const struct slot *y = slot_like(b, x);

		if (!y || !value_same(x->value, y->value))
			return false;
	}
	return true;
}

void state_drop_constants(struct state *s)
{
	unsigned mask;

	for (mask = s->known & ~bit(RSP); mask; mask &= mask - 1) { /* the bit of rsp in state.known is always set */
		unsigned r = (unsigned)__builtin_ctz(mask);

		if (!value_is_plain(s->reg[r])) {
			s->reg[r] = VALUE_NONE;
			s->known &= (uint16_t)~bit(r);
		}
	}
	s->constants = 0;
}

void state_equal(struct state *s, unsigned a, unsigned b)
{
	if (s->reg[a].kind == VALUE_CFA && s->reg[b].kind != VALUE_CFA)
		s->reg[b] = s->reg[a];
	else if (s->reg[b].kind == VALUE_CFA && s->reg[a].kind != VALUE_CFA)
		s->reg[a] = s->reg[b];
	else
		return;
	s->known |= bit(a) | bit(b);
}

void state_limit(struct state *s, unsigned r, int64_t n)
{
	struct value v = s->reg[r];

	/* A bound must not replace the value that the caller needs back. */
	if (!s->constants || n < 0 || n > INT32_MAX || (v.kind == VALUE_ENTRY && (STEP_CALLEE_SAVED >> r & 1)))
		return;
	if (v.kind == VALUE_ANY || v.kind == VALUE_ENTRY || (v.kind == VALUE_BELOW && v.off > n)) {
		s->reg[r] = value_of(VALUE_BELOW, 0, (int32_t)n);
		s->known |= bit(r);
	}
}

void state_not(struct state *s, unsigned r, int64_t n)
{
	if (s->reg[r].kind == VALUE_BELOW && s->reg[r].off == n && n > 0)
		s->reg[r].off--;
}

void state_unlimit(struct state *s)
{
	unsigned r;

	for (r = 0; r < 16; r++)
		if (s->reg[r].kind == VALUE_BELOW)
			s->reg[r] = (struct value){0};
}

bool state_returns(const struct state *s) { return value_is_entry(slot_load(s, s->reg[RSP]), REG_RA); }

bool state_is_entry(const struct state *s)
{
	unsigned r, mask;
	bool other = false;

	if (s->reg[RSP].kind != VALUE_CFA || s->reg[RSP].off != -8)
		return false;
	for (mask = STEP_CALLEE_SAVED; mask; mask &= mask - 1) {
		r = (unsigned)__builtin_ctz(mask);
		other |= (s->reg[r].kind != VALUE_ENTRY) | (s->reg[r].reg != r);
	}
	return !other;
}
