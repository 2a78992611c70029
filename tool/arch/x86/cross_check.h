/* SPDX-License-Identifier: MIT */
/*
 * Compares what both decoders report about one instruction, so that etch check can report differences. This comparison
 * does not decide whether etch may change an instruction: insn_confirm() (insn.h) does, and it is stricter about the
 * operand of a site.
 */
#ifndef ARCH_X86_CROSS_CHECK_H
#define ARCH_X86_CROSS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns a key that is equal for instructions that differ only in register numbers, displacements and immediates.
 * Returns 0 if Zydis decodes no instruction; arch/x86/newer.h may still decode one.
 */
uint64_t insn_form_key(const uint8_t *bytes, size_t avail);

/*
 * A cache of instructions about which both decoders agreed. Its key is the prefixes, opcode, ModRM and SIB.
 * insn_agreed() adds an instruction; insn_is_agreed() returns true if one with the same key was added. Both are much
 * faster than insn_form_key(). Not thread-safe.
 */
bool insn_is_agreed(const uint8_t *bytes, size_t avail);
void insn_agreed(const uint8_t *bytes, size_t avail);

/* A disagreement of the decoders, as text. */
struct insn_views {
	char first[256], second[256]; /* the instruction as Zydis and as Capstone print it */
	const char *name;             /* the mnemonic that Zydis gives, such as "mov" */
	const char *about;            /* what differs, such as "its length" or "its memory operand" */
};

/* The result of comparing the two decoders. */
enum insn_verdict {
	VIEWS_AGREE,
	VIEWS_DIFFER,
	VIEWS_MISSING, /* only one decoder knows the instruction, so there is nothing to compare: Zydis but not Capstone, or
	                  only arch/x86/newer.h */
};

/*
 * Compares what the two decoders report: the length, the kind and target of a branch, and the explicit memory operand
 * with its size. If Zydis decodes no instruction, returns VIEWS_AGREE. Fills *out for VIEWS_DIFFER, and only out->first
 * for VIEWS_MISSING.
 */
enum insn_verdict insn_views_compare(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn_views *out);

#endif
