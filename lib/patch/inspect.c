/* SPDX-License-Identifier: MIT */
/* inspect.c: etch_verify and etch_info. */
#include <string.h>

#include "patch/static_branch.h"
#include "patch/patch.h"

/* Can the memory behind a site be read? A GOT slot may hold null (a weak symbol), or the address
 * of a variable of a module that is not registered. */
static int object_readable(const struct etch_imv *e, uint64_t object)
{
	const struct module *owner;

	if (!(e->flags & ETCH_IMV_GOT))
		return 1;
	owner = module_at(object);
	return owner && !owner->bad && image_segment(&owner->image, object, site_size(e));
}

static int site_is_live(const struct etch_imv *e) { return etch_site_is_live(site_address(e), etch_imv_len(e)); }

static int site_is_swapped(const struct etch_imv *e)
{
	return !site_is_live(e) && text_swappable(site_address(e), etch_imv_len(e));
}

/* May this site hold anything other than its load? */
static int site_may_change(const struct etch_imv *e, uint64_t object)
{
	const struct module *m;
	const struct object *o;

	if (site_is_live(e) || site_is_swapped(e))
		return 1;
	m = module_at(object);
	o = m ? module_object(m, object) : NULL;
	return o && (o->flags & OBJECT_SEALED);
}

/* Are the other bytes of a site correct whose first byte is a breakpoint? */
static int busy_agrees(const struct etch_imv *e, uint64_t object)
{
	uint8_t now[16];

	memcpy(now, (const void *)(uintptr_t)site_address(e), etch_imv_len(e));
	for (unsigned i = 0; i < 256; i++) {
		enum site_state state;

		now[0] = (uint8_t)i;
		state = i == 0xcc ? SITE_BUSY : site_state_of(e, object, now);
		if (state == SITE_LOAD || ((state == SITE_IMMEDIATE || state == SITE_INLINE) && site_may_change(e, object)))
			return 1;
	}
	return 0;
}

static int site_differs(const struct etch_imv *e, uint64_t object)
{
	switch (site_state(e, object)) {
	case SITE_LOAD: return 0;
	case SITE_IMMEDIATE:
	case SITE_INLINE: return !site_may_change(e, object);
	case SITE_BUSY: return !busy_agrees(e, object);
	default: return 1;
	}
}

static long verify_sites(const struct sites *s, void (*report)(void *, const void *, const void *), void *arg)
{
	long differ = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct etch_imv *e = &s->entry[i];
		uint64_t object;

		if (!entry_is_site(e))
			continue;
		object = site_object(e);
		if (!object_readable(e, object) || !site_differs(e, object))
			continue;
		differ++;
		if (report)
			report(arg, (const void *)(uintptr_t)site_address(e), (const void *)(uintptr_t)object);
	}
	return differ;
}

ETCH_API long etch_verify(void (*report)(void *arg, const void *site, const void *object), void *arg)
{
	long differ = 0;
	int err = 0;

	etch_lock();
	for (struct module *m = module_list; m; m = m->next) {
		if (module_check(m)) {
			err = ETCH_EFORMAT;
			continue;
		}
		for (int kind = 0; kind < SITES_KINDS; kind++)
			differ += verify_sites(&m->sites[kind], report, arg);
		differ += inlines_verify(m, report, arg) + branches_verify(m, report, arg);
	}
	etch_unlock();
	return err ? -err : differ;
}

static enum site_state site_now(const struct etch_imv *e)
{
	uint64_t object = site_object(e);

	return object_readable(e, object) ? site_state(e, object) : SITE_LOAD;
}

/* Would this site, a load now, be an immediate if its instruction could hold the value? */
static int is_unfit(const struct etch_imv *e, uint64_t object)
{
	const struct module *m = module_at(object);
	const struct object *o = m ? module_object(m, object) : NULL;
	uint8_t out[16];

	return o && (o->flags & OBJECT_ARMED) && object_readable(e, object) && site_may_change(e, object) &&
	       !immediate_form(e, memory_value(object, site_size(e)), out);
}

