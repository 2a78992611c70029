/* SPDX-License-Identifier: MIT */
/*
 * Commutes a compare and the instructions that read its flags. `cmp %reg,mem` (38, 39) becomes `cmp mem,%reg` (3a, 3b),
 * of the same length. Each condition that reads its flags becomes the one for exchanged operands: a < b is b > a (SDM
 * vol. 2, CMP and appendix B.1.4.7).
 */
#include "arch/x86/zydis.h"

#include <string.h>

#define STATUS \
	(ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF)

static bool decode(const uint8_t *bytes, unsigned len, ZydisDecodedInstruction *z, ZydisDecodedOperand *ops)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, len, z, ops)) && z->length == len;
}

bool insn_touches_flags(const uint8_t *bytes, unsigned len)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	if (!decode(bytes, len, &z, ops))
		return true;
	return z.meta.category == ZYDIS_CATEGORY_SYSCALL ||
	       (z.cpu_flags &&
	        ((z.cpu_flags->modified | z.cpu_flags->set_0 | z.cpu_flags->set_1 | z.cpu_flags->undefined) & STATUS));
}

/* For each condition code, the condition code that is true after a compare of b with a exactly if this one is true
 * after a compare of a with b. 0xff: there is none. */
static const uint8_t swapped_condition[16] = {0xff, 0xff, 7,    6,    4,  5,  3,  2,   /* o no b ae e ne be a */
                                              0xff, 0xff, 0xff, 0xff, 15, 14, 13, 12}; /* s ns p np l ge le g */

/* Returns the offset of the opcode byte that encodes the condition, or 0xff if the instruction has no condition. */
static unsigned condition_at(const ZydisDecodedInstruction *z)
{
	unsigned prefixes = z->raw.prefix_count;

	if (z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (z->opcode & 0xf0) == 0x70)
		return prefixes;
	if (z->opcode_map == ZYDIS_OPCODE_MAP_0F && z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
	    ((z->opcode & 0xf0) == 0x40 || (z->opcode & 0xf0) == 0x80 || (z->opcode & 0xf0) == 0x90))
		return prefixes + 1;
	return 0xff;
}

bool insn_commute(const uint8_t *bytes, unsigned len, uint8_t out[16])
{
	ZydisDecodedInstruction z, after;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT], now[ZYDIS_MAX_OPERAND_COUNT];
	unsigned at;

	if (len > 15 || !decode(bytes, len, &z, ops) || z.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return false;
	memcpy(out, bytes, len);
	at = condition_at(&z);
	if (at != 0xff) {
		if (swapped_condition[z.opcode & 15] == 0xff || out[at] != z.opcode)
			return false;
		out[at] = (uint8_t)((z.opcode & 0xf0) | swapped_condition[z.opcode & 15]);
		return decode(out, len, &after, now) && insn_same_length(out, len, 0);
	}
	at = z.raw.modrm.offset - 1u;
	if (z.mnemonic != ZYDIS_MNEMONIC_CMP || z.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT || (z.opcode & 0xfe) != 0x38 ||
	    out[at] != z.opcode || ops[0].type != ZYDIS_OPERAND_TYPE_MEMORY)
		return false;
	out[at] |= 2;
	return decode(out, len, &after, now) && after.mnemonic == ZYDIS_MNEMONIC_CMP &&
	       now[0].reg.value == ops[1].reg.value && now[1].type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       now[1].size == ops[0].size && insn_same_length(out, len, 0);
}
