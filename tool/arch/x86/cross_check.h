/* SPDX-License-Identifier: MIT */
/*
 * Compares all that both decoders report about one instruction, for findings. What must hold before a byte is
 * changed is decided by insn_confirm() (insn.h), which is stricter about the one operand of a site.
 */
#ifndef ARCH_X86_CROSS_CHECK_H
#define ARCH_X86_CROSS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A key that is equal for instructions that differ only in register numbers, displacements and immediates. 0: Zydis
 * decodes no instruction, but arch/x86/newer.h may.
 */
uint64_t insn_form_key(const uint8_t *bytes, size_t avail);

/*
 * A cache of instructions about which both decoders agreed, by prefixes, opcode, ModRM and SIB: insn_agreed() adds
 * one, insn_is_agreed() looks one up. Much faster than insn_form_key(). Not thread-safe.
 */
bool insn_is_agreed(const uint8_t *bytes, size_t avail);
void insn_agreed(const uint8_t *bytes, size_t avail);

/* A disagreement of the decoders, as text. */
struct insn_views {
	char first[256], second[256]; /* the instruction as Zydis and as Capstone print it */
	const char *name;             /* the mnemonic by Zydis, "mov" */
	const char *about;            /* what differs: "its length", "its memory operand", ... */
};

/* What the two decoders say of an instruction. */
enum insn_verdict {
	VIEWS_AGREE,
	VIEWS_DIFFER,
	VIEWS_MISSING, /* the second decoder does not know it, or only arch/x86/newer.h does: there is one view */
};

/*
 * Compares length, branch kind and target, and the explicit memory operand with its size. VIEWS_AGREE also where no
 * instruction is decoded. VIEWS_DIFFER: *out is filled; VIEWS_MISSING: out->first is.
 */
enum insn_verdict insn_views_compare(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn_views *out);

#endif
