/* SPDX-License-Identifier: MIT */
/* Finds references to sections of a linked file by their addresses: a section to which anything refers must not
 * move. */
#include <stdlib.h>
#include <string.h>

#include "output/segment_layout.h"
#include "arch/x86/byte_scan.h"

/* Older versions of <elf.h> lack it. */
#ifndef SHT_RELR
#define SHT_RELR 19
#endif

static void ref_note(struct ref_range *r, size_t n, uint64_t addr)
{
	for (size_t i = 0; i < n; i++)
		if (addr >= r[i].lo && addr < r[i].hi && !((addr - r[i].lo) & 3))
			r[i].hit = true;
}

static bool file_word(const struct seg_file *f, uint64_t addr, uint64_t *word)
{
	for (size_t i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr && p->p_filesz >= 8 && addr - p->p_vaddr <= p->p_filesz - 8) {
			memcpy(word, f->data + p->p_offset + (addr - p->p_vaddr), 8);
			return true;
		}
	}
	return false;
}

static void refs_in_relr(const struct seg_file *f, const Elf64_Shdr *s, struct ref_range *r, size_t n)
{
	uint64_t where = 0, entry, word;

	for (uint64_t k = 0; k + 8 <= s->sh_size; k += 8) {
		memcpy(&entry, f->data + s->sh_offset + k, 8);
		if (!(entry & 1)) {
			if (file_word(f, entry, &word))
				ref_note(r, n, word);
			where = entry + 8;
			continue;
		}
		for (unsigned bit = 1; bit < 64; bit++)
			if ((entry >> bit & 1) && file_word(f, where + 8 * (uint64_t)(bit - 1), &word))
				ref_note(r, n, word);
		where += 63 * 8;
	}
}

static void refs_in_rela(const struct seg_file *f, const Elf64_Shdr *s, struct ref_range *r, size_t n)
{
	const Elf64_Shdr *syms = s->sh_link < f->sections ? &f->sh[s->sh_link] : NULL;
	bool alloc = s->sh_flags & SHF_ALLOC;
	Elf64_Rela rela;
	Elf64_Sym sym;

	/* The relocations of debug sections that --emit-relocs leaves do not matter at run time. */
	if (!alloc && (s->sh_info >= f->sections || !(f->sh[s->sh_info].sh_flags & SHF_ALLOC)))
		return;
	for (uint64_t k = 0; k + sizeof rela <= s->sh_size; k += sizeof rela) {
		uint64_t base = 0, at;

		memcpy(&rela, f->data + s->sh_offset + k, sizeof rela);
		at = ELF64_R_SYM(rela.r_info) * sizeof sym;
		if (ELF64_R_SYM(rela.r_info) && syms && (syms->sh_type == SHT_SYMTAB || syms->sh_type == SHT_DYNSYM) &&
		    at + sizeof sym <= syms->sh_size) {
			memcpy(&sym, f->data + syms->sh_offset + at, sizeof sym);
			if (sym.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(sym.st_info) == STT_TLS)
				continue;
			base = sym.st_value;
		}
		/* The addend of a PC-relative relocation is 4 to 8 less than the offset of its target. */
		for (unsigned pc = 0; pc <= (alloc ? 0 : 8); pc++)
			ref_note(r, n, base + (uint64_t)rela.r_addend + pc);
		ref_note(r, n, rela.r_offset);
	}
}

static void refs_in_symbols(const struct seg_file *f, const Elf64_Shdr *s, struct ref_range *r, size_t n)
{
	Elf64_Sym sym;

	for (uint64_t k = sizeof sym; k + sizeof sym <= s->sh_size; k += sizeof sym) {
		memcpy(&sym, f->data + s->sh_offset + k, sizeof sym);
		/* A local symbol, such as crt1.o's __abi_tag, does not mean that the section is used; the scan of the code
		 * finds its uses. */
		if (sym.st_shndx != SHN_UNDEF && sym.st_shndx < SHN_LORESERVE && ELF64_ST_TYPE(sym.st_info) != STT_TLS &&
		    ELF64_ST_BIND(sym.st_info) != STB_LOCAL)
			ref_note(r, n, sym.st_value);
	}
}

/* The code of a section, and the addresses that are looked for: those in [lo, hi), which contains all ranges of `r`. */
struct ref_scan {
	const uint8_t *code;
	uint64_t addr, size;
	struct ref_range *r;
	size_t n;
	uint64_t lo, hi;
};

/* Notes the addresses to which the four bytes at `k` refer if they are a disp32(%rip) and the instruction ends 0, 1, 2
 * or 4 bytes after them. */
static inline void ref_in_code(const struct ref_scan *x, uint64_t k)
{
	static const uint8_t tail[] = {0, 1, 2, 4};
	uint64_t to;
	int32_t disp;

	memcpy(&disp, x->code + k, 4);
	to = x->addr + k + 4 + (uint64_t)(int64_t)disp;
	if (to + 4 < x->lo || to >= x->hi)
		return;
	for (size_t t = 0; t < sizeof tail; t++)
		ref_note(x->r, x->n, to + tail[t]);
}

