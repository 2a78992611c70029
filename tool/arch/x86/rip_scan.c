/* SPDX-License-Identifier: MIT */
#include "arch/x86/rip_scan.h"

bool x86_may_be_rip_operand(const uint8_t *disp)
{
	/* ModRM: mod 0, rm 5 (SDM volume 2, table 2-7), whatever the opcode before it. */
	return (disp[-1] & 0xc7) == 0x05;
}
