/* SPDX-License-Identifier: MIT */
/*
 * Lays out and writes a linked file with one more PT_LOAD, or a longer one.
 *
 * The file becomes
 *     [previous contents] [segment: note, moved sections, new sections]
 *     [new sections that are not loaded] [.shstrtab] [section headers]
 * and the old .shstrtab and section headers, which normally end a file, are dropped.
 * The layout depends only on the rest of the file, so that a second run
 * arrives at the same one.
 */
#include <stdlib.h>
#include <string.h>

#include "output/segment.h"
#include "output/segment_layout.h"
#include "support/memory.h"

/* Copies the old section names to l->str, with space for those of the new sections. */
static void names_begin(struct seg_layout *l, const struct segment_section *secs, size_t n)
{
	const Elf64_Shdr *old = &l->f.sh[l->f.names];
	uint64_t more = sizeof SEGMENT_SECTION + sizeof SEGMENT_TABLE + sizeof SEGMENT_FRONT + sizeof SEGMENT_BUILD_ID;

	for (size_t i = 0; i < n; i++)
		more += strlen(secs[i].name) + 1 + (secs[i].former ? strlen(secs[i].former) + 1 : 0);
	l->str = mem_alloc(old->sh_size + more, 1);
	memcpy(l->str, l->f.data + old->sh_offset, old->sh_size);
	l->str_size = old->sh_size;
}

/* Decides the file offsets of the new sections (l->off_of), and the size of the output up to them. */
static void sections_place(struct seg_layout *l, const struct segment_section *secs, size_t n)
{
	l->off_of = mem_zero(n, sizeof *l->off_of);
	l->out_size = seg_max(l->keep, l->base + l->size);
	for (size_t i = 0; i < n; i++) {
		if (secs[i].unloaded)
			l->out_size = seg_align(l->out_size, secs[i].align ? secs[i].align : 1);
		l->off_of[i] = secs[i].unloaded ? l->out_size : l->base + (secs[i].addr - l->addr);
		l->out_size += secs[i].unloaded ? secs[i].size : 0;
	}
}

/* Moves the section names and headers to the end of the file, unless they are unchanged. */
static void headers_place(struct seg_layout *l, uint64_t old_headers, uint64_t old_str)
{
	struct seg_file *f = &l->f;
	Elf64_Shdr *names = &f->sh[f->names];

	if (names->sh_offset + old_str > l->keep || l->str_size != old_str) {
		names->sh_offset = l->out_size;
		names->sh_size = l->str_size;
		l->out_size += l->str_size;
	}
	if (f->eh.e_shoff + old_headers * sizeof *f->sh > l->keep || f->sections != old_headers) {
		f->eh.e_shoff = seg_align(l->out_size, 8);
		l->out_size = f->eh.e_shoff + f->sections * sizeof *f->sh;
	}
	seg_headers_count(f);
}

/* Places the sections, and computes all headers of the file with them. Returns a segment_result. */
static int layout_files(struct seg_layout *l, const struct segment_section *secs, size_t n, struct error *e)
{
	struct seg_file *f = &l->f;
	uint64_t old_headers = f->sections, old_str = f->sh[f->names].sh_size;
	int r = seg_check_tail(l, l->keep, e);

	if (r)
		return r;
	/* strip and objcopy put sections such as .comment after the segment, which stays in place as long as it fits
	 * there. */
	if (l->ours && !l->inside && l->old_base + l->size <= seg_old_space_end(l))
		l->base = l->old_base;
	names_begin(l, secs, n);
	sections_place(l, secs, n);
	seg_headers_assign(l, secs, n);
	seg_headers_rename(l, secs, n, old_headers);
	seg_headers_fill(l, secs, n);
	for (size_t i = 0; i < l->items; i++) {
		struct seg_item *it = &l->item[i];

		if (it->evicted)
			it->new_off = l->base + (it->new_addr - l->addr);
		f->sh[it->sec].sh_addr = it->new_addr;
		f->sh[it->sec].sh_offset = it->new_off;
	}
	seg_phdrs_follow(l);
	if (!l->ours)
		seg_phdrs_insert(l, secs, n);
	if (!l->inside) {
		f->ph[l->load].p_offset = l->base;
		f->ph[l->load].p_vaddr = f->ph[l->load].p_paddr = l->addr;
		f->ph[l->load].p_filesz = f->ph[l->load].p_memsz = l->size;
	}
	seg_phdrs_cover(l, secs, n);
	seg_table_follow(l);
	headers_place(l, old_headers, old_str);
	if (l->out_size > SIZE_MAX / 2 || l->keep > f->size)
		return seg_fail(SEGMENT_ENOSLOT, e, "the file would become too large");
	return SEGMENT_OK;
}

