/* SPDX-License-Identifier: MIT */
/* Decodes an instruction and clears the fields that depend on addresses. */
#include "arch/x86/address_free.h"
#include "arch/x86/newer.h"
#include "arch/x86/zydis.h"

#include <string.h>

/* Sets out->code to the prefixes and the opcode of a direct branch. A jump with an 8-bit displacement gets the opcode
 * for a 32-bit displacement, since only the distance decides which of the two a compiler uses. */
static void branch_code(const ZydisDecodedInstruction *z, const uint8_t *bytes, struct normal *out)
{
	unsigned n = z->raw.imm[0].offset;

	memcpy(out->code, bytes, n);
	if (z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && z->opcode == 0xeb) {
		out->code[n - 1] = 0xe9;
	} else if (z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && z->opcode >= 0x70 && z->opcode <= 0x7f) {
		out->code[n - 1] = 0x0f;
		out->code[n++] = (uint8_t)(z->opcode + 0x10);
	}
	out->code_len = (uint8_t)n;
}

bool normal_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct normal *out)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	ZydisDecoderContext context;
	enum insn_flow flow;
	bool direct;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(zydis_decoder(), &context, bytes, avail, &z)) &&
	    !newer_decode(bytes, avail, &z, ops))
		return false;
	memset(out, 0, sizeof(*out));
	out->addr = addr;
	out->len = z.length;
	direct = z.raw.imm[0].size && z.raw.imm[0].is_relative;
	flow = zydis_flow(&z, direct);
	/* for comparisons, control counts as going on after hlt, ud2 and int3 */
	out->flow = (uint8_t)(flow == FLOW_STOP ? FLOW_NEXT : flow);
	if (z.raw.imm[0].size) {
		out->imm = z.raw.imm[0].is_signed ? z.raw.imm[0].value.s : (int64_t)z.raw.imm[0].value.u;
		out->imm_at = z.raw.imm[0].offset;
		out->imm_len = z.raw.imm[0].size / 8;
	}
	if (z.raw.disp.size) {
		out->disp = z.raw.disp.value;
		out->disp_at = z.raw.disp.offset;
		out->disp_len = z.raw.disp.size / 8;
	}
	out->segment = z.attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS);
	out->nop = z.mnemonic == ZYDIS_MNEMONIC_NOP || z.meta.category == ZYDIS_CATEGORY_WIDENOP;
	out->trap = z.mnemonic == ZYDIS_MNEMONIC_INT3;
	if (direct) {
		out->branch = true;
		out->target = addr + z.length + (uint64_t)z.raw.imm[0].value.s;
		branch_code(&z, bytes, out);
		return true;
	}
	memcpy(out->code, bytes, z.length);
	out->code_len = z.length;
	if ((z.attributes & ZYDIS_ATTRIB_HAS_MODRM) && z.raw.disp.size) {
		out->pc = z.raw.modrm.mod == 0 && z.raw.modrm.rm == 5;
		out->based = !out->pc && !(z.raw.modrm.mod == 0 && z.raw.modrm.rm == 4 && z.raw.sib.base == 5 &&
		                           z.raw.sib.index == 4 && !z.raw.rex.X);
	}
	if (out->pc) {
		out->target = addr + z.length + (uint64_t)out->disp;
		memset(out->code + out->disp_at, 0, out->disp_len);
	}
	return true;
}

unsigned normal_access(const uint8_t *bytes, size_t avail)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	unsigned i;

	if (!zydis_decode(bytes, avail, &z, ops) || z.meta.category == ZYDIS_CATEGORY_PREFETCH)
		return 0;
	for (i = 0; i < z.operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[i].mem.type == ZYDIS_MEMOP_TYPE_MEM)
			return ops[i].size / 8;
	return 0;
}
