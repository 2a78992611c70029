/* SPDX-License-Identifier: MIT */
/* Finds the .eh_frame sections of a file, lists their FDEs, and decodes call-site tables of LSDAs. In object files it
 * applies relocations to a copy of these sections. */
#include "analysis/facts/cfi_file.h"

#include "output/segment.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

#define SHT_UNWIND 0x70000001u /* SHT_X86_64_UNWIND: the type that clang and lld give .eh_frame */

/* Says which .eh_frame sections are read: those that the linker has made or, with `current`, those that unwinders
 * find. */
struct choice {
	/* The etch segment. Sections at or after offset `first` in it are etch's own; those before are the linker's. The
	 * size is 0 if there is no such segment, or if it does not matter. */
	struct segment_found ours;
	bool current;
};

static bool is_eh_frame(const struct elf_section *s, const struct choice *c)
{
	return s->data && (s->sh.sh_flags & SHF_ALLOC) && (s->sh.sh_type == SHT_PROGBITS || s->sh.sh_type == SHT_UNWIND) &&
	       (!strcmp(s->name, ".eh_frame") || (!c->current && !strcmp(s->name, EH_FRAME_LINKED))) &&
	       s->sh.sh_addr - c->ours.addr - c->ours.first >= c->ours.size - c->ours.first;
}

/* Returns the choice of sections for a file: with `current` those that unwinders find, otherwise the linker's. */
static struct choice choice_make(const struct elf_file *f, bool current)
{
	struct choice c = {.current = current};
	struct error e;

	if (!current && !elf_is_object(f) &&
	    (segment_find(f->bytes, f->size, &c.ours, &e) <= 0 || c.ours.first > c.ours.size))
		c.ours = (struct segment_found){0};
	return c;
}

uint32_t cfi_file_hdr(const struct elf_file *f)
{
	const struct choice c = choice_make(f, false);
	uint32_t linked = elf_section_find(f, EH_HDR_LINKED, 1), i = 0;

	while (!linked && (i = elf_section_find(f, ".eh_frame_hdr", i + 1)))
		if (f->sections[i].sh.sh_addr - c.ours.addr - c.ours.first >= c.ours.size - c.ours.first)
			return i;
	return linked;
}

static bool is_lsda(const struct elf_section *s)
{
	return s->data && (s->sh.sh_flags & SHF_ALLOC) && !strncmp(s->name, ".gcc_except_table", 17);
}

/* Finds the SHT_RELA sections that apply to a section. They are in linked lists, since a file may have thousands of
 * sections of both kinds. */
struct relas {
	uint32_t *first; /* per section: its first SHT_RELA, or 0 */
	uint32_t *next;  /* per SHT_RELA: the next one of the same section, or 0 */
};

static void relas_find(const struct elf_file *f, struct relas *out)
{
	uint32_t i;

	out->first = mem_zero(2 * ((size_t)f->section_count + 1), sizeof(*out->first));
	out->next = out->first + f->section_count + 1;
	for (i = f->section_count; i-- > 1;) {
		const Elf64_Shdr *sh = &f->sections[i].sh;

		if (sh->sh_type != SHT_RELA)
			continue;
		out->next[i] = out->first[sh->sh_info];
		out->first[sh->sh_info] = i;
	}
}

/* Applies a section's relocations to p->owned, the copy of its bytes. A field becomes 0, which is no address of code,
 * if its symbol is undefined or if the value does not fit in the field. Returns 0, or -1 if the relocations are
 * unreadable. */
static int part_relocate(const struct elf_file *f, const uint64_t *addrs, const struct relas *relas, struct cfi_part *p,
                         struct error *e)
{
	uint32_t rela;

	for (rela = relas->first[p->section]; rela; rela = relas->next[rela]) {
		struct elf_reloc *list = NULL;
		long n = f->symtab && f->sections[rela].sh.sh_link == f->symtab ? elf_relocs(f, rela, &list, e) : -1, i;

		if (n < 0)
			return -1;
		for (i = 0; i < n; i++) {
			const struct elf_reloc *r = &list[i];
			const struct elf_symbol *sym = &f->symbols[r->symbol];
			uint64_t base = r->symbol ? addrs[sym->section] : 0, value = base + sym->value + (uint64_t)r->addend;
			unsigned bytes = 4;

			if (r->type == R_X86_64_PC32 || r->type == R_X86_64_PLT32 || r->type == R_X86_64_PC64)
				value -= p->addr + r->offset;
			else if (r->type != R_X86_64_64 && r->type != R_X86_64_32 && r->type != R_X86_64_32S)
				continue;
			if (r->type == R_X86_64_64 || r->type == R_X86_64_PC64)
				bytes = 8;
			if (r->offset > p->size || bytes > p->size - r->offset)
				continue;
			if (!base || (bytes == 4 && (int64_t)value != (int32_t)value))
				value = 0;
			memcpy(p->owned + r->offset, &value, bytes);
		}
		free(list);
	}
	return 0;
}

