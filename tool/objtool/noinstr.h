/* SPDX-License-Identifier: MIT */
/*
 * For --noinstr. Code in some sections must not be instrumented, and must call only code in such sections, except
 * between instrumentation_begin() and instrumentation_end(). The check uses three facts of the object: which sections
 * these are, the annotations that those two macros leave, and the functions that are stored in the tables of
 * paravirtual calls.
 */
#ifndef OBJTOOL_NOINSTR_H
#define OBJTOOL_NOINSTR_H

#include "objtool/code_map.h"
#include "objtool/objtool.h"

/*
 * An instruction that begins or ends a region in which instrumentation is allowed. Regions nest; their depth is
 * counted.
 */
struct noinstr_mark {
	uint64_t at; /* address in the code space */
	int by;
};

struct noinstr {
	const struct code_map *map;
	bool *sections;             /* for each section of the file: code there must not be instrumented */
	struct noinstr_mark *marks; /* sorted by address */
	size_t mark_count;
	/* A call through slot k of pv_ops runs one of the functions that the object stores there. */
	size_t slot_count;
	bool *clean;  /* for each slot: all of its functions have been found not to be instrumented */
	bool *listed; /* for each symbol: it is in `ops` */
	struct ops_function {
		size_t slot;
		uint32_t symbol;
	} * ops;
	size_t op_count, op_capacity;
};

/* Returns 0, or -1 and a message if the object is malformed. The caller calls noinstr_free() in either case. */
int noinstr_read(const struct code_map *map, struct noinstr *out, struct error *e);
void noinstr_free(struct noinstr *n);
/* Returns by how much the instruction at an address changes the depth of regions. */
int noinstr_change(const struct noinstr *n, uint64_t at);
/*
 * True if code that must not be instrumented may make this call. `name` is the name of the callee and `section` the
 * section of its symbol, or 0 if that is in another file. If the callee is unknown, `name` is null; then `r` is the
 * relocation in the instruction `s`, which is at offset `off`, or null. For a call through a slot of pv_ops, prints the
 * instrumented functions of that slot.
 */
bool noinstr_allows(struct noinstr *n, const char *name, uint32_t section, const struct elf_reloc *r, uint64_t off,
                    const struct step *s);
/*
 * Writes a name for an indirect call by its relocation: "pv_ops[N]", with N as objtool of 6.1 counts, or "{dynamic}".
 */
void called_name(const struct code_map *m, const struct elf_reloc *r, char *out, size_t size);

#endif
