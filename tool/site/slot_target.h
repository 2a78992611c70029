/* SPDX-License-Identifier: MIT */
/*
 * The initial targets of slots in ops objects, and the instruction that a call site gets for a target: what libetch
 * does at run time, done at link time.
 */
#ifndef SITE_SLOT_TARGET_H
#define SITE_SLOT_TARGET_H

#include "elf/dynamic.h"
#include "table/linked_tables.h"

#include <etch/pv_forms.h>

/* Lookup tables of one linked file. */
struct targets {
	const struct elf_file *file;
	struct dynamic_reloc *relocs; /* that apply to etched sections */
	size_t reloc_count;
	struct native_row *natives; /* checked ones, sorted by function, the first of each function */
	size_t native_count;
};

/* The instruction at a call site. */
enum call_state {
	CALL_INDIRECT,
	CALL_DIRECT,
	CALL_NOP,  /* a nop, or a return for a tail call: the target does nothing */
	CALL_MOVE, /* a move between registers */
	CALL_BODY, /* another instruction of the target's body */
};

/* `now`: the flags of its native records are trusted. -1 and a message: malformed relocations. */
int targets_open(struct targets *t, const struct elf_file *f, const struct linked_tables *now, struct error *e);
void targets_close(struct targets *t);

/*
 * The function that a slot initially holds. True: *target is code of this file, and no other definition can preempt
 * it. False: null, decided by the dynamic linker, or not code.
 */
bool target_known(const struct targets *t, uint64_t slot, uint64_t *target);

/* The slot holds null: no relocation, and zero in the file. */
bool target_is_null(const struct targets *t, uint64_t slot);

/* For messages: the dynamic symbol whose address the slot will hold, or null. */
const char *target_import(const struct targets *t, uint64_t slot);

/* The bytes for a call site. */
struct call_image {
	uint8_t bytes[16];
	unsigned len; /* of the instruction, the same as of the site; 0: the indirect form stays */
	enum call_state state;
	bool known; /* `target` is valid */
	uint64_t target;
};

/* The instruction for a site while its slot has its initial value. */
void call_image(const struct targets *t, const struct etch_imv *entry, uint64_t site, uint64_t slot,
                struct call_image *out);

#endif
