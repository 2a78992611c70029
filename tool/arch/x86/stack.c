/* SPDX-License-Identifier: MIT */
/* Bytes -> struct step, by Zydis. */
#include "arch/x86/stack.h"

#include <Zydis/Zydis.h>
#include <pthread.h>
#include <string.h>

#define RAX 0u
#define RCX 1u
#define RSP 4u
#define RBP 5u
#define R11 11u

static ZydisDecoder decoder;
static pthread_once_t decoder_once = PTHREAD_ONCE_INIT;

static void decoder_init(void)
{
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

/* Number of the general-purpose register that r is a part of, or INSN_NO_REG.
 * Zydis lists each width in encoding order, but for ah ch dh bh behind bl. */
static inline unsigned gpr(ZydisRegister r)
{
	if (r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15)
		return (unsigned)(r - ZYDIS_REGISTER_RAX);
	if (r >= ZYDIS_REGISTER_EAX && r <= ZYDIS_REGISTER_R15D)
		return (unsigned)(r - ZYDIS_REGISTER_EAX);
	if (r >= ZYDIS_REGISTER_AX && r <= ZYDIS_REGISTER_R15W)
		return (unsigned)(r - ZYDIS_REGISTER_AX);
	if (r >= ZYDIS_REGISTER_AL && r <= ZYDIS_REGISTER_BL)
		return (unsigned)(r - ZYDIS_REGISTER_AL);
	if (r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH)
		return (unsigned)(r - ZYDIS_REGISTER_AH);
	if (r >= ZYDIS_REGISTER_SPL && r <= ZYDIS_REGISTER_R15B)
		return (unsigned)(r - ZYDIS_REGISTER_SPL) + 4;
	return INSN_NO_REG;
}

static void flow_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr,
                     struct step *out)
{
	bool direct = z->operand_count && ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[0].imm.is_relative;

	if (direct)
		out->imm = (int64_t)(addr + z->length + (uint64_t)ops[0].imm.value.s);
	if (z->mnemonic == ZYDIS_MNEMONIC_XABORT) { /* goes on where no transaction is under way */
		out->writes |= 1u << RAX;
		return;
	}
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		out->flow = direct ? FLOW_CALL : FLOW_CALL_IND;
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
		out->flow = direct ? FLOW_JUMP : FLOW_JUMP_IND;
		break;
	case ZYDIS_CATEGORY_COND_BR:
		out->flow = FLOW_BRANCH;
		break;
	case ZYDIS_CATEGORY_RET:
		out->flow = FLOW_RETURN;
		break;
	default:
		if (direct) { /* xbegin: the abort handler finds rax changed */
			out->flow = FLOW_BRANCH;
			out->writes |= 1u << RAX;
		} else if (z->mnemonic == ZYDIS_MNEMONIC_HLT) {
			out->op = STEP_HALT;
		} else if (z->mnemonic == ZYDIS_MNEMONIC_UD0 ||
		           z->mnemonic == ZYDIS_MNEMONIC_UD1 || z->mnemonic == ZYDIS_MNEMONIC_UD2 ||
		           z->mnemonic == ZYDIS_MNEMONIC_INT3) {
			out->flow = FLOW_STOP;
		}
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
			out->a = (uint8_t)gpr(ops[0].reg.value);
		out->deref = ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY;
	}
}

/* Base, index and displacement of a memory operand. False: nothing to follow. */
static bool memory_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *m, uint64_t addr,
                       struct step *out)
{
	if (m->mem.segment == ZYDIS_REGISTER_FS || m->mem.segment == ZYDIS_REGISTER_GS)
		return false;
	if (m->mem.disp.has_displacement &&
	    (m->mem.disp.value < INT32_MIN || m->mem.disp.value > INT32_MAX))
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
	out->b = (uint8_t)gpr(m->mem.base);
	if (m->mem.index != ZYDIS_REGISTER_NONE) {
		out->index = (uint8_t)gpr(m->mem.index);
		if (out->index == INSN_NO_REG) { /* vector index */
			out->b = INSN_NO_REG;
			return false;
		}
	}
	return true;
}

