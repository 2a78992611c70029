/* SPDX-License-Identifier: MIT */
/* The first decoder, Zydis: bytes -> struct insn, and the site forms of an instruction (etch/forms.h,
 * etch/pv_forms.h). */
#include "arch/x86/insn.h"
#include "arch/x86/zydis.h"

#include <etch/pv_forms.h>
#include <stdio.h>
#include <string.h>

static void flow_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out)
{
	bool direct = z->operand_count && ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[0].imm.is_relative;

	if (direct)
		out->target = out->addr + z->length + (uint64_t)ops[0].imm.value.s;
	out->flow = (uint8_t)zydis_flow(z, direct);
	if ((out->flow == FLOW_CALL_IND || out->flow == FLOW_JUMP_IND) && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		out->src = (uint8_t)zydis_gpr(ops[0].reg.value);
}

static void memory_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op, struct insn *out)
{
	bool read = op->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
	bool write = op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;

	if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN || z->meta.category == ZYDIS_CATEGORY_PREFETCH ||
	    z->meta.category == ZYDIS_CATEGORY_WIDENOP || z->mnemonic == ZYDIS_MNEMONIC_NOP || (!read && !write))
		out->mem = MEM_ADDRESS;
	else
		out->mem = read && write ? MEM_UPDATE : write ? MEM_WRITE : MEM_READ;
	out->mem_size = op->size / 8;
	out->base =
		(uint8_t)(op->mem.base == ZYDIS_REGISTER_RIP || op->mem.base == ZYDIS_REGISTER_EIP ? INSN_PC_REG
	                                                                                       : zydis_gpr(op->mem.base));
	out->index = (uint8_t)zydis_gpr(op->mem.index);
	if (op->mem.index != ZYDIS_REGISTER_NONE && out->index == INSN_NO_REG)
		out->index = out->base; /* a vector index (gather): any value but INSN_NO_REG marks the operand as indexed */
	out->disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	out->segment = op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS;
	if (z->raw.disp.size) {
		out->disp_at = z->raw.disp.offset;
		out->disp_len = z->raw.disp.size / 8;
	}
}

static void move_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out)
{
	const ZydisDecodedOperand *a = &ops[0], *b = &ops[1];

	if (z->operand_count_visible < 2 || a->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return;
	out->dst = (uint8_t)zydis_gpr(a->reg.value);
	if (out->dst == INSN_NO_REG)
		return;
	if (z->mnemonic == ZYDIS_MNEMONIC_MOV && a->size == 64 && b->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    zydis_gpr(b->reg.value) != INSN_NO_REG) {
		out->move = MOVE_COPY;
		out->src = (uint8_t)zydis_gpr(b->reg.value);
	} else if (z->mnemonic == ZYDIS_MNEMONIC_MOV && b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && a->size >= 32) {
		out->move = MOVE_IMM;
	} else if (z->mnemonic == ZYDIS_MNEMONIC_MOV && a->size == 64 && b->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		out->move = MOVE_LOAD;
	} else if (z->mnemonic == ZYDIS_MNEMONIC_LEA && a->size == 64) {
		out->move = MOVE_ADDRESS;
	} else if ((z->mnemonic == ZYDIS_MNEMONIC_ADD || z->mnemonic == ZYDIS_MNEMONIC_SUB) && a->size == 64 &&
	           b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		out->move = MOVE_ADD;
		if (z->mnemonic == ZYDIS_MNEMONIC_SUB)
			out->imm = -out->imm;
	}
}

/* Sets the memory operand and the masks of registers read and written. */
static void operands_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out)
{
	unsigned i, r;

	for (i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];

		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT || op->mem.disp.has_displacement) {
				memory_set(z, op, out);
			} else if (zydis_gpr(op->mem.base) != 4) { /* string instructions; base 4 is the stack */
				out->string = true;
				if (zydis_gpr(op->mem.base) != INSN_NO_REG)
					out->reads |= (uint16_t)(1u << zydis_gpr(op->mem.base));
			}
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			r = zydis_gpr(op->reg.value);
			if (r == INSN_NO_REG)
				continue;
			/* A conditional write (cmov) or a write of 8 or 16 bits keeps the old value or a part of it: it
			 * reads the register, too. */
			if ((op->actions & ZYDIS_OPERAND_ACTION_MASK_READ) || (op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE) ||
			    ((op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && op->size < 32))
				out->reads |= (uint16_t)(1u << r);
			if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
				out->writes |= (uint16_t)(1u << r);
		}
	}
}

