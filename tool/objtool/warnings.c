/* SPDX-License-Identifier: MIT */
/* Prints warnings, backtraces and the code of functions in objtool's form (warnings.h). */
#include "objtool/warnings.h"
#include "arch/x86/insn.h"
#include "objtool/code_map.h"
#include "objtool/objtool.h"
#include "report/text.h"
#include "shared/search.h"
#include "support/memory.h"
#include "support/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MNEMONIC_COLUMNS 6  /* width of a mnemonic, as in the output of objdump */
#define MARK_COLUMNS     50 /* width of the text before the instruction in a line of a backtrace */
#define PLACE_COLUMNS    10 /* the width of a place in a listing is that of the longest name and this */

/* The relocations of a section that has code. */
struct section_relocs {
	struct elf_reloc *list;
	long count;
	bool read;
};

/* The form in which warnings are printed, and their number. */
static struct {
	bool errors, section_address;
	bool names_unsized; /* functions without a size name the place at which they start */
	bool backtrace;
	bool code; /* lines of backtraces have the instruction, and each warning about code has such a line, too */
	size_t count;
	struct section_relocs *relocs; /* for each section */
	uint32_t section_count;
} said;

void warnings_begin(const struct objtool_options *o)
{
	said.errors = o->errors;
	said.section_address = o->section_address;
	said.names_unsized = o->release->keeps_unsized;
	said.backtrace = o->backtrace;
	said.code = o->backtrace && o->release->backtraces_have_code;
	said.count = 0;
}

void warnings_end(void)
{
	uint32_t i;

	for (i = 0; i < said.section_count; i++)
		free(said.relocs[i].list);
	free(said.relocs);
	memset(&said, 0, sizeof(said));
}

size_t warnings_count(void) { return said.count; }

/* ---- places ------------------------------------------------------------------------------ */

/* True for a symbol that can name a place. In objtool of older releases, functions without a size cannot. */
static bool is_sized_place(const struct elf_file *f, const struct elf_symbol *y)
{
	return y->size && symbol_is_place(f, y);
}

/* True for the symbol of entry code, which has a size but no type. */
static bool is_sized_label(const struct elf_file *f, const struct elf_symbol *y)
{
	(void)f;
	return y->section && y->size && y->type != STT_SECTION && y->name[0];
}

void place_names_free(struct place_names *names)
{
	symbol_index_free(&names->list);
	symbol_index_free(&names->others);
}

void objtool_place(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, char *out,
                   size_t size)
{
	const struct symbol_index *x = &names->list;
	size_t n;

	if (!names->read)
		symbol_index_build(f, said.names_unsized ? symbol_is_place : is_sized_place, &names->list);
	names->read = true;
	if (!symbol_index_find(x, section, at)) {
		x = &names->others;
		if (!names->others_read)
			symbol_index_build(f, is_sized_label, &names->others);
		names->others_read = true;
	}
	symbol_index_describe(x, f, section, at, out, size);
	n = strlen(out);
	if (!strchr(out, '+'))
		n += (size_t)snprintf(out + n, size - n, "+0x0");
	if (said.section_address && n < size && symbol_index_find(x, section, at))
		snprintf(out + n, size - n, " (%s+0x%llx)", f->sections[section].name, (unsigned long long)at);
}

/* ---- lines ------------------------------------------------------------------------------- */

static void line_print(const struct elf_file *f, const char *severity, const char *text)
{
	char *line;

	if (text_is_quiet() || asprintf(&line, "%s: %s: objtool: %s", f->path, severity, text) < 0)
		return;
	text_line(stderr, line);
	free(line);
}

static const char *severity(void) { return said.errors ? "error" : "warning"; }

void objtool_say(const struct elf_file *f, const char *format, ...)
{
	char *text;
	va_list ap;

	if (text_is_quiet())
		return;
	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	said.count++;
	if (text)
		line_print(f, severity(), text);
	free(text);
}

void objtool_remark(const struct elf_file *f, const char *text) { line_print(f, "warning", text); }

void objtool_complain(const struct elf_file *f, const char *text) { line_print(f, "error", text); }

void objtool_warn(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, const char *text)
{
	char where[256];

	objtool_place(f, names, section, at, where, sizeof(where));
	objtool_say(f, "%s: %s", where, text);
	if (said.code && (f->sections[section].sh.sh_flags & SHF_EXECINSTR))
		objtool_trace(f, names, section, at, "");
}

/* ---- instructions ------------------------------------------------------------------------ */

/* Returns the relocation of a field of the instruction, or null. */
static const struct elf_reloc *reloc_of(const struct elf_file *f, uint32_t section, uint64_t at, unsigned len)
{
	struct section_relocs *r;
	struct error ignored;
	uint32_t rel;
	size_t i;

	if (!said.relocs) {
		said.relocs = mem_zero(f->section_count, sizeof(*said.relocs));
		said.section_count = f->section_count;
	}
	r = &said.relocs[section];
	if (!r->read && (rel = elf_section_rela(f, section, 1))) {
		r->count = elf_relocs(f, rel, &r->list, &ignored);
		r->count = r->count < 0 ? 0 : r->count; /* the pass that needs them reports the error */
	}
	r->read = true;
	i = SEARCH((size_t)r->count, n, r->list[n].offset < at);
	return i < (size_t)r->count && r->list[i].offset < at + len ? &r->list[i] : NULL;
}

