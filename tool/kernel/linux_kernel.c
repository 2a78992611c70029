/* SPDX-License-Identifier: MIT */
/*
 * Reads the special sections of a Linux kernel object (ET_REL) into notes: annotations of reachability, static keys,
 * alternatives, exception tables, unwind hints, and functions without rows.
 */
#include "kernel/linux_kernel.h"
#include "arch/x86/opcodes.h"
#include "arch/x86/rule_text.h"
#include "arch/x86/fast_decoder.h"
#include "elf/symbols.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

/* A section while its entries are read. */
struct table {
	const struct elf_file *f;
	const struct linux_release *release;
	const struct code_space *space;
	const struct elf_section *section;
	struct elf_reloc *relocs; /* sorted by offset */
	size_t count;
	struct symbol_index functions, globals; /* globals is used only by linux_entries() */
	/* for the table of hints: addresses of the SAVE hints, sorted; null: they have not been read yet */
	uint64_t *saves;
	size_t save_count;
	struct notes *out;
	struct error *e;
};

/* A kind of special section. `entry` reads one of its entries into notes, and returns 0, or -1 and a message. */
struct special {
	const char *name;
	size_t size; /* size of an entry in bytes; 0: it depends on the release */
	int (*entry)(struct table *t, uint64_t at);
};

/* Sets the message about a malformed entry. Returns -1. */
static int bad(struct table *t, uint64_t at, const char *what)
{
	return error_set(t->e, "section %s, entry at %#llx: %s", t->section->name, (unsigned long long)at, what);
}

/* Returns the relocation that applies to the field at an offset, or null. */
static const struct elf_reloc *reloc_of(const struct table *t, uint64_t at)
{
	size_t k = SEARCH(t->count, i, t->relocs[i].offset < at);

	return k < t->count && t->relocs[k].offset == at ? &t->relocs[k] : NULL;
}

/*
 * Where a field points. AT_CODE: to code of the file. AT_DATA: elsewhere, which may be data, code in another file, or
 * code that the build has dropped (COMDAT). AT_NOTHING: the field has no relocation.
 */
enum place { AT_CODE, AT_DATA, AT_NOTHING };

/*
 * Finds the place to which the field at an offset points. For code, sets *addr to its address in the code space, which
 * may be the end of a section.
 */
static enum place field(struct table *t, uint64_t at, uint64_t *addr)
{
	const struct elf_reloc *r = reloc_of(t, at);
	const struct elf_symbol *y = r && r->symbol < t->f->symbol_count ? &t->f->symbols[r->symbol] : NULL;
	const struct code_section *c = y && y->section ? space_of(t->space, y->section) : NULL;
	uint64_t off = y ? y->value + (uint64_t)r->addend : 0;

	*addr = 0;
	if (!y)
		return AT_NOTHING;
	if (!c || off > c->size)
		return AT_DATA;
	*addr = c->addr + off;
	return AT_CODE;
}

/* .discard.unreachable: the address after an instruction (include/linux/compiler.h). */
static int unreachable_entry(struct table *t, uint64_t at)
{
	uint64_t addr;

	if (field(t, at, &addr) != AT_CODE)
		return bad(t, at, "refers to no code");
	notes_add(t->out, NOTE_UNREACHABLE, addr, 0);
	return 0;
}

/* __jump_table: struct jump_entry (include/linux/jump_label.h). */
static int key_entry(struct table *t, uint64_t at)
{
	uint64_t code, target;

	if (field(t, at, &code) != AT_CODE || field(t, at + 4, &target) != AT_CODE)
		return bad(t, at, "refers to no code");
	if (!reloc_of(t, at + 8))
		return bad(t, at, "refers to no key");
	notes_add(t->out, NOTE_BRANCH, code, target);
	return 0;
}

/*
 * __ex_table: struct exception_table_entry (arch/x86/include/asm/extable.h). Only the fixup matters here, whatever the
 * entry's type, since handlers do not change registers that hold a part of a frame.
 */
