/* SPDX-License-Identifier: MIT */
/* Finds files that a second rewrite might change again (rewrite_doubt()). It only looks at the input; the second run is
 * again_check() in rewrite_file.c. */
#include "analysis/facts/cfi_file.h"
#include "elf/dynamic.h"
#include "output/segment.h"
#include "output/undo.h"
#include "rewrite/rewrite.h"

#include <stdlib.h>
#include <string.h>

#ifndef SHT_RELR /* missing in elf.h before glibc 2.36 */
#define SHT_RELR 19
#endif

/* Did an earlier run rewrite the file? That is a reason to try a second run on any such file, because its additions
 * might be damaged: they are recognised by section names and by the first bytes of the segment alone. If they are not
 * damaged, the second run changes nothing, and no message is printed. */
static bool was_rewritten(const struct elf_file *f)
{
	static const char *const names[] = {UNDO_SECTION, ETCH_SEC_ORC_IP, ETCH_SEC_ORC,
	                                    ETCH_SEC_IMV, ETCH_SEC_PV,     ETCH_SEC_OBJ};
	size_t i;
	uint32_t k;

	for (i = 0; i < sizeof(names) / sizeof(*names) && elf_is_object(f); i++)
		if (elf_section_find(f, names[i], 1))
			return true;
	for (k = 1; k < f->section_count && !elf_is_object(f); k++)
		if (!strncmp(f->sections[k].name, SEGMENT_UNLOADED, sizeof(SEGMENT_UNLOADED) - 1))
			return true;
	for (k = 0; k < f->phdr_count; k++) {
		uint64_t at = f->phdrs[k].p_offset ? f->phdrs[k].p_offset : SEGMENT_INSIDE;

		if (at < f->size && segment_begins(f->bytes + at, f->size - at))
			return true;
	}
	return false;
}

/* Does a section have code? Without such a section the analysis takes whole segments for code, including the headers in
 * them, which a rewrite changes. */
static bool has_code_section(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (f->sections[i].data && (f->sections[i].sh.sh_flags & SHF_EXECINSTR))
			return true;
	return false;
}

/* Does a linked file have a section with a name that etch uses for a table or for etched objects, but with a type or
 * flags that show that it is something else? */
static bool name_is_taken(const struct elf_file *f)
{
	static const char *const names[] = {
		ETCH_SEC_OBJECT, ETCH_SEC_SCALAR, ETCH_SEC_DENSE,  /* these three are writable */ ETCH_SEC_IMV,
		ETCH_SEC_PV,     ETCH_SEC_OBJ,    ETCH_SEC_MODULE, ETCH_SEC_NATIVE,
		ETCH_SEC_INLINE, ETCH_SEC_ORC_IP, ETCH_SEC_ORC};
	uint32_t i;
	size_t k;

	for (i = 1; i < f->section_count && !elf_is_object(f); i++) {
		const Elf64_Shdr *sh = &f->sections[i].sh;
		size_t count = sizeof(names) / sizeof(*names);

		if (sh->sh_type == SHT_PROGBITS && !(sh->sh_flags & SHF_EXECINSTR))
			count = sh->sh_flags & SHF_WRITE ? 0 : 3;
		for (k = 0; k < count; k++)
			if (!strcmp(f->sections[i].name, names[k]))
				return true;
	}
	return false;
}

/* Do section headers and program headers disagree on the place or size of .eh_frame_hdr? Once PT_GNU_EH_FRAME leads to
 * another one, only the section headers tell where it is. */
static bool frames_are_hidden(const struct elf_file *f)
{
	uint32_t hdr = cfi_file_hdr(f), i;
	bool some = hdr, agreed = false;

	for (i = 0; i < f->phdr_count; i++)
		if (f->phdrs[i].p_type == PT_GNU_EH_FRAME) {
			some = true;
			agreed |= hdr && f->sections[hdr].sh.sh_addr == f->phdrs[i].p_vaddr &&
			          f->sections[hdr].sh.sh_size == f->phdrs[i].p_filesz;
		}
	return some && !agreed;
}

/* Do packed relocations (SHT_RELR) apply to read-only data? No linker writes such relocations. Their addends are in
 * that data, which may be a table that a rewrite changes. */
static bool relr_is_odd(const struct elf_file *f)
{
	struct dynamic_reloc *r = NULL;
	bool packed = false, odd = false;
	struct error e;
	size_t n = 0, k;
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		packed |= f->sections[i].sh.sh_type == SHT_RELR;
	if (!packed)
		return false;
	(void)dynamic_relocs_read(f, 0, UINT64_MAX, &r, &n, &e); /* in a malformed file they are ignored */
	for (k = 0; k < n && !odd; k++) {
		uint32_t s = elf_section_at(f, r[k].place);

		odd = r[k].type == R_X86_64_RELATIVE &&
		      (!s || !(f->sections[s].sh.sh_flags & SHF_WRITE) || f->sections[s].sh.sh_type == SHT_DYNAMIC);
	}
	free(r);
	return odd;
}

const char *rewrite_doubt(const struct elf_file *f, const struct rewrite_options *o)
{
	if (was_rewritten(f))
		return "the additions of an earlier etch run are damaged";
	if (!elf_is_object(f) && !has_code_section(f))
		return "code overlaps the headers";
	if (name_is_taken(f))
		return "a section has the name of an etch table, but is not one";
	if (o->unwind.eh_frame && !elf_is_object(f) && frames_are_hidden(f))
		return "section headers and program headers disagree on .eh_frame_hdr";
	if (!elf_is_object(f) && relr_is_odd(f))
		return "packed relocations lead to read-only data";
	return elf_sections_apart(f) ? NULL : "overlapping sections";
}
