/* SPDX-License-Identifier: MIT */
/*
 * static_branch.c: static branches (etch/branch.h): a jump to code that reads the variable, which is replaced by a
 * nop or by a jump to the way that the variable's value takes, while its object is armed.
 *
 * The records are in the linker's order, so a set scans the whole table of its module, as the set of a slot scans
 * __pv_inline (inline.c).
 */
#include "patch/static_branch.h"

#include "patch/parts.h"

PART_WORD(4, ETCH_PART_BRANCHES_SYMBOL);

/* The records of one site, from first to end. */
struct group {
	const struct etch_branch *first, *end;
	uint64_t site, load, object;
	unsigned size;
};

/* Code that the linker has dropped has no address in the module. If the record has an address in a register, its
 * variable is unknown. */
static int is_empty(const struct module *m, const struct etch_branch *x)
{
	return x->kind == ETCH_BRANCH_NONE || x->lea != ETCH_BRANCH_LEA ||
	       !image_segment(&m->image, field_target(&x->site), 1);
}

/* Finds the site whose records begin at *i, and moves *i past them. Returns 0 if the record is empty. */
static int group_next(const struct module *m, size_t *i, struct group *g)
{
	const struct etch_branch *x = &m->branches[(*i)++], *end = m->branches + m->branch_count;

	if (is_empty(m, x))
		return 0;
	*g = (struct group){.first = x,
	                    .site = field_target(&x->site),
	                    .load = field_target(&x->load),
	                    .object = field_target(&x->obj) + sizeof(x->obj),
	                    .size = x->size};
	for (x++; g->first->kind == ETCH_BRANCH_EQUAL && x < end && !is_empty(m, x) && field_target(&x->site) == g->site;
	     x++)
		++*i;
	g->end = x;
	return 1;
}

int branches_ok(const struct module *m)
{
	for (size_t i = 0; i < m->branch_count; i++) {
		const struct etch_branch *x = &m->branches[i];
		const struct segment *s;

		if (is_empty(m, x))
			continue;
		s = image_segment(&m->image, field_target(&x->obj) + sizeof(x->obj), x->size);
		if (!etch_branch_valid(x) || !s || !(s->prot & PROT_READ) ||
		    !range_has(m, field_target(&x->site), ETCH_BRANCH_LEN, PROT_READ | PROT_EXEC) ||
		    !range_has(m, field_target(&x->load), 1, PROT_READ | PROT_EXEC) ||
		    !range_has(m, field_target(&x->target), 1, PROT_READ | PROT_EXEC))
			return 0;
	}
	return 1;
}

/* The address at which a site continues while its variable has this value. */
static uint64_t goes_to(const struct group *g, uint64_t value)
{
	const struct etch_branch *x = g->first;

	for (; x < g->end; x++)
		if (etch_branch_takes(x, value))
			return field_target(&x->target);
	return g->first->kind == ETCH_BRANCH_EQUAL ? g->load : g->site + ETCH_BRANCH_LEN;
}

/* The address at which execution continues after these bytes of a site; 0 if neither etch nor the compiler wrote such
 * bytes there. */
static uint64_t went_to(const struct group *g, const uint8_t *have)
{
	uint64_t next = g->site + ETCH_BRANCH_LEN, to;
	uint8_t image[ETCH_BRANCH_LEN];
	uint32_t rel;

	etch_branch_nop(image);
	if (same_bytes(have, image, sizeof(image)))
		return next;
	if (have[0] != 0xe9)
		return 0;
	memcpy(&rel, have + 1, sizeof(rel));
	to = next + (uint64_t)(int64_t)(int32_t)rel;
	if (to == g->load)
		return to;
	for (const struct etch_branch *x = g->first; x < g->end; x++)
		if (field_target(&x->target) == to)
			return to;
	return 0;
}

static int plan_one(struct txn *t, const struct group *g, enum plan plan)
{
	uint8_t have[ETCH_BRANCH_LEN], want[ETCH_BRANCH_LEN];
	uint64_t was, to = plan == PLAN_LOAD ? g->load : goes_to(g, txn_value_of(t, g->object, g->size));

	memcpy(have, (const void *)(uintptr_t)g->site, sizeof(have));
	was = went_to(g, have);
	if (!was)
		return have[0] == 0xcc ? ETCH_EBUSY : ETCH_ECODE;
	if (was == to || !etch_branch_image(g->site, to, want))
		return was == to ? 0 : ETCH_EFORMAT;
	return txn_site(t, g->site, sizeof(want), bytes_value(have, sizeof(have)), bytes_value(want, sizeof(want)),
	                was == g->load);
}

int txn_plan_branches(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan)
{
	struct group g;

	for (size_t i = 0; i < m->branch_count;) {
		const struct object *o;
		int err;

		if (!group_next(m, &i, &g) || g.object + g.size <= from || g.object >= to)
			continue;
		o = module_object(m, g.object);
		if (!o || g.object + g.size > o->addr + o->size || (plan == PLAN_SET && !(o->flags & OBJECT_ARMED)))
			continue;
		err = plan_one(t, &g, plan);
		if (err)
			return err;
	}
	return 0;
}

/* The address at which execution continues after the site as it is now. If its first byte is a breakpoint, the others
 * decide. */
static uint64_t current_target(const struct group *g)
{
	uint8_t have[ETCH_BRANCH_LEN];

	memcpy(have, (const void *)(uintptr_t)g->site, sizeof(have));
	if (have[0] == 0xcc)
		have[0] = have[1] == 0x1f && have[2] == 0x44 ? 0x0f : 0xe9;
	return went_to(g, have);
}

long branches_verify(const struct module *m, void (*report)(void *, const void *, const void *), void *arg)
{
	long differ = 0;
	struct group g;

	for (size_t i = 0; i < m->branch_count;) {
		uint64_t now;

		if (!group_next(m, &i, &g))
			continue;
		now = current_target(&g);
		/* The code that reads memory is correct for every value. */
		if (now && (now == g.load || now == goes_to(&g, memory_value(g.object, g.size))))
			continue;
		differ++;
		if (report)
			report(arg, (const void *)(uintptr_t)g.site, (const void *)(uintptr_t)g.object);
	}
	return differ;
}

void branches_info(const struct module *m, struct etch_info *info)
{
	struct group g;

	for (size_t i = 0; i < m->branch_count;)
		if (group_next(m, &i, &g)) {
			info->branches++;
			info->branches_static += current_target(&g) != g.load;
		}
}

const struct part_branches part_branches = {.ok = branches_ok, .plan = txn_plan_branches};