bool insn_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, avail, &z, ops)))
		return false;
	memset(out, 0, sizeof(*out));
	out->addr = addr;
	out->len = z.length;
	out->callee = -1;
	out->base = out->index = out->dst = out->src = INSN_NO_REG;
	if (z.raw.imm[0].size) {
		out->imm = z.raw.imm[0].is_signed ? z.raw.imm[0].value.s : (int64_t)z.raw.imm[0].value.u;
		out->imm_at = z.raw.imm[0].offset;
		out->imm_len = z.raw.imm[0].size / 8;
	}
	operands_set(&z, ops, out);
	if (z.meta.category == ZYDIS_CATEGORY_SYSCALL || z.meta.category == ZYDIS_CATEGORY_INTERRUPT)
		out->reads |= insn_syscall_arguments();
	out->barrier = z.meta.category == ZYDIS_CATEGORY_SYSCALL || z.meta.category == ZYDIS_CATEGORY_INTERRUPT ||
	               (z.attributes & ZYDIS_ATTRIB_HAS_LOCK) || z.mnemonic == ZYDIS_MNEMONIC_MFENCE ||
	               (z.mnemonic == ZYDIS_MNEMONIC_XCHG && out->mem != MEM_NONE);
	/* xor %r,%r and sub %r,%r depend on no input. */
	if ((z.mnemonic == ZYDIS_MNEMONIC_XOR || z.mnemonic == ZYDIS_MNEMONIC_SUB) &&
	    ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    ops[0].reg.value == ops[1].reg.value && ops[0].size >= 32)
		out->reads = 0;
	flow_set(&z, ops, out);
	move_set(&z, ops, out);
	out->padding = z.mnemonic == ZYDIS_MNEMONIC_NOP || z.mnemonic == ZYDIS_MNEMONIC_INT3 ||
	               z.meta.category == ZYDIS_CATEGORY_WIDENOP;
	if (out->padding) { /* the operands of a nop are neither read nor written */
		out->reads = out->writes = 0;
		out->mem = MEM_NONE;
		out->move = MOVE_NONE;
	}
	/* A lea with a DS prefix; or a mov with one from the GOT, which linkers relax to lea or to a mov of an
	 * immediate. */
	out->no_escape = bytes[0] == 0x3e && z.length >= 4 && (bytes[1] & 0xf8) == 0x48 &&
	                 (bytes[2] == 0x8d || (bytes[2] == 0x8b && out->base == INSN_PC_REG) ||
	                  (bytes[2] == 0xc7 && out->move == MOVE_IMM));
	return true;
}

bool insn_accesses_memory(const uint8_t *bytes, size_t avail)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	unsigned i;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, avail, &z, ops)))
		return false;
	/* Hints never fault (SDM vol. 2, PREFETCHh, CLDEMOTE); nops of any length access no memory. */
	if (z.meta.category == ZYDIS_CATEGORY_PREFETCH || z.meta.category == ZYDIS_CATEGORY_WIDENOP ||
	    z.mnemonic == ZYDIS_MNEMONIC_NOP || z.mnemonic == ZYDIS_MNEMONIC_CLDEMOTE)
		return false;
	for (i = 0; i < z.operand_count; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[i].mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
		    (ops[i].actions & (ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_MASK_WRITE)))
			return true;
	return false;
}

uint64_t insn_call_target(const uint8_t *bytes, uint64_t addr)
{
	int32_t rel;

	if (bytes[0] != 0xe8)
		return 0;
	memcpy(&rel, bytes + 1, 4);
	return addr + 5 + (uint64_t)(int64_t)rel;
}

bool insn_is_stack_register(unsigned reg) { return reg == 4; }

/* ---- site forms ---------------------------------------------------------- */

