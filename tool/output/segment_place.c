/* SPDX-License-Identifier: MIT */
/* Decides the place of the segment and its sections, in memory and in the file. */
#include <stdlib.h>
#include <string.h>

#include "output/segment_layout.h"
#include "support/memory.h"
#include "output/undo.h"

/* Is this the name of a section that etch itself adds beside those of the caller? */
static bool is_own_name(const char *name)
{
	static const char *const own[] = {SEGMENT_SECTION, SEGMENT_TABLE, SEGMENT_FRONT, SEGMENT_BUILD_ID};

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (!strcmp(name, own[i]))
			return true;
	return false;
}

int seg_check_list(const struct segment_section *secs, size_t n, struct error *e)
{
	if (!n || secs[0].unloaded)
		return seg_fail(SEGMENT_EINVAL, e, "no section to add");
	for (size_t i = 0; i < n; i++) {
		const struct segment_section *s = &secs[i];

		if (!s->name || !*s->name || is_own_name(s->name) || !s->size || s->size > ADDRESS_END || s->type == SHT_NULL ||
		    s->type == SHT_NOBITS || (s->flags & ~(uint64_t)(SHF_ALLOC | SHF_MERGE | SHF_STRINGS)) ||
		    s->align > SEGMENT_PAGE || (s->align & (s->align - 1)) ||
		    (s->unloaded && strncmp(s->name, SEGMENT_UNLOADED, sizeof SEGMENT_UNLOADED - 1)))
			return seg_fail(SEGMENT_EINVAL, e, "section %zu (%s) cannot be in a read-only segment", i,
			                s->name ? s->name : "no name");
		for (size_t k = 0; k < i; k++)
			if (!strcmp(s->name, secs[k].name))
				return seg_fail(SEGMENT_EINVAL, e, "section %s given twice", s->name);
	}
	return SEGMENT_OK;
}

/* Fills l->item with the sections that an earlier run moved into the segment, which keep their addresses. */
int seg_ours_read(struct seg_layout *l, const struct seg_ours *o, struct error *e)
{
	l->addr = o->addr;
	l->old_base = o->offset;
	l->old_size = o->size;
	l->load = o->load;
	l->note_sec = o->note_sec;
	l->inside = o->inside;
	if (l->f.eh.e_phoff - o->offset < o->first) {
		l->table = l->f.eh.e_phoff - o->offset;
		if (l->table < sizeof seg_note || l->f.eh.e_phnum * sizeof *l->f.ph > o->first - l->table)
			return BAD("the program headers are misplaced in the etch segment");
	}
	l->items = 0;
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];
		uint64_t rel = s->sh_addr - o->addr;
		bool within = seg_is_mapped_in(s, o->addr, o->size);
		bool bytes = seg_has_bytes(s) && seg_overlap(s->sh_offset, s->sh_size, o->offset, o->size);

		if ((!within && !bytes) || i == l->note_sec)
			continue;
		if (!within || !seg_has_bytes(s) || rel < sizeof seg_note || s->sh_size > o->size - rel ||
		    s->sh_offset != o->offset + rel || i == l->f.names)
			return BAD("section %zu lies in the etch segment but is not part of it", i);
		if (rel < o->first)
			l->items++;
	}
	l->item = mem_zero(l->items, sizeof *l->item);
	l->items = 0;
	for (size_t i = 1; i < l->f.sections; i++) {
		const Elf64_Shdr *s = &l->f.sh[i];

		if (i == l->note_sec || !seg_is_mapped_in(s, o->addr, o->first))
			continue;
		l->item[l->items++] = (struct seg_item){
			.sec = i,
			.off = s->sh_offset,
			.addr = s->sh_addr,
			.size = s->sh_size,
			.new_addr = s->sh_addr,
			.evicted = true,
			.phdr = -1,
		};
	}
	return SEGMENT_OK;
}

/*
 * eu-elflint takes the size of a relocation's symbol for the number of bytes that the relocation writes, and reports
 * the read-only segment if these bytes would extend into it. Addresses cost nothing, so a gap of up to MAX_GAP avoids
 * the report.
 */
#define MAX_GAP (256ull << 20)

