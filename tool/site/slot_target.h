/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions to which slots in ops objects initially point, and the instruction at a call site that calls such
 * a function directly or replaces the call. This does at link time what libetch does at run time.
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
	CALL_BODY, /* another instruction that is all of the target's body */
};

/*
 * Fills the lookup tables. Trusts the flags of the native records in `now`. Returns 0, or -1 and a message for
 * malformed relocations.
 */
int targets_open(struct targets *t, const struct elf_file *f, const struct linked_tables *now, struct error *e);
void targets_close(struct targets *t);

/*
 * Finds the function to which a slot initially points. Returns true if it is code of this file that no other definition
 * can preempt, and sets *target to it. Returns false if the slot is null, if the dynamic linker decides, or if the
 * target is not code.
 */
bool target_known(const struct targets *t, uint64_t slot, uint64_t *target);

/* Is the slot null: no relocation applies, and the file has zero? */
bool target_is_null(const struct targets *t, uint64_t slot);

/*
 * Returns the name of the dynamic symbol whose address the dynamic linker will store in the slot, or null. The name is
 * for messages.
 */
const char *target_import(const struct targets *t, uint64_t slot);

/* The bytes for a call site. */
struct call_image {
	uint8_t bytes[16];
	unsigned len; /* length of the instruction, which is that of the site; 0: the indirect form stays */
	enum call_state state;
	bool known; /* `target` is valid */
	uint64_t target;
};

/* Makes the instruction that a site gets while its slot has its initial value. `site` and `slot` are addresses. */
void call_image(const struct targets *t, const struct etch_imv *entry, uint64_t site, uint64_t slot,
                struct call_image *out);

#endif
