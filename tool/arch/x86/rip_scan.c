/* SPDX-License-Identifier: MIT */
/* A test for rip-relative operands by the ModRM byte. */
#include "arch/x86/rip_scan.h"

bool x86_may_be_rip_operand(const uint8_t *disp)
{
	/* ModRM: mod 0, rm 5 (SDM vol. 2, table 2-7); the opcode before it does not matter. */
	return (disp[-1] & 0xc7) == 0x05;
}
