/* SPDX-License-Identifier: MIT */
/* The byte with which linkers fill the space after code: an instruction that traps. */
#ifndef ARCH_X86_FILL_H
#define ARCH_X86_FILL_H

#include <stdbool.h>
#include <stdint.h>

/* lld fills the last page of a code segment with this byte where segments have pages of their own. */
static inline bool x86_is_fill(uint8_t byte) { return byte == 0xcc; }

#endif
