/* SPDX-License-Identifier: MIT */
/*
 * For --noinstr: code of some sections must not be instrumented, and must only call code of this kind, except between
 * instrumentation_begin() and instrumentation_end(). Three things in an object determine this: its sections, its
 * annotations, and the functions that the tables of paravirtual calls hold.
 */
#ifndef OBJTOOL_NOINSTR_H
#define OBJTOOL_NOINSTR_H

#include "objtool/code_map.h"
#include "objtool/objtool.h"

/* An instruction that changes the depth of regions in which instrumentation is allowed. */
struct noinstr_mark {
	uint64_t at; /* address in the code space */
	int by;
};

struct noinstr {
	const struct code_map *map;
	bool *sections;             /* for each section of the file: code there must not be instrumented */
	struct noinstr_mark *marks; /* sorted */
	size_t mark_count;
	/* pv_ops: a call through slot k runs one of the functions that are stored there. */
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
/* Returns the change of depth at an address. */
int noinstr_change(const struct noinstr *n, uint64_t at);
/* True if code that must not be instrumented may call this. `section` is that of the called symbol, 0 if it is in
 * another file. `name` is null if the callee is unknown; then `r` is the relocation in the instruction `s` at an
 * offset, or null. Prints the instrumented functions of a slot of pv_ops. */
bool noinstr_allows(struct noinstr *n, const char *name, uint32_t section, const struct elf_reloc *r, uint64_t off,
                    const struct step *s);
/* Writes the name of what is called through the relocation: "pv_ops[N]", as objtool of 6.1 counts, or "{dynamic}". */
void called_name(const struct code_map *m, const struct elf_reloc *r, char *out, size_t size);

#endif