/* ET_REL: assigns addresses after the code to the .eh_frame and LSDA sections, copies the sections, and relocates the
 * copies. */
static void parts_place(const struct elf_file *f, const struct code_space *space, struct cfi_file *c)
{
	uint64_t *addrs = mem_zero((size_t)f->section_count + 1, sizeof(*addrs)), next = 0;
	struct relas relas = {0};
	struct error ignored;
	uint32_t i;
	size_t k;

	relas_find(f, &relas);
	for (k = 0; k < space->count; k++) {
		addrs[space->list[k].section] = space->list[k].addr;
		next = space->list[k].addr + space->list[k].size;
	}
	for (i = 0; i < c->part_count + c->lsda_count; i++) {
		struct cfi_part *p = i < c->part_count ? &c->parts[i] : &c->lsdas[i - c->part_count];

		next = (next + 0xfff) & ~(uint64_t)0xfff;
		addrs[p->section] = p->addr = next;
		next += p->size;
	}
	for (i = 0; i < c->part_count + c->lsda_count; i++) {
		struct cfi_part *p = i < c->part_count ? &c->parts[i] : &c->lsdas[i - c->part_count];

		p->owned = mem_alloc(p->size, 1);
		memcpy(p->owned, p->bytes, p->size);
		p->bytes = p->owned;
		if (part_relocate(f, addrs, &relas, p, &ignored)) {
			c->bad++;
			p->size = 0; /* its addresses are unknown */
		}
	}
	free(addrs);
	free(relas.first);
}

/* Lists the .eh_frame sections that `from` chooses, and in object files the LSDA sections. */
static void parts_find(const struct elf_file *f, const struct code_space *space, const struct choice *from,
                       struct cfi_file *c)
{
	uint32_t frames = 0, lsdas = 0, i;

	for (i = 1; i < f->section_count; i++) {
		frames += is_eh_frame(&f->sections[i], from);
		lsdas += is_lsda(&f->sections[i]);
	}
	c->parts = mem_zero((size_t)frames + 1, sizeof(*c->parts));
	c->lsdas = mem_zero((size_t)lsdas + 1, sizeof(*c->lsdas));
	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];
		struct cfi_part p = {s->data, s->sh.sh_size, s->sh.sh_addr, NULL, i};

		if (is_eh_frame(s, from))
			c->parts[c->part_count++] = p;
		else if (is_lsda(s) && elf_is_object(f))
			c->lsdas[c->lsda_count++] = p;
	}
	if (elf_is_object(f))
		parts_place(f, space, c);
}

/* Adds an FDE of c->parts[part], cut at the end of its section of code; counts it in c->dropped if it is not for code
 * of this file. */
static void fde_add(struct cfi_file *c, size_t *capacity, const struct code_space *space, uint32_t part,
                    const struct etch_fde *fde)
{
	const struct code_section *s = fde->end > fde->start ? space_at(space, fde->start) : NULL;
	uint64_t end = fde->end;

	if (!s) {
		c->dropped++;
		return;
	}
	if (end > s->addr + s->size)
		end = s->addr + s->size;
	mem_reserve(&c->fdes, capacity, c->count, sizeof(*c->fdes));
	c->fdes[c->count++] = (struct cfi_fde){fde->start, end, fde->lsda, fde->at, part, fde->cie.signal};
}

/* Finds the linker's .eh_frame_hdr by PT_GNU_EH_FRAME. If that leads to the one that etch has written, finds it by the
 * name that etch has given the linker's section. Returns false if there is none. */
