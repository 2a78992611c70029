/* SPDX-License-Identifier: MIT */
/*
 * An entry of the Linux kernel's .orc_unwind: six bytes whose layout depends on the kernel version
 * (arch/x86/include/asm/orc_types.h), decoded as the kernel's unwinder does (arch/x86/kernel/unwind_orc.c).
 */
#ifndef KERNEL_KERNEL_ENTRY_H
#define KERNEL_KERNEL_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_ORC_SIZE 6

/* Layouts of the last 16 bits of an entry, each named after the first kernel version that has it. */
enum kernel_orc_layout {
	KERNEL_ORC_4_14, /* up to 6.2: type:2, end:1 */
	KERNEL_ORC_6_3,  /* type:2, signal:1, end:1 */
	KERNEL_ORC_6_4,  /* since 6.4: type:3, signal:1, with new numbers for the types */
	KERNEL_ORC_7_2,  /* since 7.2: with new numbers for the registers */
	KERNEL_ORC_LAYOUTS,
};

enum kernel_orc_kind {
	KERNEL_ORC_UNDEF,
	KERNEL_ORC_CALL,
	KERNEL_ORC_REGS,    /* the frame is a struct pt_regs */
	KERNEL_ORC_PARTIAL, /* a struct pt_regs of which only the iret frame is valid */
	KERNEL_ORC_END,
	KERNEL_ORC_BAD,
};

/* A decoded entry. */
struct kernel_orc {
	int16_t sp_offset, bp_offset;
	uint8_t sp_reg, bp_reg; /* ORC_REG_*, with the numbers before 7.2 */
	uint8_t kind;           /* enum kernel_orc_kind */
	bool signal;            /* since 6.3: the unwinder looks up the ip as it is, rather than ip - 1 */
	bool sp_deref_first;    /* before 5.13: SP_INDIRECT means *(rsp + offset) */
};

/* Decodes an entry. Returns null, or the error; in the latter case out->kind is KERNEL_ORC_BAD. */
const char *kernel_orc_unpack(const uint8_t bytes[KERNEL_ORC_SIZE], enum kernel_orc_layout layout,
                              struct kernel_orc *out);

/*
 * Each of these writes one column of `etch inspect orc`, in the notation of etch's rules: where the caller's CFA, rbp
 * or return address is.
 */
void kernel_orc_cfa_text(const struct kernel_orc *o, char *out, size_t size);
void kernel_orc_bp_text(const struct kernel_orc *o, char *out, size_t size);
void kernel_orc_ra_text(const struct kernel_orc *o, char *out, size_t size);
/* Returns "call", "regs", "partial", "end", "undef" or "bad"; ",signal" follows if the entry has the signal bit. */
const char *kernel_orc_kind_text(const struct kernel_orc *o);

/*
 * Returns the kernel versions that use a layout: "6.2 and before", "6.3", "6.4 and later" or "7.2 and later"; "unknown"
 * for KERNEL_ORC_LAYOUTS.
 */
const char *kernel_orc_layout_text(enum kernel_orc_layout layout);
/* Returns the layout that the hash in .orc_header identifies, or KERNEL_ORC_LAYOUTS if the hash is unknown. */
enum kernel_orc_layout kernel_orc_layout_of_hash(const uint8_t hash[20]);

/*
 * The layout of entries is inferred by counting the entries that only one numbering explains: the numbering of the
 * types since 6.4 or the older one and, among entries with the types of 6.4, the numbering of the registers since 7.2
 * or the older one.
 */
struct kernel_orc_votes {
	uint64_t types_6_4, types_older, registers_7_2, registers_older;
};
void kernel_orc_vote(struct kernel_orc_votes *v, const uint8_t bytes[KERNEL_ORC_SIZE]);

#endif
