/* SPDX-License-Identifier: MIT */
/*
 * Declares what the views of `etch inspect` share: the opened file with its sites, the unwind rows, and the place that
 * --at names.
 */
#ifndef INSPECT_H
#define INSPECT_H

#include "check/check.h"
#include "elf/symbols.h"
#include "report/listing.h"
#include "site/bake.h"
#include "table/ex_table.h"

/* Opens a file, or a member of an archive: "libc.a(printf.o)". Returns 0, or -1 and a message. */
int inspect_open(struct elf_file *f, const char *path, struct error *e);

/* A file with its tables and sites. */
struct view {
	const char *path;
	struct elf_file file;
	struct linked_tables tables; /* linked files only */
	struct scan scan;
	struct symbol_index names; /* functions and objects of the file */
	struct code_space space;
	struct fixups fixups;   /* the exception table */
	struct targets targets; /* linked files only */
	uint64_t *baked;        /* addresses of baked sites, sorted */
	size_t baked_count;
	bool *in_place;          /* for each entry of tables.inlines: the nop is baked, so the inlined body runs */
	struct view_slot *slots; /* object files only: sorted by section, then address */
	size_t slot_count;
	/* Set by view_load_checked(): the rows that the analysis makes from the code, and statistics. */
	struct frames frames;
	struct findings findings; /* set by view_load_checked(): the findings of etch check */
};

int view_load(struct view *v, const char *path, struct error *e);
/* Loads a file like view_load(), and also runs the checks of etch check on it. */
int view_load_checked(struct view *v, const char *path, int jobs, struct error *e);
void view_free(struct view *v);
/* True if the site at this address is baked. */
bool view_is_baked(const struct view *v, uint64_t addr);
/*
 * Returns the present form of a site. For loads: "load", "immediate", or "unfit" if the value does not fit the
 * immediate; for calls: "indirect", "direct", "nop", "mov" or "body"; for other kinds: "-".
 */
const char *view_state(const struct view *v, const struct site *s);
/* Writes the initial target of the slot through which a site calls: a function, or "null"; "-" if it is unknown. */
void view_target(const struct view *v, const struct site *s, char *out, size_t size);
/* Writes a place as "main+0x4" or ".text+0x12". */
void view_place(const struct view *v, uint32_t section, uint64_t addr, char *out, size_t size);
/* Returns the kind of a site: "load", "store", "escape" or "call", or "jmp" for a tail call. */
const char *view_kind(const struct view *v, const struct site *s);
/* Writes the name of a site's form, for example "mov32" or "call-rip"; "-" if it has no form. */
void site_form_name(const struct etch_imv *entry, char *out, size_t size);
/*
 * Makes a JSON object with the members that every view of an ELF file has: format, version, file and kind. `name` is
 * the name of the view.
 */
struct json_object *view_json(const char *name, const char *path, const struct elf_file *f);
/*
 * Prints a view that consists of one list; in JSON, the list has the name of the view. `none` is the text for an empty
 * list.
 */
void view_list_print(const struct view *v, const char *name, const struct listing *l, enum format format,
                     const char *none);

/* The unwind rows of a file, read from its table or made from its code. */
struct unwind_view {
	const char *table; /* encoding of the table: "block", "orc", "sframe", "cfi"; null: the file has none */
	uint64_t bytes;    /* size of the table in memory */
	size_t row_count;  /* number of rows according to the table's own header */
	/*
	 * In .sframe: the numbers of FDEs and FREs in its header. The FREs of a PLT are repeated for each of its entries,
	 * so one FRE gives several rows.
	 */
	size_t fdes, fres;
	struct etch_unwind header; /* header of the table in a linked file */
	bool generated;            /* the rows were made from the code */
	/* false: all rows have the source "code", since the sources were stripped or the table does not record them. */
	bool sources;
	struct code_space space;
	struct row_list rows; /* their addresses are those of `space` */
	size_t unread;        /* number of entries of .eh_frame that could not be made into rows (cfi_file.unread) */
	/*
	 * If the rows are those of .eh_frame, or the file has a register table: for each row, where the callee-saved
	 * registers are. why: if the rows are those of .eh_frame, for each row the reason why it says less than its FDE, or
	 * null.
	 */
	struct etch_cfi_saves *saves;
	const char **why;
};

/* Where the rows come from. */
enum unwind_from {
	UNWIND_TABLE,     /* the rows of the table; none if there is no table */
	UNWIND_ANY,       /* the rows of the table or, without one, rows made from the code */
	UNWIND_CODE_ONLY, /* rows made from the code; .eh_frame serves only to find functions */
	UNWIND_SFRAME,    /* the rows of .sframe, whichever program wrote it; an error if there is none */
	UNWIND_CFI,       /* the rows of .eh_frame; an error if there is none */
};

int unwind_view_load(const struct elf_file *f, enum unwind_from from, struct unwind_view *out, struct error *e);
void unwind_view_free(struct unwind_view *u);
/*
 * If the file has a register table and an unwind table, adds to the rows where the registers are. Returns 0, or -1 and
 * a message.
 */
int unwind_view_registers(const struct elf_file *f, struct unwind_view *u, struct error *e);
/* Writes where rbx and r12 to r15 are: "rbx@cfa-24 r12@rbp-8 r13 lost"; "-" if all are in their registers. */
#define SAVES_TEXT 128 /* a sufficient size of `out`, in bytes */
void saves_text(const struct etch_cfi_saves *s, char *out, size_t size);

/*
 * The code that --at or FUNC names: [start, end) in one section. The addresses are as etch prints them (ET_REL: offsets
 * in `section`).
 */
struct place {
	uint32_t section; /* 0: any */
	uint64_t start, end;
	bool function; /* true: a whole function; false: one address */
};

/* Finds a place by a function's name (mangled or not, or an unambiguous part of it), by "name+0x12", or by a
 * hexadecimal address. */
int place_find(const struct elf_file *f, const char *at, struct place *out, struct error *e);

int show_summary(const char *path, int jobs, enum format format, struct error *e);
void show_sites(const struct view *v, enum format format);
int show_tables(const struct view *v, enum format format);
/* Prints the marks of a file. Returns 0, or -1 and a message if a table is malformed. */
int show_marks(const struct view *v, enum format format, struct error *e);
/* Prints the fields of objects. With `all`, lists every place that keeps a field from being armed. */
void show_fields(const struct view *v, bool all, enum format format);
/* Prints unwind rows. `at` names a place; null: the whole file. Returns 0, or -1 and a message. */
int show_orc(const char *path, const char *at, enum unwind_from from, enum format format, struct error *e);
struct kernel_options {
	bool tables;         /* true: shows the tables; false: shows the rows of .orc_unwind */
	const char *at;      /* shows only the rows at this symbol or address; null: all rows */
	const char *symbols; /* a System.map, or null */
	enum format format;
};
/*
 * Prints the tables or rows of a file of the Linux kernel. Returns 0 if something was printed; 1 if there is nothing to
 * print, since the file is not a kernel file or lacks the tables asked for; -1 after an error.
 */
int show_kernel(const char *path, const struct kernel_options *opt, struct error *e);
struct code_options {
	const char *at; /* name of a function, or an address */
	bool no_cfi, intel, bytes;
	int jobs;
	enum format format;
};
int show_code(const char *path, const struct code_options *options, struct error *e);

#endif
