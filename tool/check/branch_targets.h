/* SPDX-License-Identifier: MIT */
/*
 * Possible targets of a file's indirect calls and jumps: code whose address is taken by data, code or the dynamic
 * linker, landing pads, return points of setjmp. branch_targets.c collects them, branches.c checks them for endbr64.
 */
#ifndef CHECK_BRANCH_TARGETS_H
#define CHECK_BRANCH_TARGETS_H

#include "analysis/facts/cfi_file.h"
#include "check/check.h"
#include "elf/dynamic.h"

/* A possible target of an indirect branch, and what makes it one; a place may have several. `at` is an
 * address of the code space (analysis/facts/space.h). */
struct target {
	uint64_t at;
	const char *how;  /* label of the fact in the finding */
	const char *what; /* the fact's text if `section` is 0 */
	uint32_t section; /* with `from`: the place that takes the address, as in struct finding; 0: none */
	uint64_t from;
	bool inside; /* also counts if `at` is not the start of a function, if ... */
	bool always; /* ... this is set, or the function around it has a tracked indirect jump */
};

struct branches {
	struct subject *s;
	struct target *list;
	size_t count, capacity;
	uint64_t *starts; /* starts of functions, sorted */
	size_t start_count, start_capacity;
	uint64_t *jumps; /* addresses of indirect jumps without a notrack prefix */
	size_t jump_count, jump_capacity;
	struct cfi_file cfi;
	struct dynamic_reloc *relocs; /* linked files: all, sorted by place */
	size_t reloc_count;
	struct elf_reloc *code_relocs; /* ET_REL: those of the current section */
	long code_reloc_count, code_reloc_next;
};

/* Converts an address of the code space to one of findings (ET_REL: an offset in c's section). */
static inline uint64_t plain_addr(const struct branches *b, const struct code_section *c, uint64_t addr)
{
	return elf_is_object(b->s->file) ? addr - c->addr : addr;
}

/* Collects all targets; the caller has set only b->s. 0, or -1 and a message; *b is to be freed in any case. */
int branches_collect(struct branches *b, struct error *e);
void branches_free(struct branches *b);

#endif
