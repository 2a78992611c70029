/* SPDX-License-Identifier: MIT */
/*
 * The tables of a linked file. They are found by the module descriptor or by their section names, checked, and returned
 * with absolute addresses. They are written in place if they fit there, otherwise to a segment of their own.
 */
#ifndef TABLE_LINKED_TABLES_H
#define TABLE_LINKED_TABLES_H

#include "elf/file.h"
#include "table/linked_unwind.h"

#include <etch/format.h>

/* An entry of __imv or __pv_sites. */
struct imv_row {
	uint64_t site;
	uint64_t obj; /* address of the object or, with ETCH_IMV_GOT, of the object's GOT slot */
	/* `site` and `obj` above have the addresses to which its references point; the references themselves are not
	 * valid. */
	struct etch_imv entry;
	struct etch_imv_more more; /* valid in __imv only, with ETCH_IMV_MORE */
};

/* A record of __etch_obj. */
struct obj_row {
	uint64_t addr;
	uint64_t ref; /* if the record is an object: address of its name; if it is a fact: address of the use */
	uint64_t size;
	uint8_t kind, flags;
	uint16_t more; /* ETCH_OBJ_FIELD and the like */
	/* If the record is an object: its name. After reading it points into the file's bytes; in rows to be written, it
	 * may be anywhere. */
	const char *name;
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
	uint64_t *modules; /* addresses of all copies of the module descriptor */
	size_t module_count;
	uint32_t flags; /* ETCH_MODULE_* of the first copy of the descriptor */
	struct imv_row *imv, *pv;
	size_t imv_count, pv_count; /* number of rows */
	struct obj_row *obj;
	size_t obj_count;
	struct native_row *natives; /* in the order of the file; never moved */
	size_t native_count;
	struct inline_row *inlines; /* in the order of the file; never moved */
	size_t inline_count;
	uint64_t imv_addr, imv_capacity; /* addresses of the tables in use, and how many entries fit there */
	uint64_t pv_addr, pv_capacity;
	uint64_t obj_addr, obj_capacity;
	uint64_t *init; /* addresses of the functions that were named with --init, sorted */
	size_t init_count;
	bool moved;     /* the tables in use are in the etch segment */
	uint32_t parts; /* the parts of libetch that are linked in: bit n for enum etch_part n */
};

/* Returns the number of records of a table that the rows need. */
size_t imv_records(const struct imv_row *rows, size_t count);

/* The rows that are to be written. */
struct linked_rows {
	struct imv_row *imv, *pv;
	struct obj_row *obj;
	size_t imv_count, pv_count, obj_count;
};

/* Reads the tables. Returns 0 if there are any; 1 if the file has neither tables nor a descriptor; -1 with a message in
 * *e if they are malformed. */
int linked_tables_read(const struct elf_file *f, struct linked_tables *t, struct error *e);
/* Adds the functions called `name` to those that were named with --init, including the parts and copies that gcc makes
 * of them (name.cold, name.constprop.0). Returns -1 with a message in *e if the file has none. */
int linked_init_add(const struct elf_file *f, struct linked_tables *t, const char *name, struct error *e);
void linked_tables_free(struct linked_tables *t);

/* Can these rows be stored? Returns 1 if they fit in place, or if a segment can be added; 0 with the reason in *e if
 * neither; -1 with a message in *e on an error. */
int linked_tables_capacity(const struct elf_file *f, const struct linked_tables *now, const struct linked_rows *rows,
                           struct error *e);

/*
 * Sorts and writes the rows, and sets ETCH_MODULE_LINKED. If all tables fit in place, changes f's bytes and sets *out
 * to null. Otherwise sets *out to a new file with a segment that begins with the sections of `unwind`. Tables can be
 * written in place only if the names of all objects are in the file already (ref != 0); a segment gets copies of all
 * names.
 */
struct linked_contents {
	struct linked_rows *rows;
	struct linked_unwind *unwind;
};
int linked_tables_write(struct elf_file *f, const struct linked_tables *now, const struct linked_contents *contents,
                        uint8_t **out, size_t *out_size, struct error *e);

/* Sets the flags of natives[i], both in *now and in its record in f's bytes. */
void linked_native_flag(struct elf_file *f, struct linked_tables *now, size_t i, uint8_t flags);

void linked_rows_free(struct linked_rows *r);

#endif