static int exception_entry(struct table *t, uint64_t at)
{
	uint64_t code, fixup;

	if (field(t, at, &code) != AT_CODE || field(t, at + 4, &fixup) != AT_CODE)
		return bad(t, at, "refers to no code");
	notes_add(t->out, NOTE_EDGE, code, fixup);
	return 0;
}

/* .altinstructions: struct alt_instr (arch/x86/include/asm/alternative.h). */
enum { ALT_REPLACEMENT = 4, ALT_FEATURE = 8 };

/*
 * Control may enter the replacement in place of the original, and continues after the original. If the replacement is
 * empty, nops take the original's place.
 */
static int alternative_entry(struct table *t, uint64_t at)
{
	const uint8_t *lengths = t->section->data + at + t->release->alternative_length;
	unsigned length = lengths[0], size = lengths[1];
	uint64_t code, from = 0;
	struct notes *n = t->out;
	uint16_t feature;

	if (field(t, at, &code) != AT_CODE)
		return bad(t, at, "refers to no code");
	if (size && field(t, at + ALT_REPLACEMENT, &from) != AT_CODE)
		return bad(t, at, "has no replacement");
	if (size > length)
		return bad(t, at, "a replacement longer than the original");
	if (!space_at(t->space, code) || space_at(t->space, code)->addr + space_at(t->space, code)->size - code < length ||
	    (size &&
	     (!space_at(t->space, from) || space_at(t->space, from)->addr + space_at(t->space, from)->size - from < size)))
		return bad(t, at, "code reaches beyond its section");
	if (!length)
		return 0;
	notes_add(n, NOTE_EDGE, code, size ? from : code + length);
	if (size)
		notes_add(n, NOTE_RESUME, from + size, code + length);
	memcpy(&feature, t->section->data + at + ALT_FEATURE, sizeof(feature));
	mem_reserve(&n->replacements, &n->replacement_capacity, n->replacement_count, sizeof(*n->replacements));
	n->replacements[n->replacement_count++] = (struct replacement){code, code + length, from, size, feature};
	return 0;
}

/*
 * .discard.unwind_hints: struct unwind_hint (include/linux/objtool_types.h), with registers numbered as in
 * asm/orc_types.h.
 */
enum { HINT_OFFSET = 4, HINT_REG = 6, HINT_TYPE = 7, HINT_END = 8, HINT_SIZE = 12 };
enum hint {
	HINT_CALL,
	HINT_REGS,
	HINT_REGS_PARTIAL,
	HINT_FUNC,
	HINT_ENTRY,
	HINT_SAVE,
	HINT_RESTORE,
	HINT_UNDEFINED,
	HINT_END_OF_STACK,
	HINT_UNKNOWN
};
const uint8_t linux_hints_6_1[] = {HINT_CALL,  HINT_REGS, HINT_REGS_PARTIAL, HINT_FUNC,
                                   HINT_ENTRY, HINT_SAVE, HINT_RESTORE};
const uint8_t linux_hints_6_4[] = {HINT_UNDEFINED,    HINT_END_OF_STACK, HINT_CALL, HINT_REGS,
                                   HINT_REGS_PARTIAL, HINT_FUNC,         HINT_SAVE, HINT_RESTORE};

static enum hint hint_of(const struct table *t, uint64_t at)
{
	unsigned type = t->section->data[at + HINT_TYPE];

	return type < t->release->hint_count ? t->release->hints[type] : HINT_UNKNOWN;
}

/*
 * Sets in *out the register of the CFA, and whether the CFA is in memory, by a register number of the release. Returns
 * false if the number is unknown.
 */
static bool hint_register(const struct linux_release *release, unsigned number, struct note_frame *out)
{
	static const uint8_t registers[LINUX_ORC_REGISTERS] = {NOTE_NO_REG, LINUX_ORC_NONE, 2, 7, 5, 4, 10, 13, 5, 4, 0};
	unsigned k;

	for (k = 0; k < LINUX_ORC_REGISTERS && release->registers[k] != number; k++)
		;
	if (number == LINUX_ORC_NONE || k == LINUX_ORC_REGISTERS || registers[k] == LINUX_ORC_NONE)
		return false;
	out->reg = registers[k];
	out->deref = k == ETCH_ORC_BP_IND || k == ETCH_ORC_SP_IND;
	return true;
}

