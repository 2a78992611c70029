/* SPDX-License-Identifier: MIT */
/* Resolves operands by relocations, symbols, PLT entries and GOT slots. */
#include "inspect/operands.h"
#include "shared/search.h"

#include "arch/x86/fast_decoder.h"
#include "elf/dynamic.h"
#include "elf/symbols.h"
#include "support/plain.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A relocation in code. */
struct code_reloc {
	uint32_t section;
	uint64_t at;
	struct elf_reloc reloc;
};

/* The tables of one file in which names are looked up. */
struct operands {
	const struct elf_file *file;
	struct symbol_index symbols;
	struct code_reloc *relocs; /* ET_REL: relocations in code, sorted by section and offset */
	size_t reloc_count;
	struct dynamic_reloc *slots; /* linked files: dynamic relocations, sorted by address */
	size_t slot_count;
};

/* ---- reading ---------------------------------------------------------------- */

/* True for symbols whose name can stand for an operand. */
static bool is_named(const struct elf_file *f, const struct elf_symbol *s)
{
	(void)f;
	return s->section && s->name[0] && s->type != STT_SECTION && s->type != STT_FILE && s->type != STT_TLS;
}

static int reloc_order(const void *a, const void *b)
{
	const struct code_reloc *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Adds the relocations of one section of code. Returns 0, or -1 and a message. */
static int section_relocs_read(struct operands *o, uint32_t section, struct error *e)
{
	uint32_t rel = 0;

	while ((rel = elf_section_rela(o->file, section, rel + 1))) {
		struct code_reloc *grown;
		struct elf_reloc *r;
		long n = elf_relocs(o->file, rel, &r, e), k;

		if (n < 0)
			return -1;
		grown = mem_resize(o->relocs, o->reloc_count + (size_t)n + 1, sizeof(*grown));
		o->relocs = grown;
		for (k = 0; k < n; k++)
			if (r[k].symbol < o->file->symbol_count)
				grown[o->reloc_count++] = (struct code_reloc){section, r[k].offset, r[k]};
		free(r);
	}
	return 0;
}

struct operands *operands_open(const struct elf_file *f, const struct code_space *space, struct error *e)
{
	struct operands *o = mem_zero(1, sizeof(*o));
	size_t i;
	int err = 0;

	o->file = f;
	symbol_index_build(f, is_named, &o->symbols);
	for (i = 0; !err && elf_is_object(f) && i < space->count; i++)
		err = section_relocs_read(o, space->list[i].section, e);
	if (!err && !elf_is_object(f))
		err = dynamic_relocs_read(f, 0, UINT64_MAX, &o->slots, &o->slot_count, e);
	if (err) {
		operands_close(o);
		return NULL;
	}
	if (o->reloc_count)
		qsort(o->relocs, o->reloc_count, sizeof(*o->relocs), reloc_order);
	return o;
}

void operands_close(struct operands *o)
{
	if (!o)
		return;
	symbol_index_free(&o->symbols);
	free(o->relocs);
	free(o->slots);
	free(o);
}

/* ---- names ------------------------------------------------------------------ */

void operand_name(const struct operands *o, uint32_t section, uint64_t addr, char *out, size_t size)
{
	uint64_t base;

	out[0] = 0;
	if (!section || section >= o->file->section_count)
		return;
	symbol_index_name(&o->symbols, section, addr, out, size);
	if (out[0])
		return;
	base = elf_is_object(o->file) ? 0 : o->file->sections[section].sh.sh_addr;
	snprintf(out, size, "%.200s+0x%" PRIx64, o->file->sections[section].name, addr - base);
	plain(out);
}

/* Returns the name of the symbol whose address the dynamic linker writes to a slot, or null. */
static const char *slot_name(const struct operands *o, uint64_t slot)
{
	size_t lo = SEARCH(o->slot_count, i, o->slots[i].place < slot);

	return lo < o->slot_count && o->slots[lo].place == slot && o->slots[lo].symbol && o->slots[lo].symbol->name[0]
	           ? o->slots[lo].symbol->name
	           : NULL;
}

/*
 * Writes "printf@plt" for a PLT entry that jumps through the slot of this symbol. Returns false if the place is not a
 * PLT entry.
 */
static bool plt_name(const struct operands *o, uint32_t section, uint64_t addr, char *out, size_t size)
{
	struct elf_held entry = elf_held(o->file, section, addr);
	const char *name;
	uint64_t slot;

	if (!entry.size || strncmp(o->file->sections[section].name, ".plt", 4))
		return false;
	slot = plt_slot(entry.bytes, entry.size, addr);
	name = slot ? slot_name(o, slot) : NULL;
	if (!name)
		return false;
	snprintf(out, size, "%.200s@plt", name);
	plain(out);
	return true;
}

/* Returns the letter that follows the backslash of an escaped character. */
static char escape_of(unsigned char c)
{
	switch (c) {
	case '\n': return 'n';
	case '\t': return 't';
	case '\r': return 'r';
	default: return (char)c;
	}
}

/* Sets r->text to the string at the target, if the target is in read-only data and looks like a string. */
static void string_take(const struct operands *o, struct reference *r)
{
	const struct elf_section *s = &o->file->sections[r->section];
	struct elf_held held = elf_held(o->file, r->section, r->addr);
	uint64_t i;
	size_t n = 0;

	r->text[0] = 0;
	if (!held.size || (s->sh.sh_flags & (SHF_WRITE | SHF_EXECINSTR)) || strncmp(s->name, ".rodata", 7))
		return;
	for (i = 0; i < held.size && held.bytes[i]; i++) {
		unsigned char c = held.bytes[i];
		bool escaped = c == '\n' || c == '\t' || c == '\r' || c == '"' || c == '\\';

		if ((c < 0x20 && !escaped) || c >= 0x7f) {
			r->text[0] = 0;
			return;
		}
		if (n + 6 > sizeof(r->text)) { /* the rest is for an escape and "..." */
			memcpy(r->text + n, "...", 4);
			return;
		}
		if (escaped)
			r->text[n++] = '\\';
		r->text[n++] = escape_of(c);
		r->text[n] = 0;
	}
	if (i == held.size || i < 2)
		r->text[0] = 0; /* the string has no terminator, or is too short to be taken for one */
}

/* ---- object files ------------------------------------------------------------- */

static const struct code_reloc *reloc_of(const struct operands *o, uint32_t section, const struct insn *in)
{
	size_t lo =
		SEARCH(o->reloc_count, i,
	           o->relocs[i].section < section || (o->relocs[i].section == section && o->relocs[i].at < in->addr));

	return lo < o->reloc_count && o->relocs[lo].section == section && o->relocs[lo].at < in->addr + in->len
	           ? &o->relocs[lo]
	           : NULL;
}

/* Returns a suffix for the kind of a relocation, as in assembly; "" for a plain one. */
static const char *reloc_suffix(uint32_t type)
{
	switch (type) {
	case R_X86_64_GOTPCREL:
	case R_X86_64_GOTPCRELX:
	case R_X86_64_REX_GOTPCRELX:
	case R_X86_64_GOT32:
	case R_X86_64_GOT64: return "@got";
	case R_X86_64_GOTTPOFF: return "@gottpoff";
	case R_X86_64_TPOFF32:
	case R_X86_64_TPOFF64: return "@tpoff";
	case R_X86_64_TLSGD: return "@tlsgd";
	case R_X86_64_TLSLD: return "@tlsld";
	case R_X86_64_DTPOFF32: return "@dtpoff";
	default: return "";
	}
}

/*
 * True for relocations whose value is relative to their field. (Operands are relative to the end of the instruction.)
 */
static bool is_distance(uint32_t type)
{
	return type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_PC64 || type == R_X86_64_GOTPCREL ||
	       type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX || type == R_X86_64_GOTTPOFF ||
	       type == R_X86_64_PC8 || type == R_X86_64_PC16 || type == R_X86_64_TLSGD || type == R_X86_64_TLSLD;
}

/* Makes the reference of an operand from a relocation of its instruction. */
static void reloc_take(const struct operands *o, const struct code_reloc *r, const struct insn *in,
                       struct reference *out)
{
	const struct elf_symbol *y = &o->file->symbols[r->reloc.symbol];
	int64_t addend = r->reloc.addend;

	if (is_distance(r->reloc.type))
		/* Unsigned arithmetic, since a malformed file may have any addend. */
		addend = (int64_t)((uint64_t)addend + (in->addr + in->len - r->at));
	out->known = true;
	if (y->section && !reloc_suffix(r->reloc.type)[0]) {
		out->placed = true;
		out->section = y->section;
		out->addr = y->value + (uint64_t)addend;
	}
	if (y->name[0] && y->type != STT_SECTION) {
		if (addend)
			snprintf(out->name, sizeof(out->name), "%.200s%s%+" PRId64, y->name, reloc_suffix(r->reloc.type), addend);
		else
			snprintf(out->name, sizeof(out->name), "%.200s%s", y->name, reloc_suffix(r->reloc.type));
		plain(out->name);
	} else if (y->section) {
		operand_name(o, y->section, y->value + (uint64_t)addend, out->name, sizeof(out->name));
	}
	if (out->placed)
		string_take(o, out);
}

/* ---- operands ----------------------------------------------------------------- */

static void linked_take(const struct operands *o, uint64_t addr, struct reference *out)
{
	out->known = out->placed = true;
	out->addr = addr;
	out->section = elf_section_at(o->file, addr);
}

void operand_target(const struct operands *o, uint32_t section, const struct insn *in, struct reference *out)
{
	const struct code_reloc *r;

	memset(out, 0, sizeof(*out));
	if (!flow_is_direct(in->flow))
		return;
	r = elf_is_object(o->file) ? reloc_of(o, section, in) : NULL;
	if (r) {
		reloc_take(o, r, in, out);
		return;
	}
	linked_take(o, in->target, out);
	if (elf_is_object(o->file))
		out->section = section;
	if (elf_is_object(o->file) || !plt_name(o, out->section, out->addr, out->name, sizeof(out->name)))
		operand_name(o, out->section, out->addr, out->name, sizeof(out->name));
}

void operand_memory(const struct operands *o, uint32_t section, const struct insn *in, struct reference *out)
{
	const struct code_reloc *r;
	const char *name;

	memset(out, 0, sizeof(*out));
	if (flow_is_direct(in->flow))
		return;
	r = elf_is_object(o->file) ? reloc_of(o, section, in) : NULL;
	if (r) {
		reloc_take(o, r, in, out);
		return;
	}
	if (in->base != INSN_PC_REG || in->segment || elf_is_object(o->file))
		return;
	linked_take(o, in->addr + in->len + (uint64_t)in->disp, out);
	name = slot_name(o, out->addr);
	if (name && !(out->section && symbol_index_find(&o->symbols, out->section, out->addr))) {
		snprintf(out->name, sizeof(out->name), "%.200s@got", name);
		plain(out->name);
		return;
	}
	operand_name(o, out->section, out->addr, out->name, sizeof(out->name));
	string_take(o, out);
}
