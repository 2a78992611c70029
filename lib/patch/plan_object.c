/* SPDX-License-Identifier: MIT */
/* plan_object.c: plans all sites of an object, to be armed or released. */
#include "patch/parts.h"
#include "patch/walk.h"

/* The immediate or displacement ends the instruction; re-encoding its value must give all the other bytes. */
int immediate_of_some_value(const struct etch_imv *e, const uint8_t *bytes)
{
	/* Without the other forms all have four bytes. */
	struct etch_form_info f = &part_objects ? part_objects.info(e->form) : (struct etch_form_info){.width = 4};
	unsigned len = etch_imv_len(e), imm = f.width == 1 ? 1 : f.width == 2 ? 2 : 4;
	uint64_t tail = 0;
	uint8_t out[16];

	if (f.imm == ETCH_IMM_FLAGS) {
		for (unsigned flags = 0; flags <= ETCH_NEED_FLAGS; flags++)
			if (part_objects.flags(etch_imv_more(e), flags, len, out) == len && !memcmp(out, bytes, len))
				return 1;
		return 0;
	}
	memcpy(&tail, bytes + len - imm, imm);
	if (immediate_form(e, tail, out) == len && !memcmp(out, bytes, len))
		return 1;
	tail = (uint64_t)((int64_t)(tail << (64 - 8 * imm)) >> (64 - 8 * imm));
	if (e->form == ETCH_FORM_MOV64 && bytes[len - 6] == 0x8d) /* lea */
		tail += site_address(e) + len;
	return immediate_form(e, tail, out) == len && !memcmp(out, bytes, len);
}

/* Does a site that starts in object o read no other variable? One that also reads the next, which is stored to
 * independently, remains a load. */
static int reads_one_variable(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	for (; o + 1 < m->object + m->object_count && at + size > o[1].addr; o++)
		if (!(o[1].flags & OBJECT_FIELD))
			return 0;
	return 1;
}

/* ... and are the fields behind o, if it reads any, armed? */
static int reads_planned(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	return o + 1 == m->object + m->object_count || at + size <= o[1].addr ||
	       ((o[1].flags & OBJECT_FIELD) && module_reads_armed(m, o + 1, at, size));
}

/* Plans the sites of one walk that start in the object; to make loads also those that begin in the field before it. */
static int plan_object_walk(struct txn *t, const struct module *owner, const struct object *o, struct walk *w,
                            enum plan plan)
{
	const struct etch_imv *e;
	uint64_t at;
	int err;

	while ((e = walk_next(w, &at))) {
		if (at < o->addr && !(plan == PLAN_LOAD && (o->flags & OBJECT_FIELD) && at + site_size(e) > o->addr))
			continue;
		if (at >= o->addr + o->size) {
			w->at--;
			break;
		}
		if (plan == PLAN_LOAD ? !reads_one_variable(owner, o, at, site_size(e))
		                      : !reads_planned(owner, o, at, site_size(e)))
			continue;
		err = txn_plan_site(t, e, at, o, plan);
		if (err)
			return err;
	}
	return 0;
}

int txn_plan_object(struct txn *t, const struct object *o, enum plan plan, size_t own[SITES_KINDS])
{
	struct module *owner = module_at(o->addr), *m;
	struct walk w;
	int err;

	t->run = t->run_end = 0;
	err = module_check(owner);
	if (err)
		return err;
	for (int kind = 0; kind < SITES_KINDS && !err; kind++) {
		w = walk_own(owner, kind, o->flags & OBJECT_FIELD ? o->addr - 7 : o->addr, own ? &own[kind] : NULL);
		err = plan_object_walk(t, owner, o, &w, plan);
		if (own)
			own[kind] = w.at;
	}
	if (!err)
		err = txn_plan_tables(t, owner, o->addr, o->addr + o->size, plan);
	for (m = module_list; m && !err; m = m->next)
		if (m->far_count) {
			w = walk_far(m, o->flags & OBJECT_FIELD ? o->addr - 7 : o->addr);
			err = plan_object_walk(t, owner, o, &w, plan);
		}
	return err;
}

void txn_reserve(struct txn *t, size_t sites) { list_reserve(&t->text, sites); }