static void frame_add(struct notes *n, uint64_t at, const struct note_frame *frame)
{
	mem_reserve(&n->frames, &n->frame_capacity, n->frame_count, sizeof(*n->frames));
	n->frames[n->frame_count] = *frame;
	notes_add(n, NOTE_FRAME, at, n->frame_count++);
}

/*
 * Returns the function symbol that contains an address, or null. Sets *start to the address at which the function
 * begins.
 */
static const struct elf_symbol *function_of(const struct table *t, uint64_t addr, uint64_t *start)
{
	const struct code_section *c = space_at(t->space, addr);
	const struct elf_symbol *y = c ? symbol_index_find(&t->functions, c->section, addr - c->addr) : NULL;

	*start = y ? c->addr + y->value : 0;
	return y;
}

/* Fills t->saves. */
static void saves_read(struct table *t)
{
	uint64_t size = t->section->sh.sh_size, k, there;

	t->saves = mem_alloc(size / HINT_SIZE + 1, sizeof(*t->saves));
	for (k = 0; k + HINT_SIZE <= size; k += HINT_SIZE)
		if (hint_of(t, k) == HINT_SAVE && field(t, k, &there) == AT_CODE)
			t->saves[t->save_count++] = there;
	t->save_count = words_unique(t->saves, t->save_count);
}

/*
 * A RESTORE hint takes the frame of the last SAVE hint before it in the same function. There, hints are in order of
 * address.
 */
static int restore_entry(struct table *t, uint64_t at, uint64_t addr)
{
	uint64_t start;
	size_t k;

	if (!function_of(t, addr, &start))
		return bad(t, at, "restores a frame outside of a function");
	if (!t->saves)
		saves_read(t);
	k = SEARCH(t->save_count, i, t->saves[i] < addr);
	if (!k || t->saves[k - 1] < start)
		return bad(t, at, "restores a frame that nothing saves");
	notes_add(t->out, NOTE_EDGE, t->saves[k - 1], addr);
	notes_add(t->out, NOTE_RESTORE, addr, 0);
	return 0;
}

/* Sets the frame of the instruction at a hint's address to the one that the hint describes. */
static int hint_entry(struct table *t, uint64_t at)
{
	const uint8_t *raw = t->section->data + at;
	struct note_frame frame = {.kind = ETCH_RULE_CALL};
	int16_t off;
	uint64_t addr;

	if (field(t, at, &addr) != AT_CODE || !space_at(t->space, addr))
		return bad(t, at, "refers to no code");
	memcpy(&off, raw + HINT_OFFSET, sizeof(off));
	frame.off = off;
	switch (hint_of(t, at)) {
	case HINT_SAVE: return 0;
	case HINT_RESTORE: return restore_entry(t, at, addr);
	case HINT_FUNC: frame.function = true; break;
	case HINT_REGS: frame.kind = RULE_REGS; break;
	case HINT_REGS_PARTIAL: frame.kind = RULE_REGS_PARTIAL; break;
	case HINT_END_OF_STACK: frame.kind = ETCH_RULE_END; break;
	case HINT_UNDEFINED:
	case HINT_CALL:
	case HINT_ENTRY: break;
	default: return bad(t, at, "a hint of an unknown type");
	}
	if (!frame.function && !hint_register(t->release, raw[HINT_REG], &frame))
		return bad(t, at, "a hint with an unknown register");
	if (raw[HINT_END] && t->release->hints_end)
		frame.kind = ETCH_RULE_END;
	else if (raw[HINT_END] && (frame.kind == RULE_REGS || frame.kind == RULE_REGS_PARTIAL))
		frame.kind |= RULE_SIGNAL;
	frame_add(t->out, addr, &frame);
	return 0;
}

/*
 * Adds the place of a hint if entry code begins there: it is an ENTRY hint, or describes a frame that the CPU made, at
 * a global symbol.
 */
