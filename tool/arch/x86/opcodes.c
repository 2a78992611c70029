/* SPDX-License-Identifier: MIT */
#include "arch/x86/opcodes.h"

#include <string.h>

#include "arch/x86/cet.h"

const uint8_t patch_nops[PATCH_MOST + 1][PATCH_MOST] = {
	{0}, {0x90}, {0x66, 0x90}, {0x0f, 0x1f, 0x00}, {0x0f, 0x1f, 0x40, 0x00}, {0x0f, 0x1f, 0x44, 0x00, 0x00}};
const uint8_t patch_return[PATCH_MOST] = {OPCODE_RET, 0xcc, 0x0f, 0x1f, 0x00};

bool insn_is_frame_prologue(const uint8_t *bytes, size_t avail)
{
	/* The two encodings of mov %rsp, %rbp. */
	static const uint8_t store[] = {0x55, 0x48, 0x89, 0xe5}, load[] = {0x55, 0x48, 0x8b, 0xec};

	if (insn_is_endbr(bytes, avail)) {
		bytes += ENDBR_SIZE;
		avail -= ENDBR_SIZE;
	}
	return avail >= sizeof(store) && (!memcmp(bytes, store, sizeof(store)) || !memcmp(bytes, load, sizeof(load)));
}

bool insn_is_branch_field(const uint8_t *field, uint64_t before)
{
	if (before && (field[-1] == OPCODE_CALL_REL32 || field[-1] == OPCODE_JMP_REL32))
		return true;
	return before > 1 && field[-2] == 0x0f && (field[-1] & 0xf0) == 0x80; /* Jcc rel32 */
}
