/* SPDX-License-Identifier: MIT */
/* Reads the kernel's ORC rows (kernel_orc.h): determines their layout, decodes and sorts them. */
#include "kernel/kernel_orc.h"
#include "support/memory.h"

#include <etch/orc_lookup.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Indices of the two sections; objtool generates one of each. */
struct arrays {
	uint32_t ip, orc;
};

static uint32_t array_next(const struct elf_file *f, const char *name, uint32_t from)
{
	while ((from = elf_section_find(f, name, from + 1)))
		if (f->sections[from].data && !(f->sections[from].sh.sh_flags & SHF_LINK_ORDER))
			return from;
	return 0;
}

static bool arrays_find(const struct elf_file *f, struct arrays *a, uint32_t from)
{
	a->ip = array_next(f, ETCH_SEC_ORC_IP, from ? a->ip : 0);
	a->orc = array_next(f, ETCH_SEC_ORC, from ? a->orc : 0);
	return a->ip && a->orc;
}

/* True if etch could have written these entries. */
static bool written_by_etch(const struct elf_section *s)
{
	struct etch_orc entry;
	struct etch_rule rule;
	uint64_t i;

	for (i = 0; i < s->sh.sh_size / sizeof(entry); i++) {
		memcpy(&entry, s->data + i * sizeof(entry), sizeof(entry));
		if (!etch_orc_unpack(&entry, &rule))
			return false;
	}
	return true;
}

bool kernel_orc_present(const struct elf_file *f)
{
	struct arrays a = {0};

	if (!arrays_find(f, &a, 0))
		return false;
	return kernel_sign(f) || (elf_is_object(f) && !written_by_etch(&f->sections[a.orc]));
}

/* ---- which layout ------------------------------------------------------------------------ */

/*
 * Returns the layout that a release has. Returns KERNEL_ORC_LAYOUTS for a release that may have either numbering of
 * registers.
 */
static enum kernel_orc_layout layout_of_version(unsigned version)
{
	if (version >= KERNEL_VERSION_OF(7, 2))
		return KERNEL_ORC_7_2;
	if (version >= KERNEL_VERSION_OF(6, 13))
		return KERNEL_ORC_LAYOUTS;
	if (version >= KERNEL_VERSION_OF(6, 4))
		return KERNEL_ORC_6_4;
	return version >= KERNEL_VERSION_OF(6, 3) ? KERNEL_ORC_6_3 : KERNEL_ORC_4_14;
}

static struct kernel_orc_votes votes_count(const struct elf_file *f, const struct arrays *a)
{
	const struct elf_section *s = &f->sections[a->orc];
	struct kernel_orc_votes v = {0};
	uint64_t i;

	for (i = 0; i < s->sh.sh_size / KERNEL_ORC_SIZE; i++)
		kernel_orc_vote(&v, s->data + i * KERNEL_ORC_SIZE);
	return v;
}

/*
 * Returns the layout by the counts of entries, or KERNEL_ORC_LAYOUTS if they do not show it. `typed`: it is known that
 * the layout is that of 6.4 or a later one.
 */
static enum kernel_orc_layout layout_of_entries(const struct kernel_orc_votes *v, bool typed)
{
	if (!typed && v->types_6_4 <= v->types_older)
		return KERNEL_ORC_4_14;
	if (v->registers_7_2 == v->registers_older)
		return v->types_6_4 || !typed ? KERNEL_ORC_LAYOUTS : KERNEL_ORC_6_4;
	return v->registers_7_2 > v->registers_older ? KERNEL_ORC_7_2 : KERNEL_ORC_6_4;
}

/* True if most entries contradict the register numbers of a layout. */
static bool is_contradicted(enum kernel_orc_layout layout, const struct kernel_orc_votes *v)
{
	return (layout == KERNEL_ORC_6_4 && v->registers_7_2 > v->registers_older) ||
	       (layout == KERNEL_ORC_7_2 && v->registers_older > v->registers_7_2);
}

/*
 * Sets out->layout, and out->layout_from to the way in which it was found. If nothing shows the layout, or the entries
 * contradict it, sets KERNEL_ORC_LAYOUTS and out->problem.
 */
