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

struct linked_tables {
	uint64_t *modules; /* addresses of every copy of the descriptor */
	size_t module_count;
	uint32_t flags;    /* ETCH_MODULE_* of the descriptors */
	struct imv_row *imv;
	size_t imv_count;
	struct obj_row *obj;
	size_t obj_count;
	uint64_t imv_addr, imv_room; /* the table that counts now; room in entries */
	uint64_t obj_addr, obj_room;
	bool moved;        /* they lie in the etch segment */
};

/* 0; 1 when the file has no tables and no descriptor at all; -1 and a message
 * when something in them is malformed. */
int linked_tables_read(const struct elf_file *f, struct linked_tables *t, struct error *e);
void linked_tables_free(struct linked_tables *t);

/*
 * Is there room for that many entries: 1 in place or in a segment; 0 nowhere,
 * and `e` says why; -1 on an error. `named`: every object's name is in the file.
 */
int linked_tables_room(const struct elf_file *f, const struct linked_tables *now, size_t imv_count, size_t obj_count,
                       bool named, struct error *e);

/*
 * Writes rows (sorted here), flags ETCH_MODULE_LINKED, into f's bytes where both
 * tables fit; else returns a new file with a segment in *out, which begins with
 * the sections of `unwind`. References of names: rows with `name` inside the file
 * keep it, others get a copy.
 */
int linked_tables_write(struct elf_file *f, const struct linked_tables *now, struct imv_row *imv, size_t imv_count,
                        struct obj_row *obj, size_t obj_count, struct linked_unwind *unwind,
                        uint8_t **out, size_t *out_size, struct error *e);

#endif
