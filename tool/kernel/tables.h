/* SPDX-License-Identifier: MIT */
/*
 * The tables by which the Linux kernel patches itself and explains itself: arrays of one
 * kind of entry in a section of their own. docs/formats.md has them in prose.
 */
#ifndef KERNEL_TABLES_H
#define KERNEL_TABLES_H

#include "kernel/kernel.h"

enum kernel_table_id {
	KT_EX,
	KT_ALT,
	KT_PARAVIRT,
	KT_JUMP,
	KT_STATIC_CALL,
	KT_SITES, /* one instruction an entry */
	KT_BUG,
};

/* What an entry's fields say. */
enum kernel_field {
	KF_INSN,    /* the instruction that it is about */
	KF_TO,      /* fixup, replacement, jump target */
	KF_KEY,     /* static key, or the key of a static call */
	KF_HANDLER,
	KF_FILE,    /* a string */
	KF_FORMAT,  /* a string, or nothing */
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
	uint8_t size;  /* of a number; 0: a reference */
	uint8_t ref;   /* enum kernel_ref */
};

struct kernel_layout {
	const char *name;      /* of which kernels; null: of all */
	unsigned from, to;     /* KERNEL_VERSION_OF; to: the first that has it no longer, or 0 */
	uint8_t size, count;
	struct kernel_field_at fields[7];
};

struct kernel_table_kind {
	const char *name;
	const char *start, *stop; /* symbols around it in vmlinux */
	enum kernel_table_id id;
	bool inside;              /* vmlinux has it inside another section */
	uint8_t layout_count;
	const struct kernel_layout *layouts; /* the newest first */
};

enum kernel_layout_from {
	KLAYOUT_ONLY,    /* there is one */
	KLAYOUT_ENTRIES, /* the only one of which the entries make sense */
	KLAYOUT_RELEASE, /* more than one fits: that of the release */
	KLAYOUT_ASSUMED, /* ... and the release is not known: the newest */
};

struct kernel_table {
	const struct kernel_table_kind *kind;
	const struct kernel_layout *layout;
	enum kernel_layout_from from;
	uint32_t section;
	uint64_t offset, size; /* in the section */
	size_t count, bad;     /* entries, and how many of them are malformed */
	size_t empty;          /* ... and all zeros, in a linked file: padding, or taken out by the build */
	uint64_t rest;         /* bytes behind the last whole entry */
	bool by_symbols;       /* it is inside another section */
	bool sorted;           /* by address of the instruction */
	char problem[256];     /* with the table as a whole; or empty */
};

struct kernel_entry {
	struct kernel_place place[KF_PLACES];
	uint64_t number[KF_FIELDS];
	const char *problem; /* why it is malformed, a phrase; null: it is not */
	bool empty;
};

struct kernel_tables {
	struct kernel_table *list;
	size_t count;
	const struct kernel_table_kind *missing[8]; /* of vmlinux: for want of symbols */
	size_t missing_count;
};

int kernel_tables_find(struct kernel *k, struct kernel_tables *out, struct error *e);
void kernel_tables_free(struct kernel_tables *t);
void kernel_entry_read(struct kernel *k, const struct kernel_table *t, size_t i, struct kernel_entry *out);

#endif