/* The ETCH_FORM_* of an instruction by mnemonic and operand sizes, or ETCH_FORM_NONE. */
static unsigned form_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	static const ZydisMnemonic alu[8] = {
		ZYDIS_MNEMONIC_ADD, ZYDIS_MNEMONIC_OR,  ZYDIS_MNEMONIC_ADC, ZYDIS_MNEMONIC_SBB,
		ZYDIS_MNEMONIC_AND, ZYDIS_MNEMONIC_SUB, ZYDIS_MNEMONIC_XOR, ZYDIS_MNEMONIC_CMP,
	};
	unsigned width = ops[0].size, mem = 0, log, i;

	if (z->mnemonic == ZYDIS_MNEMONIC_PUSH)
		return ops[0].size == 64 ? ETCH_FORM_PUSH64 : ETCH_FORM_NONE;
	for (i = 0; i < z->operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			mem = ops[i].size;
	log = width == 8 ? 0 : width == 16 ? 1 : width == 32 ? 2 : 3;
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_MOV: return ETCH_FORM_MOV8 + log;
	case ZYDIS_MNEMONIC_MOVZX:
		if (mem == 8)
			return width == 16 ? ETCH_FORM_MOVZX8_16 : width == 32 ? ETCH_FORM_MOVZX8_32 : ETCH_FORM_MOVZX8_64;
		return width == 32 ? ETCH_FORM_MOVZX16_32 : width == 64 ? ETCH_FORM_MOVZX16_64 : ETCH_FORM_NONE;
	case ZYDIS_MNEMONIC_MOVSX:
		if (mem == 8)
			return width == 16 ? ETCH_FORM_MOVSX8_16 : width == 32 ? ETCH_FORM_MOVSX8_32 : ETCH_FORM_MOVSX8_64;
		return width == 32 ? ETCH_FORM_MOVSX16_32 : width == 64 ? ETCH_FORM_MOVSX16_64 : ETCH_FORM_NONE;
	case ZYDIS_MNEMONIC_MOVSXD: return width == 64 ? ETCH_FORM_MOVSX32_64 : ETCH_FORM_NONE;
	case ZYDIS_MNEMONIC_TEST: return ETCH_FORM_TEST8 + log;
	case ZYDIS_MNEMONIC_IMUL: return log ? ETCH_FORM_IMUL16 + log - 1 : ETCH_FORM_NONE;
	default:
		for (i = 0; i < 8; i++)
			if (z->mnemonic == alu[i])
				return ETCH_FORM_ALU + 4 * i + log;
		return ETCH_FORM_NONE;
	}
}

/* The reason, for messages, why an instruction has no form. */
static const char *no_form(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_BT: return "bit test in memory has no immediate form of the same length";
	case ZYDIS_MNEMONIC_DIV:
	case ZYDIS_MNEMONIC_IDIV:
	case ZYDIS_MNEMONIC_MUL:
	case ZYDIS_MNEMONIC_IMUL: return "multiply or divide through fixed registers has no immediate form";
	case ZYDIS_MNEMONIC_MOV: return "segment or control register load";
	default: break;
	}
	if (z->meta.category == ZYDIS_CATEGORY_CMOV)
		return "conditional move has no immediate form";
	if ((z->mnemonic == ZYDIS_MNEMONIC_CMP || z->mnemonic == ZYDIS_MNEMONIC_TEST) &&
	    ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return "compare of memory with a constant has no immediate form";
	if (z->mnemonic == ZYDIS_MNEMONIC_CMP)
		return "compare with memory as its first operand has no immediate form";
	if (z->meta.category == ZYDIS_CATEGORY_X87_ALU)
		return "vector or x87 load has no immediate form";
	if (z->meta.category == ZYDIS_CATEGORY_CONVERT)
		return "conversion from floating point or vector has no immediate form";
	if (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && zydis_gpr(ops[0].reg.value) == INSN_NO_REG)
		return "vector or x87 load has no immediate form";
	return "no immediate form of this instruction";
}

bool insn_is_locked(const uint8_t *bytes) { return bytes[0] == 0xf0; }

