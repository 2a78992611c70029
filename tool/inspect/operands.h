/* SPDX-License-Identifier: MIT */
/*
 * Finds names for the targets of operands: the function that a call targets, or the variable at a rip-relative address.
 * Object files are resolved by relocations; linked files by symbols, PLT entries and GOT slots.
 */
#ifndef INSPECT_OPERANDS_H
#define INSPECT_OPERANDS_H

#include "arch/x86/insn.h"
#include "analysis/facts/space.h"

struct operands;

/* Prepares the search in a file. Returns null and a message if relocations are malformed. */
struct operands *operands_open(const struct elf_file *f, const struct code_space *space, struct error *e);
void operands_close(struct operands *o);

/* The target of an operand. */
struct reference {
	bool known;       /* the operand refers to a place; false: the other members are not valid */
	bool placed;      /* the target is in this file, at `section` and `addr` */
	uint32_t section; /* 0: the target is in no section */
	uint64_t addr;    /* linked: virtual address; ET_REL: offset in section */
	char name[256];   /* "printf", "printf@plt", "environ@got", ".rodata+0x10"; "": none */
	char text[64];    /* the string at the target, escaped as in C, truncated; "": none */
};

/* Finds the target of a direct call, jump or branch. `section` is the section of the instruction. */
void operand_target(const struct operands *o, uint32_t section, const struct insn *in, struct reference *out);
/* Finds the target of an operand other than that of a branch. */
void operand_memory(const struct operands *o, uint32_t section, const struct insn *in, struct reference *out);
/* Writes the name of a place: "name", "name+0x12" or "section+0x12"; "" if the place has no name. */
void operand_name(const struct operands *o, uint32_t section, uint64_t addr, char *out, size_t size);

#endif
