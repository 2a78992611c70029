/* SPDX-License-Identifier: MIT */
/* Byte patterns of stac, clac, pushf and popf. */
#include "arch/x86/user_access.h"

enum access_effect code_access_effect(const uint8_t *bytes, size_t len)
{
	if (len == 1)
		return bytes[0] == 0x9c ? ACCESS_SAVED : bytes[0] == 0x9d ? ACCESS_RESTORED : ACCESS_KEPT;
	if (len != 3 || bytes[0] != 0x0f || bytes[1] != 0x01)
		return ACCESS_KEPT;
	return bytes[2] == 0xcb ? ACCESS_ENABLED : bytes[2] == 0xca ? ACCESS_DISABLED : ACCESS_KEPT;
}
