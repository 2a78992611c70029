/* SPDX-License-Identifier: MIT */
/* Byte patterns of endbr64, notrack and int3. */
#include "arch/x86/cet.h"

#include <string.h>

bool insn_is_endbr(const uint8_t *bytes, size_t avail)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	return avail >= sizeof(endbr64) && !memcmp(bytes, endbr64, sizeof(endbr64));
}

/* notrack is a DS prefix (3e) before the opcode ff, in any order with other prefixes. */
bool insn_is_notrack(const uint8_t *bytes, size_t len)
{
	size_t i;

	for (i = 0; i < len && bytes[i] != 0xff; i++)
		if (bytes[i] == 0x3e)
			return true;
	return false;
}

bool insn_is_int3(const uint8_t *bytes, size_t avail) { return avail && bytes[0] == 0xcc; }
