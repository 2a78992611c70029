/* SPDX-License-Identifier: MIT */
/*
 * trap_line.c: reads the line table of DWARF 2 to 5 (DWARF 5, 6.2) in the signal handler of trap.c, whose rules hold
 * here: no malloc, no lock, no libc. It reads only the mapped file, and each read is checked against the end of its
 * section; it takes one pass over .debug_line.
 */
#include "patch/trap_line.h"

#include <elf.h>
#include <stddef.h>

/* Attribute forms and content types of version 5's tables of files (DWARF 5, 7.5.6, 7.22). */
enum {
	FORM_BLOCK = 0x09,
	FORM_STRING = 0x08,
	FORM_DATA1 = 0x0b,
	FORM_DATA2 = 0x05,
	FORM_DATA4 = 0x06,
	FORM_DATA8 = 0x07
};
enum { FORM_UDATA = 0x0f, FORM_STRP = 0x0e, FORM_LINE_STRP = 0x1f, FORM_DATA16 = 0x1e };
enum { CONTENT_PATH = 1, CONTENT_DIRECTORY = 2 };
/* Opcodes of the line program (DWARF 5, 7.22). */
enum { OP_EXTENDED, OP_COPY, OP_ADVANCE_PC, OP_ADVANCE_LINE, OP_SET_FILE, OP_CONST_ADD_PC = 8, OP_FIXED_ADVANCE = 9 };
enum { EXTENDED_END = 1, EXTENDED_ADDRESS = 2 };

/* Bytes that are read one after another; `bad` is set once a read went past the end. */
struct bytes {
	const uint8_t *at, *end;
	int bad;
};

struct sections {
	struct bytes line, line_strings, strings;
};

/* The header of one line program, and its state machine. */
struct program {
	struct bytes files; /* the tables of directories and files */
	const struct sections *sections;
	const uint8_t *lengths; /* number of operands of each standard opcode */
	unsigned version, unit, first_special, line_range, offset_size;
	int line_base;
	uint64_t address, line, file; /* the row that is being built */
	uint64_t start;               /* start address of the sequence */
	uint64_t row_address, row_line, row_file;
	int row; /* the sequence has an earlier row */
};

static uint64_t read_fixed(struct bytes *b, unsigned size)
{
	uint64_t v = 0;

	if (b->bad || size > (uint64_t)(b->end - b->at)) {
		b->bad = 1;
		return 0;
	}
	for (unsigned i = 0; i < size && i < 8; i++)
		v |= (uint64_t)b->at[i] << 8 * i;
	b->at += size;
	return v;
}

static uint64_t read_leb(struct bytes *b, int is_signed)
{
	uint64_t v = 0, byte;
	unsigned shift = 0;

	do {
		byte = read_fixed(b, 1);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !b->bad);
	if (is_signed && shift < 64 && byte & 0x40)
		v |= ~UINT64_C(0) << shift;
	return v;
}

static void skip(struct bytes *b, uint64_t count)
{
	if (b->bad || count > (uint64_t)(b->end - b->at))
		b->bad = 1;
	else
		b->at += count;
}

static const char *read_string(struct bytes *b)
{
	const char *s = (const char *)b->at;

	while (read_fixed(b, 1) && !b->bad)
		;
	return b->bad ? NULL : s;
}

static const char *string_at(const struct bytes *section, uint64_t offset)
{
	struct bytes b = *section;

	skip(&b, offset);
	return b.at ? read_string(&b) : NULL;
}

/* Reads one value of version 5's tables; *text gets it if it is a string. */
static uint64_t read_form(const struct program *p, struct bytes *b, uint64_t form, const char **text)
{
	switch (form) {
	case FORM_STRING: *text = read_string(b); return 0;
	case FORM_LINE_STRP: *text = string_at(&p->sections->line_strings, read_fixed(b, p->offset_size)); return 0;
	case FORM_STRP: *text = string_at(&p->sections->strings, read_fixed(b, p->offset_size)); return 0;
	case FORM_DATA1: return read_fixed(b, 1);
	case FORM_DATA2: return read_fixed(b, 2);
	case FORM_DATA4: return read_fixed(b, 4);
	case FORM_DATA8: return read_fixed(b, 8);
	case FORM_DATA16: skip(b, 16); return 0;
	case FORM_UDATA: return read_leb(b, 0);
	case FORM_BLOCK: skip(b, read_leb(b, 0)); return 0;
	default: b->bad = 1; return 0;
	}
}