/* Notes any four bytes that are an address in [lo, hi). */
static void absolute_refs(const struct ref_scan *x)
{
	uint32_t word;

	for (uint64_t k = 2; k + 4 <= x->size; k++) {
		memcpy(&word, x->code + k, 4);
		if (word >= x->lo && word < x->hi)
			ref_note(x->r, x->n, word);
	}
}

/*
 * Notes the addresses to which each disp32(%rip) may refer, and in a file at fixed addresses also any four bytes that
 * are an absolute address. This does not disassemble: a false match is possible, and only keeps the section where it
 * is.
 */
static void refs_in_code(const struct seg_file *f, const Elf64_Shdr *s, struct ref_range *r, size_t n)
{
	struct ref_scan x = {f->data + s->sh_offset, s->sh_addr, s->sh_size, r, n, UINT64_MAX, 0};
	uint64_t k;

	for (size_t i = 0; i < n; i++) {
		x.lo = r[i].lo < x.lo ? r[i].lo : x.lo;
		x.hi = seg_max(x.hi, r[i].hi);
	}
	if (f->eh.e_type == ET_EXEC)
		absolute_refs(&x);
	for (k = 2; k + RIP_SCAN_WIDTH + 4 <= x.size; k += RIP_SCAN_WIDTH)
		for (unsigned some = x86_rip_operands(x.code + k); some; some &= some - 1)
			ref_in_code(&x, k + (unsigned)__builtin_ctz(some));
	for (; k + 4 <= x.size; k++)
		if (x86_may_be_rip_operand(x.code + k))
			ref_in_code(&x, k);
}

static void refs_in_data(const struct seg_file *f, const Elf64_Shdr *s, struct ref_range *r, size_t n)
{
	uint64_t word;

	for (uint64_t k = (0 - s->sh_addr) & 7; k + 8 <= s->sh_size; k += 8) {
		memcpy(&word, f->data + s->sh_offset + k, 8);
		ref_note(r, n, word);
	}
}

void seg_refs_find(const struct seg_file *f, struct ref_range *r, size_t n)
{
	for (size_t i = 0; i < f->sections; i++) {
		const Elf64_Shdr *s = &f->sh[i];

		if (!s->sh_size) /* the offset of an empty section may be anything */
			continue;
		if (s->sh_type == SHT_RELA)
			refs_in_rela(f, s, r, n);
		else if (s->sh_type == SHT_RELR)
			refs_in_relr(f, s, r, n);
		else if (s->sh_type == SHT_DYNSYM || s->sh_type == SHT_SYMTAB)
			refs_in_symbols(f, s, r, n);
		else if (s->sh_type != SHT_PROGBITS || !(s->sh_flags & SHF_ALLOC))
			continue;
		else if (s->sh_flags & SHF_EXECINSTR)
			refs_in_code(f, s, r, n);
		/* In a file at fixed addresses pointers have no relocation. In other files they have one, and addresses are
		 * small integers, which are common in data, so the words of data are not examined. */
		else if (f->eh.e_type == ET_EXEC)
			refs_in_data(f, s, r, n);
	}
}

/* Does code of this section make an address in the page from `end` on? It may mean _end although the address is higher:
 * if a program adds a constant to _end, for example to round up to a page, the compiler folds it into the
 * displacement. */
static bool code_makes(const struct seg_file *f, const Elf64_Shdr *s, uint64_t end)
{
	const uint8_t *code = f->data + s->sh_offset;
	int32_t disp;

	for (uint64_t k = RIP_ADDRESS_BEFORE; k + 4 <= s->sh_size; k++) {
		memcpy(&disp, code + k, 4);
		if (x86_makes_rip_address(code + k) && s->sh_addr + k + 4 + (uint64_t)(int64_t)disp - end <= SEGMENT_PAGE)
			return true;
	}
	return false;
}

bool segment_end_is_used(const uint8_t *file, size_t size)
{
	struct ref_range r = {0};
	struct seg_file f;
	struct error e;

	if (!seg_read(&f, file, size, &e)) {
		for (size_t i = 0; i < f.eh.e_phnum; i++)
			if (f.ph[i].p_type == PT_LOAD)
				r.lo = f.ph[i].p_vaddr + f.ph[i].p_memsz;
		/* Linkers align _end, but not the size of .bss. */
		r.lo = seg_align(r.lo, 8);
		r.hi = r.lo + 1;
		for (size_t i = 0; i < f.sections && !r.hit; i++) {
			const Elf64_Shdr *s = &f.sh[i];

			if (s->sh_type == SHT_RELA && (s->sh_flags & SHF_ALLOC))
				refs_in_rela(&f, s, &r, 1);
			else if (s->sh_type == SHT_RELR)
				refs_in_relr(&f, s, &r, 1);
			else if (s->sh_type == SHT_PROGBITS && (s->sh_flags & SHF_EXECINSTR))
				r.hit = code_makes(&f, s, r.lo);
		}
	}
	free(f.ph);
	free(f.sh);
	return r.hit;
}
