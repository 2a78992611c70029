/* SPDX-License-Identifier: MIT */
/* Compares the results of Zydis and Capstone for one instruction, and has a cache of encodings on which they have
 * agreed. */
#include "arch/x86/cross_check.h"
#include "arch/x86/newer.h"
#include "arch/x86/zydis.h"

#include <capstone/capstone.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	ZydisDecoder minimal; /* minimal mode: length and raw fields, no operands */
	ZydisFormatter formatter;
	csh second;
	cs_insn *insn; /* Capstone's result; the memory is reused for each instruction */
	bool ready;
} decoders;

static void decoders_open(void)
{
	if (decoders.ready)
		return;
	decoders.minimal = *zydis_decoder();
	ZydisDecoderEnableMode(&decoders.minimal, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	ZydisFormatterInit(&decoders.formatter, ZYDIS_FORMATTER_STYLE_ATT);
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &decoders.second) != CS_ERR_OK ||
	    cs_option(decoders.second, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT) ||
	    cs_option(decoders.second, CS_OPT_DETAIL, CS_OPT_ON) || !(decoders.insn = cs_malloc(decoders.second))) {
		fprintf(stderr, "etch: cannot start Capstone\n");
		exit(2);
	}
	decoders.ready = true;
}

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u; }

uint64_t insn_form_key(const uint8_t *bytes, size_t avail)
{
	ZydisDecodedInstruction z;
	uint64_t h = 1;
	unsigned i;

	decoders_open();
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoders.minimal, NULL, bytes, avail, &z)))
		return 0;
	for (i = 0; i < z.raw.prefix_count; i++)
		h = mix(h, (z.raw.prefixes[i].value & 0xf0) == 0x40 ? 0x40u | (z.raw.prefixes[i].value & 8u)
		                                                    : z.raw.prefixes[i].value);
	h = mix(h, (uint64_t)z.encoding << 16 | (uint64_t)z.opcode_map << 8 | z.opcode);
	if (z.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX)
		h = mix(h, (uint64_t)z.raw.vex.W << 8 | (uint64_t)z.raw.vex.L << 4 | z.raw.vex.pp);
	else if (z.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX)
		h = mix(h, (uint64_t)(z.raw.evex.aaa != 0) << 12 | (uint64_t)z.raw.evex.z << 11 | (uint64_t)z.raw.evex.b << 10 |
		               (uint64_t)z.raw.evex.W << 8 | (uint64_t)z.raw.evex.L << 5 | (uint64_t)z.raw.evex.L2 << 4 |
		               z.raw.evex.pp);
	if (z.raw.modrm.offset) {
		unsigned mod = z.raw.modrm.mod, rm = z.raw.modrm.rm;
		bool sib = mod != 3 && rm == 4;

		/* The key contains no register numbers. It contains rm only if rm selects the instruction or the addressing
		 * mode. */
		if (mod == 3)
			rm = z.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && z.opcode < 0xc6 ? 0 : rm;
		else if (!sib && !(rm == 5 && !mod))
			rm = 0;
		h = mix(h, mod << 6 | (unsigned)z.raw.modrm.reg << 3 | rm);
		if (sib)
			h = mix(h, (unsigned)(z.raw.sib.base == 5 && !mod) << 1 | (z.raw.sib.index == 4));
	}
	h = mix(h, (uint64_t)z.raw.disp.size << 16 | (uint64_t)z.raw.imm[0].size << 8 | z.raw.imm[1].size);
	return h | 1;
}

/* ---- the cache of agreed encodings --------------------------------------------------- */

#define AGREED 65536u /* a power of two */

static uint64_t agreed[AGREED];

/* Returns the number of legacy prefixes at the start, but counts no more than 3. */
static size_t prefix_bytes(const uint8_t *b, size_t avail)
{
	size_t n = 0;

	while (n < avail && n < 3)
		switch (b[n]) {
		case 0x66:
		case 0xf2:
		case 0xf3:
		case 0x2e:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0xf0:
		case 0x67: n++; break;
		default: return n;
		}
	return n;
}