static void layout_free(struct seg_layout *l)
{
	free(l->f.ph);
	free(l->f.sh);
	free(l->front);
	if (l->item != l->slot.item)
		free(l->item);
	free(l->sec_of);
	free(l->off_of);
	free(l->str);
}

/*
 * Extends the first PT_LOAD downwards by a page for `want` more program headers, and by `capacity` bytes for the
 * segment itself, which is a PT_LOAD of its own if that is 0. Returns SEG_NO_GAP if the file does not allow it.
 */
static int front_take(struct seg_layout *l, unsigned want, uint64_t capacity, struct error *e)
{
	int r;

	if (!seg_front_find(&l->f, want, capacity, &l->front_page))
		return SEG_NO_GAP;
	r = seg_front_check(&l->f, e);
	if (r)
		return r;
	l->front = seg_front_make(&l->f, &l->front_page);
	r = seg_slot_find(&l->f, want, &l->slot, e);
	l->inside = capacity;
	l->items = l->slot.items;
	return r;
}

/* Decides the place of a segment that the file does not have yet. `want` is the number of program headers to add,
 * including the segment's own. */
static int place_new(struct seg_layout *l, const struct segment_request *q, unsigned want, struct error *e)
{
	uint64_t capacity = seg_contents_size(q->sections, q->count);
	int r = seg_slot_find(&l->f, want, &l->slot, e);

	if (r)
		return r;
	l->item = l->slot.item;
	l->items = l->slot.items;
	/* If only moving the table is left, try a new first page before that: segment.h has the order and its reasons. */
	if (l->slot.table && seg_gap_may_hold(&l->f, capacity)) {
		r = front_take(l, want, 0, e);
		if (r < 0)
			return r;
	}
	l->keep = seg_kept_end(l);
	r = seg_place(l, q->sections, q->count, e);
	if (r == SEG_NO_GAP && !l->front) {
		r = front_take(l, want - 1, capacity, e);
		l->keep = seg_kept_end(l);
		r = r ? r : seg_place(l, q->sections, q->count, e);
	}
	if (r == SEG_NO_GAP)
		r = seg_fail(
			SEGMENT_ENOSLOT, e,
			"its heap begins right after its last segment, and there are no %llu bytes of free addresses between "
			"its segments or below them",
			(unsigned long long)capacity);
	return r;
}

/* Makes space for a segment inside the first PT_LOAD that needs more than an earlier run left: the PT_LOAD then begins
 * further down. If that is impossible, check_growth() reports it. */
static void inside_grow(struct seg_layout *l, const struct segment_request *q)
{
	uint64_t need = seg_contents_size(q->sections, q->count), end = seg_inside_end(l);
	size_t header = 1;

	while (header < l->f.sections && strcmp(seg_name(&l->f, header), SEGMENT_FRONT))
		header++;
	if (need <= end - l->old_base || header == l->f.sections || l->f.sh[header].sh_offset != end || l->items ||
	    !seg_front_grow(&l->f, l->old_base, end, need, &l->front_page))
		return;
	l->front = seg_front_make(&l->f, &l->front_page);
	l->addr -= l->front_page.by;
}

/* Decides everything except the bytes. The caller must free *l in any case. */
static int layout_make(struct seg_layout *l, const struct segment_request *q, struct error *e)
{
	struct seg_ours ours;
	unsigned covers;
	int r;

	memset(l, 0, sizeof *l);
	r = seg_read(&l->f, q->file, q->size, e);
	if (!r)
		r = seg_check_list(q->sections, q->count, e);
	if (r)
		return r;
	r = seg_ours_find(&l->f, &ours, e);
	if (r < 0)
		return r;
	l->ours = r;
	covers = seg_covers_missing(&l->f, q->sections, q->count);
	if (l->ours && covers)
		return seg_fail(SEGMENT_ENOSLOT, e,
		                "an earlier etch run left no program header for what is new: start from the file as it was");
	if (covers >= SLOT_MOST)
		return seg_fail(SEGMENT_EINVAL, e, "too many program headers");
	if (!l->ours) {
		r = place_new(l, q, 1 + covers, e);
		return r ? r : layout_files(l, q->sections, q->count, e);
	}
	r = seg_ours_read(l, &ours, e);
	if (r)
		return r;
	if (l->inside)
		inside_grow(l, q);
	l->keep = seg_max(seg_kept_end(l), l->old_base); /* an earlier run kept all bytes before its segment */
	r = seg_place(l, q->sections, q->count, e);
	return r ? r : layout_files(l, q->sections, q->count, e);
}

