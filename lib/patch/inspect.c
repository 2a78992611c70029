/* SPDX-License-Identifier: MIT */
/* inspect.c: etch_verify, etch_state and etch_info. */
#include <string.h>

#include "patch/give_up.h"
#include "patch/static_branch.h"
#include "patch/parts.h"

PART_NEEDS(ETCH_PART_OBJECTS_SYMBOL);
PART_NEEDS(ETCH_PART_BRANCHES_SYMBOL);

/* Can the memory that a site reads be read? A GOT slot may hold null (a weak symbol), or the address of a variable of
 * a module that is not registered. */
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
	return !site_is_live(e) && text_swappable(site_address(e), etch_imv_len(e)) != NULL;
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

/* The first byte of a site is a breakpoint: are the other bytes those of its load, or of a form for the value in
 * memory? */
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
	int err;

	err = etch_lock();
	if (err)
		return -err;
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

/* Fills a struct that begins with its size. A caller with an older header gets the fields that it knows; one with a
 * newer header gets zeros in the rest. */
static void answer_copy(void *out, size_t size, const void *now, size_t known)
{
	memset(out, 0, size);
	memcpy(out, now, size < known ? size : known);
	memcpy(out, &size, sizeof(size));
}

static enum site_state site_now(const struct etch_imv *e)
{
	uint64_t object = site_object(e);

	return object_readable(e, object) ? site_state(e, object) : SITE_LOAD;
}

/* Would this site, which is a load now, be an immediate if its instruction could hold the value? */
static int is_unfit(const struct etch_imv *e, uint64_t object)
{
	const struct module *m = module_at(object);
	const struct object *o = m ? module_object(m, object) : NULL;
	uint8_t out[16];

	return o && (o->flags & OBJECT_ARMED) && object_readable(e, object) && site_may_change(e, object) &&
	       !immediate_form(e, memory_value(object, site_size(e)), out);
}

/* Counts a site if it reads bytes in [from, to). */
static void state_load(const struct etch_imv *e, uint64_t from, uint64_t to, struct etch_state *state)
{
	uint64_t object = site_object(e);
	const struct module *m;
	const struct object *o;
	enum site_state now;

	if (!entry_is_site(e) || object >= to || object + site_size(e) <= from)
		return;
	now = site_now(e);
	m = module_at(object);
	o = m ? module_object(m, object) : NULL;
	state->sites++;
	if (now == SITE_IMMEDIATE || now == SITE_STALE)
		state->armed++;
	else if (!o || !module_reads_armed(m, o, object, site_size(e)))
		state->unarmed++;
	else if (!site_may_change(e, object))
		state->fixed++;
	else if (now == SITE_LOAD && is_unfit(e, object))
		state->unfit++;
}

struct sentence {
	char *text;
	size_t at, capacity; /* capacity does not include the NUL */
};

static void sentence_add(struct sentence *s, const char *text)
{
	while (*text && s->at < s->capacity)
		s->text[s->at++] = *text++;
}

/* Adds "; N what", but nothing if N is 0. */
static void sentence_count(struct sentence *s, unsigned long n, const char *what)
{
	char digits[24], *p = digits + sizeof(digits) - 1;

	if (!n && s->at)
		return;
	*p = 0;
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	if (s->at)
		sentence_add(s, s->text[s->at - 1] == ':' ? " " : "; ");
	sentence_add(s, p);
	sentence_add(s, what);
}

static void state_text(struct etch_state *state)
{
	struct sentence s = {state->text, 0, sizeof(state->text) - 1};

	sentence_count(&s, state->sites, state->sites ? " sites:" : " sites");
	if (state->sites)
		sentence_count(&s, state->armed, " are immediates");
	sentence_count(&s, state->unfit, " hold values that do not fit");
	sentence_count(&s, state->unarmed, " read what is not armed");
	sentence_count(&s, state->fixed, " cannot be patched live");
	sentence_count(&s, state->set_often, " set too often");
	sentence_count(&s, state->given_up,
	               state->given_up == 1 ? " plain store gave them up" : " plain stores gave them up");
}

ETCH_API int etch_state_bytes(const void *object, size_t size, struct etch_state *state)
{
	struct etch_state now = {.size = sizeof(now)};
	uint64_t from = (uint64_t)(uintptr_t)object;
	const struct module *owner;
	int err;

	if (!object || !size || from + size < from || !state || state->size < sizeof(size_t))
		return ETCH_EINVAL;
	err = etch_lock();
	if (err)
		return err;
	owner = module_at(from);
	if (!owner || owner->bad || !module_object(owner, from))
		err = range_check(from, size); /* no error: the object belongs to a file that the tool has not processed */
	if (err) {
		etch_unlock();
		return err;
	}
	for (struct module *m = module_list; m; m = m->next) {
		if (module_check(m)) {
			err = ETCH_EFORMAT;
			continue;
		}
		for (size_t i = 0; i < m->sites[SITES_LOAD].count; i++)
			state_load(&m->sites[SITES_LOAD].entry[i], from, from + size, &now);
	}
	if (owner && !owner->bad)
		given_up_count(owner, from, from + size, &now);
	etch_unlock();
	state_text(&now);
	answer_copy(state, state->size, &now, sizeof(now));
	return err;
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
	info->private_text += text_file_private(&m->image);
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
	int err;

	if (!info || info->size < sizeof(size_t))
		return ETCH_EINVAL;
	err = etch_lock();
	if (err)
		return err;
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
	answer_copy(info, info->size, &now, sizeof(now));
	return err;
}
