/* SPDX-License-Identifier: MIT */
/* Collects the possible targets of indirect branches, each with the reason why it is a target (see
 * branch_targets.h). */
#include "check/branch_targets.h"

#include "analysis/facts/cfi_file.h"
#include "arch/x86/opcodes.h"
#include "arch/x86/fast_decoder.h"
#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

static void target_add(struct branches *b, const struct target *t)
{
	if (!space_at(&b->s->frames.space, t->at))
		return;
	mem_reserve(&b->list, &b->capacity, b->count, sizeof(*b->list));
	b->list[b->count++] = *t;
}

/*
 * Converts an address in the form of findings (in ET_REL, an offset in `section`) to an address of the code space.
 * Returns 0 if the address is not in code.
 */
static uint64_t space_addr(const struct branches *b, uint32_t section, uint64_t addr)
{
	const struct code_section *c = elf_is_object(b->s->file) ? space_of(&b->s->frames.space, section) : NULL;

	if (c)
		return c->addr + addr;
	return elf_is_object(b->s->file) ? 0 : addr;
}

/* ---- where functions begin ----------------------------------------------------------- */

static bool is_function(const struct elf_symbol *y)
{
	return y->section && (y->type == STT_FUNC || y->type == STT_GNU_IFUNC);
}

static void starts_find(struct branches *b)
{
	const struct elf_file *f = b->s->file;
	uint64_t addr;
	uint32_t i;
	size_t k;

	for (i = 1; i < f->symbol_count + f->dynsym_count; i++) {
		const struct elf_symbol *y = i < f->symbol_count ? &f->symbols[i] : &f->dynsyms[i - f->symbol_count];

		addr = is_function(y) ? space_addr(b, y->section, y->value) : 0;
		if (addr)
			mem_word_add(&b->starts, &b->start_count, &b->start_capacity, addr);
	}
	for (k = 0; k < b->cfi.count; k++)
		mem_word_add(&b->starts, &b->start_count, &b->start_capacity, b->cfi.fdes[k].start);
	b->start_count = words_unique(b->starts, b->start_count);
}

/* ---- addresses taken by data ----------------------------------------------------------- */

/* True for a section that describes code, so that no branch uses the addresses of code in it. */
static bool is_about_code(const char *name)
{
	static const char *const names[] = {".eh_frame",     ".gcc_except_table", "__patchable_function_entries",
	                                    "__mcount_loc",  ETCH_SEC_ORC_IP,     "__ex_table",
	                                    ETCH_SEC_IMV,    ETCH_SEC_PV,         ETCH_SEC_NATIVE,
	                                    ETCH_SEC_INLINE, ETCH_SEC_OBJ};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return !strncmp(name, ".gcc_except_table.", 18);
}

/* Adds the address of code that a dynamic relocation writes to data. */
static void reloc_take(struct branches *b, const struct dynamic_reloc *r)
{
	const struct elf_file *f = b->s->file;
	uint32_t section = elf_section_at(f, r->place);
	struct target t = {.how = "address in data", .section = section, .from = r->place, .inside = true};

	if (section && is_about_code(f->sections[section].name))
		return;
	switch (r->type) {
	case R_X86_64_RELATIVE: t.at = r->addend; break;
	case R_X86_64_IRELATIVE:
		t.at = r->addend;
		t.how = "called by the dynamic linker";
		break;
	case R_X86_64_64:
	case R_X86_64_GLOB_DAT:
		if (!r->symbol || !r->symbol->section || r->symbol->type == STT_TLS)
			return;
		t.at = r->symbol->value + (r->type == R_X86_64_64 ? r->addend : 0);
		break;
	default: return;
	}
	target_add(b, &t);
}

/*
 * For programs at fixed addresses, whose data has no relocations: adds each word of data that is the start of a
 * function.
 */
static void words_take(struct branches *b)
{
	const struct elf_file *f = b->s->file;
	uint64_t k, word;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *x = &f->sections[i];

		if (!x->data || !(x->sh.sh_flags & SHF_ALLOC) || (x->sh.sh_flags & SHF_EXECINSTR) || is_about_code(x->name) ||
		    (x->sh.sh_type != SHT_PROGBITS && x->sh.sh_type != SHT_INIT_ARRAY && x->sh.sh_type != SHT_FINI_ARRAY))
			continue;
		for (k = -x->sh.sh_addr & 7; k + 8 <= x->sh.sh_size; k += 8) {
			memcpy(&word, x->data + k, 8);
			if (word_has(b->starts, b->start_count, word))
				target_add(
					b, &(struct target){.at = word, .how = "address in data", .section = i, .from = x->sh.sh_addr + k});
		}
	}
}

