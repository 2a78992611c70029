/* SPDX-License-Identifier: MIT */
/* Bitmaps of reached instructions, which the workers of the analysis fill at the same time. */
#include "analysis/flow/reached.h"

#include "analysis/flow/flow.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

void reached_init(struct reached *r, const struct code_space *space)
{
	size_t i;

	r->bits = mem_zero(space->count, sizeof(*r->bits));
	r->count = space->count;
	for (i = 0; i < r->count; i++)
		r->bits[i] = mem_zero(space->list[i].size / 8 + 1, 1);
}

void reached_free(struct reached *r)
{
	size_t i;

	for (i = 0; i < r->count; i++)
		free(r->bits[i]);
	free(r->bits);
	memset(r, 0, sizeof(*r));
}

/* Clears the bits in [start, end). Changes the bytes at both ends atomically, since these may also contain bits of
 * adjacent code ranges, on which other threads may work. */
static void range_clear(uint8_t *bits, uint64_t start, uint64_t end)
{
	for (; start < end && (start & 7); start++)
		__atomic_fetch_and(&bits[start / 8], (uint8_t) ~(1u << (start & 7)), __ATOMIC_RELAXED);
	if (end - start >= 8 && start < end) {
		memset(bits + start / 8, 0, (end - start) / 8);
		start += (end - start) / 8 * 8;
	}
	for (; start < end; start++)
		__atomic_fetch_and(&bits[start / 8], (uint8_t) ~(1u << (start & 7)), __ATOMIC_RELAXED);
}

void reached_take(struct reached *r, const struct code_space *space, const struct flow *f)
{
	const struct code_section *c = space_at(space, f->in.range->start);
	uint64_t start;
	uint8_t *bits;
	size_t i;

	if (!c || !r->bits)
		return;
	bits = r->bits[c - space->list];
	start = f->in.range->start - c->addr;
	range_clear(bits, start, f->in.range->end - c->addr);
	for (i = 0; i < f->step_count; i++) {
		uint64_t at = start + f->step_at[i];

		if (f->seen[i] & FLOW_SCANNED)
			__atomic_fetch_or(&bits[at / 8], (uint8_t)(1u << (at & 7)), __ATOMIC_RELAXED);
	}
}

uint64_t reached_next(const struct reached *r, const struct code_space *space, size_t section, uint64_t addr)
{
	const struct code_section *c = &space->list[section];
	uint64_t at = addr > c->addr ? addr - c->addr : 0;
	const uint8_t *bits;

	if (section >= r->count)
		return UINT64_MAX;
	bits = r->bits[section];
	while (at < c->size) {
		unsigned left = (unsigned)bits[at / 8] >> (at & 7);

		if (left)
			return c->addr + at + (unsigned)__builtin_ctz(left);
		at = (at / 8 + 1) * 8;
	}
	return UINT64_MAX;
}

bool reached_at(const struct reached *r, const struct code_space *space, uint64_t addr)
{
	const struct code_section *c = space_at(space, addr);
	uint64_t at;

	if (!c || !r->bits)
		return false;
	at = addr - c->addr;
	return r->bits[c - space->list][at / 8] >> (at & 7) & 1;
}
