/* SPDX-License-Identifier: MIT */
/* Bytes of a few instructions (SDM vol. 2), for code that writes or recognizes these without decoding. Among them are
 * the instructions of control-flow enforcement (SDM vol. 1, 17.3) and int3, which hardens code against straight-line
 * speculation. */
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

/* The nops of 1 to 5 bytes that the Linux kernel expects (arch/x86/include/asm/nops.h), and ret; int3, followed by a
 * nop. */
#define PATCH_MOST 5u
extern const uint8_t patch_nops[PATCH_MOST + 1][PATCH_MOST], patch_return[PATCH_MOST];

/* Do the bytes begin with the prologue of code with a frame pointer: push %rbp; mov %rsp, %rbp, perhaps after
 * endbr64? */
bool insn_is_frame_prologue(const uint8_t *bytes, size_t avail);

/* Is a 4-byte field the displacement of a direct call, jump or conditional jump? `before` is the number of readable
 * bytes of code in front of the field. */
bool insn_is_branch_field(const uint8_t *field, uint64_t before);

/* Do the bytes begin with endbr64, which marks a valid target of tracked indirect calls and jumps? */
bool insn_is_endbr(const uint8_t *bytes, size_t avail);
/* Has an indirect call or jump of `len` bytes a notrack prefix, so that its target needs no endbr64? */
bool insn_is_notrack(const uint8_t *bytes, size_t len);
/* Is the instruction of `len` bytes a rip-relative lea? Then *distance becomes the distance from its end to the
 * address. */
bool insn_takes_near_address(const uint8_t *bytes, size_t len, int32_t *distance);
/* Do the bytes begin with int3, which stops straight-line speculation? */
bool insn_is_int3(const uint8_t *bytes, size_t avail);

/* The effect of an instruction on the AC flag, by which a kernel allows itself access to user memory (SDM vol. 2, STAC,
 * CLAC; SMAP: vol. 3, 4.6). */
enum access_effect {
	ACCESS_KEPT,
	ACCESS_ENABLED,  /* stac */
	ACCESS_DISABLED, /* clac */
	ACCESS_SAVED,    /* pushf */
	ACCESS_RESTORED, /* popf */
};

/* Returns the effect of the instruction of `len` bytes on the AC flag. */
static inline enum access_effect code_access_effect(const uint8_t *bytes, size_t len)
{
	if (len == 1)
		switch (bytes[0]) {
		case 0x9c: return ACCESS_SAVED;
		case 0x9d: return ACCESS_RESTORED;
		default: return ACCESS_KEPT;
		}
	if (len != 3 || bytes[0] != 0x0f || bytes[1] != 0x01)
		return ACCESS_KEPT;
	switch (bytes[2]) {
	case 0xcb: return ACCESS_ENABLED;
	case 0xca: return ACCESS_DISABLED;
	default: return ACCESS_KEPT;
	}
}
/* Do the bytes begin with stac or clac? */
static inline bool code_access_toggles(const uint8_t *bytes, size_t avail)
{
	return bytes[0] == 0x0f && avail > 2 && bytes[1] == 0x01 && (bytes[2] == 0xca || bytes[2] == 0xcb);
}

#endif