static uint64_t above_relocations(const struct seg_file *f, uint64_t addr)
{
	uint64_t top = addr;

	for (size_t i = 1; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i], *syms;
		Elf64_Rela rela;
		Elf64_Sym sym;

		if (s->sh_type != SHT_RELA || !(s->sh_flags & SHF_ALLOC) || s->sh_link >= f->sections)
			continue;
		syms = &f->sh[s->sh_link];
		if (syms->sh_type != SHT_DYNSYM && syms->sh_type != SHT_SYMTAB)
			continue;
		for (uint64_t k = 0; k + sizeof rela <= s->sh_size; k += sizeof rela) {
			memcpy(&rela, f->data + s->sh_offset + k, sizeof rela);
			if (ELF64_R_SYM(rela.r_info) >= syms->sh_size / sizeof sym || rela.r_offset >= addr)
				continue;
			memcpy(&sym, f->data + syms->sh_offset + ELF64_R_SYM(rela.r_info) * sizeof sym, sizeof sym);
			if (sym.st_size <= MAX_GAP && rela.r_offset + sym.st_size < addr + MAX_GAP)
				top = seg_max(top, rela.r_offset + sym.st_size + 1);
		}
	}
	return top;
}

/*
 * Sets the file offset of the segment to the first page after the kept bytes of the file. If the segment contains the
 * program headers, the difference of its address and offset must equal that of the first PT_LOAD: Linux before 5.18
 * computes AT_PHDR as e_phoff plus that difference, and so do debuggers that start from the ELF header in memory. For
 * that either the address or the offset is increased: addresses cost nothing, and up to MAX_FILL bytes of the file are
 * spent.
 */
#define MAX_FILL (16ull << 20)

static void place_start(struct seg_layout *l)
{
	const Elf64_Phdr *low = &l->f.ph[seg_first_load(&l->f)];
	uint64_t want;

	if (l->inside) {
		l->base = l->old_base;
		return;
	}
	l->base = seg_align(l->keep, SEGMENT_PAGE);
	if (!l->table)
		return;
	want = l->addr - (low->p_vaddr - low->p_offset);
	if (want > l->base && want - l->base <= MAX_FILL)
		l->base = want;
	else if (want < l->base && l->base - want <= MAX_GAP && !l->ours)
		l->addr += l->base - want;
}

/* Sets the addresses of the sections that move into the segment and of the new sections, from l->addr on, and the
 * segment's size. Returns false if they would end above user space. */
static bool contents_place(struct seg_layout *l, struct segment_section *secs, size_t n)
{
	uint64_t headers = l->f.eh.e_phnum + (l->ours ? 0 : l->slot.want);
	uint64_t at = l->table ? l->table + headers * sizeof(Elf64_Phdr) : sizeof seg_note;

	for (size_t i = 0; i < l->items; i++) {
		struct seg_item *it = &l->item[i];

		if (!it->evicted)
			continue;
		/* Sections of one PT_NOTE move by the same distance (a multiple of 8, as in items_pack()) and stay together. */
		if (!l->ours && i && it->phdr >= 0 && it[-1].evicted && it->phdr == it[-1].phdr)
			it->new_addr = it->addr + (it[-1].new_addr - it[-1].addr);
		else if (!l->ours)
			it->new_addr = it->addr + seg_align(l->addr + at - it->addr, it->align);
		at = seg_max(at, it->new_addr + it->size - l->addr);
	}
	l->first = 0;
	for (size_t i = 0; i < n; i++) {
		secs[i].addr = 0;
		if (secs[i].unloaded)
			continue;
		at = seg_align(at, secs[i].align ? secs[i].align : 1);
		if (!i)
			l->first = at;
		secs[i].addr = l->addr + at;
		if (l->addr + at > ADDRESS_END || secs[i].size > ADDRESS_END - l->addr - at)
			return false;
		at += secs[i].size;
	}
	l->size = at;
	return true;
}

uint64_t seg_contents_size(const struct segment_section *secs, size_t n)
{
	uint64_t at = sizeof seg_note;

	for (size_t i = 0; i < n; i++)
		if (!secs[i].unloaded)
			at = seg_align(at, secs[i].align ? secs[i].align : 1) + secs[i].size;
	return at;
}