static void entry_read(const struct table *t, const struct elf_reloc *r, struct linux_place *list, long *n)
{
	const struct elf_symbol *y = r->symbol < t->f->symbol_count ? &t->f->symbols[r->symbol] : NULL;
	enum hint kind = hint_of(t, r->offset);
	const struct symbol_index *x = &t->globals;
	uint64_t at = y ? y->value + (uint64_t)r->addend : 0;
	size_t k;

	if (!y || !y->section || !space_of(t->space, y->section))
		return;
	k = symbol_index_above(x, y->section, at);
	if (kind == HINT_ENTRY ||
	    (kind == HINT_REGS_PARTIAL && k && x->list[k - 1]->section == y->section && x->list[k - 1]->value == at))
		list[(*n)++] = (struct linux_place){y->section, at};
}

static bool is_global(const struct elf_file *f, const struct elf_symbol *y)
{
	(void)f;
	return y->section && y->bind == STB_GLOBAL;
}

long linux_entries(const struct linux_release *release, const struct elf_file *f, const struct code_space *space,
                   struct linux_place **out, struct error *e)
{
	struct table t = {.f = f, .release = release, .space = space, .e = e};
	uint32_t i = 0, rel;
	long n = 0, k, count;

	if (!release->entries_by_hints)
		return linux_annotated(release, f, LINUX_UNRET_BEGIN, out, e);
	*out = NULL;
	symbol_index_build(f, is_global, &t.globals);
	while ((i = elf_section_find(f, ".discard.unwind_hints", i + 1))) {
		rel = elf_section_rela(f, i, 1);
		t.section = &f->sections[i];
		count = rel ? elf_relocs(f, rel, &t.relocs, e) : 0;
		if (count < 0) {
			symbol_index_free(&t.globals);
			free(*out);
			return -1;
		}
		*out = mem_resize(*out, (size_t)(n + count) + 1, sizeof(**out));
		for (k = 0; k < count && t.section->data; k++)
			if (t.relocs[k].offset % HINT_SIZE == 0 && t.relocs[k].offset + HINT_SIZE <= t.section->sh.sh_size)
				entry_read(&t, &t.relocs[k], *out, &n);
		free(t.relocs);
	}
	symbol_index_free(&t.globals);
	return n;
}

/*
 * .discard.func_stack_frame_non_standard: functions whose frames cannot be derived from the code. C code writes
 * pointers; since 6.12 assembly writes distances of 4 bytes. The upper half of a pointer is recognized by having no
 * relocation.
 */
static int ignore_entry(struct table *t, uint64_t at)
{
	const struct code_section *c;
	const struct elf_symbol *y;
	uint64_t addr, start;

	if (field(t, at, &addr) != AT_CODE)
		return 0; /* the function is in another file, or the build has dropped it */
	y = function_of(t, addr, &start);
	if (y) {
		c = space_at(t->space, addr);
		notes_add(t->out, NOTE_IGNORE, start, y->size < c->size - y->value ? start + y->size : c->addr + c->size);
	}
	return 0;
}

/* The special sections that are read. */
static const struct special specials[] = {
	{".discard.unreachable", 4, unreachable_entry},
	{"__jump_table", 16, key_entry},
	{"__ex_table", 12, exception_entry},
	{".altinstructions", 0, alternative_entry},
	{".discard.unwind_hints", HINT_SIZE, hint_entry},
	{".discard.func_stack_frame_non_standard", 4, ignore_entry},
};

/* Reads the entries of a special section. */
static int table_read(struct table *t, const struct special *kind, uint32_t section)
{
	uint32_t rel = elf_section_rela(t->f, section, 1);
	size_t size = kind->size ? kind->size : t->release->alternative_size;
	uint64_t at;
	int err = 0;
	long n = 0;

	t->section = &t->f->sections[section];
	t->relocs = NULL;
	t->saves = NULL;
	t->save_count = 0;
	if (!t->section->data)
		return 0;
	if (t->section->sh.sh_size % size)
		return error_set(t->e, "section %s: size %llu is not a multiple of %zu", t->section->name,
		                 (unsigned long long)t->section->sh.sh_size, size);
	if (rel && (n = elf_relocs(t->f, rel, &t->relocs, t->e)) < 0)
		return -1;
	t->count = (size_t)n;
	for (at = 0; at < t->section->sh.sh_size && !err; at += size)
		err = kind->entry(t, at);
	free(t->relocs);
	free(t->saves);
	return err;
}

