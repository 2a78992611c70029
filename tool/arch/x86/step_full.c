/* SPDX-License-Identifier: MIT */
/* Makes struct step from an instruction that Zydis has decoded with all operands. Builds with ETCH_CHECK_STEPS compare
 * the results of the faster form.c and encoding.c with this. */
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
	/* Control goes on after xabort if no transaction is active. The abort handler of xbegin gets a status in rax. */
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
	if (flow_is_indirect(out->flow) && z->operand_count) {
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
		return false; /* the index is a vector of indices, or one of r16 to r31 */
	if (newer_is_register(m->mem.base))
		return false;
	out->disp = (int32_t)(m->mem.disp.has_displacement ? m->mem.disp.value : 0);
	if (m->mem.base == ZYDIS_REGISTER_RIP) {
		out->b = INSN_PC_REG;
		if (out->flow == FLOW_NEXT || flow_is_indirect(out->flow))
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

uint16_t full_kernel_writes(const ZydisDecodedInstruction *z)
{
	return zydis_enters_kernel(z) ? 1u << RAX | 1u << RCX | 1u << R11 : 0;
}

bool full_writes_flags(const ZydisDecodedInstruction *z)
{
	return z->cpu_flags &&
	       (z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1 | z->cpu_flags->undefined);
}

uint8_t full_stored(const ZydisDecodedOperand *op)
{
	if (op->mem.type != ZYDIS_MEMOP_TYPE_MEM || !(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		return 0;
	return op->size / 8 > 255 || !op->size ? 255 : (uint8_t)(op->size / 8);
}

/* Applies operand i of an instruction: adds a written register to out->writes, sets the memory operand of *out, and if
 * the operand is one of the first two explicit ones, fills explicit_ops[i] for the shape. */
static void operand_apply(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op, unsigned i, uint64_t addr,
                          struct operand explicit_ops[2], struct step *out)
{
	struct operand *shown = i < z->operand_count_visible && i < 2 ? &explicit_ops[i] : NULL;
	unsigned r;

	if (shown)
		*shown = (struct operand){(uint8_t)op->type, INSN_NO_REG, FIELD_NONE, false, op->size};
	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		if (op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT && memory_set(z, op, addr, out) && full_stored(op) &&
		    out->index == INSN_NO_REG && out->b < 16)
			out->size = full_stored(op);
	} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		r = zydis_gpr(op->reg.value);
		if (shown) {
			shown->reg = (uint8_t)r;
			shown->high = zydis_is_high_byte(op->reg.value);
		}
		if (r != INSN_NO_REG && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && !(full_calls(out->flow) && r == RSP))
			out->writes |= (uint16_t)(1u << r);
	}
}

void step_full(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out)
{
	struct operand explicit_ops[2] = {{.reg = INSN_NO_REG}, {.reg = INSN_NO_REG}};
	struct raw raw;
	unsigned i;

	out->padding = zydis_is_padding(z);
	if (out->padding) {
		out->flow = z->mnemonic == ZYDIS_MNEMONIC_INT3 ? FLOW_STOP : FLOW_NEXT;
		return;
	}
	full_flow(z, ops, addr, out);
	out->direction = full_direction(z->mnemonic);
	for (i = 0; i < z->operand_count; i++)
		operand_apply(z, &ops[i], i, addr, explicit_ops, out);
	out->writes |= full_kernel_writes(z);
	if (out->flow != FLOW_NEXT || out->op == STEP_HALT)
		return;
	if (full_syscall(z->mnemonic, out))
		return;
	raw_of(z, &raw);
	if (stores_back(z->mnemonic, explicit_ops, &raw))
		out->size = 0;
	shape_apply(shape_of(z->mnemonic, explicit_ops), explicit_ops, &raw, out);
	full_complete(out, full_writes_flags(z), z->raw.imm[0].size == 32, (int64_t)z->raw.imm[0].value.u);
}
