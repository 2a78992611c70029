/* SPDX-License-Identifier: MIT */
/* Byte patterns of endbr64, notrack and int3. */
#include "arch/x86/cet.h"

#include <string.h>

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
