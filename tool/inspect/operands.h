/* SPDX-License-Identifier: MIT */
/*
 * What the operands of instructions refer to, by name: the function that a call goes to,
 * the variable behind a rip-relative address; in object files what the relocation says, in
 * linked ones symbols, entries of the PLT and slots of the GOT.
 */
#ifndef INSPECT_OPERANDS_H
#define INSPECT_OPERANDS_H

#include "arch/x86/insn.h"
#include "code/space.h"

struct operands;

/* Null and a message: out of memory, or relocations are malformed. */
struct operands *operands_open(const struct elf_file *f, const struct code_space *space, struct error *e);
void operands_close(struct operands *o);

struct reference {
	bool known;       /* there is one */
	bool placed;      /* it is in this file: */
	uint32_t section; /* ... 0: in none */
	uint64_t addr;    /* linked: virtual address; ET_REL: offset in section */
	char name[256];   /* "printf", "printf@plt", "environ@got", ".rodata+0x10"; "" */
	char text[64];    /* the string that begins there, escaped as in C, cut; "" */
};

/* Where a direct call, jump or branch goes. `section`: of the instruction. */
void operand_target(const struct operands *o, uint32_t section, const struct insn *in, struct reference *out);
/* What another operand refers to. */
void operand_memory(const struct operands *o, uint32_t section, const struct insn *in, struct reference *out);
/* "name", "name+0x12", "section+0x12" of a place; "" for none. */
void operand_name(const struct operands *o, uint32_t section, uint64_t addr, char *out, size_t size);

#endif
