/* SPDX-License-Identifier: MIT */
/*
 * An entry of the Linux kernel's .orc_unwind: six bytes that a version of the kernel
 * lays out in its own way (arch/x86/include/asm/orc_types.h), and what it means as the
 * kernel's unwinder takes it (arch/x86/kernel/unwind_orc.c).
 */
#ifndef X86_KERNEL_ORC_H
#define X86_KERNEL_ORC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_ORC_SIZE 6

enum kernel_orc_layout {
	KERNEL_ORC_4_14, /* type:2, end:1; to 6.2 */
	KERNEL_ORC_6_3,  /* type:2, signal:1, end:1 */
	KERNEL_ORC_6_4,  /* type:3, signal:1; other numbers for the types; since then */
	KERNEL_ORC_LAYOUTS,
};

enum kernel_orc_kind {
	KERNEL_ORC_UNDEF,
	KERNEL_ORC_CALL,
	KERNEL_ORC_REGS,    /* the frame is a struct pt_regs */
	KERNEL_ORC_PARTIAL, /* ... of which only what iret takes is there */
	KERNEL_ORC_END,
	KERNEL_ORC_BAD,
};

struct kernel_orc {
	int16_t sp_offset, bp_offset;
	uint8_t sp_reg, bp_reg; /* ORC_REG_* */
	uint8_t kind;           /* enum kernel_orc_kind */
	bool signal;            /* 6.3 on: the ip is looked up as it is */
	bool sp_deref_first;    /* before 5.13: SP_INDIRECT is *(rsp + offset) */
};

/* Null, or what is wrong with the entry (kind is BAD then). */
const char *kernel_orc_unpack(const uint8_t bytes[KERNEL_ORC_SIZE], enum kernel_orc_layout layout,
                              struct kernel_orc *out);

/* The columns of `etch inspect orc`, as rules of etch have them: where the CFA, rbp and
 * the return address of the caller are found. */
void kernel_orc_cfa_text(const struct kernel_orc *o, char *out, size_t size);
void kernel_orc_bp_text(const struct kernel_orc *o, char *out, size_t size);
void kernel_orc_ra_text(const struct kernel_orc *o, char *out, size_t size);
/* "call", "regs", "partial", "end", "undef", "bad"; with ",signal". */
const char *kernel_orc_kind_text(const struct kernel_orc *o);

/* "6.2 and before", "6.3", "6.4 and later". */
const char *kernel_orc_layout_text(enum kernel_orc_layout layout);
/* The layout that a .orc_header stands for; KERNEL_ORC_LAYOUTS: none that is known. */
enum kernel_orc_layout kernel_orc_layout_of_hash(const uint8_t hash[20]);

/*
 * What one entry's bits say of the layout: +1 it is 6.4's, -1 an older one's, 0 nothing.
 */
int kernel_orc_age(const uint8_t bytes[KERNEL_ORC_SIZE]);

#endif