static bool header_place(const struct elf_file *f, const struct choice *from, uint64_t *addr, uint64_t *size)
{
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		*addr = f->phdrs[i].p_vaddr;
		*size = f->phdrs[i].p_filesz;
		if (f->phdrs[i].p_type == PT_GNU_EH_FRAME && *addr - from->ours.addr >= from->ours.size)
			return true;
	}
	i = from->ours.size ? elf_section_find(f, EH_HDR_LINKED, 1) : 0;
	if (!i)
		return false;
	*addr = f->sections[i].sh.sh_addr;
	*size = f->sections[i].sh.sh_size;
	return true;
}

/* Adds the FDEs of a linked file whose section headers name no .eh_frame. */
static void fdes_by_header(const struct elf_file *f, const struct code_space *space, const struct choice *from,
                           struct cfi_file *c, size_t *capacity)
{
	const uint8_t *hdr, *bytes = NULL;
	struct etch_cfi_hdr h;
	struct etch_cfi cfi;
	struct etch_fde fde;
	uint64_t i, addr, size;

	if (!header_place(f, from, &addr, &size))
		return;
	hdr = elf_at(f, addr, size);
	if (!hdr || !etch_cfi_hdr(hdr, size, addr, &h)) {
		c->bad++;
		return;
	}
	for (i = 0; i < f->phdr_count && !bytes; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && h.eh_frame >= p->p_vaddr && h.eh_frame - p->p_vaddr < p->p_filesz) {
			uint64_t skip = h.eh_frame - p->p_vaddr;

			bytes = f->bytes + p->p_offset + skip;
			c->parts[c->part_count++] = (struct cfi_part){bytes, p->p_filesz - skip, h.eh_frame, NULL, 0};
		}
	}
	if (!bytes) {
		c->bad++;
		return;
	}
	etch_cfi_open(&cfi, bytes, c->parts[0].size, h.eh_frame);
	cfi.stop = true;
	for (i = 0; i < h.count; i++) {
		if (!etch_cfi_at(&cfi, etch_cfi_hdr_fde(&h, i) - h.eh_frame, &fde)) {
			c->bad++;
			c->unread++;
			continue;
		}
		cfi.cie = fde.cie;
		fde_add(c, capacity, space, 0, &fde);
	}
	while (!h.count && etch_cfi_next(&cfi, &fde))
		fde_add(c, capacity, space, 0, &fde);
	c->bad += cfi.bad;
	c->unread += cfi.bad;
}