/* Reads a table of version 5 up to entry `number`, or all of it. */
static const char *read_table(const struct program *p, struct bytes *b, uint64_t number, uint64_t *directory)
{
	unsigned formats = (unsigned)read_fixed(b, 1);
	struct bytes format = *b, f;
	const char *path = NULL;
	uint64_t count, i, content, value;

	for (i = 0; i < formats; i++) {
		read_leb(b, 0);
		read_leb(b, 0);
	}
	count = read_leb(b, 0);
	for (i = 0; i < count && !b->bad && formats; i++) {
		f = format;
		for (unsigned k = 0; k < formats; k++) {
			const char *text = NULL;

			content = read_leb(&f, 0);
			value = read_form(p, b, read_leb(&f, 0), &text);
			if (i == number && content == CONTENT_PATH)
				path = text;
			if (i == number && content == CONTENT_DIRECTORY && directory)
				*directory = value;
		}
		if (i == number && directory)
			break;
	}
	return b->bad ? NULL : path;
}

/* Reads the strings of versions 2 to 4: directories from 1 on, then files from 1 on. */
static const char *read_old_files(const struct program *p, const char **directory)
{
	struct bytes b = p->files, dirs = b;
	const char *s;
	uint64_t dir;

	while ((s = read_string(&b)) && *s)
		;
	for (uint64_t i = 1; (s = read_string(&b)) && *s; i++) {
		dir = read_leb(&b, 0);
		read_leb(&b, 0);
		read_leb(&b, 0);
		if (i != p->row_file)
			continue;
		*directory = NULL;
		for (uint64_t k = 0; k < dir && (*directory = read_string(&dirs)) && **directory; k++)
			;
		return s;
	}
	return NULL;
}

static int file_name(const struct program *p, struct trap_line *out)
{
	struct bytes b = p->files;
	uint64_t directory = 0;

	out->line = p->row_line;
	out->directory = NULL;
	if (p->version < 5) {
		out->file = read_old_files(p, &out->directory);
	} else {
		read_table(p, &b, UINT64_MAX, NULL);
		out->file = read_table(p, &b, p->row_file, &directory);
		b = p->files;
		if (directory) /* 0 is the directory of the compilation */
			out->directory = read_table(p, &b, directory, NULL);
	}
	if (!out->file || !*out->file || !out->line) /* line 0: code of no line */
		return 0;
	if (*out->file == '/' || (out->directory && !*out->directory))
		out->directory = NULL;
	return 1;
}

/* Completes a row. Returns 1 if the address belongs to the row before it. A sequence that starts at 0 belongs to code
 * that the linker has discarded. */
static int row_add(struct program *p, uint64_t address)
{
	if (p->row && p->start && p->row_address <= address && address < p->address)
		return 1;
	if (!p->row)
		p->start = p->address;
	p->row = 1;
	p->row_address = p->address;
	p->row_line = p->line;
	p->row_file = p->file;
	return 0;
}

static void sequence_begin(struct program *p)
{
	p->address = p->start = 0;
	p->line = p->file = 1;
	p->row = 0;
}

static int extended(struct program *p, struct bytes *b, uint64_t address)
{
	uint64_t size = read_leb(b, 0), op;
	struct bytes rest = *b;
	int found = 0;

	skip(b, size);
	if (b->bad || !size)
		return 0;
	op = read_fixed(&rest, 1);
	if (op == EXTENDED_ADDRESS && size == 9)
		p->address = read_fixed(&rest, 8);
	if (op == EXTENDED_END) {
		found = row_add(p, address);
		sequence_begin(p);
	}
	return found;
}

