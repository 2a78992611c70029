/* SPDX-License-Identifier: MIT */
/* etch inspect code: gathered in code.c, printed in code_text.c (for people) and code_data.c
 * (TSV, JSON). */
#ifndef INSPECT_CODE_H
#define INSPECT_CODE_H

#include "arch/x86/insn.h"
#include "code/detail.h"
#include "elf/lines.h"
#include "inspect/arrows.h"
#include "inspect/inspect.h"
#include "inspect/operands.h"

#define NO_LINE UINT32_MAX

struct code_line {
	uint64_t addr;        /* as people give it; + code.base: in the space */
	const uint8_t *bytes; /* as the file has them */
	unsigned len;
	bool good;            /* an instruction; else one byte of none */
	struct insn in;
	const struct row *row; /* in force; null: none */
	bool changed;         /* the row is another than before */
	const struct detail_insn *known; /* null: no flow comes here */
	const struct site *site;
	const struct inline_row *inline_row; /* a call compiled in place */
	const struct fixup *fixup;           /* it may fault */
	uint32_t to;          /* line that a direct jump goes to, or NO_LINE */
};

/* Something other than a jump that leads to an instruction. */
struct comer {
	uint64_t to;   /* in the space */
	enum comer_kind {
		COMER_TABLE,  /* entry `index` of the table of the jump at `from` */
		COMER_PAD,    /* what is thrown from `from` on, `index` bytes */
		COMER_FIXUP,  /* the instruction at `from` faults */
	} kind;
	uint64_t from;
	uint64_t index;
};

struct code {
	const char *path;
	const struct code_options *options;
	struct elf_file file;      /* as it is */
	struct view view;          /* ... as the linker wrote it, and its sites */
	struct unwind_view table;
	struct frames frames;
	struct detail detail;
	const struct row_list *rows; /* the table's, else those of frames */
	bool generated;
	struct place place;        /* the function */
	uint64_t asked;            /* an instruction in it that was asked for; else place.start */
	uint64_t base;             /* from addresses as people give them to those of the space */
	const struct code_section *section;
	struct code_line *lines;
	uint32_t line_count;
	struct jump *jumps;        /* within the function */
	size_t jump_count;
	struct comer *comers;      /* by place, kind, origin */
	size_t comer_count, comer_room;
	struct operands *operands;
	struct lines *sources;     /* DWARF's */
};

/* Those that lead to a line: the first; *count of them. */
const struct comer *code_comers(const struct code *c, const struct code_line *l, size_t *count);
/* "next", "jump", "branch", "jump indirect", "call", "call indirect", "return", "stop", "bad" */
const char *code_flow_name(const struct code_line *l);
void code_insn_text(const struct code_line *l, enum insn_syntax syntax, char *out, size_t size);
/* "rbx@cfa-16 r12@rbp-24 rbp=rax rbx lost"; "" where all are as they were. */
void code_saved_text(const struct code_line *l, char *out, size_t size);
/* "cfa-16", "rbp-24", "rax", "lost" of one register. */
void code_where_text(const struct detail_insn *known, unsigned r, char *out, size_t size);
/* The site or what becomes of a fault, a phrase; "-". */
void code_site_text(const struct code *c, const struct code_line *l, char *out, size_t size);
/* Where a fixup leads, "read_int+0x9". */
void code_fixup_name(const struct code *c, const struct fixup *x, char *out, size_t size);
/* "main+0x4" of an address of the space. */
void code_place_name(const struct code *c, uint64_t addr, char *out, size_t size);

/* switches.c: completes the jump tables of an object file. False: out of memory. */
bool switches_find(struct code *c);

void code_text(const struct code *c);
void code_tsv(const struct code *c);
struct json_object *code_json(const struct code *c);

#endif