const char *insn_site_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	const ZydisDecodedOperand *dst, *mem = NULL;
	unsigned form, mode, i, reg = 0;
	bool push;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, insn->len, &z, ops)))
		return "does not decode";
	if (insn->index != INSN_NO_REG)
		return "indexed: its address is not fixed";
	if (insn->segment)
		return "segment override";
	for (i = 0; i < z.operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			mem = &ops[i];
	if (z.mnemonic == ZYDIS_MNEMONIC_IMUL && z.operand_count_visible > 2)
		return "multiply of memory by a constant has no immediate form";
	if (!mem || z.operand_count_visible > 2)
		return no_form(&z, ops);
	push = z.mnemonic == ZYDIS_MNEMONIC_PUSH;
	dst = &ops[0];
	if (z.mnemonic == ZYDIS_MNEMONIC_TEST && mem == &ops[0] && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
		dst = &ops[1]; /* test is commutative; its encoding has the memory operand first */
	if (!push) {
		if (dst == mem || dst->type != ZYDIS_OPERAND_TYPE_REGISTER || zydis_gpr(dst->reg.value) == INSN_NO_REG)
			return no_form(&z, ops);
		reg = z.raw.modrm.reg | z.raw.rex.R << 3;
	}
	form = form_of(&z, ops);
	if (z.mnemonic == ZYDIS_MNEMONIC_TEST)
		form = ETCH_FORM_TEST8 + (dst->size == 8 ? 0u : dst->size == 16 ? 1u : dst->size == 32 ? 2u : 3u);
	if (!form)
		return no_form(&z, ops);
	if (insn->disp_len == 8)
		return "64-bit absolute address";
	if (insn->disp_len != 4)
		return "too short for an immediate: its address is in a register";
	if (insn->base == INSN_PC_REG)
		mode = ETCH_ADDR_RIP;
	else if (insn->base == INSN_NO_REG)
		mode = ETCH_ADDR_ABS;
	else if (insn->disp == 0)
		mode = ETCH_ADDR_BASE;
	else
		return "register plus offset: a table entry cannot hold the offset";
	if (mode == ETCH_ADDR_BASE && insn->base == 4)
		return "its address is relative to the stack pointer";
	out->form = (uint8_t)form;
	out->regs = (uint8_t)(reg | (mode == ETCH_ADDR_BASE ? insn->base << 4 : 0));
	out->shape = (uint8_t)(insn->len | mode << 4 | ((z.attributes & ZYDIS_ATTRIB_HAS_REX) ? 0x40 : 0));
	return NULL;
}

const char *insn_pv_form(const uint8_t *bytes, const struct insn *insn, struct etch_imv *out)
{
	unsigned notrack = bytes[0] == 0x3e, rex = (bytes[notrack] & 0xf0) == 0x40, mode, reg = 0;
	bool call = insn->flow == FLOW_CALL_IND;
	int64_t disp = 0;

	if (insn->mem == MEM_NONE) {
		if (insn->src == INSN_NO_REG)
			return "unusual call encoding";
		mode = ETCH_ADDR_REG;
		reg = insn->src;
	} else {
		if (insn->index != INSN_NO_REG)
			return "indexed: its slot is not fixed";
		if (insn->segment)
			return "segment override";
		if (insn->mem_size != 8)
			return "a far or 16-bit call";
		if (insn->base == INSN_PC_REG) {
			mode = ETCH_ADDR_RIP;
		} else if (insn->base == INSN_NO_REG) {
			mode = ETCH_ADDR_ABS;
		} else {
			mode = ETCH_ADDR_BASE;
			reg = insn->base;
			disp = insn->disp;
		}
	}
	if (insn->len < 2 || insn->len > 9)
		return "unusual call encoding";
	if (mode == ETCH_ADDR_BASE && reg == 4)
		return "its address is relative to the stack pointer";
	if (disp % 8)
		return "its offset in the table is not a multiple of 8";
	if (!etch_pv_set(out, reg, disp))
		return "its offset in the table is too large for an entry";
	out->form = call ? ETCH_FORM_CALL : ETCH_FORM_JMP;
	out->shape = (uint8_t)(insn->len | mode << 4 | rex << 6 | (notrack ? ETCH_PV_NOTRACK : 0));
	return NULL;
}

void insn_form_name(unsigned form, char *out, size_t size)
{
	static const char *const mov[16] = {
		"none",       "mov8",       "mov16",     "mov32",     "mov64",     "movzx8_16",  "movzx8_32",  "movzx8_64",
		"movzx16_32", "movzx16_64", "movsx8_16", "movsx8_32", "movsx8_64", "movsx16_32", "movsx16_64", "movsx32_64",
	};
	static const char *const alu[8] = {"add", "or", "adc", "sbb", "and", "sub", "xor", "cmp"};

	if (form < 16)
		snprintf(out, size, "%s", mov[form]);
	else if (form <= ETCH_FORM_ALU_LAST)
		snprintf(out, size, "%s%u", alu[(form - ETCH_FORM_ALU) / 4], 8u << (form & 3));
	else if (form <= ETCH_FORM_TEST64)
		snprintf(out, size, "test%u", 8u << (form - ETCH_FORM_TEST8));
	else if (form >= ETCH_FORM_IMUL16 && form <= ETCH_FORM_IMUL64)
		snprintf(out, size, "imul%u", 16u << (form - ETCH_FORM_IMUL16));
	else if (form == ETCH_FORM_PUSH64)
		snprintf(out, size, "push64");
	else
		snprintf(out, size, "form%u", form);
}

/* rax rcx rdx rsi rdi r8-r11 */
uint16_t insn_call_clobbers(void) { return 1u << 0 | 1u << 1 | 1u << 2 | 1u << 6 | 1u << 7 | 0xf00u; }
/* rdi rsi rdx rcx r8 r9, and r10 (static chain pointer) */
uint16_t insn_call_arguments(void) { return 1u << 7 | 1u << 6 | 1u << 2 | 1u << 1 | 0x700u; }
uint16_t insn_pointer_arguments(void) { return insn_call_arguments() & (uint16_t) ~(1u << 10); }
/* rdi rsi rdx r10 r8 r9: arguments of a system call (psABI A.2.1) */
uint16_t insn_syscall_arguments(void) { return 1u << 7 | 1u << 6 | 1u << 2 | 0x700u; }
/* rax rdx */
uint16_t insn_return_values(void) { return 1u << 0 | 1u << 2; }
