/* SPDX-License-Identifier: MIT */
/* Implements --dump: prints the unwind rows that a file already has, as objtool of the same release prints them. */
#include "objtool/objtool.h"
#include "report/text.h"

#include <etch/orc_lookup.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_SIZE 6u

/* The sections with the rows, and the relocations of their addresses. */
struct rows {
	const struct elf_file *f;
	const struct linux_release *release;
	const struct elf_section *ip, *orc;
	struct elf_reloc *relocs;
	long reloc_count; /* 0: the file is linked, and its addresses are in `ip` */
};

static const char *register_text(const struct linux_release *r, unsigned number)
{
	static const char *const names[LINUX_ORC_REGISTERS] = {
		[ETCH_ORC_PREV_SP] = "prevsp", [ETCH_ORC_DX] = "dx",      [ETCH_ORC_DI] = "di",   [ETCH_ORC_BP] = "bp",
		[ETCH_ORC_SP] = "sp",          [ETCH_ORC_R10] = "r10",    [ETCH_ORC_R13] = "r13", [ETCH_ORC_AX] = "ax",
		[ETCH_ORC_BP_IND] = "(bp",     [ETCH_ORC_SP_IND] = "(sp)"};
	size_t i;

	for (i = 0; i < LINUX_ORC_REGISTERS; i++)
		if (names[i] && r->registers[i] == number)
			return names[i];
	return number ? "?" : "(und)";
}

/* Prints "sp+16"; for an address that is loaded from memory "(bp+16)" or "(sp)+16". */
static void register_print(const struct linux_release *r, unsigned number, int off)
{
	const char *text = register_text(r, number);

	if (!number)
		printf("%s", text);
	else
		printf("%s%+d%s", text, off, number == r->registers[ETCH_ORC_BP_IND] ? ")" : "");
}

static const char *type_text(const struct linux_release *r, unsigned type)
{
	static const char *const older[] = {"call", "regs", "regs (partial)", "?"};
	static const char *const typed[] = {"(und)", "end", "call", "regs", "regs (partial)", "?", "?", "?"};

	return r->typed_rows ? typed[type & 7] : older[type & 3];
}

static void entry_print(const struct linux_release *r, const uint8_t *entry)
{
	int16_t sp, bp;
	uint16_t bits;

	memcpy(&sp, entry, 2);
	memcpy(&bp, entry + 2, 2);
	memcpy(&bits, entry + 4, 2);
	printf(r->typed_rows ? "type:%s sp:" : " sp:", type_text(r, bits >> 8));
	register_print(r, bits & 15, sp);
	printf(" bp:");
	register_print(r, bits >> 4 & 15, bp);
	if (r->typed_rows)
		printf(" signal:%d\n", bits >> 11 & 1);
	else
		printf(" type:%s end:%d\n", type_text(r, bits >> 8), bits >> 10 & 1);
}

static void place_print(const struct rows *x, uint64_t i)
{
	const struct elf_symbol *y;
	int32_t distance;

	if (!x->reloc_count) {
		memcpy(&distance, x->ip->data + 4 * i, 4);
		printf("%llx:", (unsigned long long)(x->ip->sh.sh_addr + 4 * i + (uint64_t)(int64_t)distance));
		return;
	}
	y = &x->f->symbols[x->relocs[i].symbol];
	text_clean(stdout, y->type == STT_SECTION && y->section ? x->f->sections[y->section].name : y->name);
	printf("+%llx:", (unsigned long long)x->relocs[i].addend);
}

/* Returns 0, or -1 and a message. */
static int rows_print(struct rows *x, struct error *e)
{
	uint64_t n = x->orc->sh.sh_size / ENTRY_SIZE, i;
	uint32_t rel = elf_section_rela(x->f, (uint32_t)(x->ip - x->f->sections), 1);

	if (x->orc->sh.sh_size != n * ENTRY_SIZE || x->ip->sh.sh_size / 4 < n)
		return error_set(e, "section .orc_unwind: size %llu does not fit that of .orc_unwind_ip",
		                 (unsigned long long)x->orc->sh.sh_size);
	x->reloc_count = rel ? elf_relocs(x->f, rel, &x->relocs, e) : 0;
	if (x->reloc_count < 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (rel && (i >= (uint64_t)x->reloc_count || x->relocs[i].symbol >= x->f->symbol_count))
			return error_set(e, "section .orc_unwind_ip: entry %llu has no relocation", (unsigned long long)i);
		place_print(x, i);
		entry_print(x->release, x->orc->data + ENTRY_SIZE * i);
	}
	return 0;
}

/* Returns the last section of a name with contents, or null. */
static const struct elf_section *section_last(const struct elf_file *f, const char *name)
{
	const struct elf_section *found = NULL;
	uint32_t i = 0;

	while ((i = elf_section_find(f, name, i + 1)))
		found = f->sections[i].data ? &f->sections[i] : found;
	return found;
}

int orc_dump(const char *path, const struct linux_release *release, struct error *e)
{
	struct elf_file f = {0};
	struct rows x = {.f = &f, .release = release};
	int err = elf_open(&f, path, e);

	if (!err) {
		x.ip = section_last(&f, ".orc_unwind_ip");
		x.orc = section_last(&f, ".orc_unwind");
		if (x.ip && x.orc)
			err = rows_print(&x, e);
	}
	free(x.relocs);
	elf_close(&f);
	return err;
}
