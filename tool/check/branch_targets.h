/* SPDX-License-Identifier: MIT */
/*
 * Collects the possible targets of a file's indirect calls and jumps: code whose address is taken by data, by code or
 * by the dynamic linker, landing pads, and return points of setjmp. branch_targets.c collects them; branches.c checks
 * that each begins with an endbr64.
 */
#ifndef CHECK_BRANCH_TARGETS_H
#define CHECK_BRANCH_TARGETS_H

#include "analysis/facts/cfi_file.h"
#include "check/check.h"
#include "elf/dynamic.h"

/* A possible target of an indirect branch, and the reason why it is one; one place may have several entries. `at` is
 * an address of the code space (analysis/facts/space.h). */
struct target {
	uint64_t at;
	const char *how;  /* label of the fact in the finding */
	const char *what; /* the fact's text if `section` is 0 */
	uint32_t section; /* together with `from`: the place that takes the address, as in struct finding; 0: none */
	uint64_t from;
	bool inside; /* true: the entry may also count where `at` is not the start of a function, ... */
	bool always; /* ... always, or (if false) only if the function around it contains a tracked indirect jump */
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
	struct dynamic_reloc *relocs; /* linked files: all dynamic relocations, sorted by place */
	size_t reloc_count;
	struct elf_reloc *code_relocs; /* ET_REL: the relocations of the current section */
	long code_reloc_count, code_reloc_next;
};

/* Converts an address of the code space to the form that findings use (ET_REL: an offset in c's section). */
static inline uint64_t plain_addr(const struct branches *b, const struct code_section *c, uint64_t addr)
{
	return elf_is_object(b->s->file) ? addr - c->addr : addr;
}

/* Collects all targets; the caller has set only b->s. Returns 0, or -1 and a message. The caller frees *b in either
 * case. */
int branches_collect(struct branches *b, struct error *e);
void branches_free(struct branches *b);

#endif
