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
	const char *how;  /* how the target is used: label of the fact in the finding */
	const char *what; /* text of the fact, used if `section` is 0 */
	uint32_t section; /* section and `from`, as in struct finding: the place that takes the address; section 0: there is
	                     none */
	uint64_t from;
	bool inside; /* false: the entry counts only if `at` is the start of a function; true: see `always` */
	bool always; /* with `inside`: true: the entry counts anywhere; false: inside a function, only if that function
	                contains a tracked indirect jump */
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

/*
 * Converts an address of the code space, in code section c, to the form that findings use: in ET_REL, an offset in the
 * section.
 */
static inline uint64_t plain_addr(const struct branches *b, const struct code_section *c, uint64_t addr)
{
	return elf_is_object(b->s->file) ? addr - c->addr : addr;
}

/*
 * Collects all targets. The caller has set only b->s. Returns 0, or -1 and a message. The caller calls branches_free()
 * in either case.
 */
int branches_collect(struct branches *b, struct error *e);
void branches_free(struct branches *b);

#endif
