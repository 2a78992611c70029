/* SPDX-License-Identifier: MIT */
/* The data of etch inspect code: view_code.c collects it; code_text.c prints it as text, and code_data.c as TSV and
 * JSON. */
#ifndef INSPECT_VIEW_CODE_H
#define INSPECT_VIEW_CODE_H

#include "arch/x86/insn.h"
#include "analysis/flow/detail.h"
#include "dwarf/lines.h"
#include "inspect/arrows.h"
#include "inspect/inspect.h"
#include "inspect/operands.h"

#define NO_LINE UINT32_MAX

/* An instruction, or a byte that is not part of one. */
struct code_line {
	uint64_t addr;        /* as printed; addr + code.base is the address in the code space */
	const uint8_t *bytes; /* its bytes in the file */
	unsigned len;
	bool good; /* true: an instruction; false: one byte that cannot be decoded */
	struct insn in;
	const struct row *row; /* the row that applies here; null: none */
	bool changed;          /* the row is not the one of the previous line */
	/* The state that the flow analysis has computed; null: control flow does not reach it. */
	const struct detail_insn *known;
	const struct site *site;
	const struct inline_row *inline_row; /* a site of pv_call_inline, or null */
	const struct fixup *fixup;           /* not null: the instruction may fault */
	uint32_t to;                         /* target line of a direct jump, or NO_LINE */
};

/* A way to reach an instruction other than by its predecessor or a direct jump. */
struct incoming {
	uint64_t to; /* address in the code space */
	enum incoming_kind {
		INCOMING_TABLE, /* entry `index` of the jump table of the jump at `from` */
		INCOMING_PAD,   /* landing pad of calls in the `index` bytes at `from` */
		INCOMING_FIXUP, /* fixup of the instruction at `from`, which may fault */
	} kind;
	uint64_t from;
	uint64_t index;
};

/* The function, together with its file. */
struct code {
	const char *path;
	const struct code_options *options;
	struct elf_file file; /* the file as it is */
	struct view view;     /* the file with its sites restored, and these sites */
	struct unwind_view table;
	struct frames frames;
	struct detail detail;
	const struct row_list *rows; /* those of the table or, without one, those of `frames` */
	bool generated;
	struct place place; /* the function */
	uint64_t asked;     /* the instruction that --at names, or place.start */
	uint64_t base;      /* a printed address + base is the address in the code space */
	const struct code_section *section;
	struct code_line *lines;
	uint32_t line_count;
	struct jump *jumps; /* direct jumps within the function */
	size_t jump_count;
	struct incoming *incoming_list; /* sorted by target, kind, origin */
	size_t incoming_count, incoming_capacity;
	struct operands *operands;
	struct lines *sources; /* source lines, from DWARF */
};

/* Returns the first of the *count entries of `incoming_list` that lead to a line. */
const struct incoming *code_incoming(const struct code *c, const struct code_line *l, size_t *count);
/* Returns "next", "jump", "branch", "jump indirect", "call", "call indirect", "return" or "stop"; "bad" for undecoded
 * bytes. */
const char *code_flow_name(const struct code_line *l);
void code_insn_text(const struct code_line *l, enum insn_syntax syntax, char *out, size_t size);
/* Writes the places of the callee-saved registers: "rbx@cfa-16 r12@rbp-24 rbp=rax rbx lost"; "" if all are
 * unchanged. */
void code_saved_text(const struct code_line *l, char *out, size_t size);
/* Writes the place of one register: "cfa-16", "rbp-24", "rax" or "lost". */
void code_where_text(const struct detail_insn *known, unsigned r, char *out, size_t size);
/* Writes a phrase about the site or the fixup of an instruction; "-" if it has neither. */
void code_site_text(const struct code *c, const struct code_line *l, char *out, size_t size);
/* Writes the target of a fixup: "read_int+0x9". */
void code_fixup_name(const struct code *c, const struct fixup *x, char *out, size_t size);
/* Writes the name of an address in the code space: "main+0x4". */
void code_place_name(const struct code *c, uint64_t addr, char *out, size_t size);

/* Defined in object_jump_tables.c: resolves the jump tables of an object file. */
void object_jump_tables_find(struct code *c);

void code_text(const struct code *c);
void code_tsv(const struct code *c);
struct json_object *code_json(const struct code *c);

#endif