/* Runs a line program until a row has the address. */
static int program_run(struct program *p, struct bytes *b, uint64_t address)
{
	int found = 0;

	sequence_begin(p);
	while (b->at < b->end && !b->bad && !found) {
		unsigned op = (unsigned)read_fixed(b, 1), special = op - p->first_special;

		if (op >= p->first_special) {
			p->address += (uint64_t)(special / p->line_range) * p->unit;
			p->line += (uint64_t)(int64_t)(p->line_base + (int)(special % p->line_range));
			found = row_add(p, address);
			continue;
		}
		switch (op) {
		case OP_EXTENDED: found = extended(p, b, address); break;
		case OP_COPY: found = row_add(p, address); break;
		case OP_ADVANCE_PC: p->address += read_leb(b, 0) * p->unit; break;
		case OP_ADVANCE_LINE: p->line += read_leb(b, 1); break;
		case OP_SET_FILE: p->file = read_leb(b, 0); break;
		case OP_CONST_ADD_PC: p->address += (uint64_t)((255 - p->first_special) / p->line_range) * p->unit; break;
		case OP_FIXED_ADVANCE: p->address += read_fixed(b, 2); break;
		default:
			for (unsigned i = p->lengths[op - 1]; i; i--)
				read_leb(b, 0);
		}
	}
	return found;
}

/* Reads the header of the next unit (DWARF 5, 6.2.4); *rest gets its program. Returns 0 if the version is unknown or
 * the header malformed. */
static int program_read(struct bytes *section, struct program *p, struct bytes *rest)
{
	uint64_t size = read_fixed(section, 4);
	struct bytes b;

	p->offset_size = size == 0xffffffff ? 8 : 4;
	if (p->offset_size == 8)
		size = read_fixed(section, 8);
	b = *section;
	skip(section, size);
	if (section->bad)
		return 0;
	b.end = section->at;
	p->version = (unsigned)read_fixed(&b, 2);
	if (p->version < 2 || p->version > 5)
		return 0;
	if (p->version == 5)
		skip(&b, 2); /* sizes of addresses and segment selectors */
	size = read_fixed(&b, p->offset_size);
	*rest = b;
	skip(rest, size);
	p->unit = (unsigned)read_fixed(&b, 1);
	skip(&b, p->version >= 4 ? 2 : 1); /* operations of a VLIW, is_stmt */
	p->line_base = (int8_t)read_fixed(&b, 1);
	p->line_range = (unsigned)read_fixed(&b, 1);
	p->first_special = (unsigned)read_fixed(&b, 1);
	p->lengths = b.at;
	skip(&b, p->first_special ? p->first_special - 1 : 0);
	p->files = b;
	return !b.bad && !rest->bad && p->line_range && p->first_special >= 10;
}

static int same_name(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static int section_bytes(const struct bytes *file, const Elf64_Shdr *s, struct bytes *out)
{
	*out = *file;
	if (s->sh_type == SHT_NOBITS || s->sh_flags & SHF_COMPRESSED)
		return 0;
	skip(out, s->sh_offset);
	if (out->bad || s->sh_size > (uint64_t)(out->end - out->at))
		return 0;
	out->end = out->at + s->sh_size;
	return 1;
}

static int sections_find(const struct bytes *file, struct sections *out)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)file->at;
	struct bytes table = *file, names;
	const Elf64_Shdr *s;
	const char *name;

	*out = (struct sections){{0}, {0}, {0}};
	if ((uint64_t)(file->end - file->at) < sizeof(*h) || h->e_shentsize != sizeof(*s) || h->e_shoff % 8 ||
	    h->e_shstrndx >= h->e_shnum)
		return 0;
	skip(&table, h->e_shoff);
	s = (const Elf64_Shdr *)table.at;
	skip(&table, (uint64_t)h->e_shnum * sizeof(*s));
	if (table.bad || !section_bytes(file, &s[h->e_shstrndx], &names))
		return 0;
	for (unsigned i = 1; i < h->e_shnum; i++) {
		struct bytes *into = NULL;

		name = string_at(&names, s[i].sh_name);
		if (name && same_name(name, ".debug_line"))
			into = &out->line;
		else if (name && same_name(name, ".debug_line_str"))
			into = &out->line_strings;
		else if (name && same_name(name, ".debug_str"))
			into = &out->strings;
		if (into && !section_bytes(file, &s[i], into))
			return 0;
	}
	return out->line.at != NULL;
}

int trap_line_find(const uint8_t *file, uint64_t size, uint64_t address, struct trap_line *out)
{
	const struct bytes all = {file, file + size, 0};
	struct sections sections;
	struct program p = {.sections = &sections};
	struct bytes rest;

	if (!sections_find(&all, &sections))
		return 0;
	while (sections.line.at < sections.line.end && !sections.line.bad)
		if (program_read(&sections.line, &p, &rest) && program_run(&p, &rest, address))
			return file_name(&p, out);
	return 0;
}