static void info_load(const struct etch_imv *e, struct etch_info *info)
{
	enum site_state state = site_now(e);

	info->sites++;
	if (state == SITE_IMMEDIATE || state == SITE_STALE)
		info->armed++;
	else
		info->loads++;
	if (state == SITE_LOAD)
		info->unfit += (unsigned long)is_unfit(e, site_object(e));
	if (site_is_swapped(e))
		info->by_swap++;
	else if (!site_is_live(e))
		info->fixed++;
}

static void info_call(const struct etch_imv *e, struct etch_info *info)
{
	enum site_state state = site_now(e);
	uint8_t bytes[16];

	memcpy(bytes, (const void *)(uintptr_t)site_address(e), etch_imv_len(e));
	info->calls++;
	if (state == SITE_INLINE || (state == SITE_STALE && !pv_some_direct(e, bytes)))
		info->calls_inline++;
	else if (state == SITE_IMMEDIATE || state == SITE_STALE)
		info->calls_direct++;
	else
		info->calls_indirect++;
	if (site_is_swapped(e))
		info->calls_by_swap++;
	else if (!site_is_live(e))
		info->calls_fixed++;
}

/* The ops table of libetch's own copies is not counted: the counts are for the program's tables. */
static int is_own(const struct module *m)
{
	return m->object_count == 1 && module_own_table(m->object[0].addr) &&
	       m->etched[0].stop - m->etched[0].start <= ETCH_PAGE && m->etched[1].start == m->etched[1].stop;
}

static void info_object(const struct module *m, const struct object *o, struct etch_info *info)
{
	const struct object *last = o;

	if (module_has_fields(m, o)) {
		info->fields++;
		info->fields_armed += !!(o->flags & OBJECT_ARMED);
	}
	if (o->flags & OBJECT_FIELD)
		return;
	info->objects++;
	while (last->flags & OBJECT_ARMED && last + 1 < m->object + m->object_count && (last[1].flags & OBJECT_FIELD))
		last++;
	info->armed_objects += !!(last->flags & OBJECT_ARMED);
	info->sealed_objects += !!(o->flags & OBJECT_SEALED);
}

static void info_module(const struct module *m, struct etch_info *info)
{
	for (int kind = 0; kind < SITES_KINDS; kind++)
		for (size_t i = 0; i < m->sites[kind].count; i++) {
			const struct etch_imv *e = &m->sites[kind].entry[i];

			if (entry_is_site(e) && !module_own_table(site_object(e)))
				(kind == SITES_CALL ? info_call : info_load)(e, info);
		}
	inlines_info(m, info);
	branches_info(m, info);
	marks_info(m, info);
	for (size_t i = 0; i < m->object_count; i++) {
		if (module_own_table(m->object[i].addr))
			continue;
		info_object(m, &m->object[i], info);
	}
	for (size_t i = 0; i < m->pages; i++)
		if (!module_own_table(m->page + i * ETCH_PAGE))
			info->readonly_pages += m->readonly[i / 8] >> (i % 8) & 1;
}

ETCH_API int etch_info(struct etch_info *info)
{
	struct etch_info now = {.size = sizeof(now)};
	int err = 0;

	if (!info || info->size < sizeof(size_t))
		return ETCH_EINVAL;
	etch_lock();
	for (struct module *m = module_list; m; m = m->next) {
		if (module_check(m)) {
			err = ETCH_EFORMAT;
			continue;
		}
		now.modules += !is_own(m);
		info_module(m, &now);
	}
	now.patched_at_start = module_patched;
	etch_unlock();
	/* A caller with an older header gets the fields that it has; one with a newer header gets
	 * zeros in the rest. */
	if (info->size > sizeof(now))
		memset((char *)info + sizeof(now), 0, info->size - sizeof(now));
	now.size = info->size;
	memcpy(info, &now, info->size < sizeof(now) ? info->size : sizeof(now));
	return err;
}