/* Returns the number of bytes of an opcode, including its escape bytes, or the VEX or EVEX prefix in front of it. */
static size_t opcode_bytes(const uint8_t *b)
{
	switch (b[0]) {
	case 0xc5: return 3; /* VEX, with one byte of payload */
	case 0xc4: return 4;
	case 0x62: return 5; /* EVEX */
	case 0x0f: return b[1] == 0x38 || b[1] == 0x3a ? 3 : 2;
	default: return 1;
	}
}

/* Returns a hash of all bytes up to ModRM and SIB, which determine the form. For an opcode without ModRM, the byte
 * after the opcode is included. Returns 0 if there are too few bytes. */
static uint64_t head_key(const uint8_t *b, size_t avail)
{
	size_t at = prefix_bytes(b, avail), i;
	uint64_t h, word;

	if (at < avail && (b[at] & 0xf0) == 0x40)
		at++;
	if (at + 8 > avail)
		return 0;
	at += opcode_bytes(b + at);
	at += at < avail && b[at] < 0xc0 && (b[at] & 7) == 4 ? 2 : 1;
	if (at > avail)
		return 0;
	memcpy(&word, b, sizeof(word));
	h = mix(mix(0, at), at < sizeof(word) ? word & ~(UINT64_MAX << 8 * at) : word);
	for (i = sizeof(word); i < at; i++)
		h = mix(h, b[i]);
	return h | 1;
}

bool insn_is_agreed(const uint8_t *bytes, size_t avail)
{
	uint64_t key = head_key(bytes, avail);

	return key && agreed[key >> 48 & (AGREED - 1)] == key;
}

void insn_agreed(const uint8_t *bytes, size_t avail)
{
	uint64_t key = head_key(bytes, avail);

	if (key)
		agreed[key >> 48 & (AGREED - 1)] = key;
}

/* ---- the comparison ------------------------------------------------------------------ */

static bool in_group(const cs_insn *c, unsigned group)
{
	unsigned i;

	for (i = 0; i < c->detail->groups_count; i++)
		if (c->detail->groups[i] == group)
			return true;
	return false;
}

static const cs_x86_op *second_memory(const cs_insn *c)
{
	unsigned i;

	for (i = 0; i < c->detail->x86.op_count; i++)
		if (c->detail->x86.operands[i].type == X86_OP_MEM)
			return &c->detail->x86.operands[i];
	return NULL;
}

/* Do z and c denote the same register? Compares their names, which are the same in both decoders, unlike their
 * numbers. */
static bool same_register(ZydisRegister z, x86_reg c)
{
	const char *a = z == ZYDIS_REGISTER_NONE ? "" : ZydisRegisterGetString(z);
	const char *b = c == X86_REG_INVALID || c == X86_REG_RIZ || c == X86_REG_EIZ ? "" : cs_reg_name(decoders.second, c);

	return a && b && !strcmp(a, b);
}

/* Does a memory operand access data? If not, it only gives an address or a cache line, and its size is not encoded. */
static bool accesses_data(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op)
{
	return op->mem.type == ZYDIS_MEMOP_TYPE_MEM && z->meta.category != ZYDIS_CATEGORY_NOP &&
	       z->meta.category != ZYDIS_CATEGORY_WIDENOP && z->mnemonic != ZYDIS_MNEMONIC_CLFLUSH &&
	       z->mnemonic != ZYDIS_MNEMONIC_CLFLUSHOPT && z->mnemonic != ZYDIS_MNEMONIC_CLWB &&
	       z->mnemonic != ZYDIS_MNEMONIC_CLDEMOTE;
}

/* Returns what differs between the memory operand that Zydis finds and Capstone's, as a phrase for messages, or
 * null. */
static const char *memory_differs(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op, const cs_insn *c)
{
	const cs_x86_op *mem = second_memory(c);

	if (!mem)
		return "whether it has a memory operand";
	if (!same_register(op->mem.base, mem->mem.base) || !same_register(op->mem.index, mem->mem.index) ||
	    (op->mem.index != ZYDIS_REGISTER_NONE && op->mem.scale != (ZyanU8)mem->mem.scale) ||
	    (op->mem.disp.has_displacement ? op->mem.disp.value : 0) != mem->mem.disp)
		return "the address of its memory operand";
	if (accesses_data(z, op) && op->size && mem->size && op->size / 8 != mem->size)
		return "the size of its memory operand";
	return NULL;
}