static void layout_find(const struct kernel *k, const struct arrays *a, struct kernel_rows *out)
{
	uint32_t header = elf_section_find(k->file, ".orc_header", 1);
	const struct elf_section *s = &k->file->sections[header];
	const struct kernel_orc_votes votes = votes_count(k->file, a);
	bool hashed = header && s->data && s->sh.sh_size == 20;
	char *from = out->layout_from;
	size_t size = sizeof(out->layout_from);

	if (hashed)
		out->layout = kernel_orc_layout_of_hash(s->data);
	else
		out->layout = k->version ? layout_of_version(k->version) : KERNEL_ORC_LAYOUTS;
	if (out->layout != KERNEL_ORC_LAYOUTS && hashed) {
		snprintf(from, size, ".orc_header");
	} else if (out->layout != KERNEL_ORC_LAYOUTS) {
		snprintf(from, size, "release %s in %s", k->release, k->release_from);
	} else {
		const char *why = k->version ? "no .orc_header, and the release does not tell" : "no .orc_header, no release";

		out->layout = layout_of_entries(&votes, hashed || k->version);
		snprintf(from, size, "assumed from its entries: %s", hashed ? "unknown hash in .orc_header" : why);
	}
	if (is_contradicted(out->layout, &votes)) {
		snprintf(out->problem, sizeof(out->problem), "its layout is not known: its entries contradict %s", from);
		out->layout = KERNEL_ORC_LAYOUTS;
	} else if (out->layout == KERNEL_ORC_LAYOUTS) {
		snprintf(out->problem, sizeof(out->problem),
		         "its layout is not known: neither a hash, a release nor its entries tell");
	}
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int order(const void *a, const void *b)
{
	const struct kernel_row *x = a, *y = b;
	bool none_x = x->place.kind != KPLACE_SECTION, none_y = y->place.kind != KPLACE_SECTION;
	bool undef_x = x->orc.kind == KERNEL_ORC_UNDEF, undef_y = y->orc.kind == KERNEL_ORC_UNDEF;

	if (none_x != none_y)
		return none_x ? 1 : -1;
	if (x->place.section != y->place.section)
		return x->place.section < y->place.section ? -1 : 1;
	if (x->place.addr != y->place.addr)
		return x->place.addr < y->place.addr ? -1 : 1;
	/*
	 * Of the rows at an address the last one counts, so the row that ends a section sorts before the one that starts
	 * the next section.
	 */
	return undef_y - undef_x;
}

/*
 * Checks that the address of a row is in code. It may also be the end of a code section, because objtool ends each
 * section with a row.
 */
static void place_check(struct kernel *k, struct kernel_row *r)
{
	struct kernel_place *p = &r->place, before = *p;
	const struct elf_section *s;

	if (p->kind == KPLACE_NONE || p->kind == KPLACE_SYMBOL) {
		r->problem = p->why ? p->why : "its address is in another file";
		r->orc.kind = KERNEL_ORC_BAD;
		p->kind = KPLACE_NONE;
		return;
	}
	if (kernel_place_is_code(k, p))
		return;
	if (!elf_is_object(k->file))
		kernel_place_at(k, p->addr - 1, &before);
	s = &k->file->sections[before.section];
	if (before.kind != KPLACE_SECTION || !(s->sh.sh_flags & SHF_EXECINSTR) ||
	    p->addr != (elf_is_object(k->file) ? 0 : s->sh.sh_addr) + s->sh.sh_size) {
		r->problem = "its address is not in code";
		r->orc.kind = KERNEL_ORC_BAD;
		p->kind = KPLACE_OUTSIDE;
		return;
	}
	p->kind = KPLACE_SECTION;
	p->section = before.section;
}

static void row_read(struct kernel *k, const struct arrays *a, uint64_t i, enum kernel_orc_layout layout,
                     struct kernel_row *r)
{
	kernel_ref_read(k, a->ip, 4 * i, KREF_REL32, &r->place);
	r->problem = kernel_orc_unpack(k->file->sections[a->orc].data + KERNEL_ORC_SIZE * i, layout, &r->orc);
	r->orc.sp_deref_first = k->version && k->version < KERNEL_VERSION_OF(5, 13);
	place_check(k, r);
}

static uint64_t arrays_count(const struct elf_file *f, const struct arrays *a, struct kernel_rows *out)
{
	uint64_t ip = f->sections[a->ip].sh.sh_size, orc = f->sections[a->orc].sh.sh_size;
	uint64_t n = ip / 4 < orc / KERNEL_ORC_SIZE ? ip / 4 : orc / KERNEL_ORC_SIZE;

	if (ip != 4 * n || orc != KERNEL_ORC_SIZE * n)
		snprintf(out->problem, sizeof(out->problem),
		         ETCH_SEC_ORC_IP " has %" PRIu64 " bytes and " ETCH_SEC_ORC " %" PRIu64
		                         ": not the same number of entries of 4 and 6 bytes; showing the first %" PRIu64,
		         ip, orc, n);
	return n;
}

static void append(struct kernel *k, const struct arrays *a, struct kernel_rows *out)
{
	const char *broken = kernel_relocs_broken(k, a->ip);
	uint64_t n = arrays_count(k->file, a, out), i;

	out->list = mem_resize(out->list, out->count + n + 1, sizeof(*out->list));
	if (broken)
		snprintf(out->problem, sizeof(out->problem), "relocations of " ETCH_SEC_ORC_IP ": %.100s", broken);
	for (i = 0; i < n; i++) {
		struct kernel_row *r = &out->list[out->count];

		memset(r, 0, sizeof(*r));
		row_read(k, a, i, out->layout, r);
		out->bad += r->problem != NULL;
		out->sorted &= !out->count || order(r - 1, r) <= 0;
		out->count++;
	}
}

static void sizes_find(const struct kernel *k, struct kernel_rows *out)
{
	size_t i;

	for (i = 0; i < out->count; i++) {
		struct kernel_row *r = &out->list[i];

		r->size = kernel_place_left(k, &r->place);
		if (i + 1 < out->count && r[1].place.kind == KPLACE_SECTION && r[1].place.section == r->place.section &&
		    r[1].place.addr - r->place.addr < r->size)
			r->size = r[1].place.addr - r->place.addr;
	}
}

/* Sorts the rows. The sort must be stable, since of two rows at the same address the later one counts. */
static void rows_sort(struct kernel_rows *out)
{
	struct kernel_row *copy, *from = out->list, *to, *swap;
	size_t width, i;

	copy = mem_alloc(out->count + 1, sizeof(*copy));
	to = copy;
	for (width = 1; width < out->count; width *= 2) {
		for (i = 0; i < out->count; i += 2 * width) {
			size_t mid = i + width < out->count ? i + width : out->count;
			size_t end = i + 2 * width < out->count ? i + 2 * width : out->count, l = i, r = mid, k = i;

			while (k < end)
				to[k++] = l < mid && (r == end || order(&from[l], &from[r]) <= 0) ? from[l++] : from[r++];
		}
		swap = from;
		from = to;
		to = swap;
	}
	if (from != out->list)
		memcpy(out->list, from, out->count * sizeof(*from));
	free(copy);
}

int kernel_orc_head(struct kernel *k, struct kernel_rows *out)
{
	struct arrays a = {0};

	memset(out, 0, sizeof(*out));
	if (!arrays_find(k->file, &a, 0))
		return 0;
	out->present = true;
	layout_find(k, &a, out);
	do
		out->count += arrays_count(k->file, &a, out);
	while (arrays_find(k->file, &a, a.ip));
	return 1;
}

int kernel_orc_read(struct kernel *k, struct kernel_rows *out, struct error *e)
{
	struct arrays a = {0};

	memset(out, 0, sizeof(*out));
	out->sorted = true;
	if (!arrays_find(k->file, &a, 0))
		return 0;
	out->present = true;
	layout_find(k, &a, out);
	if (out->layout == KERNEL_ORC_LAYOUTS)
		return error_set(e, "section " ETCH_SEC_ORC ": %s", out->problem);
	do
		append(k, &a, out);
	while (arrays_find(k->file, &a, a.ip));
	if (!out->sorted)
		rows_sort(out);
	sizes_find(k, out);
	return 0;
}

void kernel_orc_free(struct kernel_rows *r)
{
	free(r->list);
	memset(r, 0, sizeof(*r));
}
