/* SPDX-License-Identifier: MIT */
/* objects.c: the part of libetch for every site of every object, which etch_set and etch_sync link. */
#include "patch/give_up.h"
#include "patch/parts.h"

PART_WORD(3, ETCH_PART_OBJECTS_SYMBOL);
PART_NEEDS(ETCH_PART_OTHERS_SYMBOL);

/* Null if copy.c is not linked in. The object is alone on its pages. */
extern const char copy_ops[] __asm__("etch_copy_ops") __attribute__((weak, visibility("hidden")));
__asm__(".weak etch_copy_ops\n\t.hidden etch_copy_ops");

int module_own_table(uint64_t at) { return copy_ops && PAGE_OF(at) == (uint64_t)(uintptr_t)copy_ops; }

/* Plans the calls of a linked module that could not be baked because the dynamic linker fills their slot. */
static void plan_late(struct txn *t, const struct module *m)
{
	const struct sites *s = &m->sites[SITES_CALL];
	const struct object *o = NULL;

	for (size_t i = 0; i < s->own_count; i++) {
		const struct etch_imv *e = &s->entry[i];
		uint64_t at;

		if ((e->flags & ETCH_IMV_BAKED) || e->form == ETCH_FORM_NONE || !table_site_ok(m, e, 1))
			continue;
		at = site_object(e);
		if (!o || at < o->addr || at - o->addr >= o->size)
			o = module_object(m, at);
		if (o && (o->flags & OBJECT_ARMED))
			txn_plan_site(t, e, at, o, PLAN_ARM);
	}
	/* Plans the calls compiled in place, too, whose slot is in an armed object. */
	if (inlines_ok(m))
		txn_plan_inlines(t, m, 0, UINT64_MAX, PLAN_SET);
}

static int tables_ok(const struct module *m) { return table_natives_ok(m) && inlines_ok(m); }

/* Prepares pages to become read-only. In a program without etched objects of its own, libetch installs no SIGSEGV
 * handler. The notes about pages are allocated before the pages become read-only: what was given up must not be
 * forgotten for lack of memory. */
static int guard(struct module *m, uint64_t from, uint64_t to)
{
	if (module_own_table(from) && to - from == ETCH_PAGE)
		return 0;
	trap_install();
	return given_up_prepare(m);
}

/* Called when a module is being loaded, before the lock is taken. */
static void identify(struct image *im, const char *path)
{
	stray_mode_read();
	text_file_identify(im, path);
}

const struct part_objects part_objects = {
	.size = forms_size,
	.info = forms_info,
	.load = forms_load,
	.imm = forms_imm,
	.flags = forms_flags,
	.valid = forms_valid,
	.tables_ok = tables_ok,
	.plan = plan_any,
	.plan_across = plan_across,
	.plan_inlines = txn_plan_inlines,
	.plan_late = plan_late,
	.commit = commit_any,
	.swaps_do = swaps_do,
	.swaps_undo = swaps_undo,
	.data_swap_prepare = data_swap_prepare,
	.data_swap = data_swap,
	.data_swap_undo = data_swap_undo,
	.data_swap_end = data_swap_end,
	.pages_release = pages_release,
	.pages_rearm = pages_rearm,
	.sets_count = sets_count,
	.recover = child_recover,
	.identify = identify,
	.forget = text_file_forget,
	.guard = guard,
};
