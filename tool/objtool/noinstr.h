/* SPDX-License-Identifier: MIT */
/*
 * --noinstr: code of some sections must not be instrumented, and calls only code that must not be either, except
 * between instrumentation_begin() and instrumentation_end(). What of an object says so: its sections, the annotations,
 * and the functions that the tables of paravirtual calls hold.
 */
#ifndef OBJTOOL_NOINSTR_H
#define OBJTOOL_NOINSTR_H

#include "objtool/code_map.h"
#include "objtool/objtool.h"

/* How an instruction changes the depth of regions in which instrumentation is allowed. */
struct noinstr_mark {
	uint64_t at; /* address of the code space */
	int by;
};

struct noinstr {
	const struct code_map *map;
	bool *sections;             /* of the file: code there must not be instrumented */
	struct noinstr_mark *marks; /* sorted */
	size_t mark_count;
	/* pv_ops: a call through slot k runs one of the functions that are stored there. */
	size_t slot_count;
	bool *clean;  /* per slot: all of them have been seen not to be instrumented */
	bool *listed; /* per symbol: it is in `ops` */
	struct ops_function {
		size_t slot;
		uint32_t symbol;
	} * ops;
	size_t op_count, op_capacity;
};

/* 0, or -1 and a message: malformed. noinstr_free() when done, also after an error. */
int noinstr_read(const struct code_map *map, struct noinstr *out, struct error *e);
void noinstr_free(struct noinstr *n);
/* The change of depth at an address. */
int noinstr_change(const struct noinstr *n, uint64_t at);
/* May code that must not be instrumented call this? `section`: of a symbol that is called, 0 if it is another file's;
 * name: null if it is not known, then `r` is the relocation in the instruction `s`, at an offset, or null. Prints what
 * a slot of pv_ops holds that is instrumented. */
bool noinstr_allows(struct noinstr *n, const char *name, uint32_t section, const struct elf_reloc *r, uint64_t off,
                    const struct step *s);
/* The name of what is called through the relocation: "pv_ops[N]" as objtool of 6.1 counts, or "{dynamic}". */
void called_name(const struct code_map *m, const struct elf_reloc *r, char *out, size_t size);

#endif
