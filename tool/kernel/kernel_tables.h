/* SPDX-License-Identifier: MIT */
/*
 * The tables that the Linux kernel uses to patch and describe its own code: each is an array of
 * entries in a section of its own. docs/formats.md describes them in prose.
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
	KT_SITES, /* each entry is the address of one instruction */
	KT_BUG,
};

/* The meaning of an entry's field. */
enum kernel_field {
	KF_INSN, /* the instruction that the entry is about */
	KF_TO,   /* address of the fixup, replacement or jump target */
	KF_KEY,  /* static key, or key of a static call */
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
	uint8_t size; /* bytes of a number; 0: the field is a reference */
	uint8_t ref;  /* enum kernel_ref */
};

struct kernel_layout {
	const char *name;  /* the kernel versions that have it; null: all */
	unsigned from, to; /* KERNEL_VERSION_OF; to: the first version without it, or 0 */
	uint8_t size, count;
	struct kernel_field_at fields[7];
};

struct kernel_table_kind {
	const char *name;
	const char *start, *stop; /* symbols that delimit the table in vmlinux */
	enum kernel_table_id id;
	bool inside; /* in vmlinux it is part of another section */
	uint8_t layout_count;
	const struct kernel_layout *layouts; /* the newest first */
};

enum kernel_layout_from {
	KLAYOUT_ONLY,    /* the only layout of this table */
	KLAYOUT_ENTRIES, /* the only layout in which the entries are valid */
	KLAYOUT_RELEASE, /* several layouts fit: chosen by the release */
	KLAYOUT_ASSUMED, /* several layouts fit and the release is unknown: the newest */
};

struct kernel_table {
	const struct kernel_table_kind *kind;
	const struct kernel_layout *layout;
	enum kernel_layout_from from;
	uint32_t section;
	uint64_t offset, size; /* in the section */
	size_t count, bad;     /* number of entries, and how many of them are malformed */
	size_t empty;          /* all-zero entries of a linked file: padding, or removed by the build */
	uint64_t rest;         /* bytes after the last whole entry */
	bool by_symbols;       /* found by its symbols, inside another section */
	bool sorted;           /* by address of the instruction */
	char problem[256];     /* a problem of the table as a whole; or empty */
};

struct kernel_entry {
	struct kernel_place place[KF_PLACES];
	uint64_t number[KF_FIELDS];
	const char *problem; /* why the entry is malformed, a phrase; null: it is well formed */
	bool empty;
};

struct kernel_tables {
	struct kernel_table *list;
	size_t count;
	const struct kernel_table_kind *missing[8]; /* of vmlinux: tables not found because the symbols are missing */
	size_t missing_count;
};

void kernel_tables_find(struct kernel *k, struct kernel_tables *out);
void kernel_tables_free(struct kernel_tables *t);
void kernel_entry_read(struct kernel *k, const struct kernel_table *t, size_t i, struct kernel_entry *out);

#endif
