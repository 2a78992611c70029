/* SPDX-License-Identifier: MIT */
/*
 * Where the slots of ops objects lead before the program runs, and what stands at
 * a call site for that: the link step's side of what libetch does at run time.
 */
#ifndef SITE_TARGET_H
#define SITE_TARGET_H

#include "elf/dynamic.h"
#include "table/linked_tables.h"

#include <etch/pv_forms.h>

struct targets {
	const struct elf_file *file;
	struct dynamic_reloc *relocs; /* into etched sections */
	size_t reloc_count;
	struct native_row *natives;   /* those that are checked, by function, the first of each */
	size_t native_count;
};

/* What stands at a call site. */
enum call_state {
	CALL_INDIRECT,
	CALL_DIRECT,
	CALL_NOP,  /* nothing is done: a nop, or a return at a tail call */
	CALL_MOVE, /* a move between registers */
	CALL_BODY, /* another instruction of the function */
};

/* `now`: its flags of natives count as they are. -1 and a message: memory is out or
 * relocations are malformed. */
int targets_open(struct targets *t, const struct elf_file *f, const struct linked_tables *now, struct error *e);
void targets_close(struct targets *t);

/*
 * The function that a slot leads to from the start: true and its address, when that
 * is code of this file and no other definition can take its place; false for null,
 * for what the dynamic linker decides and for what is no code.
 */
bool target_known(const struct targets *t, uint64_t slot, uint64_t *target);

/* Nothing fills it, and the file has zero there. */
bool target_is_null(const struct targets *t, uint64_t slot);

/* For people: the dynamic symbol that a slot will be given the address of, or null. */
const char *target_import(const struct targets *t, uint64_t slot);

struct call_image {
	uint8_t bytes[16];
	unsigned len;      /* of the one instruction, the site's; 0: the indirect form stays */
	enum call_state state;
	bool known;        /* target is */
	uint64_t target;
};

/* What stands at a site while its slot holds what it holds from the start. */
void call_image(const struct targets *t, const struct etch_imv *entry, uint64_t site, uint64_t slot,
                struct call_image *out);

#endif
