/* SPDX-License-Identifier: MIT */
/* What the views of `etch inspect` share: the opened file with its sites, unwind rows, and ranges named by --at. */
#ifndef INSPECT_H
#define INSPECT_H

#include "check/check.h"
#include "elf/symbols.h"
#include "report/listing.h"
#include "site/bake.h"
#include "table/ex_table.h"

/* elf_open(), also for a member of an archive: "libc.a(printf.o)". */
int inspect_open(struct elf_file *f, const char *path, struct error *e);

/* A file with its tables and sites. */
struct view {
	const char *path;
	struct elf_file file;
	struct linked_tables tables; /* linked files only */
	struct scan scan;
	struct symbol_index names; /* functions and objects */
	struct code_space space;
	struct fixups fixups;   /* the exception table */
	struct targets targets; /* linked files only */
	uint64_t *baked;        /* addresses of baked sites, sorted */
	size_t baked_count;
	bool *in_place;          /* per entry of tables.inlines: the nop is baked, the inlined case is active */
	struct view_slot *slots; /* object files only: sorted by section, then address */
	size_t slot_count;
	struct frames frames;     /* by view_load_checked(): rows made from the code, and statistics */
	struct findings findings; /* by view_load_checked(): the findings of etch check */
};

int view_load(struct view *v, const char *path, struct error *e);
/* Like view_load(), and runs the checks of etch check on the file. */
int view_load_checked(struct view *v, const char *path, int jobs, struct error *e);
void view_free(struct view *v);
/* The site at this address is baked. */
bool view_is_baked(const struct view *v, uint64_t addr);
/* The present form of a site: "load", "immediate"; "indirect", "direct", "nop", "mov", "body"; "-" for other
 * kinds. */
const char *view_state(const struct view *v, const struct site *s);
/* Initial target of a call's slot: a function, or "null"; "-" if unknown. */
void view_target(const struct view *v, const struct site *s, char *out, size_t size);
/* A place as text: "main+0x4", ".text+0x12". */
void view_place(const struct view *v, uint32_t section, uint64_t addr, char *out, size_t size);
/* "load", "store", "escape", "call"; "jmp" for a tail call. */
const char *view_kind(const struct view *v, const struct site *s);
/* "mov32", "call-rip"; "-" without a form. */
void site_form_name(const struct etch_imv *entry, char *out, size_t size);
const char *file_kind(const struct elf_file *f);
/* What the JSON of every view of an ELF file begins with: format, version, file, kind. `name`: of the view. */
struct json_object *view_json(const char *name, const char *path, const struct elf_file *f);
/* Prints a view that is one list, which has the view's name in JSON. `none`: the text for an empty one. */
void view_list_print(const struct view *v, const char *name, const struct listing *l, enum format format,
                     const char *none);

/* The unwind rows of a file: of its table, or made from its code. */
struct unwind_view {
	const char *table;         /* encoding of the table: "block", "orc", "sframe", "cfi"; null: the file has none */
	uint64_t bytes;            /* size of the table as loaded */
	size_t row_count;          /* number of rows by the table's own header */
	size_t fdes, fres;         /* of .sframe: what its header counts; blocks of a PLT have several rows an FRE */
	struct etch_unwind header; /* of the table in a linked file */
	bool generated;            /* the rows were made from the code */
	bool sources;              /* false: stripped, all rows have source "code"; or the table has none */
	struct code_space space;
	struct row_list rows; /* in addresses of `space` */
	size_t unread;        /* entries of .eh_frame without rows here: see cfi_file.unread */
	/* of .eh_frame, and of a register table, for each row: where callee-saved registers are. Of .eh_frame: why it says
	 * less than its FDE, or null */
	struct etch_cfi_saves *saves;
	const char **why;
};

/* Which rows to load. */
enum unwind_from {
	UNWIND_TABLE,     /* the table; no rows if there is none */
	UNWIND_ANY,       /* the table, or else rows made from the code */
	UNWIND_CODE_ONLY, /* rows made from the code; .eh_frame is only used for where functions are */
	UNWIND_SFRAME,    /* those of .sframe, whoever wrote it; an error if there is none */
	UNWIND_CFI,       /* those of .eh_frame, likewise */
};

int unwind_view_load(const struct elf_file *f, enum unwind_from from, struct unwind_view *out, struct error *e);
void unwind_view_free(struct unwind_view *u);
/* Loads the rows of .eh_frame into *out, which has its space already. */
int unwind_view_cfi(const struct elf_file *f, struct unwind_view *out, struct error *e);
/* Adds what the file's register table says to the rows of its unwind table, if it has both. */
int unwind_view_registers(const struct elf_file *f, struct unwind_view *u, struct error *e);
/* Where rbx and r12 to r15 are: "rbx@cfa-24 r12@rbp-8 r13 lost"; "-": all are in their registers. */
#define SAVES_TEXT 128 /* bytes that are enough */
void saves_text(const struct etch_cfi_saves *s, char *out, size_t size);

/* A range named by --at or FUNC: [start, end) in one section. Addresses as in the output of etch (ET_REL: offset
 * in `section`). */
struct place {
	uint32_t section; /* 0: any */
	uint64_t start, end;
	bool function; /* true: a whole function; false: one address */
};

/* Finds a place by a function's name (mangled or not, or an unambiguous part of it), "name+0x12", or a hexadecimal
 * address. */
int place_find(const struct elf_file *f, const char *at, struct place *out, struct error *e);

int show_summary(const char *path, int jobs, enum format format, struct error *e);
void show_sites(const struct view *v, enum format format);
int show_tables(const struct view *v, enum format format);
/* -1 and a message: a malformed table. */
int show_marks(const struct view *v, enum format format, struct error *e);
/* `all`: every place that keeps a field from being armed. */
void show_fields(const struct view *v, bool all, enum format format);
/* `at` may be null: the whole file. */
int show_orc(const char *path, const char *at, enum unwind_from from, enum format format, struct error *e);
struct code_options {
	const char *at; /* function or address */
	bool no_cfi, intel, bytes;
	int jobs;
	enum format format;
};
int show_code(const char *path, const struct code_options *options, struct error *e);

#endif
