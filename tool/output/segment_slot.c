/* SPDX-License-Identifier: MIT */
/* Finds space for more program headers. segment.h has the order of preference and its reasons. */
#include <string.h>

#include "output/segment.h"
#include "output/segment_slot.h"

static uint64_t table_end(const struct seg_file *f)
{
	return f->eh.e_phoff + (uint64_t)f->eh.e_phnum * sizeof(Elf64_Phdr);
}

/* PT_GNU_PROPERTY is redundant if a PT_NOTE with the alignment of 64-bit
 * property notes covers it: glibc's sysdeps/x86/dl-prop.h reads either. */
static bool property_is_redundant(const struct seg_file *f, const Elf64_Phdr *p)
{
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *q = &f->ph[i];

		if (q->p_type == PT_NOTE && q->p_align == 8 && p->p_filesz && q->p_offset <= p->p_offset &&
		    q->p_offset + q->p_filesz >= p->p_offset + p->p_filesz)
			return true;
	}
	return false;
}

static const Elf64_Phdr *find_phdr(const struct seg_file *f, uint32_t type)
{
	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type == type)
			return &f->ph[i];
	return NULL;
}

/* Returns the PT_LOAD that maps the program header table, to which AT_PHDR points. */
static const Elf64_Phdr *table_load(const struct seg_file *f)
{
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type == PT_LOAD && p->p_offset <= f->eh.e_phoff && p->p_offset + p->p_filesz >= table_end(f))
			return p;
	}
	return NULL;
}

/* ---- sections that may move ---------------------------------------------- */

static bool dynamic_holds(const struct seg_file *f, int64_t tag, uint64_t value)
{
	const Elf64_Phdr *p = find_phdr(f, PT_DYNAMIC);
	unsigned found = 0;
	Elf64_Dyn dyn;

	for (uint64_t k = 0; p && k + sizeof dyn <= p->p_filesz; k += sizeof dyn) {
		memcpy(&dyn, f->data + p->p_offset + k, sizeof dyn);
		if (dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag == tag)
			found += dyn.d_un.d_val == value ? 1 : 2;
	}
	return found == 1;
}

/* Does the first note of a section have the owner "GNU" and this type? */
static bool first_note_is(const struct seg_file *f, const Elf64_Shdr *s, uint32_t type)
{
	Elf64_Nhdr nh;

	if (s->sh_size < sizeof nh + 4)
		return false;
	memcpy(&nh, f->data + s->sh_offset, sizeof nh);
	return nh.n_type == type && nh.n_namesz == 4 && !memcmp(f->data + s->sh_offset + sizeof nh, ELF_NOTE_GNU, 4);
}

/* Finds the program header that covers a section: sets it->phdr, and *interp if that is PT_INTERP. Returns false if
 * other program headers share the section's bytes, so that it cannot move. */
static bool cover_of(const struct seg_file *f, const Elf64_Shdr *s, const Elf64_Phdr *load, struct seg_item *it,
                     bool *interp)
{
	*interp = false;
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		bool whole = p->p_offset == s->sh_offset && p->p_filesz == s->sh_size;

		if (p == load || !seg_overlap(p->p_offset, p->p_filesz, s->sh_offset, s->sh_size))
			continue;
		if (p->p_type == PT_INTERP && whole)
			*interp = true;
		else if (p->p_type == PT_GNU_PROPERTY && s->sh_type == SHT_NOTE && whole)
			continue;
		else if (p->p_type != PT_NOTE || s->sh_type != SHT_NOTE || it->phdr >= 0)
			return false;
		it->phdr = (int)i;
	}
	return true;
}