/* The instructions that the analysis follows; writes has their registers too. */
static void op_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct step *out)
{
	const ZydisDecodedOperand *a = &ops[0], *b = &ops[1];
	unsigned ra = a->type == ZYDIS_OPERAND_TYPE_REGISTER ? gpr(a->reg.value) : INSN_NO_REG;
	unsigned rb = z->operand_count_visible > 1 && b->type == ZYDIS_OPERAND_TYPE_REGISTER ? gpr(b->reg.value)
	                                                                                    : INSN_NO_REG;
	bool imm = z->operand_count_visible > 1 && b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	bool wide = a->size == 64;
	bool plain = out->index == INSN_NO_REG && out->b != INSN_NO_REG; /* base + disp */

	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		out->op = STEP_PUSH;
		out->a = (uint8_t)(wide ? ra : INSN_NO_REG);
		out->imm = z->operand_width == 16 ? 2 : 8;
		break;
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFQ:
		out->op = STEP_PUSH;
		out->imm = z->operand_width == 16 ? 2 : 8;
		break;
	case ZYDIS_MNEMONIC_POP:
		out->op = STEP_POP;
		out->a = (uint8_t)(wide ? ra : INSN_NO_REG);
		if (a->type == ZYDIS_OPERAND_TYPE_REGISTER && !wide && ra != INSN_NO_REG)
			out->writes |= (uint16_t)(1u << ra);
		out->imm = z->operand_width == 16 ? 2 : 8;
		break;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
		out->op = STEP_POP;
		out->imm = z->operand_width == 16 ? 2 : 8;
		break;
	case ZYDIS_MNEMONIC_LEAVE:
		out->op = STEP_LEAVE;
		break;
	case ZYDIS_MNEMONIC_ENTER:
		if (z->raw.imm[1].value.u == 0) {
			out->op = STEP_ENTER;
			out->imm = (int64_t)z->raw.imm[0].value.u;
		}
		break;
	case ZYDIS_MNEMONIC_MOV:
		if (wide && ra != INSN_NO_REG && rb != INSN_NO_REG) {
			out->op = STEP_MOVE;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
		} else if (ra != INSN_NO_REG && imm && a->size >= 32) {
			out->op = STEP_CONST;
			out->a = (uint8_t)ra;
			out->imm = a->size == 32 ? (int64_t)(uint32_t)b->imm.value.u : (int64_t)b->imm.value.u;
		} else if (wide && ra != INSN_NO_REG && b->type == ZYDIS_OPERAND_TYPE_MEMORY && plain) {
			out->op = STEP_LOAD;
			out->a = (uint8_t)ra;
		} else if (wide && ra != INSN_NO_REG && b->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		           out->index != INSN_NO_REG && b->mem.scale == 8) {
			out->op = STEP_ENTRY;
			out->a = (uint8_t)ra;
			out->size = 8;
		} else if (a->type == ZYDIS_OPERAND_TYPE_MEMORY && wide && rb != INSN_NO_REG && plain) {
			out->op = STEP_STORE;
			out->a = (uint8_t)rb;
		} else if (a->size == 32 && ra != INSN_NO_REG && rb != INSN_NO_REG) {
			out->op = STEP_EXTEND;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
			out->size = 4;
		}
		break;
	case ZYDIS_MNEMONIC_MOVZX:
		if (ra != INSN_NO_REG && rb != INSN_NO_REG && a->size >= 32 &&
		    !(b->reg.value >= ZYDIS_REGISTER_AH && b->reg.value <= ZYDIS_REGISTER_BH)) {
			out->op = STEP_EXTEND;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
			out->size = (uint8_t)(b->size / 8);
		}
		break;
	case ZYDIS_MNEMONIC_MOVSXD:
		if (wide && ra != INSN_NO_REG && rb != INSN_NO_REG) { /* an index that has been compared is not negative */
			out->op = STEP_EXTEND;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
			out->size = 4;
		} else if (wide && ra != INSN_NO_REG && b->type == ZYDIS_OPERAND_TYPE_MEMORY && out->index != INSN_NO_REG &&
		    b->mem.scale == 4) {
			out->op = STEP_ENTRY;
			out->a = (uint8_t)ra;
			out->size = 4;
		}
		break;
	case ZYDIS_MNEMONIC_LEA:
		if (wide && ra != INSN_NO_REG && plain) {
			out->op = STEP_ADDRESS;
			out->a = (uint8_t)ra;
		} else if (wide && ra != INSN_NO_REG && out->b == INSN_NO_REG && out->index != INSN_NO_REG &&
		           b->mem.scale == 1) { /* lea d(,%r,1) */
			out->op = STEP_ADDRESS;
			out->a = (uint8_t)ra;
			out->b = out->index;
		} else if (wide && ra != INSN_NO_REG && out->b < 16 && out->index < 16 && b->mem.scale == 1 && !out->disp) {
			out->op = STEP_SUM;
			out->a = (uint8_t)ra;
		}
		break;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		if (!wide || ra == INSN_NO_REG)
			break;
		if (imm) {
			out->op = STEP_ADD;
			out->a = (uint8_t)ra;
			out->imm = z->mnemonic == ZYDIS_MNEMONIC_ADD ? b->imm.value.s : -b->imm.value.s;
		} else if (rb != INSN_NO_REG) {
			out->op = z->mnemonic == ZYDIS_MNEMONIC_ADD ? STEP_ADDREG : STEP_SUBREG;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
		}
		break;
	case ZYDIS_MNEMONIC_AND:
		if (ra == INSN_NO_REG || !imm || a->size < 32)
			break;
		if (wide && b->imm.value.s < 0 && (-b->imm.value.s & (-b->imm.value.s - 1)) == 0) {
			out->op = STEP_ALIGN;
			out->a = (uint8_t)ra;
			out->imm = b->imm.value.s;
		} else if (b->imm.value.s >= 0) {
			out->op = STEP_MASK;
			out->a = (uint8_t)ra;
			out->imm = b->imm.value.s;
		}
		break;
	case ZYDIS_MNEMONIC_XCHG:
		if (wide && ra != INSN_NO_REG && rb != INSN_NO_REG) {
			out->op = STEP_SWAP;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
		}
		break;
	case ZYDIS_MNEMONIC_XOR:
		if (ra != INSN_NO_REG && ra == rb && a->size >= 32) {
			out->op = STEP_CONST;
			out->a = (uint8_t)ra;
			out->imm = 0;
		}
		break;
	case ZYDIS_MNEMONIC_CMP:
		if (ra != INSN_NO_REG && rb != INSN_NO_REG && wide) {
			out->op = STEP_COMPARE;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
		} else if (ra != INSN_NO_REG && imm) {
			out->op = STEP_LIMIT;
			out->a = (uint8_t)ra;
			out->imm = b->imm.value.s;
			out->size = (uint8_t)(a->size / 8);
		}
		break;
	default:
		break;
	}
	if (out->op != STEP_NONE && out->op != STEP_PUSH && out->op != STEP_POP && out->op != STEP_STORE &&
	    out->op != STEP_COMPARE && out->op != STEP_LIMIT && out->op != STEP_SWAP && out->a != INSN_NO_REG)
		out->writes &= (uint16_t)~(1u << out->a);
	if (out->op == STEP_PUSH || out->op == STEP_POP || out->op == STEP_LEAVE || out->op == STEP_ENTER)
		out->writes &= (uint16_t)~(1u << RSP);
	if (out->op == STEP_POP && out->a != INSN_NO_REG)
		out->writes &= (uint16_t)~(1u << out->a);
	if (out->op == STEP_LEAVE || out->op == STEP_ENTER)
		out->writes &= (uint16_t)~(1u << RBP);
	if (out->op == STEP_SWAP)
		out->writes &= (uint16_t)~(1u << out->a | 1u << out->b);
}