static int fde_order(const void *a, const void *b)
{
	const struct cfi_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorts the FDEs and makes them disjoint. An FDE is cut where the next one starts, since unwinders take the last FDE
 * that starts at or before an address. Of several FDEs with the same start, only the first stays. */
static void fdes_sort(struct cfi_file *c)
{
	size_t i, n = 0;

	sort_by_address_if_needed(c->fdes, c->count, sizeof(*c->fdes), fde_order);
	for (i = 0; i < c->count; i++) {
		if (n && c->fdes[n - 1].start == c->fdes[i].start) {
			c->bad++;
			continue;
		}
		if (n && c->fdes[n - 1].end > c->fdes[i].start)
			c->fdes[n - 1].end = c->fdes[i].start;
		c->fdes[n++] = c->fdes[i];
	}
	c->count = n;
}

/* Fills *out from the .eh_frame sections that `from` chooses. */
static void fdes_read(const struct elf_file *f, const struct code_space *space, const struct choice *from,
                      struct cfi_file *out)
{
	size_t capacity = 0;
	uint32_t i;

	memset(out, 0, sizeof(*out));
	parts_find(f, space, from, out);
	for (i = 0; i < out->part_count; i++) {
		struct etch_cfi cfi;
		struct etch_fde fde;

		etch_cfi_open(&cfi, out->parts[i].bytes, out->parts[i].size, out->parts[i].addr);
		while (etch_cfi_next(&cfi, &fde))
			fde_add(out, &capacity, space, i, &fde);
		out->bad += cfi.bad;
		out->unread += cfi.bad;
	}
	if (!out->part_count && !elf_is_object(f))
		fdes_by_header(f, space, from, out, &capacity);
	fdes_sort(out);
}

void cfi_file_open(const struct elf_file *f, const struct code_space *space, struct cfi_file *out)
{
	const struct choice linked = choice_make(f, false);

	fdes_read(f, space, &linked, out);
}

void cfi_file_open_current(const struct elf_file *f, const struct code_space *space, struct cfi_file *out)
{
	const struct choice current = choice_make(f, true);

	fdes_read(f, space, &current, out);
}

void cfi_file_close(struct cfi_file *c)
{
	uint32_t i;

	for (i = 0; i < c->part_count; i++)
		free(c->parts[i].owned);
	for (i = 0; i < c->lsda_count; i++)
		free(c->lsdas[i].owned);
	free(c->parts);
	free(c->lsdas);
	free(c->fdes);
	memset(c, 0, sizeof(*c));
}

long cfi_file_at(const struct cfi_file *c, uint64_t addr)
{
	size_t lo = SEARCH(c->count, i, c->fdes[i].end <= addr);

	return lo < c->count && c->fdes[lo].start <= addr ? (long)lo : -1;
}

void cfi_file_rows(const struct cfi_file *c, size_t i, unsigned flags, etch_cfi_row_fn *fn, void *ctx)
{
	const struct cfi_part *p = &c->parts[c->fdes[i].part];
	struct etch_cfi cfi;
	struct etch_fde fde;

	etch_cfi_open(&cfi, p->bytes, p->size, p->addr);
	if (!etch_cfi_at(&cfi, c->fdes[i].at, &fde))
		return;
	fde.end = c->fdes[i].end;
	etch_cfi_rows(&fde, flags, fn, ctx);
}

/* ---- call sites of LSDAs -------------------------------------------------------------------- */

/* Opens the section or segment that contains the LSDA at `addr`, so that *out can be read up to its end. *offset
 * becomes the offset of the LSDA in it. Returns false if no section or segment contains the address. */
static bool lsda_bytes(const struct elf_file *f, const struct cfi_file *c, uint64_t addr, struct etch_cfi *out,
                       uint64_t *offset)
{
	uint32_t i;

	for (i = 0; i < c->lsda_count; i++) {
		const struct cfi_part *p = &c->lsdas[i];

		if (addr >= p->addr && addr - p->addr < p->size) {
			etch_cfi_open(out, p->bytes, p->size, p->addr);
			*offset = addr - p->addr;
			return true;
		}
	}
	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_filesz) {
			etch_cfi_open(out, f->bytes + p->p_offset, p->p_filesz, p->p_vaddr);
			*offset = addr - p->p_vaddr;
			return true;
		}
	}
	return false;
}

long lsda_call_sites(const struct elf_file *f, const struct cfi_file *c, size_t i, lsda_call_site_fn *fn, void *ctx)
{
	const struct cfi_fde *fde = &c->fdes[i];
	struct etch_cfi bytes;
	struct etch_cfi_in in = {&bytes, 0, 0, false};
	uint64_t pads = fde->start, length;
	uint8_t enc;
	long n = 0;

	if (!fde->lsda)
		return 0;
	if (!lsda_bytes(f, c, fde->lsda, &bytes, &in.at))
		return -1;
	in.end = bytes.size;
	enc = (uint8_t)etch_cfi_u(&in, 1); /* LPStart: base of the landing pads, if it is not the function's start */
	if (enc != ETCH_PE_OMIT)
		pads = etch_cfi_pointer(&in, enc, fde->start);
	if (enc != ETCH_PE_OMIT && (enc & ETCH_PE_INDIRECT))
		return -1;
	enc = (uint8_t)etch_cfi_u(&in, 1); /* TType: encoding of the type table, and offset to it */
	if (enc != ETCH_PE_OMIT)
		etch_cfi_uleb(&in);
	enc = (uint8_t)etch_cfi_u(&in, 1) & 0x0f;
	length = etch_cfi_uleb(&in);
	if (in.bad || length > in.end - in.at)
		return -1;
	in.end = in.at + length;
	/* A function has at most one call site per byte of code. If the table is longer, many FDEs share it, and reading
	 * all of it for each FDE would take quadratic time. */
	while (in.at < in.end && (uint64_t)n < fde->end - fde->start) {
		uint64_t start = etch_cfi_pointer(&in, enc, 0);
		uint64_t size = etch_cfi_pointer(&in, enc, 0);
		uint64_t pad = etch_cfi_pointer(&in, enc, 0);

		etch_cfi_uleb(&in); /* action */
		if (in.bad)
			return -1;
		fn(ctx, fde->start + start, fde->start + start + size, pad ? pads + pad : 0);
		n++;
	}
	return n;
}