/* Fills `it` and returns true if the headers allow this section to move. */
static bool item_init(const struct seg_file *f, size_t sec, const Elf64_Phdr *load, struct seg_item *it)
{
	static const struct {
		uint32_t type;
		int64_t tag;
		unsigned cost;
	} dynamic[] = {
		{SHT_GNU_HASH, DT_GNU_HASH, 8},
		{SHT_HASH, DT_HASH, 8},
		{SHT_DYNSYM, DT_SYMTAB, 20}, /* some readers derive the number of symbols from the place of .dynstr after it */
	};
	const Elf64_Shdr *s = &f->sh[sec];
	bool interp;

	*it = (struct seg_item){.sec = sec,
	                        .off = s->sh_offset,
	                        .addr = s->sh_addr,
	                        .size = s->sh_size,
	                        .align = seg_max(s->sh_addralign, 8),
	                        .phdr = -1};
	it->new_off = it->off;
	it->new_addr = it->addr;
	if (s->sh_flags != SHF_ALLOC || it->align > SEGMENT_PAGE || (it->align & (it->align - 1)) ||
	    s->sh_addr - load->p_vaddr != s->sh_offset - load->p_offset || !cover_of(f, s, load, it, &interp))
		return false;
	if (interp && s->sh_type == SHT_PROGBITS) {
		it->cost = 2;
		return true;
	}
	if (s->sh_type == SHT_NOTE && !interp) {
		it->build_id = first_note_is(f, s, NT_GNU_BUILD_ID);
		it->abi_tag = first_note_is(f, s, NT_GNU_ABI_TAG);
		it->cost = it->build_id ? 50 : 3;
		return true;
	}
	for (size_t k = 0; k < sizeof dynamic / sizeof *dynamic; k++) {
		if (s->sh_type == dynamic[k].type && dynamic_holds(f, dynamic[k].tag, s->sh_addr)) {
			it->tag = dynamic[k].tag;
			it->cost = dynamic[k].cost;
			return true;
		}
	}
	return false;
}

/* Returns the section with the lowest offset at or after `at` that has bytes in the file, or 0. */
static size_t next_section(const struct seg_file *f, uint64_t at)
{
	size_t best = 0;

	for (size_t i = 1; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];

		if (s->sh_type == SHT_NULL || s->sh_type == SHT_NOBITS || !s->sh_size || s->sh_offset < at)
			continue;
		if (!best || s->sh_offset < f->sh[best].sh_offset)
			best = i;
	}
	return best;
}

/* Does the program header of section `which` consist of nothing but these sections? Only then can it follow them. */
static bool notes_are_whole(const struct seg_file *f, const struct seg_item *it, size_t n, size_t which)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (size_t i = 0; i < n; i++) {
		if (it[i].phdr == it[which].phdr) {
			lo = it[i].off < lo ? it[i].off : lo;
			hi = seg_max(hi, it[i].off + it[i].size);
		}
	}
	return it[which].phdr < 0 || (f->ph[it[which].phdr].p_offset == lo && f->ph[it[which].phdr].p_filesz == hi - lo);
}

/* Do these sections, which follow each other, make up all bytes of a program header? */
static bool is_made_of(const Elf64_Phdr *p, const struct seg_item *it, size_t n)
{
	uint64_t at = p->p_offset, end = p->p_offset + p->p_filesz;

	for (size_t i = 0; i < n; i++)
		if (it[i].off >= at && it[i].off - at < it[i].align && it[i].off + it[i].size <= end)
			at = it[i].off + it[i].size;
	return at >= end;
}

/* Lowers *limit to the first program header whose bytes are not only those of these n sections: such bytes need not be
 * in any section. Returns how many of the n sections are before it. */
static size_t items_before_headers(const struct seg_file *f, const struct seg_item *it, size_t n, uint64_t *limit)
{
	size_t was;

	do {
		was = n;
		for (size_t i = 0; i < f->eh.e_phnum; i++) {
			const Elf64_Phdr *p = &f->ph[i];

			if (p->p_type == PT_NULL || p->p_type == PT_LOAD || p->p_type == PT_PHDR || !p->p_filesz ||
			    p->p_offset >= *limit || p->p_offset + p->p_filesz <= table_end(f) || is_made_of(p, it, n))
				continue;
			*limit = seg_max(p->p_offset, table_end(f));
			while (n && it[n - 1].off + it[n - 1].size > *limit)
				n--;
		}
	} while (n != was); /* a section that stays may also be a part of another header */
	return n;
}

/* Does a section have bytes on both sides of an offset? */
static bool is_inside_section(const struct seg_file *f, uint64_t at)
{
	for (size_t i = 0; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];

		if (s->sh_type != SHT_NULL && s->sh_type != SHT_NOBITS && s->sh_offset < at && s->sh_offset + s->sh_size > at)
			return true;
	}
	return false;
}

/* Lowers *limit to the first of the n sections that overlaps another one of the file: none from that on moves. Returns
 * how many are before it. */
static size_t items_before_overlap(const struct seg_file *f, const struct seg_item *it, size_t n, uint64_t *limit)
{
	for (size_t i = 0; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];

		for (size_t k = 0; k < n; k++) {
			if (i != it[k].sec && s->sh_type != SHT_NULL && s->sh_type != SHT_NOBITS &&
			    seg_overlap(s->sh_offset, s->sh_size, it[k].off, it[k].size)) {
				*limit = it[k].off;
				n = k;
			}
		}
	}
	return n;
}

