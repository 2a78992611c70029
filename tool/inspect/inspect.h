/* SPDX-License-Identifier: MIT */
/* What the views of `etch inspect` share. */
#ifndef INSPECT_H
#define INSPECT_H

#include "check/check.h"
#include "elf/symbols.h"
#include "report/listing.h"
#include "site/bake.h"
#include "table/ex_table.h"

/* elf_open(), of a member of an archive too: "libc.a(printf.o)". */
int inspect_open(struct elf_file *f, const char *path, struct error *e);

/* A file and its sites. */
struct view {
	const char *path;
	struct elf_file file;
	struct linked_tables tables; /* linked files */
	struct scan scan;
	struct symbol_index names; /* functions and objects */
	struct code_space space;
	struct fixups fixups;    /* the exception table */
	struct targets targets;  /* linked files */
	uint64_t *baked;         /* addresses of the sites that are not as the compiler wrote them, sorted */
	size_t baked_count;
	bool *in_place;          /* of tables.inlines: the case compiled in place is the one now */
	struct view_slot *slots; /* object files: by section, then address */
	size_t slot_count;
	struct frames frames;     /* view_load_checked(): rows made from the code, and figures */
	struct findings findings; /* ... and what etch check finds */
};

int view_load(struct view *v, const char *path, struct error *e);
/* The same by way of all that etch check looks at. */
int view_load_checked(struct view *v, const char *path, int jobs, struct error *e);
void view_free(struct view *v);
/* Does something else stand at a place than what the compiler wrote? */
bool view_is_baked(const struct view *v, uint64_t addr);
/* What stands there: "load", "immediate"; "indirect", "direct", "nop", "mov", "body"; "-". */
const char *view_state(const struct view *v, const struct site *s);
/* Where a call's slot leads from the start: a function, "null"; "-" where that is not known. */
void view_target(const struct view *v, const struct site *s, char *out, size_t size);
/* "main+0x4", ".text+0x12" */
void view_place(const struct view *v, uint32_t section, uint64_t addr, char *out, size_t size);
/* "load", "store", "escape"; "call", and "jmp" for a tail call. */
const char *view_kind(const struct view *v, const struct site *s);
/* "mov32", "call-rip"; "-" for a site without a form. */
void site_form_name(const struct etch_imv *entry, char *out, size_t size);
const char *file_kind(const struct elf_file *f);

/* The unwind rows of a file: those of its table, or made from its code. */
struct unwind_view {
	const char *table; /* "block", "orc"; null: the file has none */
	uint64_t bytes;    /* of the table, as loaded */
	size_t row_count;  /* of the table, as it counts them */
	struct etch_unwind header; /* linked files with a table */
	bool generated;    /* made now */
	bool sources;      /* false: stripped, all rows say "code" */
	struct code_space space;
	struct row_list rows; /* in the addresses of `space` */
};

enum unwind_from {
	UNWIND_TABLE,     /* the table alone; no rows where there is none */
	UNWIND_ANY,       /* the table, else the code */
	UNWIND_CODE_ONLY, /* the code, and nothing of .eh_frame but where functions are */
};

int unwind_view_load(const struct elf_file *f, enum unwind_from from, struct unwind_view *out, struct error *e);
void unwind_view_free(struct unwind_view *u);

/* A range that --at or FUNC names: [start, end) in one section; addresses as people give
 * them (ET_REL: offset in `section`). */
struct place {
	uint32_t section; /* 0: any */
	uint64_t start, end;
	bool function; /* a whole function; else one address */
};

/* A function's name or a hexadecimal address. */
int place_find(const struct elf_file *f, const char *at, struct place *out, struct error *e);

int show_summary(const char *path, int jobs, enum format format, struct error *e);
void show_sites(const struct view *v, enum format format);
int show_tables(const struct view *v, enum format format);
/* `at` may be null: all of the file. */
int show_orc(const char *path, const char *at, bool no_cfi, enum format format, struct error *e);
struct code_options {
	const char *at; /* function or address */
	bool no_cfi, intel, bytes;
	int jobs;
	enum format format;
};
int show_code(const char *path, const struct code_options *options, struct error *e);

#endif