static void dynamic_take(struct branches *b)
{
	static const struct {
		int64_t tag;
		const char *name;
	} called[] = {{DT_INIT, "DT_INIT"}, {DT_FINI, "DT_FINI"}};
	const struct elf_file *f = b->s->file;
	bool program = false;
	uint64_t at;
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (elf_dynamic(f, called[i].tag, &at))
			target_add(b, &(struct target){.at = at,
			                               .how = "called by the dynamic linker",
			                               .inside = true,
			                               .always = true,
			                               .what = called[i].name});
	for (i = 0; i < f->phdr_count; i++)
		program |= f->phdrs[i].p_type == PT_INTERP;
	if (program) /* ld.so jumps to the entry point; in a static program, the kernel sets rip to it, which is not a
	                branch */
		target_add(b, &(struct target){.at = f->eh.e_entry,
		                               .how = "called by the dynamic linker",
		                               .inside = true,
		                               .always = true,
		                               .what = "the entry point of the program"});
}

/* Adds the exported functions, since other modules call them through slots of their PLT or GOT. */
static void exports_take(struct branches *b)
{
	const struct elf_file *f = b->s->file;
	uint32_t i;

	for (i = 1; i < f->dynsym_count; i++) {
		const struct elf_symbol *y = &f->dynsyms[i];

		if (is_function(y) && y->bind != STB_LOCAL)
			target_add(b, &(struct target){.at = y->value, .how = "exported", .what = y->name});
	}
}

static int linked_take(struct branches *b, struct error *e)
{
	size_t i;

	if (dynamic_relocs_read(b->s->file, 0, UINT64_MAX, &b->relocs, &b->reloc_count, e))
		return -1;
	for (i = 0; i < b->reloc_count; i++)
		reloc_take(b, &b->relocs[i]);
	if (b->s->file->eh.e_type == ET_EXEC)
		words_take(b);
	dynamic_take(b);
	exports_take(b);
	return 0;
}

/* Object files: adds the addresses of code in 8-byte words of data. Returns 0, or -1 and a message. */
static int objects_take(struct branches *b, struct error *e)
{
	const struct elf_file *f = b->s->file;
	struct elf_reloc *list;
	uint32_t i;
	long n, k;

	for (i = 1; i < f->section_count; i++) {
		uint32_t to = f->sections[i].sh.sh_info;

		if (f->sections[i].sh.sh_type != SHT_RELA || f->sections[i].sh.sh_link != f->symtab ||
		    !(f->sections[to].sh.sh_flags & SHF_ALLOC) || (f->sections[to].sh.sh_flags & SHF_EXECINSTR) ||
		    is_about_code(f->sections[to].name))
			continue;
		n = elf_relocs(f, i, &list, e);
		if (n < 0)
			return -1;
		for (k = 0; k < n; k++) {
			const struct elf_symbol *y = &f->symbols[list[k].symbol];

			if (list[k].type == R_X86_64_64 && y->section)
				target_add(b, &(struct target){.at = space_addr(b, y->section, y->value + (uint64_t)list[k].addend),
				                               .how = "address in data",
				                               .section = to,
				                               .from = list[k].offset,
				                               .inside = true});
		}
		free(list);
	}
	return 0;
}

/* ---- addresses taken by code -------------------------------------------------------------- */

