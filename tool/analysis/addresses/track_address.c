/* SPDX-License-Identifier: MIT */
/* Computes sums of addresses and indexes, and values that are one of two, to find which bytes of an object an operand
 * refers to. */
#include "analysis/addresses/track_internal.h"

int64_t track_moved(int64_t off, int64_t by) { return (int64_t)((uint64_t)off + (uint64_t)by); }

void track_index_add(struct addr_value *v, const struct addr_state *s, unsigned r, unsigned scale)
{
	const struct addr_value *by;
	unsigned k;

	if (r >= REGS)
		return;
	by = &s->reg[r];
	v->off = track_moved(v->off, (int64_t)((uint64_t)by->off * scale));
	v->placed = v->exact && by->object < 0 && by->placed;
	v->more_count = v->placed ? by->more_count : 0;
	for (k = 0; k < v->more_count; k++)
		v->more[k] = (int64_t)((uint64_t)by->more[k] * scale);
	v->rooted = (v->rooted || v->exact) && !by->choice && by->object < 0 && !v->placed;
	v->exact = false;
}

/* Adds the places of v to a sorted list without duplicates, which has enough space. Returns the new length. */
static unsigned places_add(int64_t *list, unsigned count, const struct addr_value *v)
{
	unsigned k, i, j;

	for (k = 0; k <= v->more_count; k++) {
		int64_t off = k ? track_moved(v->off, v->more[k - 1]) : v->off;

		for (i = 0; i < count && list[i] < off; i++)
			;
		if (i < count && list[i] == off)
			continue;
		for (j = count++; j > i; j--)
			list[j] = list[j - 1];
		list[i] = off;
	}
	return count;
}

bool track_places_join(const struct addr_value *a, const struct addr_value *v, struct addr_value *out)
{
	int64_t list[2 * (PLACES_MORE + 1)] = {0};
	unsigned count = 0, k, most = PLACES_MORE + 1;
	bool both = a->object == v->object;

	if (both && a->got != v->got)
		return false;
	*out = a->object >= 0 ? *a : *v;
	if (both || a->object >= 0) {
		if (!a->exact && !a->placed)
			return false;
		count = places_add(list, count, a);
	}
	if (both || v->object >= 0) {
		if (!v->exact && !v->placed)
			return false;
		count = places_add(list, count, v);
	}
	if (out->object < 0)
		most = 2; /* so that a loop that counts reaches its fixpoint soon */
	if (count > most)
		return false;
	out->exact = false;
	out->placed = true;
	out->off = list[0];
	out->more_count = (uint8_t)(count - 1);
	for (k = 1; k < count; k++)
		out->more[k - 1] = track_moved(list[k], (int64_t) - (uint64_t)list[0]);
	return true;
}

struct addr_value track_operand(const struct track *t, const struct addr_state *s, size_t i, bool *in_register)
{
	const struct insn *in = &t->f->code->insns[i];
	const struct ref *m = &t->f->mem[i];
	struct addr_value v = nothing;
	unsigned other = in->index, scale = in->scale;
	bool moves_on = false;

	*in_register = false;
	if (in->mem == MEM_NONE)
		return v;
	if (m->object >= 0) {
		v = (struct addr_value){.object = m->object, .exact = true, .beside = m->beside, .off = m->off, .rooted = true};
		if (in->base < REGS)
			track_index_add(&v, s, in->base, 1);
	} else if (in->base < REGS && s->reg[in->base].object >= 0) {
		v = s->reg[in->base];
		*in_register = true;
	} else if (in->index < REGS && s->reg[in->index].object >= 0) {
		v = s->reg[in->index];
		v.rooted = v.rooted && in->scale == 1;
		/* The base register may hold one of two constants. */
		v.exact = v.exact && in->scale == 1 && in->base < REGS;
		if (in->scale != 1)
			track_places_drop(&v);
		other = in->base;
		scale = 1;
		*in_register = true;
	} else {
		return v;
	}
	if (m->object < 0) {
		v.off = track_moved(v.off, in->disp);
		/* If a lea advances a pointer in a loop, the root of the pointer stays the same. */
		moves_on = in->move == MOVE_ADDRESS && in->dst == in->base && in->index == INSN_NO_REG;
	}
	track_index_add(&v, s, other, scale);
	if (in->scale && in->index >= REGS)
		v = (struct addr_value){.object = v.object,
		                        .got = v.got,
		                        .beside = v.beside,
		                        .choice = v.choice}; /* the index is a vector register */
	if (!moves_on)
		v.root = v.off;
	return v;
}