bool step_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	bool stores = false, calls;
	unsigned i, r;

	pthread_once(&decoder_once, decoder_init);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, avail, &z, ops)))
		return false;
	memset(out, 0, sizeof(*out));
	out->len = z.length;
	out->a = out->b = out->index = INSN_NO_REG;
	out->padding = z.mnemonic == ZYDIS_MNEMONIC_NOP || z.mnemonic == ZYDIS_MNEMONIC_INT3 ||
	               z.meta.category == ZYDIS_CATEGORY_WIDENOP;
	if (out->padding) {
		out->flow = z.mnemonic == ZYDIS_MNEMONIC_INT3 ? FLOW_STOP : FLOW_NEXT;
		return true;
	}
	flow_set(&z, ops, addr, out);
	calls = out->flow == FLOW_CALL || out->flow == FLOW_CALL_IND || out->flow == FLOW_RETURN;
	for (i = 0; i < z.operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];

		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (op->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
				continue;
			if (!memory_set(&z, op, addr, out))
				continue;
			if (op->mem.type == ZYDIS_MEMOP_TYPE_MEM && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
			    out->index == INSN_NO_REG && out->b < 16) {
				stores = true;
				out->size = op->size / 8 > 255 || !op->size ? 255 : (uint8_t)(op->size / 8);
			}
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) {
			r = gpr(op->reg.value);
			if (r != INSN_NO_REG && !(calls && r == RSP))
				out->writes |= (uint16_t)(1u << r);
		}
	}
	/* The kernel returns its result in rax (psABI A.2.1). */
	if (z.meta.category == ZYDIS_CATEGORY_SYSCALL || z.meta.category == ZYDIS_CATEGORY_INTERRUPT)
		out->writes |= 1u << RAX | 1u << RCX | 1u << R11;
	if (out->flow == FLOW_NEXT) {
		op_set(&z, ops, out);
		out->cond = out->op == STEP_COMPARE || out->op == STEP_LIMIT ||
		            (z.cpu_flags && (z.cpu_flags->modified | z.cpu_flags->set_0 | z.cpu_flags->set_1 |
		                             z.cpu_flags->undefined));
		if (stores && out->op == STEP_NONE)
			out->op = STEP_STORE; /* of some value: a is INSN_NO_REG */
		if ((out->op == STEP_NONE || out->op == STEP_STORE) && z.raw.imm[0].size == 32 && !out->imm)
			out->imm = (int64_t)z.raw.imm[0].value.u; /* it may be an address */
	}
	return true;
}

uint64_t plt_slot(const uint8_t *bytes, size_t size, uint64_t addr)
{
	struct step s;
	size_t at = 0;
	int i;

	for (i = 0; i < 3 && at < size; i++) {
		if (!step_decode(bytes + at, size - at, addr + at, &s))
			return 0;
		if (s.flow == FLOW_JUMP_IND)
			return s.deref && s.b == INSN_PC_REG ? (uint64_t)s.imm : 0;
		if (s.flow != FLOW_NEXT || s.op != STEP_NONE)
			return 0;
		at += s.len;
	}
	return 0;
}

bool code_is_sigreturn(const uint8_t *bytes, size_t size)
{
	static const uint8_t wide[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}; /* mov $15,%rax; syscall */
	static const uint8_t narrow[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};           /* mov $15,%eax; syscall */

	int i;

	for (i = 0; i < 2 && size; i++, bytes++, size--) /* glibc begins the FDE one byte before */
		if ((size >= sizeof(wide) && !memcmp(bytes, wide, sizeof(wide))) ||
		    (size >= sizeof(narrow) && !memcmp(bytes, narrow, sizeof(narrow))))
			return true;
	return false;
}