/* Does the section begin below the address and end above it? This is possible if a segment was cut short. */
static bool reaches(const Elf64_Shdr *s, uint64_t addr)
{
	return s->sh_addr < addr && seg_is_mapped_in(s, s->sh_addr, 1) && s->sh_size > addr - s->sh_addr;
}

/* Returns the index of a section outside the old segment that has addresses of the new one, or 0 if there is none. */
static size_t section_in_the_way(const struct seg_layout *l)
{
	for (size_t i = 1; i < l->f.sections; i++)
		if ((seg_is_mapped_in(&l->f.sh[i], l->addr, l->size) || reaches(&l->f.sh[i], l->addr)) &&
		    !(l->ours && seg_is_mapped_in(&l->f.sh[i], l->addr, l->old_size)))
			return i;
	return 0;
}

/* Does the kernel begin a heap after the highest PT_LOAD of this file? It does for programs, but a shared library has
 * no heap. glibc's own libraries, which can be run as programs, count as programs. */
static bool has_break(const struct seg_file *f)
{
	const Elf64_Phdr *dynamic = NULL;
	bool interp = false;
	Elf64_Dyn dyn;

	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		interp |= f->ph[i].p_type == PT_INTERP;
		if (f->ph[i].p_type == PT_DYNAMIC)
			dynamic = &f->ph[i];
	}
	if (f->eh.e_type == ET_EXEC || interp || !dynamic)
		return true;
	for (uint64_t k = 0; k + sizeof dyn <= dynamic->p_filesz; k += sizeof dyn) {
		memcpy(&dyn, f->data + dynamic->p_offset + k, sizeof dyn);
		if (dyn.d_tag == DT_FLAGS_1)
			return dyn.d_un.d_val & DF_1_PIE;
		if (dyn.d_tag == DT_NULL)
			break;
	}
	return false;
}

/* The free pages between two PT_LOADs: their addresses, and the index of the program header before them. */
struct gap {
	uint64_t lo, hi;
	size_t after;
};

static struct gap largest_gap(const struct seg_file *f)
{
	const Elf64_Phdr *last = NULL;
	struct gap best = {0};

	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (last) {
			/* Both neighbours own whole pages: a file's bytes are mapped in whole pages, and the kernel clears the rest
			 * of the last page of .bss. */
			struct gap g = {seg_align(last->p_vaddr + last->p_memsz, SEGMENT_PAGE),
			                p->p_vaddr & -(uint64_t)SEGMENT_PAGE, (size_t)(last - f->ph)};

			if (g.hi > g.lo && g.hi - g.lo > best.hi - best.lo)
				best = g;
		}
		last = p;
	}
	return best;
}

static bool gap_holds(struct seg_layout *l, struct segment_section *secs, size_t n, uint64_t addr, uint64_t hi)
{
	const Elf64_Phdr *low = &l->f.ph[seg_first_load(&l->f)];

	l->addr = addr;
	place_start(l);
	return l->addr < hi && contents_place(l, secs, n) && l->size <= hi - l->addr && !section_in_the_way(l) &&
	       (!l->table || l->addr - l->base == low->p_vaddr - low->p_offset);
}

bool seg_gap_may_hold(const struct seg_file *f, uint64_t size)
{
	const struct gap g = largest_gap(f);

	return has_break(f) && g.hi - g.lo >= size;
}

/* Puts the segment into the largest gap. Returns false if it does not fit there. */
static bool place_in_gap(struct seg_layout *l, struct segment_section *secs, size_t n)
{
	const struct gap g = largest_gap(&l->f);

	l->after = g.after;
	if (g.hi - g.lo < seg_contents_size(secs, n))
		return false;
	return gap_holds(l, secs, n, seg_align(above_relocations(&l->f, g.lo), SEGMENT_PAGE), g.hi) ||
	       gap_holds(l, secs, n, g.lo, g.hi);
}

/* Refuses a segment that would extend into what follows the segment of an earlier run. */
static int check_growth(const struct seg_layout *l, struct error *e)
{
	uint64_t capacity = l->inside ? seg_inside_end(l) - l->old_base : UINT64_MAX;

	for (size_t i = l->load + 1; i < l->f.eh.e_phnum && !l->inside; i++) {
		if (l->f.ph[i].p_type != PT_LOAD)
			continue;
		capacity = (l->f.ph[i].p_vaddr & -(uint64_t)SEGMENT_PAGE) - l->addr;
		break;
	}
	if (l->size <= capacity)
		return SEGMENT_OK;
	return seg_fail(SEGMENT_ENOSLOT, e,
	                "the etch segment cannot grow: there are no free addresses after it; start from the file as it was "
	                "(etch rewrite --undo)");
}

