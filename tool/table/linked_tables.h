/* SPDX-License-Identifier: MIT */
/*
 * The tables of a linked file. Reading finds them through the module descriptor or by section name, checks them, and
 * returns them with absolute addresses. They are written in place if they fit, otherwise to a segment of their own.
 */
#ifndef TABLE_LINKED_TABLES_H
#define TABLE_LINKED_TABLES_H

#include "elf/file.h"
#include "table/linked_unwind.h"

#include <etch/format.h>

/* An entry of __imv or __pv_sites. */
struct imv_row {
	uint64_t site;
	uint64_t obj;              /* address of the object; with ETCH_IMV_GOT that of its GOT slot */
	struct etch_imv entry;     /* its references are not valid: see `site` and `obj` */
	struct etch_imv_more more; /* only for __imv, with ETCH_IMV_MORE */
};

/* A record of __etch_obj. */
struct obj_row {
	uint64_t addr;
	uint64_t ref; /* for an object: address of its name; for a fact: address of the use */
	uint64_t size;
	uint8_t kind, flags;
	uint16_t more;    /* ETCH_OBJ_FIELD... */
	const char *name; /* for an object: in the file's bytes; in rows to be written, any memory */
};

/* A record of __pv_native. */
struct native_row {
	uint64_t at; /* address of the record */
	uint64_t func, code;
	uint8_t len, flags;
};

/* An entry of __pv_inline. */
struct inline_row {
	uint64_t site, slot, func;
};

/* All tables of a file, with absolute addresses. */
struct linked_tables {
	uint64_t *modules; /* addresses of all copies of the descriptor */
	size_t module_count;
	uint32_t flags; /* ETCH_MODULE_* of the first descriptor */
	struct imv_row *imv, *pv;
	size_t imv_count, pv_count; /* rows */
	struct obj_row *obj;
	size_t obj_count;
	struct native_row *natives; /* in file order; never moved */
	size_t native_count;
	struct inline_row *inlines; /* in file order; never moved */
	size_t inline_count;
	uint64_t imv_addr, imv_capacity; /* the tables in use, and how many entries fit there */
	uint64_t pv_addr, pv_capacity;
	uint64_t obj_addr, obj_capacity;
	uint64_t *init; /* addresses of the functions that --init has named, sorted */
	size_t init_count;
	bool moved;     /* the tables in use are in the etch segment */
	uint32_t parts; /* parts of libetch that are linked: bit n for enum etch_part n */
};

/* Returns the number of records that rows take in a table. */
size_t imv_records(const struct imv_row *rows, size_t count);

/* The rows to write. */
struct linked_rows {
	struct imv_row *imv, *pv;
	struct obj_row *obj;
	size_t imv_count, pv_count, obj_count;
};

/* Reads the tables. Returns 0 if it has read them; 1 if the file has neither tables nor a descriptor; -1 and a message
 * if they are malformed. */
int linked_tables_read(const struct elf_file *f, struct linked_tables *t, struct error *e);
/* Adds the functions of this name to those that --init has named, with the parts and copies that gcc makes of them
 * (name.cold, name.constprop.0). Returns -1 and a message if the file has none. */
int linked_init_add(const struct elf_file *f, struct linked_tables *t, const char *name, struct error *e);
void linked_tables_free(struct linked_tables *t);

/* Do these rows fit? Returns 1 if they do, in place or in a segment; 0 if not, with the reason in `e`; -1 on an
 * error. */
int linked_tables_capacity(const struct elf_file *f, const struct linked_tables *now, const struct linked_rows *rows,
                           struct error *e);

/*
 * Sorts and writes the rows, and sets ETCH_MODULE_LINKED. If all tables fit in place, f's bytes are changed and *out is
 * null; otherwise *out is a new file with a segment that begins with the sections of `unwind`. To be written in place,
 * names must already be in the file (ref != 0); a segment gets copies of all names.
 */
struct linked_contents {
	struct linked_rows *rows;
	struct linked_unwind *unwind;
};
int linked_tables_write(struct elf_file *f, const struct linked_tables *now, const struct linked_contents *contents,
                        uint8_t **out, size_t *out_size, struct error *e);

/* Writes the flags of natives[i] to its record in f's bytes. */
void linked_native_flag(struct elf_file *f, struct linked_tables *now, size_t i, uint8_t flags);

void linked_rows_free(struct linked_rows *r);

#endif
