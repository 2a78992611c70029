/* SPDX-License-Identifier: MIT */
/*
 * The data of `etch inspect code`, for one function. view_code.c collects it; code_text.c prints it as text, and
 * code_data.c as TSV and JSON.
 */
#ifndef INSPECT_VIEW_CODE_H
#define INSPECT_VIEW_CODE_H

#include "arch/x86/insn.h"
#include "analysis/flow/insn_detail.h"
#include "dwarf/lines.h"
#include "inspect/arrows.h"
#include "inspect/inspect.h"
#include "inspect/operands.h"

#define NO_LINE UINT32_MAX

/* A line of the listing: an instruction, or a byte that is not part of one. */
struct code_line {
	uint64_t addr;        /* as printed; addr + code.base is the address in the code space */
	const uint8_t *bytes; /* its bytes in the file */
	unsigned len;
	bool good; /* true: an instruction; false: one byte that cannot be decoded */
	struct insn in;
	const struct row *row; /* the unwind row that applies here; null: none */
	bool changed;          /* `row` differs from that of the previous line */
	/* The state before the instruction, as the flow analysis has computed it; null: control flow does not reach it. */
	const struct detail_insn *known;
	const struct site *site;
	const struct inline_row *inline_row; /* not null: the instruction is a site of pv_call_inline */
	const struct fixup *fixup;           /* not null: the instruction may fault */
	uint32_t to;                         /* the line to which a direct jump leads, or NO_LINE */
};

/* A way in which control reaches an instruction, other than from the instruction before it or by a direct jump. */
struct incoming {
	uint64_t to; /* address in the code space */
	enum incoming_kind {
		INCOMING_TABLE, /* through entry `index` of a jump table; `from` is the jump that reads it */
		INCOMING_PAD,   /* as landing pad of the calls in the `index` bytes at `from` */
		INCOMING_FIXUP, /* as fixup of the instruction at `from`, which may fault */
	} kind;
	uint64_t from;
	uint64_t index;
};

/* The function that is shown, with its file. */
struct code {
	const char *path;
	const struct code_options *options;
	struct elf_file file; /* the file as it is on disk */
	struct view view;     /* the same file with its baked sites restored, and its sites */
	struct unwind_view table;
	struct frames frames;
	struct detail detail;
	const struct row_list *rows; /* the rows of the table or, if there is no table, those of `frames` */
	bool generated;
	struct place place; /* the range of the function */
	uint64_t asked;     /* the instruction that --at names, or place.start */
	uint64_t base;      /* added to an address as printed, gives the address in the code space */
	const struct code_section *section;
	struct code_line *lines;
	uint32_t line_count;
	struct jump *jumps; /* direct jumps within the function */
	size_t jump_count;
	struct incoming *incoming_list; /* sorted by target, kind and origin */
	size_t incoming_count, incoming_capacity;
	struct operands *operands;
	struct lines *sources; /* source lines, from DWARF */
};

/* Returns the first of the elements of `incoming_list` that lead to a line, and sets *count to their number. */
const struct incoming *code_incoming(const struct code *c, const struct code_line *l, size_t *count);
/*
 * Returns where control goes after a line: "next", "jump", "branch", "jump indirect", "call", "call indirect", "return"
 * or "stop"; "bad" for bytes that are not decoded.
 */
const char *code_flow_name(const struct code_line *l);
void code_insn_text(const struct code_line *l, enum insn_syntax syntax, char *out, size_t size);
/*
 * Writes where the callee-saved registers are: "rbx@cfa-16 r12@rbp-24 rbp=rax rbx lost"; "" if all still have the
 * caller's values.
 */
void code_saved_text(const struct code_line *l, char *out, size_t size);
/* Writes where the caller's value of one register is: "cfa-16", "rbp-24", "rax" or "lost". */
void code_where_text(const struct detail_insn *known, unsigned r, char *out, size_t size);
/* Writes a phrase about the site or the fixup of an instruction; "-" if it has neither. */
void code_site_text(const struct code *c, const struct code_line *l, char *out, size_t size);
/* Writes the name of the place at which control continues by a fixup: "read_int+0x9". */
void code_fixup_name(const struct code *c, const struct fixup *x, char *out, size_t size);
/* Writes the name of an address in the code space: "main+0x4". */
void code_place_name(const struct code *c, uint64_t addr, char *out, size_t size);

/* Defined in object_jump_tables.c: resolves the jump tables of an object file. */
void object_jump_tables_find(struct code *c);

void code_text(const struct code *c);
void code_tsv(const struct code *c);
struct json_object *code_json(const struct code *c);

#endif
