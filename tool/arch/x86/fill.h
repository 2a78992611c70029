/* SPDX-License-Identifier: MIT */
/* What linkers fill the space after code with: instructions that trap. */
#ifndef ARCH_X86_FILL_H
#define ARCH_X86_FILL_H

#include <stdbool.h>
#include <stdint.h>

/* lld fills the last page of a segment with code with it, where segments have pages of their own. */
static inline bool x86_is_fill(uint8_t byte) { return byte == 0xcc; }

#endif
