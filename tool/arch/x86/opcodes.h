/* SPDX-License-Identifier: MIT */
/* Instructions by their bytes (SDM vol. 2), for code that writes or recognizes a few of them without decoding. */
#ifndef X86_OPCODES_H
#define X86_OPCODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPCODE_RET        0xc3
#define OPCODE_CALL_REL32 0xe8
#define OPCODE_JMP_REL32  0xe9
#define OPCODE_MOV_TO_RM  0x89 /* after REX: mov from a register to a register or memory */
#define ENDBR_SIZE        4u   /* bytes of endbr64 (insn_is_endbr()) */

/* The nops of 1 to 5 bytes that the Linux kernel expects (arch/x86/include/asm/nops.h), and ret; int3 followed by a
 * nop. */
#define PATCH_MOST 5u
extern const uint8_t patch_nops[PATCH_MOST + 1][PATCH_MOST], patch_return[PATCH_MOST];

/* Do the bytes begin with the prologue of code with a frame pointer: push %rbp; mov %rsp, %rbp, perhaps after
 * endbr64? */
bool insn_is_frame_prologue(const uint8_t *bytes, size_t avail);

/* Is a 4-byte field, which `before` bytes of code precede, the displacement of a direct call, jump or conditional
 * jump? */
bool insn_is_branch_field(const uint8_t *field, uint64_t before);

#endif
