/* SPDX-License-Identifier: MIT */
/* Finds possible rip-relative operands by the ModRM byte. */
#include "arch/x86/rip_scan.h"

#include <emmintrin.h>

/* A rip-relative operand has a ModRM byte with mod 0 and rm 5 (SDM vol. 2, table 2-7); the opcode before it does not
 * matter. */
#define MOD_RM_MASK 0xc7
#define MOD_RM_RIP  0x05

bool x86_may_be_rip_operand(const uint8_t *disp) { return (disp[-1] & MOD_RM_MASK) == MOD_RM_RIP; }

unsigned x86_rip_operands(const uint8_t *disp)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(disp - 1));
	__m128i masked = _mm_and_si128(bytes, _mm_set1_epi8((char)MOD_RM_MASK));

	return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(masked, _mm_set1_epi8(MOD_RM_RIP)));
}

bool x86_makes_rip_address(const uint8_t *disp)
{
	return (disp[-3] & 0xf8) == 0x48 && disp[-2] == 0x8d && (disp[-1] & MOD_RM_MASK) == MOD_RM_RIP;
}
