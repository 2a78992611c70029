/* SPDX-License-Identifier: MIT */
/*
 * Compares everything that both decoders report about one instruction, for findings. insn_confirm() (insn.h) decides
 * what must hold before a byte is changed; it is stricter about the one operand of a site.
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
 * A cache of instructions about which both decoders agreed, keyed by prefixes, opcode, ModRM and SIB. insn_agreed()
 * adds one, insn_is_agreed() looks one up. Both are much faster than insn_form_key(). Not thread-safe.
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
	VIEWS_MISSING, /* there is one view: the second decoder does not know the instruction, or only arch/x86/newer.h does
	                */
};

/*
 * Compares the length, the kind and target of a branch, and the explicit memory operand with its size. Returns
 * VIEWS_AGREE also where no instruction is decoded. With VIEWS_DIFFER *out is filled; with VIEWS_MISSING only
 * out->first is.
 */
enum insn_verdict insn_views_compare(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn_views *out);

#endif
