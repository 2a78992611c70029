/* SPDX-License-Identifier: MIT */
/*
 * inline.c: the sites of pv_call_inline: a jump to an indirect call, which is replaced by a nop while the slot holds
 * the function that is compiled in place after the jump.
 *
 * Such sites are few compared with others, and their table is in the linker's order, so each set of a slot scans the
 * whole table of its module.
 */
#include <string.h>

#include "patch/patch.h"

static uint64_t inline_site(const struct etch_inline *x) { return etch_ref((uint64_t)(uintptr_t)&x->site, x->site); }
static uint64_t inline_slot(const struct etch_inline *x) { return etch_ref((uint64_t)(uintptr_t)&x->slot, x->slot); }
static uint64_t inline_func(const struct etch_inline *x) { return etch_ref((uint64_t)(uintptr_t)&x->func, x->func); }

/* Code that the linker has dropped has no address in the module. */
static int is_dropped(const struct module *m, const struct etch_inline *x)
{
	return !image_segment(&m->image, inline_site(x), 1);
}

int inlines_ok(const struct module *m)
{
	for (size_t i = 0; i < m->inline_count; i++) {
		const struct etch_inline *x = &m->inlines[i];
		const struct segment *s;

		if (is_dropped(m, x))
			continue;
		s = image_segment(&m->image, inline_site(x), ETCH_INLINE_LEN);
		if (!s || (s->prot & (PROT_READ | PROT_EXEC)) != (PROT_READ | PROT_EXEC) ||
		    !etch_site_is_live(inline_site(x), ETCH_INLINE_LEN))
			return 0;
		s = image_segment(&m->image, inline_slot(x), 8);
		if (!s || !(s->prot & PROT_READ))
			return 0;
	}
	return 1;
}

static int plan_one(struct txn *t, const struct etch_inline *x, enum plan plan)
{
	uint64_t site = inline_site(x);
	const uint8_t *now = (const uint8_t *)(uintptr_t)site;
	int state = etch_inline_state(now);
	uint8_t have[ETCH_INLINE_HEAD], want[ETCH_INLINE_HEAD];

	if (state < 0)
		return now[0] == 0xcc ? ETCH_EBUSY : ETCH_ECODE;
	etch_inline_head(state, have);
	etch_inline_head(plan != PLAN_LOAD && txn_value_of(t, inline_slot(x), 8) == inline_func(x), want);
	return memcmp(have, want, sizeof(want)) ? txn_bytes(t, site, sizeof(want), have, want) : 0;
}

int txn_plan_inlines(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan)
{
	for (size_t i = 0; i < m->inline_count; i++) {
		const struct etch_inline *x = &m->inlines[i];
		uint64_t slot = inline_slot(x);
		const struct object *o;
		int err;

		if (slot + 8 <= from || slot >= to || is_dropped(m, x))
			continue;
		o = module_object(m, slot);
		if (!o || slot + 8 > o->addr + o->size || (plan == PLAN_SET && !(o->flags & OBJECT_ARMED)))
			continue;
		err = plan_one(t, x, plan);
		if (err)
			return err;
	}
	return 0;
}

/* Does this site hold the nop, so that the case compiled in place is executed? *should gets whether it should. If the
 * first byte is a breakpoint, the other bytes decide. Returns 1, 0, or -1 if the site holds neither nop nor jump. */
static int is_in_place(const struct etch_inline *x, int *should)
{
	const uint8_t *now = (const uint8_t *)(uintptr_t)inline_site(x);
	uint8_t bytes[ETCH_INLINE_HEAD];

	*should = *(const uint64_t *)(uintptr_t)inline_slot(x) == inline_func(x);
	memcpy(bytes, now, sizeof(bytes));
	if (bytes[0] == 0xcc)
		bytes[0] = bytes[1] == 0x1f ? 0x0f : 0x3e;
	return etch_inline_state(bytes);
}

long inlines_verify(const struct module *m, void (*report)(void *, const void *, const void *), void *arg)
{
	long differ = 0;

	for (size_t i = 0; i < m->inline_count; i++) {
		const struct etch_inline *x = &m->inlines[i];
		int should, is;

		if (is_dropped(m, x))
			continue;
		is = is_in_place(x, &should);
		if (!is || (is > 0 && should))
			continue; /* the jump is correct for every function */
		differ++;
		if (report)
			report(arg, (const void *)(uintptr_t)inline_site(x), (const void *)(uintptr_t)inline_slot(x));
	}
	return differ;
}

void inlines_info(const struct module *m, struct etch_info *info)
{
	for (size_t i = 0; i < m->inline_count; i++) {
		int should;

		if (is_dropped(m, &m->inlines[i]))
			continue;
		info->calls_in_place++;
		info->calls_in_place_now += is_in_place(&m->inlines[i], &should) > 0;
	}
}
