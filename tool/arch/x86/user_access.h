/* SPDX-License-Identifier: MIT */
/* Recognizes, by their bytes, the instructions that change the AC flag, by which a kernel allows itself access to user
 * memory (SDM vol. 2, STAC, CLAC; SMAP: vol. 3, 4.6). */
#ifndef X86_USER_ACCESS_H
#define X86_USER_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