/* Returns the register that a retpoline's name ends with, __x86_indirect_thunk_REG, or NOTE_NO_REG. */
static unsigned thunk_register(const char *name)
{
	static const char prefix[] = "__x86_indirect_thunk_";
	unsigned i;

	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return NOTE_NO_REG;
	for (i = 0; i < 16 && strcmp(name + sizeof(prefix) - 1, reg_text(i)); i++)
		;
	return i;
}

/*
 * Adds a note for each jump to a retpoline that may be a computed goto. Only a file with tables of labels can have one.
 * All other jumps to retpolines are tail calls, since a kernel with retpolines is built without jump tables.
 */
static int thunks_read(const struct elf_file *f, const struct code_space *space, const char *label_tables,
                       struct notes *out, struct error *e)
{
	uint32_t i, rel, end = elf_section_find(f, label_tables, 1) ? f->section_count : 0;

	for (i = 1; i < end; i++) {
		const struct code_section *c = space_of(space, i);
		struct elf_reloc *r;
		long n, k;

		if (!c || !(rel = elf_section_rela(f, i, 1)))
			continue;
		n = elf_relocs(f, rel, &r, e);
		if (n < 0)
			return -1;
		for (k = 0; k < n; k++) {
			unsigned reg = r[k].symbol < f->symbol_count ? thunk_register(f->symbols[r[k].symbol].name) : NOTE_NO_REG;

			if (reg < NOTE_NO_REG && r[k].offset && r[k].offset < c->size &&
			    c->bytes[r[k].offset - 1] == OPCODE_JMP_REL32)
				notes_add(out, NOTE_INDIRECT, c->addr + r[k].offset - 1, reg);
		}
		free(r);
	}
	return 0;
}

/*
 * Adds notes for the calls that fill the return stack buffer or push their own address, and for the traps after which
 * control continues. Releases with .discard.annotate_insn annotate the trap; others annotate the place after it.
 */
static int annotations_read(const struct linux_release *release, const struct elf_file *f,
                            const struct code_space *space, struct notes *out, struct error *e)
{
	struct linux_place *list;
	long n = linux_annotated(release, f, LINUX_INTRA_FUNCTION_CALL, &list, e), i;
	int err = n < 0 ? -1 : 0;

	for (i = 0; i < n; i++)
		notes_add(out, NOTE_PUSH, space_of(space, list[i].section)->addr + list[i].at, 0);
	free(list);
	n = err ? 0 : linux_annotated(release, f, LINUX_REACHABLE, &list, e);
	if (err || n < 0)
		return -1;
	for (i = 0; i < n && !err; i++) {
		const struct code_section *c = space_of(space, list[i].section);
		struct step s = {0};

		if (release->annotations &&
		    !step_decode(NULL, c->bytes + list[i].at, c->size - list[i].at, c->addr + list[i].at, &s))
			err = error_set(e, "section .discard.annotate_insn: no instruction at %s+%#llx",
			                f->sections[list[i].section].name, (unsigned long long)list[i].at);
		else
			notes_add(out, NOTE_REACHABLE, c->addr + list[i].at + s.len, 0);
	}
	free(list);
	return err;
}

int linux_read(const struct profile *p, const struct elf_file *f, const struct code_space *space, struct notes *out,
               struct error *e)
{
	const struct linux_release *release = (const struct linux_release *)p;
	struct table t = {.f = f, .release = release, .space = space, .out = out, .e = e};
	uint32_t i;
	size_t k;
	int err = 0;

	symbol_index_build(f, symbol_is_sized_function, &t.functions);
	for (i = 1; i < f->section_count && !err; i++)
		for (k = 0; k < sizeof(specials) / sizeof(specials[0]) && !err; k++)
			if (elf_name_is(f->sections[i].name, specials[k].name))
				err = table_read(&t, &specials[k], i);
	symbol_index_free(&t.functions);
	if (err || annotations_read(release, f, space, out, e) || thunks_read(f, space, release->label_tables, out, e))
		return -1;
	notes_sort(out);
	return 0;
}
