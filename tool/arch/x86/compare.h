/* SPDX-License-Identifier: MIT */
/*
 * Both decoders on one instruction, for findings: not what must hold before a byte is
 * changed (insn_confirm() of insn.h asks more of one operand), but all that the two say.
 */
#ifndef X86_COMPARE_H
#define X86_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is the same for all instructions that differ only in register numbers,
 * displacements and immediates; 0: the first decoder sees no instruction.
 */
uint64_t insn_form_key(const uint8_t *bytes, size_t avail);

/*
 * Has this process seen both decoders agree about instructions with the same prefixes,
 * opcode, ModRM and SIB? Much faster than the key of the form; not for several threads.
 */
bool insn_is_agreed(const uint8_t *bytes, size_t avail);
void insn_agreed(const uint8_t *bytes, size_t avail);

/* In words what the decoders see differently. */
struct insn_views {
	char first[256], second[256]; /* the instruction, in either's words: Zydis, Capstone */
	const char *name;             /* of what the first sees, "mov" */
	const char *about;            /* "its length", "its memory operand", ... */
};

/*
 * Length, kind and target of a branch, explicit memory operands and their sizes. True
 * where both see the same, or where the first sees none; else *out is filled.
 */
bool insn_views_agree(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn_views *out);

#endif
