/* SPDX-License-Identifier: MIT */
/*
 * The tables of a linked file: found through the module descriptor or by their
 * section names, checked, and handed out with absolute addresses; and written
 * back, in place where there is room, else in a segment of their own.
 */
#ifndef TABLE_LINKED_TABLES_H
#define TABLE_LINKED_TABLES_H

#include "elf/file.h"
#include "table/linked_unwind.h"

#include <etch/format.h>

/* An entry of __imv or __pv_sites. */
struct imv_row {
	uint64_t site;
	uint64_t obj;  /* or the slot, with ETCH_IMV_GOT */
	struct etch_imv entry; /* its references are not used */
};

struct obj_row {
	uint64_t addr;
	uint64_t ref;  /* object: its name; fact: where */
	uint64_t size;
	uint8_t kind, flags;
	const char *name; /* object, in the file's bytes (or, to be written: anywhere) */
};

/* A record of __pv_native. */
struct native_row {
	uint64_t at;   /* address of the record */
	uint64_t func, code;
	uint8_t len, flags;
};

/* An entry of __pv_inline. */
struct inline_row {
	uint64_t site, slot, func;
};

struct linked_tables {
	uint64_t *modules; /* addresses of every copy of the descriptor */
	size_t module_count;
	uint32_t flags;    /* ETCH_MODULE_* of the descriptors */
	struct imv_row *imv, *pv;
	size_t imv_count, pv_count;
	struct obj_row *obj;
	size_t obj_count;
	struct native_row *natives; /* in the order of the file; never moved */
	size_t native_count;
	struct inline_row *inlines; /* likewise */
	size_t inline_count;
	uint64_t imv_addr, imv_room; /* the tables that count now; room in entries */
	uint64_t pv_addr, pv_room;
	uint64_t obj_addr, obj_room;
	bool moved;        /* they lie in the etch segment */
};

/* What is to be written. */
struct linked_rows {
	struct imv_row *imv, *pv;
	struct obj_row *obj;
	size_t imv_count, pv_count, obj_count;
};

/* 0; 1 when the file has no tables and no descriptor at all; -1 and a message
 * when something in them is malformed. */
int linked_tables_read(const struct elf_file *f, struct linked_tables *t, struct error *e);
void linked_tables_free(struct linked_tables *t);

/*
 * Is there room for these rows: 1 in place or in a segment; 0 nowhere, and `e`
 * says why; -1 on an error.
 */
int linked_tables_room(const struct elf_file *f, const struct linked_tables *now, const struct linked_rows *rows,
                       struct error *e);

/*
 * Writes rows (sorted here), flags ETCH_MODULE_LINKED, into f's bytes where all
 * tables fit; else returns a new file with a segment in *out, which begins with
 * the sections of `unwind`. References of names: rows with `name` inside the file
 * keep it, others get a copy.
 */
int linked_tables_write(struct elf_file *f, const struct linked_tables *now, struct linked_rows *rows,
                        struct linked_unwind *unwind, uint8_t **out, size_t *out_size, struct error *e);

/* Writes the flags of natives[i] into its record in f's bytes. */
void linked_native_flag(struct elf_file *f, struct linked_tables *now, size_t i, uint8_t flags);

void linked_rows_free(struct linked_rows *r);

#endif
