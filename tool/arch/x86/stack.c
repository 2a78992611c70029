/* SPDX-License-Identifier: MIT */
/* Bytes -> struct step, by Zydis. */
#include "arch/x86/stack.h"
#include "arch/x86/inline_jump.h"

#include <Zydis/Zydis.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define RAX 0u
#define RCX 1u
#define RSP 4u
#define RBP 5u
#define R11 11u

static ZydisDecoder decoder;
static ZydisDecoder lengths; /* minimal mode: prefixes, opcode, ModRM, no operands */
static pthread_once_t decoder_once = PTHREAD_ONCE_INIT;

static void decoder_init(void)
{
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderInit(&lengths, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderEnableMode(&lengths, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
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
		out->flow = insn_is_inline_jump(z) ? FLOW_BRANCH : direct ? FLOW_JUMP : FLOW_JUMP_IND;
		break;
	case ZYDIS_CATEGORY_COND_BR: /* xend too, for Zydis */
		out->flow = direct ? FLOW_BRANCH : FLOW_NEXT;
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
	if (m->mem.index != ZYDIS_REGISTER_NONE && gpr(m->mem.index) == INSN_NO_REG)
		return false; /* a vector of them */
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
	out->index = (uint8_t)gpr(m->mem.index);
	return true;
}

static uint8_t direction_of(unsigned mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_CLD:
		return DIRECTION_UP;
	case ZYDIS_MNEMONIC_STD:
		return DIRECTION_DOWN;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
		return DIRECTION_ANY;
	default:
		return DIRECTION_KEPT;
	}
}

static bool has_prefix(const ZydisDecodedInstruction *z, unsigned value)
{
	unsigned i;

	for (i = 0; i < z->raw.prefix_count; i++)
		if (z->raw.prefixes[i].value == value)
			return true;
	return false;
}

/* What op_set() wants to know of an explicit operand. */
struct operand {
	uint8_t type; /* ZydisOperandType; 0 = there is none */
	uint8_t reg;  /* INSN_NO_REG: none, or not a general-purpose one */
	uint8_t role; /* ZydisOperandEncoding: the field that has the register */
	bool high;    /* ah ch dh bh */
	uint16_t size; /* bits */
};

/*
 * All that does not depend on register numbers, displacements and immediates: the
 * same for every instruction of one form, so that the operands of each form need
 * be decoded only once.
 */
struct form {
	uint32_t key;      /* 0 = empty */
	uint16_t mnemonic; /* ZydisMnemonic */
	uint16_t fixed;    /* registers written that no field names */
	uint8_t flow, cond;
	uint8_t stored;    /* bytes written to the explicit memory operand */
	uint8_t direction;
	bool padding, flags, memory, follow, kernel;
	struct operand op[2];
	struct { uint8_t role; bool byte; } written[3]; /* fields that name registers written */
};

struct step_cache {
	struct form form[4096];
};

static bool syscall_set(unsigned mnemonic, struct step *out)
{
	if (mnemonic != ZYDIS_MNEMONIC_SYSCALL)
		return false;
	out->op = STEP_SYSCALL;
	out->a = RAX;
	return true;
}

/* Fences and stack probes: lock orq $0,(%rsp). */
static bool stores_back(unsigned mnemonic, const struct operand *ops, const ZydisDecodedInstruction *z)
{
	return ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
	       (((mnemonic == ZYDIS_MNEMONIC_OR || mnemonic == ZYDIS_MNEMONIC_ADD || mnemonic == ZYDIS_MNEMONIC_SUB ||
	          mnemonic == ZYDIS_MNEMONIC_XOR) && z->raw.imm[0].value.s == 0) ||
	        (mnemonic == ZYDIS_MNEMONIC_AND && z->raw.imm[0].value.s == -1));
}

/* The instructions that the analysis follows; writes has their registers too. */
static void op_set(unsigned mnemonic, const struct operand *ops, const ZydisDecodedInstruction *z, struct step *out)
{
	const struct operand *a = &ops[0], *b = &ops[1];
	unsigned ra = a->reg, rb = b->reg;
	bool imm = b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	bool wide = a->size == 64;
	bool narrow = has_prefix(z, 0x66);
	bool plain = out->index == INSN_NO_REG && out->b != INSN_NO_REG; /* base + disp */
	unsigned scale = z->raw.modrm.mod != 3 && z->raw.sib.offset ? 1u << z->raw.sib.scale : 0;
	int64_t value = z->raw.imm[0].value.s;

	switch (mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		out->op = STEP_PUSH;
		out->a = (uint8_t)(wide ? ra : INSN_NO_REG);
		out->imm = narrow ? 2 : 8;
		break;
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFQ:
		out->op = STEP_PUSH;
		out->imm = narrow ? 2 : 8;
		break;
	case ZYDIS_MNEMONIC_POP:
		out->op = STEP_POP;
		out->a = (uint8_t)(wide ? ra : INSN_NO_REG);
		if (a->type == ZYDIS_OPERAND_TYPE_REGISTER && !wide && ra != INSN_NO_REG)
			out->writes |= (uint16_t)(1u << ra);
		out->imm = narrow ? 2 : 8;
		break;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
		out->op = STEP_POP;
		out->imm = narrow ? 2 : 8;
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
			out->imm = a->size == 32 ? (int64_t)(uint32_t)value : value;
		} else if (wide && ra != INSN_NO_REG && b->type == ZYDIS_OPERAND_TYPE_MEMORY && plain) {
			out->op = STEP_LOAD;
			out->a = (uint8_t)ra;
		} else if (wide && ra != INSN_NO_REG && b->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		           out->index != INSN_NO_REG && scale == 8) {
			out->op = STEP_ENTRY;
			out->a = (uint8_t)ra;
			out->size = 8;
		} else if (a->type == ZYDIS_OPERAND_TYPE_MEMORY && wide && rb != INSN_NO_REG && plain) {
			out->op = STEP_STORE;
			out->a = (uint8_t)rb;
		} else if (a->size == 32 && ra != INSN_NO_REG && b->type == ZYDIS_OPERAND_TYPE_MEMORY && plain) {
			out->op = STEP_FETCH;
			out->a = (uint8_t)ra;
			out->size = 4;
		} else if (a->size == 32 && ra != INSN_NO_REG && rb != INSN_NO_REG) {
			out->op = STEP_EXTEND;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
			out->size = 4;
		}
		break;
	case ZYDIS_MNEMONIC_MOVZX:
		if (ra != INSN_NO_REG && rb != INSN_NO_REG && a->size >= 32 &&
		    !b->high) {
			out->op = STEP_EXTEND;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
			out->size = (uint8_t)(b->size / 8);
		} else if (ra != INSN_NO_REG && a->size >= 32 && b->type == ZYDIS_OPERAND_TYPE_MEMORY && plain) {
			out->op = STEP_FETCH;
			out->a = (uint8_t)ra;
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
		    scale == 4) {
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
		           scale == 1) { /* lea d(,%r,1) */
			out->op = STEP_ADDRESS;
			out->a = (uint8_t)ra;
			out->b = out->index;
		} else if (wide && ra != INSN_NO_REG && out->b < 16 && out->index < 16 && scale == 1 && !out->disp) {
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
			out->imm = z->mnemonic == ZYDIS_MNEMONIC_ADD ? value : -value;
		} else if (rb != INSN_NO_REG) {
			out->op = z->mnemonic == ZYDIS_MNEMONIC_ADD ? STEP_ADDREG : STEP_SUBREG;
			out->a = (uint8_t)ra;
			out->b = (uint8_t)rb;
		}
		break;
	case ZYDIS_MNEMONIC_AND:
		if (ra == INSN_NO_REG || !imm || a->size < 32)
			break;
		if (wide && value < 0 && (-value & (-value - 1)) == 0) {
			out->op = STEP_ALIGN;
			out->a = (uint8_t)ra;
			out->imm = value;
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
			out->imm = value;
			out->size = (uint8_t)(a->size / 8);
		} else if (a->type == ZYDIS_OPERAND_TYPE_MEMORY && imm && plain && out->b < 16) {
			out->op = STEP_LIMIT;
			out->imm = value;
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

/* ---- forms ------------------------------------------------------------------ */

/* What decides which form an instruction has; 0: what is to be decoded in full. */
static uint32_t form_key(const ZydisDecodedInstruction *z)
{
	bool legacy = z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	unsigned prefix = 0, w, l = 0, rm = 0, i;

	if ((!legacy && z->encoding != ZYDIS_INSTRUCTION_ENCODING_VEX) || z->opcode_map > 3 ||
	    (legacy && z->opcode_map == 0 && z->opcode >= 0xa0 && z->opcode <= 0xa3) || /* 64-bit addresses */
	    insn_is_inline_jump(z))
		return 0;
	for (i = 0; i < z->raw.prefix_count; i++)
		switch (z->raw.prefixes[i].value) {
		case 0x66: prefix |= 1; break;
		case 0xf2: prefix |= 2; break;
		case 0xf3: prefix |= 4; break;
		case 0x64: case 0x65: prefix |= 8; break;
		case 0x67: return 0;
		default: break;
		}
	w = legacy ? z->raw.rex.W : z->raw.vex.W;
	if (!legacy) {
		l = z->raw.vex.L;
		prefix |= z->raw.vex.pp & 3u;
	}
	/* Where the rm field, or REX.B, makes another instruction of it. */
	if (legacy && z->opcode_map == 0 && z->opcode == 0x90)
		rm = z->raw.rex.B;
	else if (z->raw.modrm.mod == 3 && ((z->opcode_map == 1 && (z->opcode == 0x01 || z->opcode == 0x1e || z->opcode == 0xae ||
	                                                            z->opcode == 0xc7)) ||
	                                   (z->opcode_map == 0 && z->opcode >= 0xc6 && z->opcode <= 0xdf)))
		rm = z->raw.modrm.rm;
	/* A byte register 4-7 is ah-bh without REX, spl-dil with: registers_of() sees to that. */
	return 1u << 31 | (uint32_t)legacy << 30 | (uint32_t)z->opcode_map << 28 | (uint32_t)z->opcode << 20 | prefix << 16 |
	       w << 15 | l << 14 | (uint32_t)(z->raw.modrm.mod == 3) << 13 | (uint32_t)z->raw.modrm.reg << 10 | rm << 7;
}

static bool has_rex(const ZydisDecodedInstruction *z)
{
	return z->raw.prefix_count && (z->raw.prefixes[z->raw.prefix_count - 1].value & 0xf0) == 0x40;
}

/* The general-purpose register in a field. */
static uint8_t field_reg(const ZydisDecodedInstruction *z, unsigned role, bool byte)
{
	bool legacy = z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	unsigned r;

	switch (role) {
	case ZYDIS_OPERAND_ENCODING_MODRM_REG:
		r = z->raw.modrm.reg | (unsigned)(legacy ? z->raw.rex.R : !z->raw.vex.R) << 3;
		break;
	case ZYDIS_OPERAND_ENCODING_MODRM_RM:
		r = z->raw.modrm.rm | (unsigned)(legacy ? z->raw.rex.B : !z->raw.vex.B) << 3;
		break;
	case ZYDIS_OPERAND_ENCODING_OPCODE:
		r = (z->opcode & 7u) | (unsigned)z->raw.rex.B << 3;
		break;
	default: /* NDSNDD */
		r = ~z->raw.vex.vvvv & 15u;
		break;
	}
	return (uint8_t)(byte && r >= 4 && r < 8 && legacy && !has_rex(z) ? r - 4 : r);
}

static bool is_field(unsigned role)
{
	return role == ZYDIS_OPERAND_ENCODING_MODRM_REG || role == ZYDIS_OPERAND_ENCODING_MODRM_RM ||
	       role == ZYDIS_OPERAND_ENCODING_OPCODE || role == ZYDIS_OPERAND_ENCODING_NDSNDD;
}

/* The form of a fully decoded instruction. False: it has too much for one. */
static bool form_make(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct form *f)
{
	struct step flow = {.a = INSN_NO_REG};
	unsigned i, r, n = 0;
	bool calls;

	memset(f, 0, sizeof(*f));
	f->mnemonic = (uint16_t)z->mnemonic;
	f->op[0].reg = f->op[1].reg = INSN_NO_REG;
	f->padding = z->mnemonic == ZYDIS_MNEMONIC_NOP || z->mnemonic == ZYDIS_MNEMONIC_INT3 ||
	             z->meta.category == ZYDIS_CATEGORY_WIDENOP;
	flow_set(z, ops, 0, &flow);
	f->flow = flow.flow;
	f->cond = flow.cond;
	f->fixed = flow.writes;
	f->direction = direction_of(z->mnemonic);
	/* The kernel returns its result in rax (psABI A.2.1). */
	if (z->meta.category == ZYDIS_CATEGORY_SYSCALL || z->meta.category == ZYDIS_CATEGORY_INTERRUPT)
		f->fixed |= 1u << RAX | 1u << RCX | 1u << R11;
	f->flags = z->cpu_flags && (z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1 |
	                            z->cpu_flags->undefined);
	calls = f->flow == FLOW_CALL || f->flow == FLOW_CALL_IND || f->flow == FLOW_RETURN;
	for (i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];
		bool explicit = i < z->operand_count_visible && i < 2;

		if (explicit)
			f->op[i] = (struct operand){(uint8_t)op->type, INSN_NO_REG, 0, false, op->size};
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (op->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
				continue;
			f->memory = true;
			f->follow = op->mem.segment != ZYDIS_REGISTER_FS && op->mem.segment != ZYDIS_REGISTER_GS &&
			            (op->mem.index == ZYDIS_REGISTER_NONE || gpr(op->mem.index) != INSN_NO_REG);
			if (op->mem.type == ZYDIS_MEMOP_TYPE_MEM && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
				f->stored = op->size / 8 > 255 || !op->size ? 255 : (uint8_t)(op->size / 8);
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			r = gpr(op->reg.value);
			if (r == INSN_NO_REG)
				continue;
			if (explicit) {
				f->op[i].reg = (uint8_t)r;
				f->op[i].role = (uint8_t)op->encoding;
				f->op[i].high = op->reg.value >= ZYDIS_REGISTER_AH && op->reg.value <= ZYDIS_REGISTER_BH;
			}
			if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) || (calls && r == RSP))
				continue;
			if (!is_field(op->encoding)) {
				f->fixed |= (uint16_t)(1u << r);
				continue;
			}
			if (n == 3)
				return false;
			f->written[n].role = (uint8_t)op->encoding;
			f->written[n++].byte = op->size == 8;
		}
	}
	return true;
}

/* Base, index and displacement as the ModRM and SIB bytes have them (SDM vol. 2, 2.1.5). */
static void memory_raw(const ZydisDecodedInstruction *z, uint64_t addr, struct step *out)
{
	bool legacy = z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	unsigned x = legacy ? z->raw.rex.X : !z->raw.vex.X, b = legacy ? z->raw.rex.B : !z->raw.vex.B;

	if (z->raw.disp.size && (z->raw.disp.value < INT32_MIN || z->raw.disp.value > INT32_MAX))
		return;
	out->disp = z->raw.disp.size ? (int32_t)z->raw.disp.value : 0;
	if (z->raw.modrm.rm == 5 && z->raw.modrm.mod == 0) {
		out->b = INSN_PC_REG;
		if (out->flow == FLOW_NEXT || out->flow == FLOW_JUMP_IND || out->flow == FLOW_CALL_IND)
			out->imm = (int64_t)(addr + z->length + (uint64_t)z->raw.disp.value);
	} else if (z->raw.modrm.rm == 4) {
		unsigned index = z->raw.sib.index | x << 3;

		if (!(z->raw.sib.base == 5 && z->raw.modrm.mod == 0))
			out->b = (uint8_t)(z->raw.sib.base | b << 3);
		if (index != 4)
			out->index = (uint8_t)index;
	} else {
		out->b = (uint8_t)(z->raw.modrm.rm | b << 3);
	}
}

/* An instruction of a form, with its registers, displacement and immediate. */
static void form_apply(const struct form *f, const ZydisDecodedInstruction *z, uint64_t addr, struct step *out)
{
	struct operand ops[2];
	unsigned i;

	if (f->padding) {
		out->padding = true;
		out->flow = f->mnemonic == ZYDIS_MNEMONIC_INT3 ? FLOW_STOP : FLOW_NEXT;
		return;
	}
	out->flow = f->flow;
	out->cond = f->cond;
	out->writes = f->fixed;
	out->direction = f->direction;
	if (f->mnemonic == ZYDIS_MNEMONIC_HLT)
		out->op = STEP_HALT;
	for (i = 0; i < 3 && f->written[i].role; i++)
		out->writes |= (uint16_t)(1u << field_reg(z, f->written[i].role, f->written[i].byte));
	for (i = 0; i < 2; i++) {
		ops[i] = f->op[i];
		if (!is_field(ops[i].role))
			continue;
		ops[i].reg = field_reg(z, ops[i].role, ops[i].size == 8);
		ops[i].high = ops[i].size == 8 && field_reg(z, ops[i].role, false) != ops[i].reg;
	}
	if (f->flow == FLOW_JUMP || f->flow == FLOW_BRANCH || f->flow == FLOW_CALL)
		out->imm = (int64_t)(addr + z->length + (uint64_t)z->raw.imm[0].value.s);
	if (f->memory && f->follow)
		memory_raw(z, addr, out);
	if (f->flow == FLOW_JUMP_IND || f->flow == FLOW_CALL_IND) {
		out->a = ops[0].reg;
		out->deref = ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY;
	}
	if (f->flow != FLOW_NEXT || out->op == STEP_HALT || syscall_set(f->mnemonic, out))
		return;
	if (f->stored && out->index == INSN_NO_REG && out->b < 16 && !stores_back(f->mnemonic, ops, z))
		out->size = f->stored;
	op_set(f->mnemonic, ops, z, out);
	out->cond = out->op == STEP_COMPARE || out->op == STEP_LIMIT || f->flags;
	if (out->op == STEP_NONE && out->size)
		out->op = STEP_STORE; /* of some value: a is INSN_NO_REG */
	if ((out->op == STEP_NONE || out->op == STEP_STORE) && z->raw.imm[0].size == 32 && !out->imm)
		out->imm = (int64_t)z->raw.imm[0].value.u; /* it may be an address */
}

struct step_cache *step_cache_new(void)
{
	return calloc(1, sizeof(struct step_cache));
}

void step_cache_free(struct step_cache *c)
{
	free(c);
}

/* The long way: an instruction whose operands have been decoded. */
static void step_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out)
{
	struct operand light[2] = {{.reg = INSN_NO_REG}, {.reg = INSN_NO_REG}};
	unsigned i, r;
	bool calls;

	out->padding = z->mnemonic == ZYDIS_MNEMONIC_NOP || z->mnemonic == ZYDIS_MNEMONIC_INT3 ||
	               z->meta.category == ZYDIS_CATEGORY_WIDENOP;
	if (out->padding) {
		out->flow = z->mnemonic == ZYDIS_MNEMONIC_INT3 ? FLOW_STOP : FLOW_NEXT;
		return;
	}
	flow_set(z, ops, addr, out);
	out->direction = direction_of(z->mnemonic);
	calls = out->flow == FLOW_CALL || out->flow == FLOW_CALL_IND || out->flow == FLOW_RETURN;
	for (i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];
		bool explicit = i < z->operand_count_visible && i < 2;

		if (explicit)
			light[i] = (struct operand){(uint8_t)op->type, INSN_NO_REG, (uint8_t)op->encoding, false, op->size};
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (op->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT || !memory_set(z, op, addr, out))
				continue;
			if (op->mem.type == ZYDIS_MEMOP_TYPE_MEM && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
			    out->index == INSN_NO_REG && out->b < 16)
				out->size = op->size / 8 > 255 || !op->size ? 255 : (uint8_t)(op->size / 8);
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			r = gpr(op->reg.value);
			if (explicit) {
				light[i].reg = (uint8_t)r;
				light[i].high = op->reg.value >= ZYDIS_REGISTER_AH && op->reg.value <= ZYDIS_REGISTER_BH;
			}
			if (r != INSN_NO_REG && (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && !(calls && r == RSP))
				out->writes |= (uint16_t)(1u << r);
		}
	}
	/* The kernel returns its result in rax (psABI A.2.1). */
	if (z->meta.category == ZYDIS_CATEGORY_SYSCALL || z->meta.category == ZYDIS_CATEGORY_INTERRUPT)
		out->writes |= 1u << RAX | 1u << RCX | 1u << R11;
	if (out->flow != FLOW_NEXT || out->op == STEP_HALT)
		return;
	if (syscall_set(z->mnemonic, out))
		return;
	if (stores_back(z->mnemonic, light, z))
		out->size = 0;
	op_set(z->mnemonic, light, z, out);
	out->cond = out->op == STEP_COMPARE || out->op == STEP_LIMIT ||
	            (z->cpu_flags && (z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1 |
	                              z->cpu_flags->undefined));
	if (out->op == STEP_NONE && out->size)
		out->op = STEP_STORE; /* of some value: a is INSN_NO_REG */
	if ((out->op == STEP_NONE || out->op == STEP_STORE) && z->raw.imm[0].size == 32 && !out->imm)
		out->imm = (int64_t)z->raw.imm[0].value.u; /* it may be an address */
}

