/* SPDX-License-Identifier: MIT */
/* A look at bytes of code without decoding them, for who needs to know what code cannot mean. */
#ifndef ARCH_X86_RIP_SCAN_H
#define ARCH_X86_RIP_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* Could `disp` be the displacement of an operand disp32(%rip)? The byte before it is looked at,
 * so that one too many is found at times, and never one too few. */
bool x86_may_be_rip_operand(const uint8_t *disp);

#endif