void track_sum(const struct addr_state *s, const struct insn *in, struct addr_value *result)
{
	if (result->object >= 0 || in->base == INSN_PC_REG || in->no_escape)
		return;
	*result = nothing;
	result->off = in->disp;
	if (in->base < REGS) {
		result->off = track_moved(result->off, s->reg[in->base].off);
		result->choice |= s->reg[in->base].choice;
	}
	if (in->index < REGS) {
		result->off = track_moved(result->off, (int64_t)((uint64_t)s->reg[in->index].off * in->scale));
		result->choice |= s->reg[in->index].choice;
	}
}

struct addr_value track_sum_load(const struct addr_state *s, const struct insn *in, const struct addr_value *slot)
{
	const struct addr_value *by = &s->reg[in->dst];
	struct addr_value v = *slot;

	if (by->object < 0 && by->exact && v.exact)
		v.off = track_moved(v.off, by->off);
	else
		track_index_add(&v, s, in->dst, 1);
	v.root = v.off;
	return v;
}

void track_registers_sum(const struct addr_state *s, const struct insn *in, struct addr_value *result, uint16_t *data)
{
	unsigned other = s->reg[in->dst].object >= 0 ? in->src : in->dst;

	if (s->reg[in->dst].object >= 0 && s->reg[in->src].object >= 0)
		return;
	*data &= (uint16_t) ~(1u << in->dst | 1u << in->src);
	*result = s->reg[other == in->src ? in->dst : in->src];
	if (result->object < 0) {
		result->off = track_moved(result->off, s->reg[other].off);
		result->exact = result->exact && s->reg[other].exact;
		if (!s->reg[other].exact)
			track_places_drop(result);
		result->choice |= s->reg[other].choice;
	} else {
		track_index_add(result, s, other, 1);
		result->root = result->off;
	}
}

/* ---- values that are one of two ------------------------------------------------- */

bool track_choice(struct track *t, const struct addr_state *s, size_t i, uint16_t *data, struct addr_value *out,
                  unsigned *reg)
{
	const struct insn *in = &t->f->code->insns[i];
	const uint8_t *bytes = func_bytes_of(t->f->fn, in);
	unsigned source, shift, bit = insn_setcc_register(bytes, in);

	*reg = bit < REGS ? bit : in->dst;
	if (*reg >= REGS || in->move != MOVE_NONE)
		return false;
	source = insn_cmov_source(bytes, in);
	shift = insn_left_shift(bytes, in);
	*out = s->reg[*reg];
	if (source < REGS) {
		*data &= (uint16_t) ~(1u << in->dst | 1u << source);
		if (out->object != s->reg[source].object && track_only_set(t, i + 1, in->dst))
			*out = nothing;
		else
			track_join(t, i, in->dst, out, &s->reg[source]);
		out->choice |= out->object < 0;
		return true;
	}
	if (insn_clears_register(bytes, in)) {
		*out = nothing;
		out->exact = true;
		return true;
	}
	if (out->object >= 0 || out->off)
		return false;
	if (bit < REGS && out->exact) {
		out->exact = false;
		out->placed = true;
		out->more_count = 1;
		out->more[0] = 1;
	} else if (shift && out->more_count == 1 && out->more[0] == 1) {
		out->more[0] = (int64_t)1 << shift;
	} else {
		return false;
	}
	out->choice = true;
	return true;
}
