/* SPDX-License-Identifier: MIT */
/*
 * The tables that the Linux kernel uses to patch and describe its own code. Each is an array of entries, usually in a
 * section of its own. docs/formats.md describes them in prose.
 */
#ifndef KERNEL_KERNEL_TABLES_H
#define KERNEL_KERNEL_TABLES_H

#include "kernel/kernel.h"

enum kernel_table_id {
	KT_EX,
	KT_ALT,
	KT_PARAVIRT,
	KT_JUMP,
	KT_STATIC_CALL,
	KT_SITES, /* tables in which each entry is the address of one instruction */
	KT_BUG,
};

/* The meaning of a field in an entry. The fields before KF_PLACES are references. */
enum kernel_field {
	KF_INSN, /* the instruction that the entry concerns */
	KF_TO,   /* address of the fixup, replacement or jump target */
	KF_KEY,  /* a static key, or the key of a static call */
	KF_HANDLER,
	KF_FILE,   /* a string */
	KF_FORMAT, /* a string, or null */
	KF_PLACES,
	KF_LENGTH = KF_PLACES,
	KF_NEW_LENGTH,
	KF_FEATURE,
	KF_FLAGS,
	KF_DATA,
	KF_LINE,
	KF_SLOT,
	KF_PADDING,
	KF_FIELDS,
};

struct kernel_field_at {
	uint8_t field; /* enum kernel_field */
	uint8_t at;
	uint8_t size; /* number of bytes of the field if it is a number; 0: the field is a reference */
	uint8_t ref;  /* enum kernel_ref */
};

struct kernel_layout {
	const char *name;  /* the kernel versions that have it; null: all versions */
	unsigned from, to; /* from: KERNEL_VERSION_OF the first version with this layout; to: that of the first version
	                      without it; 0: no bound */
	uint8_t size, count;
	struct kernel_field_at fields[7];
};

struct kernel_table_kind {
	const char *name;
	const char *start, *stop; /* symbols that delimit the table in vmlinux */
	enum kernel_table_id id;
	bool inside; /* in vmlinux the table has no section of its own but is part of another one */
	uint8_t layout_count;
	const struct kernel_layout *layouts; /* sorted from the newest to the oldest */
};

enum kernel_layout_from {
	KLAYOUT_ONLY,    /* the table has only one layout */
	KLAYOUT_ENTRIES, /* the entries are valid in only one layout */
	KLAYOUT_RELEASE, /* several layouts fit, and the release decides */
	KLAYOUT_ASSUMED, /* several layouts fit and the release is unknown: the newest is assumed */
};

struct kernel_table {
	const struct kernel_table_kind *kind;
	const struct kernel_layout *layout;
	enum kernel_layout_from from;
	uint32_t section;
	uint64_t offset, size; /* in the section */
	size_t count, bad;     /* number of entries, and how many of them are malformed */
	/* In a linked file, the number of entries that are all zero: padding, or entries that the build has removed. */
	size_t empty;
	uint64_t rest;     /* number of bytes after the last whole entry */
	bool by_symbols;   /* the table was found by its symbols, inside another section */
	bool sorted;       /* the entries are sorted by the address of the instruction */
	char problem[256]; /* a problem of the table as a whole; empty if there is none */
};

struct kernel_entry {
	struct kernel_place place[KF_PLACES];
	uint64_t number[KF_FIELDS];
	const char *problem; /* a phrase that says why the entry is malformed; null: it is well formed */
	bool empty;
};

struct kernel_tables {
	struct kernel_table *list;
	size_t count;
	/* Only in vmlinux: tables that were not found because their symbols are missing. */
	const struct kernel_table_kind *missing[8];
	size_t missing_count;
};

/* Defined in layouts.c: all kinds of tables. */
extern const struct kernel_table_kind kernel_table_kinds[];
extern const size_t kernel_table_kind_count;

void kernel_tables_find(struct kernel *k, struct kernel_tables *out);
void kernel_tables_free(struct kernel_tables *t);
void kernel_entry_read(struct kernel *k, const struct kernel_table *t, size_t i, struct kernel_entry *out);

#endif