/* Collects the sections after the table whose headers allow them to move, up to the first one that does not, and lowers
 * *limit to its offset. Returns their number. */
static size_t items_list(const struct seg_file *f, const Elf64_Phdr *load, struct seg_item *it, uint64_t *limit)
{
	uint64_t at = table_end(f);
	size_t n = 0, sec;

	while (n < SLOT_ITEMS) {
		sec = next_section(f, at);
		if (!sec || f->sh[sec].sh_offset >= *limit)
			return n;
		if (!item_init(f, sec, load, &it[n])) {
			*limit = f->sh[sec].sh_offset;
			return n;
		}
		at = it[n].off + it[n].size;
		n++;
	}
	sec = next_section(f, at);
	if (sec && f->sh[sec].sh_offset < *limit)
		*limit = f->sh[sec].sh_offset;
	return n;
}

/*
 * Collects the movable sections after the table, up to the first thing that cannot move, and sets *limit to its offset.
 * Returns the number of sections.
 */
static size_t items_collect(const struct seg_file *f, const Elf64_Phdr *load, struct seg_item *it, uint64_t *limit)
{
	struct ref_range refs[SLOT_ITEMS];
	size_t n, keep;

	*limit = load->p_offset + load->p_filesz;
	if (is_inside_section(f, table_end(f))) {
		*limit = table_end(f);
		return 0;
	}
	n = items_list(f, load, it, limit);
	for (size_t i = 0; i < n; i++)
		refs[i] =
			(struct ref_range){it[i].addr, it[i].addr + (f->sh[it[i].sec].sh_type == SHT_NOTE ? it[i].size : 1), false};
	seg_refs_find(f, refs, n);
	for (keep = 0; keep < n; keep++) {
		if (refs[keep].hit || !notes_are_whole(f, it, n, keep)) {
			*limit = it[keep].off;
			break;
		}
	}
	/* Sections before a dropped one that belong to the same PT_NOTE cannot move either. */
	while (keep && !notes_are_whole(f, it, keep, keep - 1))
		*limit = it[--keep].off;
	keep = items_before_overlap(f, it, keep, limit);
	return items_before_headers(f, it, keep, limit);
}

/*
 * May item `gone` be evicted although item `stays` of the same PT_NOTE is not? The PT_NOTE covers the sections that
 * stay; an evicted section can be found only by its section header. Only the ABI tag of a program can do without the
 * PT_NOTE (ld.so reads only the tag of shared objects). The sections that stay must be neighbours.
 */
static bool may_leave_note(const struct seg_file *f, const struct seg_item *it, size_t n, size_t gone, size_t stays)
{
	if (!it[gone].abi_tag || !find_phdr(f, PT_INTERP))
		return false;
	for (size_t m = 0; m < n; m++)
		if (it[m].phdr == it[gone].phdr && !it[m].evicted && (m < gone) != (stays < gone))
			return false;
	return true;
}

/*
 * Lays out the items, evicting those in `mask`. Returns the cost of the layout, or 0 if it does not fit. All moves are
 * by multiples of 8 (or of the alignment), so that a PT_NOTE of several sections stays contiguous.
 */
static unsigned items_pack(const struct seg_file *f, struct seg_item *it, size_t n, unsigned mask, uint64_t from,
                           uint64_t limit)
{
	unsigned cost = 1;
	uint64_t at = from;

	for (size_t i = 0; i < n; i++) {
		const struct seg_item *prev = i ? &it[i - 1] : NULL;
		bool kin = prev && prev->phdr >= 0 && prev->phdr == it[i].phdr;

		it[i].evicted = mask >> i & 1;
		it[i].new_off = it[i].off;
		if (it[i].evicted) {
			cost += it[i].cost;
			continue;
		}
		if (it[i].off < at)
			it[i].new_off += seg_align(at - it[i].off, it[i].align);
		if (kin && !prev->evicted)
			it[i].new_off = it[i].off + (prev->new_off - prev->off);
		if (it[i].new_off < at)
			return 0;
		cost += it[i].new_off != it[i].off;
		at = it[i].new_off + it[i].size;
	}
	if (at > limit)
		return 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < n; k++) {
			if (it[i].phdr < 0 || it[i].phdr != it[k].phdr || !it[i].evicted || it[k].evicted)
				continue;
			if (!may_leave_note(f, it, n, i, k))
				return 0;
			cost += 4;
			break;
		}
	}
	return cost;
}

