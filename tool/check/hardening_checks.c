/* SPDX-License-Identifier: MIT */
/* Implements ETCH-H001 to ETCH-H003: memory that is writable and executable, executable stacks, and text
 * relocations. */
#include "check/check.h"
#include "elf/dynamic.h"
#include "elf/symbols.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool has_code(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if ((f->sections[i].sh.sh_flags & SHF_ALLOC) && (f->sections[i].sh.sh_flags & SHF_EXECINSTR) &&
		    f->sections[i].sh.sh_size)
			return true;
	return false;
}

/* True for kernel modules: these are ET_REL files that are never linked into a program. */
static bool is_kernels(const struct elf_file *f)
{
	return elf_section_find(f, ".modinfo", 1) || elf_section_find(f, "__ksymtab_strings", 1);
}

/* ---- writable and executable ------------------------------------------------------ */

static bool is_writable_code(const struct elf_section *s)
{
	const uint64_t both = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR;

	return (s->sh.sh_flags & both) == both && s->sh.sh_size;
}

static void segments_check(struct subject *s)
{
	const struct elf_file *f = s->file;
	uint32_t i, k;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];
		struct finding *x;

		if (p->p_type != PT_LOAD || (p->p_flags & (PF_W | PF_X)) != (PF_W | PF_X) || !p->p_memsz)
			continue;
		x = finding_add(&s->found, "ETCH-H001", elf_section_at(f, p->p_vaddr), p->p_vaddr,
		                "segment %u, %#" PRIx64 " to %#" PRIx64 ", is writable and executable", i, p->p_vaddr,
		                p->p_vaddr + p->p_memsz);
		for (k = 1; k < f->section_count; k++) {
			const struct elf_section *c = &f->sections[k];

			if (is_writable_code(c) && c->sh.sh_addr >= p->p_vaddr && c->sh.sh_addr - p->p_vaddr < p->p_memsz)
				finding_fact_at(x, k, c->sh.sh_addr, "section", "%s is writable and executable", c->name);
		}
	}
}

static void sections_check(struct subject *s)
{
	uint32_t i;

	for (i = 1; i < s->file->section_count; i++)
		if (is_writable_code(&s->file->sections[i]))
			finding_add(&s->found, "ETCH-H001", i, 0, "section %s is writable and executable",
			            s->file->sections[i].name);
}

/* ---- the stack ---------------------------------------------------------------------- */

/* ld makes the stack executable if an object has an executable .note.GNU-stack, or has no such section. */
static void object_stack_check(struct subject *s)
{
	const struct elf_file *f = s->file;
	uint32_t i = elf_section_find(f, ".note.GNU-stack", 1);

	if (i && !(f->sections[i].sh.sh_flags & SHF_EXECINSTR))
		return;
	if (!i && (!has_code(f) || is_kernels(f)))
		return;
	finding_add(&s->found, "ETCH-H002", i, 0,
	            i ? "section .note.GNU-stack asks for an executable stack"
	              : "no section .note.GNU-stack: GNU ld then makes the stack executable");
}

/*
 * If a file has no PT_GNU_STACK: Linux up to 5.7 makes all readable memory of the process executable
 * (arch/x86/include/asm/elf.h), and glibc makes the stacks of threads executable (DEFAULT_STACK_PERMS). The latter also
 * happens to a program that loads such a library.
 */
static void linked_stack_check(struct subject *s)
{
	const struct elf_file *f = s->file;
	bool dynamic = false;
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		dynamic |= p->p_type == PT_DYNAMIC;
		if (p->p_type != PT_GNU_STACK)
			continue;
		if (p->p_flags & PF_X)
			finding_add(&s->found, "ETCH-H002", 0, 0, "its PT_GNU_STACK asks for an executable stack");
		return;
	}
	if (dynamic && !is_kernels(f))
		finding_add(&s->found, "ETCH-H002", 0, 0,
		            "no PT_GNU_STACK: glibc makes stacks executable, and Linux before 5.8 all readable memory");
}

/* ---- text relocations ------------------------------------------------------------------ */

static const char *reloc_name(uint32_t type)
{
	switch (type) {
	case R_X86_64_64: return "R_X86_64_64";
	case R_X86_64_PC32: return "R_X86_64_PC32";
	case R_X86_64_PLT32: return "R_X86_64_PLT32";
	case R_X86_64_32: return "R_X86_64_32";
	case R_X86_64_32S: return "R_X86_64_32S";
	case R_X86_64_RELATIVE: return "R_X86_64_RELATIVE";
	case R_X86_64_GLOB_DAT: return "R_X86_64_GLOB_DAT";
	case R_X86_64_JUMP_SLOT: return "R_X86_64_JUMP_SLOT";
	case R_X86_64_IRELATIVE: return "R_X86_64_IRELATIVE";
	case R_X86_64_COPY: return "R_X86_64_COPY";
	}
	return "a relocation";
}

/*
 * True if the memory is read-only while the dynamic linker applies relocations. RELRO memory is still writable at that
 * time.
 */
static bool is_readonly(const struct elf_file *f, uint64_t addr)
{
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_memsz)
			return !(p->p_flags & PF_W);
	}
	return false;
}

/* A place to which a relocation writes. */
struct written {
	uint32_t section, type;
	uint64_t addr;
	const char *name; /* name of the relocation's symbol; null: it has none */
};