/* Is the instruction one that Zydis counts as a branch, but that Capstone puts into no group of jumps, calls or
 * returns? */
static bool has_no_group(const ZydisDecodedInstruction *z, const cs_insn *c)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XEND:
	case ZYDIS_MNEMONIC_XABORT:
	case ZYDIS_MNEMONIC_LOOP:
	case ZYDIS_MNEMONIC_LOOPE:
	case ZYDIS_MNEMONIC_LOOPNE: return true;
	default:
		return !strncmp(c->mnemonic, "iret", 4) || !strncmp(c->mnemonic, "sysret", 6) ||
		       !strncmp(c->mnemonic, "sysexit", 7);
	}
}

/* Does Capstone find the same target of a direct jump or call as Zydis? */
static bool same_target(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op, uint64_t addr,
                        const cs_insn *c)
{
	const cs_x86 *x = &c->detail->x86;
	ZyanU64 target;

	return x->op_count == 1 && x->operands[0].type == X86_OP_IMM &&
	       ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(z, op, addr, &target)) && (ZyanU64)x->operands[0].imm == target;
}

/* Returns what differs between Zydis and Capstone about a branch, as a phrase for messages, or null. */
static const char *branch_differs(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr,
                                  const cs_insn *c)
{
	bool jump = z->meta.category == ZYDIS_CATEGORY_COND_BR || z->meta.category == ZYDIS_CATEGORY_UNCOND_BR;
	bool call = z->meta.category == ZYDIS_CATEGORY_CALL, ret = z->meta.category == ZYDIS_CATEGORY_RET;

	if (has_no_group(z, c))
		return NULL;
	if (jump != in_group(c, X86_GRP_JUMP) || call != in_group(c, X86_GRP_CALL) || ret != in_group(c, X86_GRP_RET))
		return "whether it is a jump, a call or a return";
	if ((jump || call) && ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[0].imm.is_relative &&
	    !same_target(z, &ops[0], addr, c))
		return "its branch target";
	return NULL;
}

/* Returns what differs between the results of Zydis and Capstone, as a phrase for messages, or null. */
static const char *insn_differs(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr,
                                const cs_insn *c)
{
	const ZydisDecodedOperand *memory = NULL;
	const char *about;
	unsigned i;

	if (z->length != c->size)
		return "its length";
	about = branch_differs(z, ops, addr, c);
	if (about)
		return about;
	for (i = 0; i < z->operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[i].visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
			memory = &ops[i];
	if (memory)
		return memory_differs(z, memory, c);
	/* Instructions with implicit memory operands are not compared: Capstone lists those of string instructions as
	 * explicit. */
	for (i = 0; i < z->operand_count; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			return NULL;
	return second_memory(c) ? "whether it has a memory operand" : NULL;
}

enum insn_verdict insn_views_compare(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn_views *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	const uint8_t *at = bytes;
	size_t left = avail < INSN_MOST ? avail : INSN_MOST;
	uint64_t pc = addr;
	bool known;

	decoders_open();
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, avail, &z, ops)))
		return newer_text(false, bytes, avail, out->first, sizeof(out->first)) ? VIEWS_MISSING : VIEWS_AGREE;
	out->name = ZydisMnemonicGetString(z.mnemonic);
	known = cs_disasm_iter(decoders.second, &at, &left, &pc, decoders.insn);
	out->about = known ? insn_differs(&z, ops, addr, decoders.insn) : NULL;
	if (known && !out->about)
		return VIEWS_AGREE;
	if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&decoders.formatter, &z, ops, z.operand_count_visible, out->first,
	                                                  sizeof(out->first), addr, NULL)))
		snprintf(out->first, sizeof(out->first), "%s", out->name);
	if (!known)
		return VIEWS_MISSING;
	snprintf(out->second, sizeof(out->second), "%s %s (%u bytes)", decoders.insn->mnemonic, decoders.insn->op_str,
	         decoders.insn->size);
	snprintf(out->first + strlen(out->first), sizeof(out->first) - strlen(out->first), " (%u bytes)", z.length);
	return VIEWS_DIFFER;
}
