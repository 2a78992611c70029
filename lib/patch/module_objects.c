/* SPDX-License-Identifier: MIT */
/* module_objects.c: the objects of a module, and which of their pages are read-only. */
#include <errno.h>

#include "patch/parts.h"
#include "common/sys.h"
#include "shared/search.h"

/* ---- lookups ----------------------------------------------------------------- */

struct module *module_at(uint64_t at)
{
	for (struct module *m = module_list; m; m = m->next)
		if (at >= m->image.start && at < m->image.end && image_segment(&m->image, at, 1))
			return m;
	return NULL;
}

size_t module_object_from(const struct module *m, uint64_t at)
{
	return SEARCH(m->object_count, i, m->object[i].addr + m->object[i].size <= at);
}

struct object *module_object(const struct module *m, uint64_t at)
{
	size_t i = module_object_from(m, at);

	return i < m->object_count && m->object[i].addr <= at ? &m->object[i] : NULL;
}

int module_reads_armed(const struct module *m, const struct object *o, uint64_t at, unsigned size)
{
	const struct object *end = m->object + m->object_count;

	for (; o->flags & OBJECT_ARMED; o++) {
		if (o + 1 == end || at + size <= o[1].addr)
			return 1;
		if (!(o[1].flags & OBJECT_FIELD))
			return 0;
	}
	return 0;
}

/* ---- protection of data ------------------------------------------------------------ */

int errno_to_etch(long ret)
{
	if (!ret)
		return 0;
	return ret == -ENOMEM ? ETCH_ENOMEM : ETCH_EPERM;
}

int module_page_readonly(const struct module *m, uint64_t at)
{
	uint64_t i;

	if (at < m->page)
		return 0;
	i = (at - m->page) / ETCH_PAGE;
	return i < m->pages && (m->readonly[i / 8] >> (i % 8) & 1);
}

/* The sections' bounds decide. If there are none (a custom linker script), the answer is yes: etch/imv.h pads etched
 * sections to whole pages. */
int module_page_is_etched(const struct module *m, uint64_t page)
{
	uint64_t have = 0, any = 0;

	for (int i = 0; i < 3; i++) {
		any |= m->etched[i].stop - m->etched[i].start;
		uint64_t from = m->etched[i].start, to = m->etched[i].stop;

		if (from < page)
			from = page;
		if (to > page + ETCH_PAGE)
			to = page + ETCH_PAGE;
		if (from < to)
			have += to - from;
	}
	return have == ETCH_PAGE || !any;
}

/* A page is read-only if and only if every object on it is armed. */
int module_page_wanted(const struct module *m, uint64_t page)
{
	size_t i = module_object_from(m, page), some = 0;

	for (; i < m->object_count && m->object[i].addr < page + ETCH_PAGE; i++) {
		if (!(m->object[i].flags & OBJECT_ARMED) || (m->object[i].flags & OBJECT_WRITABLE))
			return 0;
		some = 1;
	}
	return some && module_page_is_etched(m, page);
}

/* Protects the pages [page, end) of a segment, and notes it. A failed mprotect(2) may have changed some of several
 * mappings; then the pages are protected one at a time, so that the notes are true. */
static int pages_protect(struct module *m, const struct segment *s, uint64_t page, uint64_t end, int readonly)
{
	uint64_t size = end - page;
	long ret = sys_mprotect(page, size, readonly ? s->prot & ~PROT_WRITE : s->prot);
	int err = 0;

	if (ret < 0 && size > ETCH_PAGE) {
		for (; page < end; page += ETCH_PAGE) {
			int one = pages_protect(m, s, page, page + ETCH_PAGE, readonly);

			err = err ? err : one;
		}
		return err;
	}
	if (ret < 0)
		return errno_to_etch(ret);
	for (; page < end; page += ETCH_PAGE) {
		uint64_t i = (page - m->page) / ETCH_PAGE;

		m->readonly[i / 8] = (uint8_t)((m->readonly[i / 8] & ~(1u << (i % 8))) | (unsigned)readonly << (i % 8));
	}
	return 0;
}

int module_protect(struct module *m, uint64_t from, uint64_t to)
{
	uint64_t page, end;
	int err = 0, one;

	for (page = PAGE_OF(from); page < to; page = end) {
		int want = module_page_wanted(m, page), have = module_page_readonly(m, page);
		const struct segment *s = image_segment(&m->image, page < from ? from : page, 1);

		end = page + ETCH_PAGE;
		if (want == have || !s)
			continue;
		for (; end < to && end < s->end; end += ETCH_PAGE)
			if (module_page_wanted(m, end) != want || module_page_readonly(m, end) != have)
				break;
		one = want && &part_objects ? part_objects.guard(m, page, end) : 0;
		one = one ? one : pages_protect(m, s, page, end, want);
		err = err ? err : one;
	}
	return err;
}

int module_rest_ok(const struct module *m)
{
	return (!&part_objects || part_objects.tables_ok(m)) && (!&part_branches || part_branches.ok(m)) &&
	       (!&part_marks || part_marks.ok(m));
}

int module_check(struct module *m)
{
	if (m->bad)
		return ETCH_EFORMAT;
	if (m->checked)
		return 0;
	m->checked = 1;
	if (table_linked_ok(m) && module_rest_ok(m))
		return 0;
	m->bad = 1;
	for (size_t i = 0; i < m->object_count; i++)
		m->object[i].flags &= ~OBJECT_ARMED;
	if (m->pages)
		module_protect(m, m->page, m->page + m->pages * ETCH_PAGE);
	return ETCH_EFORMAT;
}
