/* SPDX-License-Identifier: MIT */
/* The bytes of instructions: tables of nops, and tests for patterns. */
#include "arch/x86/opcodes.h"

#include <string.h>

const uint8_t patch_nops[PATCH_MOST + 1][PATCH_MOST] = {
	{0}, {0x90}, {0x66, 0x90}, {0x0f, 0x1f, 0x00}, {0x0f, 0x1f, 0x40, 0x00}, {0x0f, 0x1f, 0x44, 0x00, 0x00}};
const uint8_t patch_return[PATCH_MOST] = {OPCODE_RET, 0xcc, 0x0f, 0x1f, 0x00};

bool insn_is_endbr(const uint8_t *bytes, size_t avail)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	return avail >= sizeof(endbr64) && !memcmp(bytes, endbr64, sizeof(endbr64));
}

/* notrack is a DS prefix (3e) before the opcode ff; its order among other prefixes does not matter. */
bool insn_is_notrack(const uint8_t *bytes, size_t len)
{
	size_t i;

	for (i = 0; i < len && bytes[i] != 0xff; i++)
		if (bytes[i] == 0x3e)
			return true;
	return false;
}

bool insn_is_int3(const uint8_t *bytes, size_t avail) { return avail && bytes[0] == 0xcc; }

bool insn_takes_near_address(const uint8_t *bytes, size_t len, int32_t *distance)
{
	enum { REX = 0x40, LEA = 0x8d, MOD_AND_RM = 0xc7, RM_OF_RIP = 5 };
	size_t at = len && (bytes[0] & 0xf0) == REX;

	if (len != at + 6 || bytes[at] != LEA || (bytes[at + 1] & MOD_AND_RM) != RM_OF_RIP)
		return false;
	memcpy(distance, bytes + at + 2, sizeof(*distance));
	return true;
}

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