bool step_decode(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecoderContext context;
	struct form *slot = NULL;
	uint32_t key = 0;

	pthread_once(&decoder_once, decoder_init);
	if (cache) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&lengths, &context, bytes, avail, &z)))
			return false;
		key = form_key(&z);
		slot = key ? &cache->form[(key * 0x9e3779b1u) >> 20] : NULL;
	}
	memset(out, 0, sizeof(*out));
	out->a = out->b = out->index = INSN_NO_REG;
	if (slot && slot->key == key) {
		out->len = z.length;
		form_apply(slot, &z, addr, out);
		return true;
	}
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, avail, &z, ops)))
		return false;
	out->len = z.length;
	if (slot && form_make(&z, ops, slot)) {
		slot->key = key;
		form_apply(slot, &z, addr, out);
		return true;
	}
	if (slot)
		slot->key = 0;
	step_set(&z, ops, addr, out);
	return true;
}

uint64_t plt_slot(const uint8_t *bytes, size_t size, uint64_t addr)
{
	struct step s;
	size_t at = 0;
	int i;

	for (i = 0; i < 3 && at < size; i++) {
		if (!step_decode(NULL, bytes + at, size - at, addr + at, &s))
			return 0;
		if (s.flow == FLOW_JUMP_IND)
			return s.deref && s.b == INSN_PC_REG ? (uint64_t)s.imm : 0;
		if (s.flow != FLOW_NEXT || s.op != STEP_NONE)
			return 0;
		at += s.len;
	}
	return 0;
}

bool plt_is_first(const uint8_t *b, size_t size)
{
	return size >= 13 && b[0] == 0xff && b[1] == 0x35 &&
	       (b[6] == 0xff ? b[7] == 0x25 : b[6] == 0xf2 && b[7] == 0xff && b[8] == 0x25);
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
