/* SPDX-License-Identifier: MIT */
/* Instructions of control-flow enforcement (SDM vol. 1, 17.3) and against straight-line
 * speculation, by their bytes. */
#ifndef X86_CET_H
#define X86_CET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* endbr64: where an indirect call or jump may lead. */
bool insn_is_endbr(const uint8_t *bytes, size_t avail);
/* An indirect call or jump of this length that is not tracked: its target needs no endbr64. */
bool insn_is_notrack(const uint8_t *bytes, size_t len);
/* int3, which speculation does not go past. */
bool insn_is_int3(const uint8_t *bytes, size_t avail);

#endif