/* ---- output ---------------------------------------------------------------- */

/* Updates the local symbols of moved sections. (A section with a global symbol does not move.) */
static void symbols_follow(const struct seg_layout *l, uint8_t *out)
{
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];
		Elf64_Sym sym;

		if (s->sh_type != SHT_SYMTAB || (s->sh_flags & SHF_ALLOC))
			continue;
		for (uint64_t k = 0; k + sizeof sym <= s->sh_size; k += sizeof sym) {
			memcpy(&sym, out + s->sh_offset + k, sizeof sym);
			for (size_t m = 0; m < l->items; m++)
				if (sym.st_shndx == l->item[m].sec)
					sym.st_value += l->item[m].new_addr - l->item[m].addr;
			memcpy(out + s->sh_offset + k, &sym, sizeof sym);
		}
	}
}

static void dynamic_follow(const struct seg_layout *l, uint8_t *out)
{
	for (size_t i = 0; i < l->f.eh.e_phnum; i++) {
		const Elf64_Phdr *p = &l->f.ph[i];
		Elf64_Dyn dyn;

		for (uint64_t k = 0; p->p_type == PT_DYNAMIC && k + sizeof dyn <= p->p_filesz; k += sizeof dyn) {
			memcpy(&dyn, out + p->p_offset + k, sizeof dyn);
			if (dyn.d_tag == DT_NULL)
				break;
			for (size_t m = 0; m < l->items; m++)
				if (l->item[m].tag && dyn.d_tag == l->item[m].tag)
					dyn.d_un.d_ptr = l->item[m].new_addr;
			memcpy(out + p->p_offset + k, &dyn, sizeof dyn);
		}
	}
}

static void write_out(const struct seg_layout *l, const struct segment_section *secs, size_t n, uint8_t *out)
{
	const struct seg_file *f = &l->f;
	struct segment_note note = seg_note;

	big_copy(out, f->data, l->keep);
	for (size_t i = 0; i < l->items && !l->ours; i++)
		if (l->item[i].new_off != l->item[i].off)
			memset(out + l->item[i].off, 0, l->item[i].size);
	if (l->ours && l->old_base < l->keep)
		memset(out + l->old_base, 0, l->old_size < l->keep - l->old_base ? l->old_size : l->keep - l->old_base);
	for (size_t i = 0; i < l->items; i++)
		memcpy(out + l->item[i].new_off, f->data + l->item[i].off, l->item[i].size);
	note.first = (uint32_t)l->first;
	note.inside = l->inside ? (uint32_t)l->size : 0;
	memcpy(out + l->base, &note, sizeof note);
	for (size_t i = 0; i < n; i++)
		memcpy(out + l->off_of[i], secs[i].data, secs[i].size);
	if (!l->ours) {
		symbols_follow(l, out);
		dynamic_follow(l, out);
	}
	memcpy(out + f->sh[f->names].sh_offset, l->str, l->str_size);
	memcpy(out + f->eh.e_shoff, f->sh, f->sections * sizeof *f->sh);
	memcpy(out + f->eh.e_phoff, f->ph, f->eh.e_phnum * sizeof *f->ph);
	memcpy(out, &f->eh, sizeof f->eh);
	if (l->front) { /* __ehdr_start is the old header: let it lead to the new table */
		Elf64_Ehdr old = f->eh;
		uint8_t *at = out + l->front_page.at + l->front_page.size;

		old.e_phoff -= l->front_page.at + l->front_page.size;
		memcpy(at + offsetof(Elf64_Ehdr, e_phoff), &old.e_phoff, sizeof old.e_phoff);
		memcpy(at + offsetof(Elf64_Ehdr, e_phnum), &old.e_phnum, sizeof old.e_phnum);
	}
}

/* Does the file already have the headers that would be written, at whatever offset? If so, only the contents of
 * sections are replaced. */