/* Are there only these sections and zeros between the table and `end`? */
static bool gaps_are_zero(const struct seg_file *f, const struct seg_item *it, size_t n, uint64_t end)
{
	uint64_t at = table_end(f);

	for (size_t i = 0; i <= n; i++) {
		for (uint64_t to = i < n ? it[i].off : end; at < to; at++)
			if (f->data[at])
				return false;
		if (i < n)
			at = it[i].off + it[i].size;
	}
	return true;
}

/* Makes space after the table for the entries that are still wanted by moving sections (case 5 of segment.h). */
static bool slot_by_moving(const struct seg_file *f, struct seg_slot *slot)
{
	const Elf64_Phdr *load = table_load(f);
	uint64_t from = table_end(f) + (slot->want - slot->drops) * sizeof(Elf64_Phdr), limit;
	unsigned best = 0, best_mask = 0;

	if (!load)
		return false;
	slot->items = items_collect(f, load, slot->item, &limit);
	if (!gaps_are_zero(f, slot->item, slot->items, limit < from ? limit : from))
		return false;
	for (unsigned mask = 0; mask < 1u << slot->items; mask++) {
		unsigned cost = items_pack(f, slot->item, slot->items, mask, from, limit);

		if (cost && (!best || cost < best)) {
			best = cost;
			best_mask = mask;
		}
	}
	if (!best)
		return false;
	items_pack(f, slot->item, slot->items, best_mask, from, limit);
	for (size_t i = 0; i < slot->items; i++)
		slot->item[i].new_addr = slot->item[i].addr + (slot->item[i].new_off - slot->item[i].off);
	return true;
}

/* Is the table followed by unused zeros for so many entries (case 2 of segment.h)? */
static bool slot_is_free(const struct seg_file *f, unsigned entries)
{
	uint64_t at = table_end(f), n = entries * sizeof(Elf64_Phdr);
	const Elf64_Phdr *load = table_load(f);

	if (f->eh.e_phnum + entries >= PN_XNUM || at + n > f->size || (load && load->p_offset + load->p_filesz < at + n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (f->data[at + i])
			return false;
	for (size_t i = 0; i < f->sections; i++)
		if (f->sh[i].sh_type != SHT_NULL && f->sh[i].sh_type != SHT_NOBITS &&
		    seg_overlap(f->sh[i].sh_offset, f->sh[i].sh_size, at, n))
			return false;
	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (&f->ph[i] != load && seg_overlap(f->ph[i].p_offset, f->ph[i].p_filesz, at, n))
			return false;
	return !seg_overlap(f->eh.e_shoff, (uint64_t)f->sections * sizeof(Elf64_Shdr), at, n);
}

/* Gives up a program header for a new one. */
static void slot_drop(struct seg_slot *slot, size_t phdr)
{
	size_t i = slot->drops++;

	for (; i && slot->drop[i - 1] > phdr; i--)
		slot->drop[i] = slot->drop[i - 1];
	slot->drop[i] = phdr;
}

/* Gives up those program headers of a type that the file can do without. Returns true if there is then space for all
 * wanted ones. */
static bool slot_by_dropping(const struct seg_file *f, uint32_t type, struct seg_slot *slot)
{
	for (size_t i = 0; i < f->eh.e_phnum && slot->drops < slot->want; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type == type && (type != PT_GNU_PROPERTY || property_is_redundant(f, p)) &&
		    (type != PT_PHDR || table_load(f)))
			slot_drop(slot, i);
	}
	return slot->drops == slot->want || slot_is_free(f, slot->want - (unsigned)slot->drops);
}

int seg_slot_find(const struct seg_file *f, unsigned want, struct seg_slot *slot, struct error *e)
{
	*slot = (struct seg_slot){.want = want};
	if (slot_by_dropping(f, PT_NULL, slot) || slot_by_dropping(f, PT_GNU_PROPERTY, slot))
		return SEGMENT_OK;
	/* Without PT_PHDR a position-independent program finds its base by
	 * PT_DYNAMIC (musl) or by its own _DYNAMIC (glibc); ET_EXEC needs none. */
	if (!find_phdr(f, PT_INTERP) && (f->eh.e_type == ET_EXEC || find_phdr(f, PT_DYNAMIC)) &&
	    slot_by_dropping(f, PT_PHDR, slot))
		return SEGMENT_OK;
	if (f->eh.e_phnum + want >= PN_XNUM)
		return seg_fail(SEGMENT_ENOSLOT, e, "has %u program headers: no space for another", (unsigned)f->eh.e_phnum);
	if (slot_by_moving(f, slot))
		return SEGMENT_OK;
	*slot = (struct seg_slot){.want = want, .table = true};
	return SEGMENT_OK;
}
