/* SPDX-License-Identifier: MIT */
/* A test for rip-relative operands that needs no decoding. It is conservative: it proves that bytes cannot be one. */
#ifndef ARCH_X86_RIP_SCAN_H
#define ARCH_X86_RIP_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* Could `disp` be the displacement of a disp32(%rip) operand? Reads the byte before it. The answer may be true for
 * other bytes, but it is never false for such a displacement. */
bool x86_may_be_rip_operand(const uint8_t *disp);

/* Is `disp` the displacement of lea disp32(%rip),%r64? Reads the RIP_ADDRESS_BEFORE bytes before it. */
#define RIP_ADDRESS_BEFORE 3u
bool x86_makes_rip_address(const uint8_t *disp);

/* The number of positions that x86_rip_operands() tests at once. */
#define RIP_SCAN_WIDTH 16u
/* Answers the question of x86_may_be_rip_operand() for disp, disp + 1, ... disp + RIP_SCAN_WIDTH - 1: bit i is for disp
 * + i. Reads the RIP_SCAN_WIDTH bytes from disp - 1 on. */
unsigned x86_rip_operands(const uint8_t *disp);

#endif