static bool same_headers(const struct seg_layout *l)
{
	const struct seg_file *f = &l->f;
	Elf64_Ehdr eh;

	memcpy(&eh, f->data, sizeof eh);
	if (!l->ours || l->size != l->old_size || eh.e_shnum != f->eh.e_shnum)
		return false;
	for (size_t i = eh.e_shnum ? 1 : 0; i < f->sections; i++) {
		Elf64_Shdr a = f->sh[i], b;

		memcpy(&b, f->data + eh.e_shoff + i * sizeof b, sizeof b);
		a.sh_offset = b.sh_offset;
		/* The new .shstrtab begins with the old one, so offsets of old names are valid in it. */
		if (strcmp(l->str + a.sh_name, l->str + b.sh_name))
			return false;
		a.sh_name = b.sh_name;
		if (memcmp(&a, &b, sizeof a))
			return false;
	}
	return true;
}

int segment_plan(const uint8_t *file, size_t size, struct segment_section *secs, size_t n, struct error *e)
{
	const struct segment_request q = {.file = file, .size = size, .sections = secs, .count = n};
	struct seg_layout l;
	int r = layout_make(&l, &q, e);

	layout_free(&l);
	return r;
}

/* Writes the contents of the caller's sections into a file that already has these sections. */
static void contents_replace(const struct seg_layout *l, const struct segment_section *secs, size_t n, uint8_t *out)
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;

	memcpy(&eh, out, sizeof eh);
	for (size_t i = 0; i < n; i++) {
		memcpy(&sh, out + eh.e_shoff + l->sec_of[i] * sizeof sh, sizeof sh);
		memcpy(out + sh.sh_offset, secs[i].data, secs[i].size);
	}
}

/* Checks that a second run will find the segment. It would not find it in a malformed file in which a section covers
 * the program headers, or the place where the new ones were put. */
static int result_check(uint8_t **out, size_t size, struct error *e)
{
	struct segment_found found;
	int r = segment_find(*out, size, &found, e);

	if (r > 0)
		return SEGMENT_OK;
	free(*out);
	*out = NULL;
	return r ? r : BAD("its headers overlap the contents that they describe");
}

static int layout_write(const struct seg_layout *l, const struct segment_request *q, uint8_t **out, size_t *out_size,
                        struct error *e)
{
	bool same = same_headers(l);

	if (l->front) { /* the caller may have changed bytes of the file since the layout was made */
		uint64_t at = l->front_page.at, size = l->front_page.size;

		memcpy(l->front, q->file, at);
		memcpy(l->front + at + size, q->file + at, l->f.size - size - at);
	}
	*out_size = same ? l->f.size : l->out_size;
	big_trim(l->f.size); /* the analysis has freed about as much memory as the output needs */
	*out = big_zero(*out_size, 1);
	if (same) {
		big_copy(*out, l->f.data, l->f.size);
		contents_replace(l, q->sections, q->count, *out);
	} else {
		write_out(l, q->sections, q->count, *out);
	}
	return result_check(out, *out_size, e);
}

int segment_build(const struct segment_request *q, uint8_t **out, size_t *out_size, struct error *e)
{
	struct seg_layout l;
	int r = layout_make(&l, q, e);

	if (!r && q->fill)
		r = q->fill(q->context);
	for (size_t i = 0; i < q->count && !r; i++)
		if (!q->sections[i].data)
			r = seg_fail(SEGMENT_EINVAL, e, "section %s has no contents", q->sections[i].name);
	if (!r)
		r = layout_write(&l, q, out, out_size, e);
	layout_free(&l);
	return r;
}

int segment_add(const struct segment_request *q, uint8_t **out, size_t *out_size, struct error *e)
{
	const struct segment_section *given = q->sections;
	struct segment_request planned = *q;
	struct seg_layout l;
	int r;

	planned.sections = mem_copy(given, q->count * sizeof *given);
	r = layout_make(&l, &planned, e);
	for (size_t i = 0; i < q->count && !r; i++)
		if (planned.sections[i].addr != given[i].addr || !given[i].data)
			r = seg_fail(SEGMENT_EINVAL, e, "section %s is not where segment_plan put it", given[i].name);
	if (!r)
		r = layout_write(&l, q, out, out_size, e);
	layout_free(&l);
	free(planned.sections);
	return r;
}
