/* SPDX-License-Identifier: MIT */
/*
 * Finds the initial targets of slots in ops objects, and the instruction that a call site gets for a target. This does
 * at link time what libetch does at run time.
 */
#ifndef SITE_SLOT_TARGET_H
#define SITE_SLOT_TARGET_H

#include "elf/dynamic.h"
#include "table/linked_tables.h"

#include <etch/pv_forms.h>

/* Lookup tables of one linked file. */
struct targets {
	const struct elf_file *file;
	struct dynamic_reloc *relocs; /* the relocations that apply to etched sections */
	size_t reloc_count;
	struct native_row *natives; /* checked records, sorted by function; only the first one of each function */
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

/* Trusts the flags of the native records in `now`. Returns 0, or -1 and a message for malformed relocations. */
int targets_open(struct targets *t, const struct elf_file *f, const struct linked_tables *now, struct error *e);
void targets_close(struct targets *t);

/*
 * Finds the function that a slot initially holds. Returns true if *target is code of this file that no other definition
 * can preempt, and false if the slot is null, if the dynamic linker decides, or if the target is not code.
 */
bool target_known(const struct targets *t, uint64_t slot, uint64_t *target);

/* Does the slot hold null, with no relocation and zero in the file? */
bool target_is_null(const struct targets *t, uint64_t slot);

/* Returns, for messages, the dynamic symbol whose address the slot will hold, or null. */
const char *target_import(const struct targets *t, uint64_t slot);

/* The bytes for a call site. */
struct call_image {
	uint8_t bytes[16];
	unsigned len; /* bytes of the instruction, as many as the site has; 0: the indirect form stays */
	enum call_state state;
	bool known; /* `target` is valid */
	uint64_t target;
};

/* Makes the instruction for a site while its slot has its initial value. */
void call_image(const struct targets *t, const struct etch_imv *entry, uint64_t site, uint64_t slot,
                struct call_image *out);

#endif
