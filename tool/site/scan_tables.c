/* SPDX-License-Identifier: MIT */
/*
 * Adds the sites and facts of a linked file that its tables record; the object step and earlier link steps have written
 * these tables.
 */
#include "arch/x86/insn.h"
#include "site/linked.h"
#include "shared/search.h"
#include "table/linked_tables.h"

#include <etch/pv_forms.h>
#include <stdlib.h>
#include <string.h>

static struct site *site_at(struct scan *s, size_t count, enum site_kind kind, uint64_t addr)
{
	size_t lo = SEARCH(count, i, s->sites[i].addr < addr);

	for (; lo < count && s->sites[lo].addr == addr; lo++)
		if (s->sites[lo].kind == kind)
			return &s->sites[lo];
	return NULL;
}

static int site_by_addr(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Finds the object of a row, and the offset in the object. Returns false if another module defines the object. */
static bool row_object(const struct scan *s, const struct imv_row *row, struct site *site)
{
	const struct slot *slot;

	if (!(row->entry.flags & ETCH_IMV_GOT)) {
		site->object = object_at(s, row->obj, false);
		if (site->object >= 0)
			site->off = (int64_t)(row->obj - s->objects.list[site->object].addr);
		return site->object >= 0;
	}
	slot = slot_at(s, row->obj);
	if (!slot)
		return false;
	site->object = slot->object;
	site->slot = row->obj;
	site->off = slot->off;
	if (site->kind == SITE_CALL)
		site->off += etch_pv_disp(&row->entry);
	else if (row->entry.flags & ETCH_IMV_MORE)
		site->off += row->more.disp;
	return true;
}

/* Are the `len` bytes at `p` the load or call that a row describes? */
static bool row_fits(const struct imv_row *row, bool call, const uint8_t *p, unsigned len, struct insn *in)
{
	uint8_t again[16];
	unsigned n;

	if (!insn_decode(p, len, row->site, in) || in->len != len)
		return false;
	if (call) {
		if (in->flow != (row->entry.form == ETCH_FORM_CALL ? FLOW_CALL_IND : FLOW_JUMP_IND))
			return false;
		n = etch_pv_load(&row->entry, row->site, row->obj, again);
	} else {
		if (etch_form_size(row->entry.form) != in->mem_size)
			return false;
		n = etch_site_load(&row->entry, &row->more, row->site, row->obj, again);
	}
	return n == len && !memcmp(again, p, len);
}

/*
 * Adds the site of a table entry unless the scan of the code has found it. The object step has seen the relocation of
 * the site; but both decoders must agree again on the bytes that the linker has written.
 */
static void row_take(struct scan *s, const struct imv_row *row, enum site_kind kind, size_t scanned)
{
	struct site site = {.addr = row->site, .kind = kind, .off_known = true, .entry = row->entry, .more = row->more};
	bool call = kind == SITE_CALL;
	unsigned len = etch_imv_len(&row->entry);
	const uint8_t *p = elf_at(s->file, row->site, len);
	struct site *known;
	struct insn in;
	char why[200];

	site.section = elf_section_at(s->file, row->site);
	if (!p || !site.section || !(s->file->sections[site.section].sh.sh_flags & SHF_EXECINSTR))
		return; /* the linker has discarded the code */
	site.entry.site = site.entry.obj = 0;
	site.entry.flags &= (uint8_t)~ETCH_IMV_BAKED;
	if (!row_object(s, row, &site)) {
		s->external++;
		return;
	}
	known = site_at(s, scanned, kind, row->site);
	if (known && !known->reason && known->object == site.object) {
		known->slot = site.slot;
		return;
	}
	if (!row_fits(row, call, p, len, &in)) {
		scan_finding_add(s, "ETCH-D003", site.section, row->site, "a table entry points at bytes that are not its %s",
		                 call ? "call" : "load");
		return;
	}
	if (!insn_confirm(p, len, &in, why, sizeof(why))) {
		scan_finding_add(s, "ETCH-D001", site.section, row->site, "%s", why);
		return;
	}
	site.len = in.len;
	site.size = call ? 8 : in.mem_size;
	if (known)
		*known = site;
	else
		scan_site_add(s, &site);
}

void tables_take(struct scan *s, const struct linked_tables *now)
{
	size_t scanned = s->site_count, k;

	if (scanned)
		qsort(s->sites, scanned, sizeof(*s->sites), site_by_addr);
	for (k = 0; k < now->imv_count; k++)
		row_take(s, &now->imv[k], SITE_LOAD, scanned);
	for (k = 0; k < now->pv_count; k++)
		row_take(s, &now->pv[k], SITE_CALL, scanned);
	for (k = 0; k < now->obj_count; k++) {
		const struct obj_row *row = &now->obj[k];
		struct site site = {
			.addr = row->ref, .kind = row->kind == ETCH_OBJ_STORE ? SITE_STORE : SITE_ESCAPE, .recorded = true};
		const struct slot *slot;

		if (row->kind == ETCH_OBJ_OBJECT) {
			/* An earlier link step has merged facts into the record of an object; they are taken from there. */
			int32_t o = object_at(s, row->addr, false);

			if (o >= 0)
				s->objects.list[o].facts |= row->flags & (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED);
			continue;
		}
		site.section = elf_section_at(s->file, row->ref);
		if (!site.section)
			continue; /* the linker has discarded it */
		site.in_data = !(s->file->sections[site.section].sh.sh_flags & SHF_EXECINSTR);
		if (row->flags & ETCH_OBJ_GOT) {
			slot = slot_at(s, row->addr);
			site.object = slot ? slot->object : -1;
			site.slot = row->addr;
			site.entry.flags = ETCH_IMV_GOT;
			if (row->more & ETCH_OBJ_FIELD) {
				site.off = ETCH_FACT_FROM(row->size);
				site.size = (uint16_t)ETCH_FACT_COUNT(row->size);
				site.off_known = true;
			}
		} else {
			site.object = object_at(s, row->addr, false);
		}
		if (site.object >= 0)
			scan_site_add(s, &site);
	}
}
