/* SPDX-License-Identifier: MIT */
/* The jump of pv_call_inline, by its encoding: for both users of the first decoder. */
#ifndef X86_INLINE_JUMP_H
#define X86_INLINE_JUMP_H

#include <Zydis/Zydis.h>
#include <stdbool.h>

/*
 * A near jump with a DS and a CS prefix, which nothing else emits, and which etch makes a nop:
 * both ways are possible (etch/pv_forms.h, __pv_inline).
 */
static inline bool insn_is_inline_jump(const ZydisDecodedInstruction *z)
{
	return z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && z->opcode == 0xe9 && z->raw.prefix_count == 2 &&
	       z->raw.prefixes[0].value == 0x3e && z->raw.prefixes[1].value == 0x2e;
}

#endif