static bool returns_twice(const char *name)
{
	static const char *const names[] = {"setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static int by_place(const void *a, const void *b)
{
	const uint64_t *x = a;
	const struct dynamic_reloc *y = b;

	return *x < y->place ? -1 : *x > y->place;
}

/* Linked files: returns the name of the function that the PLT entry at `target` calls, or null if `target` is not a
 * PLT entry. */
static const char *callee_name(const struct branches *b, uint64_t target)
{
	const struct elf_file *f = b->s->file;
	const struct code_section *c = space_at(&b->s->frames.space, target);
	const struct dynamic_reloc *r;
	uint64_t slot;

	if (!c || strncmp(f->sections[c->section].name, ".plt", 4))
		return NULL;
	slot = plt_slot(c->bytes + (target - c->addr), c->size - (target - c->addr), target);
	r = slot && b->reloc_count ? bsearch(&slot, b->relocs, b->reloc_count, sizeof(*r), by_place) : NULL;
	return r && r->symbol ? r->symbol->name : NULL;
}

static void insn_linked(struct branches *b, const struct code_section *c, uint64_t addr, const struct step *in)
{
	bool absolute = b->s->file->eh.e_type == ET_EXEC;
	struct target t = {
		.how = "address taken here", .section = c->section, .from = plain_addr(b, c, addr), .at = (uint64_t)in->imm};
	const char *name;

	if ((in->op == STEP_ADDRESS && in->b == INSN_PC_REG) ||
	    (absolute && (in->op == STEP_CONST || in->op == STEP_STORE) && in->imm &&
	     word_has(b->starts, b->start_count, t.at)))
		target_add(b, &t);
	if (in->flow != FLOW_CALL)
		return;
	name = callee_name(b, (uint64_t)in->imm);
	if (name && returns_twice(name))
		target_add(
			b,
			&(struct target){
				.at = addr + in->len, .how = "returned to by longjmp", .what = name, .inside = true, .always = true});
}

/* Object files: adds the address of code that an instruction takes by its relocation `r`. */
static void insn_reloc(struct branches *b, const struct code_section *c, uint64_t addr, const struct step *in,
                       const struct elf_reloc *r)
{
	const struct elf_symbol *y = &b->s->file->symbols[r->symbol];
	uint64_t end = addr - c->addr + in->len, base = y->section ? space_addr(b, y->section, y->value) : 0;
	struct target t = {.how = "address taken here", .section = c->section, .from = addr - c->addr};

	if (in->flow == FLOW_CALL && (r->type == R_X86_64_PLT32 || r->type == R_X86_64_PC32) && returns_twice(y->name))
		target_add(b, &(struct target){.at = addr + in->len,
		                               .how = "returned to by longjmp",
		                               .what = y->name,
		                               .inside = true,
		                               .always = true});
	if (!base || in->flow != FLOW_NEXT)
		return;
	switch (r->type) {
	case R_X86_64_PC32:
	case R_X86_64_PLT32: /* the operand is an address only in a lea */
		if (in->op != STEP_ADDRESS)
			return;
		t.at = base + (uint64_t)r->addend + (end - r->offset);
		break;
	case R_X86_64_32:
	case R_X86_64_32S:
	case R_X86_64_64: t.at = base + (uint64_t)r->addend; break;
	case R_X86_64_GOTPCREL:
	case R_X86_64_GOTPCRELX:
	case R_X86_64_REX_GOTPCRELX: t.at = base; break;
	default: return;
	}
	target_add(b, &t);
}

static void insn_check(struct branches *b, const struct code_section *c, uint64_t addr, const struct step *in)
{
	uint64_t off = addr - c->addr;

	if (in->flow == FLOW_JUMP_IND && !insn_is_notrack(c->bytes + off, in->len))
		mem_word_add(&b->jumps, &b->jump_count, &b->jump_capacity, addr);
	if (!elf_is_object(b->s->file)) {
		insn_linked(b, c, addr, in);
		return;
	}
	while (b->code_reloc_next < b->code_reloc_count && b->code_relocs[b->code_reloc_next].offset < off)
		b->code_reloc_next++;
	/* If the address is in the same section, the assembler has resolved it without a relocation. */
	if (in->op == STEP_ADDRESS && in->b == INSN_PC_REG &&
	    (b->code_reloc_next == b->code_reloc_count || b->code_relocs[b->code_reloc_next].offset >= off + in->len))
		insn_linked(b, c, addr, in);
	for (; b->code_reloc_next < b->code_reloc_count && b->code_relocs[b->code_reloc_next].offset < off + in->len;
	     b->code_reloc_next++)
		insn_reloc(b, c, addr, in, &b->code_relocs[b->code_reloc_next]);
}

static int code_take(struct branches *b, struct error *e)
{
	const struct code_space *space = &b->s->frames.space;
	struct step_cache *cache = step_cache_new();
	struct step in;
	size_t i;
	int err = 0;

	for (i = 0; i < space->count && !err; i++) {
		const struct code_section *c = &space->list[i];
		uint32_t rela = elf_is_object(b->s->file) ? elf_section_rela(b->s->file, c->section, 1) : 0;
		uint64_t at = c->addr;

		b->code_relocs = NULL;
		b->code_reloc_next = b->code_reloc_count = 0;
		if (rela && b->s->file->sections[rela].sh.sh_link == b->s->file->symtab) {
			b->code_reloc_count = elf_relocs(b->s->file, rela, &b->code_relocs, e);
			err = b->code_reloc_count < 0;
		}
		while (!err && (at = reached_next(&b->s->frames.reached, space, i, at)) != UINT64_MAX) {
			if (step_decode(cache, c->bytes + (at - c->addr), c->size - (at - c->addr), at, &in))
				insn_check(b, c, at, &in);
			at++;
		}
		free(b->code_relocs);
	}
	step_cache_free(cache);
	return err ? -1 : 0;
}

/* ---- landing pads --------------------------------------------------------------------------- */

static void pad_take(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	struct branches *b = ctx;
	const struct code_section *c = space_at(&b->s->frames.space, start);

	(void)end;
	if (pad && c)
		target_add(b, &(struct target){.at = pad,
		                               .how = "exceptions land here from",
		                               .section = c->section,
		                               .from = plain_addr(b, c, start),
		                               .inside = true,
		                               .always = true});
}

static void pads_take(struct branches *b)
{
	size_t i;

	for (i = 0; i < b->cfi.count; i++)
		if (b->cfi.fdes[i].lsda)
			lsda_call_sites(b->s->file, &b->cfi, i, pad_take, b);
}

/* ---- all of them -------------------------------------------------------------------------------- */

int branches_collect(struct branches *b, struct error *e)
{
	int err;

	cfi_file_open(b->s->file, &b->s->frames.space, &b->cfi);
	starts_find(b);
	err = elf_is_object(b->s->file) ? objects_take(b, e) : linked_take(b, e);
	if (!err)
		err = code_take(b, e);
	if (!err)
		pads_take(b);
	return err;
}

void branches_free(struct branches *b)
{
	cfi_file_close(&b->cfi);
	free(b->list);
	free(b->starts);
	free(b->jumps);
	free(b->relocs);
}