/* Places the segment of an earlier run, or a new one after all others. */
static int place_last(struct seg_layout *l, struct segment_section *secs, size_t n, struct error *e)
{
	const Elf64_Phdr *top = &l->f.ph[l->f.last_load];

	if (!l->ours) {
		l->after = l->f.last_load;
		l->addr = seg_align(above_relocations(&l->f, top->p_vaddr + top->p_memsz), SEGMENT_PAGE);
	}
	place_start(l);
	if (!contents_place(l, secs, n))
		return seg_fail(SEGMENT_ENOSLOT, e, "no addresses left above the last segment");
	return SEGMENT_OK;
}

/* Places the segment in the first PT_LOAD, which seg_front_make() has extended. */
static int place_inside(struct seg_layout *l, struct segment_section *secs, size_t n, struct error *e)
{
	l->addr = l->f.ph[seg_first_load(&l->f)].p_vaddr + SEGMENT_INSIDE;
	l->base = SEGMENT_INSIDE;
	if (!contents_place(l, secs, n) || l->size > l->front_page.size - SEGMENT_INSIDE || l->size > UINT32_MAX)
		return seg_fail(SEGMENT_EINVAL, e, "its tables are larger than was planned");
	return SEGMENT_OK;
}

int seg_place(struct seg_layout *l, struct segment_section *secs, size_t n, struct error *e)
{
	size_t in_the_way;
	int r = SEGMENT_OK;

	if (!l->ours)
		l->table = l->slot.table ? seg_align(sizeof seg_note, 8) : 0;
	if (l->inside && !l->ours)
		r = place_inside(l, secs, n, e);
	else if (l->ours || !has_break(&l->f) || !place_in_gap(l, secs, n))
		/* A program at fixed addresses may rely on its break: those made by unexec keep their heap there. For other
		 * programs the kernel chooses the addresses, and with them the distance of the break, unless randomization is
		 * switched off. */
		r = !l->ours && l->f.eh.e_type == ET_EXEC ? SEG_NO_GAP : place_last(l, secs, n, e);
	if (!r && l->ours)
		r = check_growth(l, e);
	if (r)
		return r;
	in_the_way = section_in_the_way(l);
	if (in_the_way)
		return BAD("section %zu lies above all segments", in_the_way);
	if (l->first > UINT32_MAX)
		return seg_fail(SEGMENT_ENOSLOT, e, "moved sections are too large");
	return SEGMENT_OK;
}

bool seg_in_old(const struct seg_layout *l, uint64_t off, uint64_t n)
{
	return l->ours && off >= l->old_base && off + n <= l->old_base + l->old_size;
}

/* Did an earlier run add this section? Then this run replaces it. */
static bool is_old(const struct seg_layout *l, size_t i)
{
	return seg_in_old(l, l->f.sh[i].sh_offset, l->f.sh[i].sh_size) || seg_is_unloaded(&l->f, i);
}

/* May a run point this header elsewhere? The contents of such a header are in a segment that is loaded; if they are
 * not, nothing reads them. */
static bool is_led_elsewhere(const Elf64_Phdr *p) { return p->p_type == PT_GNU_EH_FRAME || p->p_type == PT_GNU_SFRAME; }

uint64_t seg_kept_end(const struct seg_layout *l)
{
	const struct seg_file *f = &l->f;
	size_t grows = l->ours || l->slot.table ? 0 : l->slot.want - l->slot.drops;
	uint64_t table = (f->eh.e_phnum + grows) * sizeof *f->ph;
	uint64_t end = seg_in_old(l, f->eh.e_phoff, table) ? 0 : f->eh.e_phoff + table;

	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type != PT_NULL && !is_led_elsewhere(&f->ph[i]) && f->ph[i].p_filesz &&
		    !seg_in_old(l, f->ph[i].p_offset, f->ph[i].p_filesz))
			end = seg_max(end, f->ph[i].p_offset + f->ph[i].p_filesz);
	for (size_t i = 1; i < f->sections; i++)
		if (seg_has_bytes(&f->sh[i]) && i != f->names && !is_old(l, i))
			end = seg_max(end, f->sh[i].sh_offset + f->sh[i].sh_size);
	return end;
}