/* Writes the place to which a field of an instruction refers by a relocation; the empty text if it has no name. */
static void referred_text(const struct elf_file *f, struct place_names *names, const struct elf_reloc *r, uint64_t end,
                          char *out, size_t size)
{
	const struct elf_symbol *y = r->symbol < f->symbol_count ? &f->symbols[r->symbol] : NULL;
	bool relative = r->type == R_X86_64_PC32 || r->type == R_X86_64_PLT32;
	int64_t off = r->addend + (relative ? (int64_t)(end - r->offset) : 0);

	out[0] = '\0';
	if (!y)
		return;
	if (y->section && y->section < f->section_count && y->type == STT_SECTION)
		objtool_place(f, names, y->section, y->value + (uint64_t)off, out, size);
	else if (off)
		snprintf(out, size, "%.120s%s0x%llx", y->name, off < 0 ? "-" : "+",
		         (unsigned long long)(off < 0 ? -(uint64_t)off : (uint64_t)off));
	else
		snprintf(out, size, "%.120s", y->name);
}

/* Writes a text of the disassembler as objdump lays it out: "mov    %rsp,%rbp". */
static void columns_lay(const char *text, char *out, size_t size)
{
	size_t mnemonic = strcspn(text, " "), n;

	if (!text[mnemonic]) {
		snprintf(out, size, "%s", text);
		return;
	}
	n = (size_t)snprintf(out, size, "%-*.*s ", MNEMONIC_COLUMNS, (int)mnemonic, text);
	for (text += mnemonic + 1; *text && n + 1 < size; text++)
		if (*text != ' ' || text[-1] != ',')
			out[n++] = *text;
	out[n < size ? n : size - 1] = '\0';
}

/* Writes the instruction at a place with the names of what it refers to. Returns its length, or 0 if it is none. */
static unsigned insn_line(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, char *out,
                          size_t size)
{
	const struct elf_section *s = &f->sections[section];
	char text[200], where[256] = "";
	const struct elf_reloc *r;
	struct insn in;

	out[0] = '\0';
	if (!s->data || at >= s->sh.sh_size || !insn_decode(s->data + at, s->sh.sh_size - at, at, &in))
		return 0;
	insn_text(s->data + at, in.len, at, text, sizeof(text));
	r = reloc_of(f, section, at, in.len);
	if (r)
		referred_text(f, names, r, at + in.len, where, sizeof(where));
	else if (flow_is_direct(in.flow) && in.target < s->sh.sh_size)
		objtool_place(f, names, section, in.target, where, sizeof(where));
	plain(where);
	columns_lay(text, out, size);
	if (where[0])
		snprintf(out + strlen(out), size - strlen(out), flow_is_direct(in.flow) ? " <%s>" : "        # <%s>", where);
	return in.len;
}

void objtool_trace(const struct elf_file *f, struct place_names *names, uint32_t section, uint64_t at, const char *mark)
{
	char where[256], insn[512], *line;

	if (!said.backtrace)
		return;
	objtool_place(f, names, section, at, where, sizeof(where));
	insn[0] = '\0';
	if (said.code)
		insn_line(f, names, section, at, insn, sizeof(insn));
	if (asprintf(&line, "  %s: %s", where, mark) < 0)
		return;
	if (said.code) {
		char *longer;

		if (asprintf(&longer, "%-*s  %s", MARK_COLUMNS, line, insn) < 0)
			longer = NULL;
		free(line);
		line = longer;
	}
	if (line)
		line_print(f, severity(), line);
	free(line);
}

/* ---- functions --------------------------------------------------------------------------- */

/* Prints the code of a function. `width` is that of the column with the places. */
static void function_print(const struct elf_file *f, struct place_names *names, const struct elf_symbol *y, int width,
                           FILE *out)
{
	const struct elf_section *s = &f->sections[y->section];
	uint64_t at = y->value, end;
	char insn[512], where[256];

	if (!s->data || at >= s->sh.sh_size)
		return;
	end = y->size < s->sh.sh_size - at ? at + y->size : s->sh.sh_size;
	text_clean(out, y->name);
	fprintf(out, ":\n");
	while (at < end) {
		unsigned len = insn_line(f, names, y->section, at, insn, sizeof(insn));

		if (!len)
			snprintf(insn, sizeof(insn), ".byte 0x%02x", s->data[at]);
		objtool_place(f, names, y->section, at, where, sizeof(where));
		plain(where);
		fprintf(out, "%6llx:  %-*s  %s\n", (unsigned long long)at, width, where, insn);
		at += len ? len : 1;
	}
	fprintf(out, "\n");
}

void warned_functions_print(const struct code_map *map)
{
	const struct elf_file *f = map->f;
	FILE *out = map->release->backtraces_have_code ? stdout : stderr;
	struct place_names names = {0};
	size_t i, longest = 0, length;

	if (text_is_quiet() || !map->warned->done)
		return;
	for (i = 0; i < f->symbol_count; i++)
		if (f->symbols[i].type == STT_FUNC && f->symbols[i].section && (length = strlen(f->symbols[i].name)) > longest)
			longest = length;
	for (i = 0; i < f->symbol_count; i++)
		if (map->warned->done[i] & WARNED_SAID)
			function_print(f, &names, &f->symbols[i], (int)(longest < 100 ? longest : 100) + PLACE_COLUMNS, out);
	fflush(out);
	place_names_free(&names);
}
