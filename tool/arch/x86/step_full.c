/* SPDX-License-Identifier: MIT */
/* Makes struct step from a complete decode by Zydis; the reference for the faster paths of form.c and encoding.c. */
#include "arch/x86/step_full.h"
#include "arch/x86/newer.h"
#include "arch/x86/shape.h"

#define RAX 0u
#define RCX 1u
#define RSP 4u
#define R11 11u

void full_flow(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out)
{
	bool direct = z->operand_count && ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[0].imm.is_relative;

	if (direct)
		out->imm = (int64_t)(addr + z->length + (uint64_t)ops[0].imm.value.s);
	/* xabort continues where no transaction is active; xbegin's abort handler gets a status in rax. */
	if (z->mnemonic == ZYDIS_MNEMONIC_XABORT || z->mnemonic == ZYDIS_MNEMONIC_XBEGIN)
		out->writes |= 1u << RAX;
	out->flow = (uint8_t)zydis_flow(z, direct);
	if (z->mnemonic == ZYDIS_MNEMONIC_HLT) {
		out->op = STEP_HALT;
		out->flow = FLOW_NEXT;
	}
	out->cond = COND_OTHER;
	if (out->flow == FLOW_BRANCH) {
		switch (z->mnemonic) {
		case ZYDIS_MNEMONIC_JZ: out->cond = COND_EQUAL; break;
		case ZYDIS_MNEMONIC_JNZ: out->cond = COND_NOT_EQUAL; break;
		case ZYDIS_MNEMONIC_JNBE: out->cond = COND_ABOVE; break;
		case ZYDIS_MNEMONIC_JNB: out->cond = COND_ABOVE_EQUAL; break;
		case ZYDIS_MNEMONIC_JB: out->cond = COND_BELOW; break;
		case ZYDIS_MNEMONIC_JBE: out->cond = COND_BELOW_EQUAL; break;
		default: break;
		}
	}
	if ((out->flow == FLOW_JUMP_IND || out->flow == FLOW_CALL_IND) && z->operand_count) {
		if (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
			out->a = (uint8_t)zydis_gpr(ops[0].reg.value);
		out->deref = ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY;
	}
}

/* Sets base, index and displacement of a memory operand. Returns false if the analysis does not model the address. */
static bool memory_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *m, uint64_t addr, struct step *out)
{
	if (m->mem.segment == ZYDIS_REGISTER_FS || m->mem.segment == ZYDIS_REGISTER_GS)
		return false;
	if (m->mem.disp.has_displacement && (m->mem.disp.value < INT32_MIN || m->mem.disp.value > INT32_MAX))
		return false;
	if (m->mem.index != ZYDIS_REGISTER_NONE && zydis_gpr(m->mem.index) == INSN_NO_REG)
		return false; /* a vector of indices, or r16 to r31 */
	if (newer_is_register(m->mem.base))
		return false;
	out->disp = (int32_t)(m->mem.disp.has_displacement ? m->mem.disp.value : 0);
	if (m->mem.base == ZYDIS_REGISTER_RIP) {
		out->b = INSN_PC_REG;
		if (out->flow == FLOW_NEXT || out->flow == FLOW_JUMP_IND || out->flow == FLOW_CALL_IND)
			out->imm = (int64_t)(addr + z->length + (uint64_t)m->mem.disp.value);
		return true;
	}
	if (z->address_width != 64)
		return false;
	out->b = (uint8_t)zydis_gpr(m->mem.base);
	out->index = (uint8_t)zydis_gpr(m->mem.index);
	return true;
}

uint8_t full_direction(unsigned mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_CLD: return DIRECTION_UP;
	case ZYDIS_MNEMONIC_STD: return DIRECTION_DOWN;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ: return DIRECTION_ANY;
	default: return DIRECTION_KEPT;
	}
}

bool full_syscall(unsigned mnemonic, struct step *out)
{
	if (mnemonic != ZYDIS_MNEMONIC_SYSCALL)
		return false;
	out->op = STEP_SYSCALL;
	out->a = RAX;
	return true;
}

bool full_is_padding(const ZydisDecodedInstruction *z)
{
	return z->mnemonic == ZYDIS_MNEMONIC_NOP || z->mnemonic == ZYDIS_MNEMONIC_INT3 ||
	       z->meta.category == ZYDIS_CATEGORY_WIDENOP;
}

void step_full(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out)
{
	struct operand explicit_ops[2] = {{.reg = INSN_NO_REG}, {.reg = INSN_NO_REG}};
	unsigned i, r;
	struct raw raw;
	bool calls;

	out->padding = full_is_padding(z);
	if (out->padding) {
		out->flow = z->mnemonic == ZYDIS_MNEMONIC_INT3 ? FLOW_STOP : FLOW_NEXT;
		return;
	}
	full_flow(z, ops, addr, out);
	out->direction = full_direction(z->mnemonic);
	calls = out->flow == FLOW_CALL || out->flow == FLOW_CALL_IND || out->flow == FLOW_RETURN;
	for (i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];
		bool explicit = i < z->operand_count_visible && i < 2;

		if (explicit)
			explicit_ops[i] = (struct operand){(uint8_t)op->type, INSN_NO_REG, FIELD_NONE, false, op->size};
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (op->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT || !memory_set(z, op, addr, out))
				continue;
			if (op->mem.type == ZYDIS_MEMOP_TYPE_MEM && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
			    out->index == INSN_NO_REG && out->b < 16)
				out->size = op->size / 8 > 255 || !op->size ? 255 : (uint8_t)(op->size / 8);
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			r = zydis_gpr(op->reg.value);
			if (explicit) {
				explicit_ops[i].reg = (uint8_t)r;
				explicit_ops[i].high = op->reg.value >= ZYDIS_REGISTER_AH && op->reg.value <= ZYDIS_REGISTER_BH;
			}
			if (r != INSN_NO_REG && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && !(calls && r == RSP))
				out->writes |= (uint16_t)(1u << r);
		}
	}
	/* The kernel returns its result in rax, and syscall changes rcx and r11 (psABI A.2.1). */
	if (z->meta.category == ZYDIS_CATEGORY_SYSCALL || z->meta.category == ZYDIS_CATEGORY_INTERRUPT)
		out->writes |= 1u << RAX | 1u << RCX | 1u << R11;
	if (out->flow != FLOW_NEXT || out->op == STEP_HALT)
		return;
	if (full_syscall(z->mnemonic, out))
		return;
	raw_of(z, &raw);
	if (stores_back(z->mnemonic, explicit_ops, &raw))
		out->size = 0;
	shape_apply(shape_of(z->mnemonic, explicit_ops), explicit_ops, &raw, out);
	out->cond = out->op == STEP_COMPARE || out->op == STEP_LIMIT ||
	            (z->cpu_flags &&
	             (z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1 | z->cpu_flags->undefined));
	if (out->op == STEP_NONE && out->size)
		out->op = STEP_STORE; /* of an unknown value, since a is INSN_NO_REG */
	if ((out->op == STEP_NONE || out->op == STEP_STORE) && z->raw.imm[0].size == 32 && !out->imm)
		out->imm = (int64_t)z->raw.imm[0].value.u; /* a 32-bit immediate may be an address */
}