/* Considers the known extent [off, off + size): if `at` is in it, raises *skip to the number of its bytes from `at` on;
 * if it starts after `at`, lowers *next to its start. */
static void known_at(uint64_t off, uint64_t size, uint64_t at, uint64_t *skip, uint64_t *next)
{
	if (at >= off && at - off < size)
		*skip = seg_max(*skip, off + size - at);
	else if (size && off > at && off < *next)
		*next = off;
}

/* Returns the offset from which to look for data that no header describes: that of the undo record if the file has one,
 * otherwise `end`. The only such bytes before a record are the section names and headers that the file had without it,
 * since undo_attach() refuses a file with other data at its end. */
static uint64_t record_start(const struct seg_file *f, uint64_t end)
{
	for (size_t i = 1; i < f->sections; i++)
		if (seg_is_unloaded(f, i) && !strcmp(seg_name(f, i), UNDO_SECTION))
			return seg_max(end, f->sh[i].sh_offset);
	return end;
}

/* Refuses a file with data after `end` that no header describes, which must neither move nor be dropped: they may be
 * those of a self-extracting archive, or a signature. */
int seg_check_tail(const struct seg_layout *l, uint64_t end, struct error *e)
{
	const Elf64_Shdr *str = &l->f.sh[l->f.names];
	const struct {
		uint64_t off, size;
	} known[3] = {
		{str->sh_offset, str->sh_size},
		{l->f.eh.e_shoff, l->f.sections * sizeof *l->f.sh},
		{l->old_base, l->old_size},
	};

	for (uint64_t at = record_start(&l->f, end); at < l->f.size;) {
		uint64_t skip = 0, next = l->f.size; /* where the next known extent starts */

		for (size_t k = 0; k < 3; k++)
			known_at(known[k].off, known[k].size, at, &skip, &next);
		for (size_t i = 1; i < l->f.sections; i++)
			if (seg_has_bytes(&l->f.sh[i]) && seg_is_unloaded(&l->f, i))
				known_at(l->f.sh[i].sh_offset, l->f.sh[i].sh_size, at, &skip, &next);
		for (; !skip && at < next; at++)
			if (l->f.data[at])
				return seg_fail(SEGMENT_ENOSLOT, e,
				                "data after the last section (at offset 0x%llx) that no header describes",
				                (unsigned long long)at);
		at += skip;
	}
	return SEGMENT_OK;
}

/* Returns the lowest offset, from the old segment on, of section headers or of a section's bytes that are not replaced,
 * or `end` if that is lower. */
static uint64_t next_kept(const struct seg_layout *l, uint64_t end)
{
	const struct seg_file *f = &l->f;

	if (f->eh.e_shoff >= l->old_base && f->eh.e_shoff < end)
		end = f->eh.e_shoff;
	for (size_t i = 1; i < f->sections; i++)
		if (seg_has_bytes(&f->sh[i]) && f->sh[i].sh_offset >= l->old_base && f->sh[i].sh_offset < end && !is_old(l, i))
			end = f->sh[i].sh_offset;
	return end;
}

uint64_t seg_inside_end(const struct seg_layout *l) { return next_kept(l, l->f.size); }

uint64_t seg_old_space_end(const struct seg_layout *l)
{
	const struct seg_file *f = &l->f;
	uint64_t end = next_kept(l, f->size);

	if (f->eh.e_phoff >= l->old_base && f->eh.e_phoff < end && !l->table)
		end = f->eh.e_phoff;
	for (size_t i = 0; i < f->eh.e_phnum; i++)
		if (f->ph[i].p_type != PT_NULL && f->ph[i].p_filesz && f->ph[i].p_offset >= l->old_base &&
		    f->ph[i].p_offset < end && !seg_in_old(l, f->ph[i].p_offset, f->ph[i].p_filesz))
			end = f->ph[i].p_offset;
	return end;
}