/* Makes one finding per function, at the first place, with the number of places. */
struct writer {
	struct subject *s;
	struct symbol_index symbols;
	const struct elf_symbol *function;
	struct written first;
	size_t count, total;
	const char *what; /* the text of the finding, such as "the dynamic linker writes here" */
};

static void writer_report(struct writer *w)
{
	const char *name = w->first.name;

	if (!w->count)
		return;
	if (w->count > 1)
		finding_add(&w->s->found, "ETCH-H003", w->first.section, w->first.addr,
		            "%s, and at %zu more places of %s: %s%s%s", w->what, w->count - 1,
		            w->function ? "this function" : "this section", reloc_name(w->first.type),
		            name && *name ? " of " : "", name ? name : "");
	else
		finding_add(&w->s->found, "ETCH-H003", w->first.section, w->first.addr, "%s: %s%s%s", w->what,
		            reloc_name(w->first.type), name && *name ? " of " : "", name ? name : "");
	w->count = 0;
}

static void writer_add(struct writer *w, const struct written *x)
{
	const struct elf_symbol *y = symbol_index_find(&w->symbols, x->section, x->addr);

	if (y != w->function || x->section != w->first.section)
		writer_report(w);
	if (!w->count++) {
		w->function = y;
		w->first = *x;
	}
	w->total++;
}

/* True if the file has DT_TEXTREL, or DF_TEXTREL in DT_FLAGS. */
static bool has_textrel(const struct elf_file *f)
{
	uint64_t value;

	return elf_dynamic(f, DT_TEXTREL, &value) || (elf_dynamic(f, DT_FLAGS, &value) && (value & DF_TEXTREL));
}

/*
 * Adds findings for the text relocations of a linked file. Its dynamic relocations are in the loaded sections that
 * elf/dynamic.h reads. A static program has only R_X86_64_IRELATIVE relocations, which its start-up code applies to
 * writable memory. Returns 0, or -1 and a message.
 */
static int linked_text_check(struct writer *w, struct error *e)
{
	const struct elf_file *f = w->s->file;
	struct dynamic_reloc *list;
	size_t count, i;

	w->what = "the dynamic linker writes to this read-only memory";
	if (dynamic_relocs_read(f, 0, UINT64_MAX, &list, &count, e)) {
		free(list);
		return -1;
	}
	for (i = 0; i < count; i++) {
		struct written x = {elf_section_at(f, list[i].place), list[i].type, list[i].place,
		                    list[i].symbol ? list[i].symbol->name : NULL};

		if (x.type != R_X86_64_NONE && is_readonly(f, x.addr))
			writer_add(w, &x);
	}
	free(list);
	writer_report(w);
	if (!w->total && has_textrel(f))
		finding_add(&w->s->found, "ETCH-H003", 0, 0, "DT_TEXTREL is set, though no relocation needs it");
	return 0;
}

/*
 * Object files: adds findings for 8-byte absolute addresses in code, if the object could otherwise be linked into a
 * position-independent file. Returns 0, or -1 and a message.
 */
static int object_text_check(struct writer *w, struct error *e)
{
	const struct elf_file *f = w->s->file;
	struct elf_reloc *list;
	uint32_t i;
	long n, k;
	int pass;

	w->what = "in a shared object or PIE the dynamic linker would write here";
	for (pass = 0; pass < 2; pass++) {
		for (i = 1; i < f->section_count; i++) {
			const struct elf_section *to = &f->sections[f->sections[i].sh.sh_info];

			if (f->sections[i].sh.sh_type != SHT_RELA || f->sections[i].sh.sh_link != f->symtab ||
			    !(to->sh.sh_flags & SHF_ALLOC) || !(to->sh.sh_flags & SHF_EXECINSTR) || (to->sh.sh_flags & SHF_WRITE))
				continue;
			n = elf_relocs(f, i, &list, e);
			if (n < 0)
				return -1;
			for (k = 0; k < n; k++) {
				const struct elf_symbol *y = &f->symbols[list[k].symbol];
				struct written x = {f->sections[i].sh.sh_info, list[k].type, list[k].offset, y->name};

				/* The code is not position-independent: ld refuses it in a PIE or shared object. */
				if (!pass && (x.type == R_X86_64_32 || x.type == R_X86_64_32S) && y->special != SHN_ABS) {
					free(list);
					return 0;
				}
				if (pass && x.type == R_X86_64_64 && y->special != SHN_ABS)
					writer_add(w, &x);
			}
			free(list);
			writer_report(w);
		}
	}
	return 0;
}

static int text_check(struct subject *s, struct error *e)
{
	struct writer w = {.s = s};
	int err;

	if (elf_is_object(s->file) && (is_kernels(s->file) || !s->file->symtab))
		return 0;
	symbol_index_build(s->file, symbol_is_function, &w.symbols);
	err = elf_is_object(s->file) ? object_text_check(&w, e) : linked_text_check(&w, e);
	symbol_index_free(&w.symbols);
	return err;
}

int check_hardening(struct subject *s, struct error *e)
{
	bool object = elf_is_object(s->file);

	if (object) {
		sections_check(s);
		object_stack_check(s);
	} else {
		segments_check(s);
		linked_stack_check(s);
	}
	return text_check(s, e);
}
