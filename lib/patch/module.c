/* SPDX-License-Identifier: MIT */
/*
 * module.c: the loaded modules (the program and its shared objects).
 *
 * A module processed by the link step is used as it is: its __imv is searched in place, and its armed objects are
 * already armed. For any other module an index is built (index.c), facts are folded, and objects without facts are
 * armed, before threads can execute its code. Modules of both kinds may reach objects of other modules
 * through the GOT, and contribute facts about them; load order does not matter.
 *
 * Nothing here calls the dynamic linker under libetch's lock: a thread in dlopen(3) holds the dynamic linker's lock
 * and waits for libetch's in the constructor.
 */
#include <pthread.h>
#include <string.h>

#include "patch/parts.h"
#include "patch/static_branch.h"

struct module *module_list;
unsigned module_changes;
unsigned long module_patched;
const struct marks_calls *marks_calls;

PART_WORD(1, "etch_part_core");

struct program_image module_program;

/* ---- loading and unloading ---------------------------------------------------------------------- */

struct search {
	uint64_t address;
	struct image image;
	const char *path;
	int first;
};

static int segment_prot(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/* The callback of dl_iterate_phdr() that takes the image. Returns 1 if it contains the wanted address. */
static int search_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	struct image *im = &s->image;
	int hit = 0;

	(void)size;
	memset(im, 0, sizeof(*im));
	im->bias = info->dlpi_addr;
	im->program = s->first;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = im->bias + p->p_vaddr, end = start + p->p_memsz;

		if (p->p_type == PT_DYNAMIC)
			im->dynamic = start;
		if (p->p_type != PT_LOAD || !p->p_memsz)
			continue;
		if (!im->segments || start < im->start)
			im->start = start;
		if (end > im->end)
			im->end = end;
		hit |= s->address >= start && s->address < end;
		if (im->segments < IMAGE_SEGMENTS)
			im->segment[im->segments++] = (struct segment){start, end, p->p_offset, segment_prot(p->p_flags)};
		else
			im->too_many_segments = 1;
	}
	if (s->first) {
		s->first = 0;
		module_program = (struct program_image){im->dynamic, im->bias, im->start};
	}
	s->path = info->dlpi_name ? info->dlpi_name : "";
	return hit;
}

static struct module *module_of(const struct etch_module *desc)
{
	struct module *m;

	for (m = module_list; m && m->desc != desc; m = m->next)
		;
	return m;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

struct bounds bounds_of(const void *start, const void *stop)
{
	return (struct bounds){(uint64_t)(uintptr_t)start, (uint64_t)(uintptr_t)stop};
}

/* Plans the sites that the link step leaves to libetch: those that reach other modules, calls of functions that the
 * dynamic linker finds, and branches. */
static void plan_linked(struct txn *t, const struct module *m)
{
	if (&part_others)
		part_others.plan_far(t, m);
	if (&part_objects)
		part_objects.plan_late(t, m);
	if (&part_branches && part_branches.ok(m))
		part_branches.plan(t, m, 0, UINT64_MAX, PLAN_SET);
}

/* Prepares a module that has just been loaded. A module of the link step is already armed, except for sites that it
 * could not bake; in any other module the objects without facts are armed (other_modules.c). */
static void module_arm(struct module *m)
{
	struct txn t;

	if (&part_others)
		part_others.fold(m);
	/* Without the barrier no later set could patch code while threads run, so the sites of an unlinked module remain
	 * loads, and sets are plain stores. */
	if (m->linked) {
		txn_begin(&t);
		plan_linked(&t, m);
		if (sync_available() && !txn_commit(&t))
			module_patched += t.sites;
		txn_end(&t);
	} else if (&part_others && sync_available()) {
		part_others.arm(m);
	}
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
	if (marks_calls)
		marks_calls->load(m);
}

void module_load(const struct module_arguments *args)
{
	const struct etch_module *desc = args->desc;
	struct search s = {.address = (uint64_t)(uintptr_t)desc, .first = 1};
	struct module *m;
	int known;

	if (etch_lock_first())
		return;
	known = module_of(desc) != NULL;
	etch_unlock();
	if (known)
		return;
	pthread_once(&once, etch_lock_prepare);
	if (!dl_iterate_phdr(search_image, &s))
		return;
	if (&part_objects)
		part_objects.identify(&s.image, s.path);

	if (etch_lock_first())
		return;
	if (!module_of(desc)) {
		m = module_new(&s.image, args, s.path);
		if (m) {
			if (&part_objects)
				part_objects.forget(&m->image);
			m->next = module_list;
			__atomic_store_n(&module_list, m, __ATOMIC_RELEASE);
			if (!m->bad)
				module_arm(m);
		}
	}
	etch_unlock();
}

ETCH_API void etch_module_load_v3(const struct etch_module *desc, const struct etch_bounds *bounds, unsigned count)
{
	struct module_arguments args = {.desc = desc};

	for (unsigned i = 0; i < count && i < sizeof(args.all) / sizeof(args.all[0]); i++)
		args.all[i] = bounds_of(bounds[i].start, bounds[i].stop);
	module_load(&args);
}

ETCH_API void etch_module_unload_v1(const struct etch_module *desc)
{
	struct module **p, *m;

	if (etch_lock_first())
		return;
	for (p = &module_list; (m = *p); p = &m->next)
		if (m->desc == desc) {
			/* The program's text and data outlive its destructors, and threads may still set. */
			if (m->image.program)
				break;
			__atomic_add_fetch(&module_changes, 1, __ATOMIC_SEQ_CST);
			__atomic_store_n(p, m->next, __ATOMIC_RELEASE);
			__atomic_add_fetch(&module_changes, 1, __ATOMIC_SEQ_CST);
			if (marks_calls)
				marks_calls->unload(m);
			module_free(m);
			break;
		}
	etch_unlock();
}
