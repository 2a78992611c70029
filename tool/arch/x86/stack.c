/* SPDX-License-Identifier: MIT */
/* Bytes -> struct step, by Zydis. */
#include "arch/x86/stack.h"
#include "arch/x86/inline_jump.h"
#include "arch/x86/raw.h"

#include <Zydis/Zydis.h>
#include <pthread.h>
#include <stdio.h>
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

/* What op_set() wants to know of an explicit operand. */
struct operand {
	uint8_t type; /* ZydisOperandType; 0 = there is none */
	uint8_t reg;  /* INSN_NO_REG: none, or not a general-purpose one */
	uint8_t field; /* enum raw_field: has the register */
	bool high;    /* ah ch dh bh */
	uint16_t size; /* bits */
};

/*
 * All that does not depend on register numbers, displacements and immediates: the
 * same for every instruction of one form, so that the operands of each form need
 * be decoded only once.
 */
struct form {
	uint32_t key;
	uint16_t mnemonic; /* ZydisMnemonic */
	uint8_t shape;     /* enum shape */
	uint8_t stored;    /* bytes written to the explicit memory operand */
	struct step base;  /* as far as it is the same for all of them */
	struct operand op[2];
	uint8_t written[3]; /* enum raw_field, | BYTE_REG: fields that name registers written */
	bool done;         /* base has its op */
	bool flags, memory, follow;
	bool quick;        /* raw_read() and the two below say how long it is */
	uint8_t imm_size;
	bool imm_signed;
};
#define BYTE_REG 0x80u

#define FORM_SLOTS 8192u
#define FORMS_MOST 4096u /* more than there are */

struct step_cache {
	uint16_t slots[FORM_SLOTS]; /* by hash: number of a form + 1 */
	struct form *forms;
	unsigned count, room;
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
static bool stores_back(unsigned mnemonic, const struct operand *ops, const struct raw *z)
{
	return ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
	       (((mnemonic == ZYDIS_MNEMONIC_OR || mnemonic == ZYDIS_MNEMONIC_ADD || mnemonic == ZYDIS_MNEMONIC_SUB ||
	          mnemonic == ZYDIS_MNEMONIC_XOR) && z->imm == 0) ||
	        (mnemonic == ZYDIS_MNEMONIC_AND && z->imm == -1));
}

/* The instructions that the analysis follows, by what their operands are. */
enum shape {
	SHAPE_NONE,
	SHAPE_PUSH,
	SHAPE_PUSHF,
	SHAPE_POP,
	SHAPE_POPF,
	SHAPE_LEAVE,
	SHAPE_ENTER,
	SHAPE_MOVE,        /* 64 bits */
	SHAPE_CONST,       /* 32 or 64 bits */
	SHAPE_LOAD,        /* 64 bits from memory */
	SHAPE_STORE,       /* 64 bits to memory */
	SHAPE_FETCH,       /* 32 bits or fewer from memory, zero-extended */
	SHAPE_EXTEND,      /* ... from a register */
	SHAPE_EXTEND_BYTE, /* of which ah ch dh bh is not one */
	SHAPE_SIGNED,      /* 32 bits sign-extended from a register: an index that has been compared is not negative */
	SHAPE_SIGNED_LOAD, /* ... from memory */
	SHAPE_LEA,
	SHAPE_ADD,
	SHAPE_SUB,
	SHAPE_ADD_REG,
	SHAPE_SUB_REG,
	SHAPE_AND,
	SHAPE_SWAP,
	SHAPE_XOR,         /* nothing but where both are one register */
	SHAPE_COMPARE,
	SHAPE_LIMIT,       /* a register with a number */
	SHAPE_LIMIT_MEMORY,
};

static enum shape shape_of_mov(const struct operand *a, const struct operand *b)
{
	bool ra = a->reg != INSN_NO_REG, rb = b->reg != INSN_NO_REG, wide = a->size == 64;

	if (wide && ra && rb)
		return SHAPE_MOVE;
	if (ra && b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && a->size >= 32)
		return SHAPE_CONST;
	if (wide && ra && b->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return SHAPE_LOAD;
	if (a->type == ZYDIS_OPERAND_TYPE_MEMORY && wide && rb)
		return SHAPE_STORE;
	if (a->size == 32 && ra && b->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return SHAPE_FETCH;
	return a->size == 32 && ra && rb ? SHAPE_EXTEND : SHAPE_NONE;
}

/* The same for all instructions of a form. */
static enum shape shape_of(unsigned mnemonic, const struct operand *ops)
{
	const struct operand *a = &ops[0], *b = &ops[1];
	bool ra = a->reg != INSN_NO_REG, rb = b->reg != INSN_NO_REG, wide = a->size == 64;
	bool imm = b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE, memory = b->type == ZYDIS_OPERAND_TYPE_MEMORY;

	switch (mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		return SHAPE_PUSH;
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFQ:
		return SHAPE_PUSHF;
	case ZYDIS_MNEMONIC_POP:
		return SHAPE_POP;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
		return SHAPE_POPF;
	case ZYDIS_MNEMONIC_LEAVE:
		return SHAPE_LEAVE;
	case ZYDIS_MNEMONIC_ENTER:
		return SHAPE_ENTER;
	case ZYDIS_MNEMONIC_MOV:
		return shape_of_mov(a, b);
	case ZYDIS_MNEMONIC_MOVZX:
		return ra && rb && a->size >= 32 ? SHAPE_EXTEND_BYTE : ra && a->size >= 32 && memory ? SHAPE_FETCH : SHAPE_NONE;
	case ZYDIS_MNEMONIC_MOVSXD:
		return wide && ra && rb ? SHAPE_SIGNED : wide && ra && memory ? SHAPE_SIGNED_LOAD : SHAPE_NONE;
	case ZYDIS_MNEMONIC_LEA:
		return wide && ra ? SHAPE_LEA : SHAPE_NONE;
	case ZYDIS_MNEMONIC_ADD:
		return !wide || !ra ? SHAPE_NONE : imm ? SHAPE_ADD : rb ? SHAPE_ADD_REG : SHAPE_NONE;
	case ZYDIS_MNEMONIC_SUB:
		return !wide || !ra ? SHAPE_NONE : imm ? SHAPE_SUB : rb ? SHAPE_SUB_REG : SHAPE_NONE;
	case ZYDIS_MNEMONIC_AND:
		return wide && ra && imm ? SHAPE_AND : SHAPE_NONE;
	case ZYDIS_MNEMONIC_XCHG:
		return wide && ra && rb ? SHAPE_SWAP : SHAPE_NONE;
	case ZYDIS_MNEMONIC_XOR:
		return ra && rb && a->size >= 32 ? SHAPE_XOR : SHAPE_NONE;
	case ZYDIS_MNEMONIC_CMP:
		return ra && rb && wide ? SHAPE_COMPARE : ra && imm ? SHAPE_LIMIT
		       : a->type == ZYDIS_OPERAND_TYPE_MEMORY && imm ? SHAPE_LIMIT_MEMORY : SHAPE_NONE;
	default:
		return SHAPE_NONE;
	}
}

static void lea_set(unsigned ra, unsigned scale, bool plain, struct step *out)
{
	if (plain) {
		out->op = STEP_ADDRESS;
		out->a = (uint8_t)ra;
	} else if (out->b == INSN_NO_REG && out->index != INSN_NO_REG && scale == 1) { /* lea d(,%r,1) */
		out->op = STEP_ADDRESS;
		out->a = (uint8_t)ra;
		out->b = out->index;
	} else if (out->b < 16 && out->index < 16 && scale == 1) {
		out->op = STEP_SUM;
		out->a = (uint8_t)ra;
	}
}

static inline void two_set(struct step *out, unsigned op, unsigned a, unsigned b)
{
	out->op = (uint8_t)op;
	out->a = (uint8_t)a;
	out->b = (uint8_t)b;
}

/* A load: plain, or a jump table's entry of that size. */
static inline void load_set(struct step *out, unsigned op, unsigned a, bool plain, bool entry, unsigned size)
{
	if (plain && op != STEP_ENTRY) {
		out->op = (uint8_t)op;
	} else if (entry && out->index != INSN_NO_REG) {
		out->op = STEP_ENTRY;
		out->size = (uint8_t)size;
	} else {
		return;
	}
	out->a = (uint8_t)a;
}

/* What the op of a step says is changed, `writes` need not say. */
static inline void writes_clear(struct step *out)
{
	uint16_t a = out->a < 16 ? (uint16_t)(1u << out->a) : 0;

	switch (out->op) {
	case STEP_NONE:
	case STEP_STORE:
	case STEP_COMPARE:
	case STEP_LIMIT:
		return;
	case STEP_PUSH:
		out->writes &= (uint16_t)~(1u << RSP);
		return;
	case STEP_POP:
		out->writes &= (uint16_t)~(1u << RSP | a);
		return;
	case STEP_LEAVE:
	case STEP_ENTER:
		out->writes &= (uint16_t)~(1u << RSP | 1u << RBP | a);
		return;
	case STEP_SWAP:
		out->writes &= (uint16_t)~(a | 1u << out->b);
		return;
	default:
		out->writes &= (uint16_t)~a;
	}
}

/* One instruction of a shape; writes has its registers too. */
static void op_set(enum shape shape, const struct operand *ops, const struct raw *z, struct step *out)
{
	const struct operand *a = &ops[0], *b = &ops[1];
	unsigned ra = a->reg, rb = b->reg;
	bool plain = out->index == INSN_NO_REG && out->b != INSN_NO_REG; /* base + disp */

	switch (shape) {
	case SHAPE_NONE:
		return;
	case SHAPE_PUSH:
		out->op = STEP_PUSH;
		out->a = (uint8_t)(a->size == 64 ? ra : INSN_NO_REG);
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_PUSHF:
		out->op = STEP_PUSH;
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_POP:
		out->op = STEP_POP;
		out->a = (uint8_t)(a->size == 64 ? ra : INSN_NO_REG);
		if (a->type == ZYDIS_OPERAND_TYPE_REGISTER && a->size != 64 && ra != INSN_NO_REG)
			out->writes |= (uint16_t)(1u << ra);
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_POPF:
		out->op = STEP_POP;
		out->imm = z->narrow ? 2 : 8;
		break;
	case SHAPE_LEAVE:
		out->op = STEP_LEAVE;
		break;
	case SHAPE_ENTER:
		if (!z->imm2) {
			out->op = STEP_ENTER;
			out->imm = z->imm;
		}
		break;
	case SHAPE_MOVE:
		two_set(out, STEP_MOVE, ra, rb);
		break;
	case SHAPE_CONST:
		out->op = STEP_CONST;
		out->a = (uint8_t)ra;
		out->imm = a->size == 32 ? (int64_t)(uint32_t)z->imm : z->imm;
		break;
	case SHAPE_LOAD:
		load_set(out, STEP_LOAD, ra, plain, z->scale == 8, 8);
		break;
	case SHAPE_STORE:
		if (plain) {
			out->op = STEP_STORE;
			out->a = (uint8_t)rb;
		}
		break;
	case SHAPE_FETCH:
		if (plain) {
			out->op = STEP_FETCH;
			out->a = (uint8_t)ra;
			out->size = (uint8_t)(b->size / 8);
		}
		break;
	case SHAPE_EXTEND_BYTE:
		if (b->high)
			break;
		/* fall through */
	case SHAPE_EXTEND:
		two_set(out, STEP_EXTEND, ra, rb);
		out->size = (uint8_t)(b->size / 8);
		break;
	case SHAPE_SIGNED:
		two_set(out, STEP_EXTEND, ra, rb);
		out->size = 4;
		break;
	case SHAPE_SIGNED_LOAD:
		load_set(out, STEP_ENTRY, ra, plain, z->scale == 4, 4);
		break;
	case SHAPE_LEA:
		lea_set(ra, z->scale, plain, out);
		break;
	case SHAPE_ADD:
	case SHAPE_SUB:
		out->op = STEP_ADD;
		out->a = (uint8_t)ra;
		out->imm = shape == SHAPE_ADD ? z->imm : -z->imm;
		break;
	case SHAPE_ADD_REG:
	case SHAPE_SUB_REG:
		two_set(out, shape == SHAPE_ADD_REG ? STEP_ADDREG : STEP_SUBREG, ra, rb);
		break;
	case SHAPE_AND:
		if (z->imm < 0 && (-z->imm & (-z->imm - 1)) == 0) {
			out->op = STEP_ALIGN;
			out->a = (uint8_t)ra;
			out->imm = z->imm;
		}
		break;
	case SHAPE_SWAP:
		two_set(out, STEP_SWAP, ra, rb);
		break;
	case SHAPE_XOR:
		if (ra == rb) {
			out->op = STEP_CONST;
			out->a = (uint8_t)ra;
			out->imm = 0;
		}
		break;
	case SHAPE_COMPARE:
		two_set(out, STEP_COMPARE, ra, rb);
		break;
	case SHAPE_LIMIT:
		out->op = STEP_LIMIT;
		out->a = (uint8_t)ra;
		out->imm = z->imm;
		out->size = (uint8_t)(a->size / 8);
		break;
	case SHAPE_LIMIT_MEMORY:
		if (plain && out->b < 16) {
			out->op = STEP_LIMIT;
			out->imm = z->imm;
			out->size = (uint8_t)(a->size / 8);
		}
		break;
	}
	writes_clear(out);
}

/* ---- forms ------------------------------------------------------------------ */

/* The general-purpose register in a field. */
static inline unsigned field_reg(const struct raw *z, unsigned field, bool byte)
{
	unsigned r = z->field[field];

	return byte && r >= 4 && r < 8 && z->legacy && !z->rex ? r - 4 : r;
}

static unsigned field_of(unsigned encoding)
{
	switch (encoding) {
	case ZYDIS_OPERAND_ENCODING_MODRM_REG:
		return FIELD_REG;
	case ZYDIS_OPERAND_ENCODING_MODRM_RM:
		return FIELD_RM;
	case ZYDIS_OPERAND_ENCODING_OPCODE:
		return FIELD_OPCODE;
	case ZYDIS_OPERAND_ENCODING_NDSNDD:
		return FIELD_VVVV;
	default:
		return FIELD_NONE;
	}
}

static bool is_padding(const ZydisDecodedInstruction *z)
{
	return z->mnemonic == ZYDIS_MNEMONIC_NOP || z->mnemonic == ZYDIS_MNEMONIC_INT3 || z->meta.category == ZYDIS_CATEGORY_WIDENOP;
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
	f->base.a = f->base.b = f->base.index = INSN_NO_REG;
	if (is_padding(z)) {
		f->base.padding = f->done = true;
		f->base.flow = z->mnemonic == ZYDIS_MNEMONIC_INT3 ? FLOW_STOP : FLOW_NEXT;
		return true;
	}
	flow_set(z, ops, 0, &flow);
	f->base.flow = flow.flow;
	f->base.op = flow.op; /* hlt */
	f->base.cond = flow.cond;
	f->base.writes = flow.writes;
	f->base.direction = direction_of(z->mnemonic);
	/* The kernel returns its result in rax (psABI A.2.1). */
	if (z->meta.category == ZYDIS_CATEGORY_SYSCALL || z->meta.category == ZYDIS_CATEGORY_INTERRUPT)
		f->base.writes |= 1u << RAX | 1u << RCX | 1u << R11;
	f->done = flow.flow != FLOW_NEXT || flow.op == STEP_HALT || syscall_set(z->mnemonic, &f->base);
	f->flags = z->cpu_flags && (z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1 |
	                            z->cpu_flags->undefined);
	calls = flow.flow == FLOW_CALL || flow.flow == FLOW_CALL_IND || flow.flow == FLOW_RETURN;
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
				f->op[i].field = (uint8_t)field_of(op->encoding);
				f->op[i].high = op->reg.value >= ZYDIS_REGISTER_AH && op->reg.value <= ZYDIS_REGISTER_BH;
			}
			if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) || (calls && r == RSP))
				continue;
			if (!field_of(op->encoding)) {
				f->base.writes |= (uint16_t)(1u << r);
				continue;
			}
			if (n == 3)
				return false;
			f->written[n++] = (uint8_t)(field_of(op->encoding) | (op->size == 8 ? BYTE_REG : 0));
		}
	}
	f->shape = (uint8_t)shape_of(f->mnemonic, f->op);
	return true;
}

/* Base, index and displacement as the ModRM and SIB bytes have them (SDM vol. 2, 2.1.5). */
static inline void memory_raw(const struct raw *z, uint64_t addr, struct step *out)
{
	unsigned rm = z->field[FIELD_RM];

	if (z->far)
		return;
	out->disp = z->disp;
	if ((rm & 7) == 5 && z->mod == 0) {
		out->b = INSN_PC_REG;
		if (out->flow == FLOW_NEXT || out->flow == FLOW_JUMP_IND || out->flow == FLOW_CALL_IND)
			out->imm = (int64_t)(addr + z->len + (uint64_t)(int64_t)z->disp);
	} else if ((rm & 7) == 4) {
		if (!((z->base & 7) == 5 && z->mod == 0))
			out->b = z->base;
		if (z->index != 4)
			out->index = z->index;
	} else {
		out->b = (uint8_t)rm;
	}
}

/* An operand of a form, with the register that an instruction has there. */
static inline void operand_fill(const struct operand *of, const struct raw *z, struct operand *out)
{
	*out = *of;
	if (!of->field)
		return;
	out->reg = (uint8_t)field_reg(z, of->field, of->size == 8);
	out->high = of->size == 8 && z->field[of->field] != out->reg;
}

/* An instruction of a form, with its registers, displacement and immediate. */
static inline void form_apply(const struct form *f, const struct raw *z, uint64_t addr, struct step *out)
{
	struct operand ops[2];
	unsigned i;

	*out = f->base;
	out->len = z->len;
	if (out->padding)
		return;
	for (i = 0; i < 3 && f->written[i]; i++)
		out->writes |= (uint16_t)(1u << field_reg(z, f->written[i] & (BYTE_REG - 1), f->written[i] & BYTE_REG));
	if (f->memory && f->follow)
		memory_raw(z, addr, out);
	if (f->done) {
		if (out->flow == FLOW_JUMP || out->flow == FLOW_BRANCH || out->flow == FLOW_CALL) {
			out->imm = (int64_t)(addr + z->len + (uint64_t)z->imm);
		} else if (out->flow == FLOW_JUMP_IND || out->flow == FLOW_CALL_IND) {
			operand_fill(&f->op[0], z, &ops[0]);
			out->a = ops[0].reg;
			out->deref = ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY;
		}
		return;
	}
	if (f->stored && out->index == INSN_NO_REG && out->b < 16 && !stores_back(f->mnemonic, f->op, z))
		out->size = f->stored;
	if (f->shape != SHAPE_NONE) {
		operand_fill(&f->op[0], z, &ops[0]);
		operand_fill(&f->op[1], z, &ops[1]);
		op_set((enum shape)f->shape, ops, z, out);
	}
	out->cond = out->op == STEP_COMPARE || out->op == STEP_LIMIT || f->flags;
	if (out->op == STEP_NONE && out->size)
		out->op = STEP_STORE; /* of some value: a is INSN_NO_REG */
	if ((out->op == STEP_NONE || out->op == STEP_STORE) && z->imm32 && !out->imm)
		out->imm = z->imm; /* it may be an address */
}

struct step_cache *step_cache_new(void)
{
	return calloc(1, sizeof(struct step_cache));
}

void step_cache_free(struct step_cache *c)
{
	if (c)
		free(c->forms);
	free(c);
}

/* The long way: an instruction whose operands have been decoded. */
static void step_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, uint64_t addr, struct step *out)
{
	struct operand light[2] = {{.reg = INSN_NO_REG}, {.reg = INSN_NO_REG}};
	unsigned i, r;
	struct raw raw;
	bool calls;

	out->padding = is_padding(z);
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
			light[i] = (struct operand){(uint8_t)op->type, INSN_NO_REG, FIELD_NONE, false, op->size};
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
	raw_of(z, &raw);
	if (stores_back(z->mnemonic, light, &raw))
		out->size = 0;
	op_set(shape_of(z->mnemonic, light), light, &raw, out);
	out->cond = out->op == STEP_COMPARE || out->op == STEP_LIMIT ||
	            (z->cpu_flags && (z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1 |
	                              z->cpu_flags->undefined));
	if (out->op == STEP_NONE && out->size)
		out->op = STEP_STORE; /* of some value: a is INSN_NO_REG */
	if ((out->op == STEP_NONE || out->op == STEP_STORE) && z->raw.imm[0].size == 32 && !out->imm)
		out->imm = (int64_t)z->raw.imm[0].value.u; /* it may be an address */
}

/* The form of a key; or null, and *slot is where its number is to be. */
static inline struct form *form_find(const struct step_cache *cache, uint32_t key, unsigned *slot)
{
	unsigned h = key * 0x9e3779b1u >> 19;

	for (; cache->slots[h]; h = (h + 1) & (FORM_SLOTS - 1))
		if (cache->forms[cache->slots[h] - 1].key == key)
			return &cache->forms[cache->slots[h] - 1];
	*slot = h;
	return NULL;
}

/* A new one; null: no room. */
static struct form *form_add(struct step_cache *cache, const struct form *f, unsigned slot)
{
	if (cache->count == cache->room) {
		unsigned room = cache->room ? 2 * cache->room : 128;
		struct form *p = room <= FORMS_MOST ? realloc(cache->forms, room * sizeof(*p)) : NULL;

		if (!p)
			return NULL;
		cache->forms = p;
		cache->room = room;
	}
	cache->forms[cache->count] = *f;
	cache->slots[slot] = (uint16_t)++cache->count;
	return &cache->forms[cache->count - 1];
}

static inline int64_t imm_read(const uint8_t *p, const struct form *f)
{
	int32_t word;
	int64_t imm;

	switch (f->imm_size) {
	case 0:
		return 0;
	case 1:
		return f->imm_signed ? (int8_t)*p : *p;
	case 4:
		memcpy(&word, p, sizeof(word));
		return f->imm_signed ? word : (int64_t)(uint32_t)word;
	case 8:
		memcpy(&imm, p, sizeof(imm));
		return imm;
	default: /* 2 */
		imm = p[0] | p[1] << 8;
		return f->imm_signed ? (int16_t)imm : imm;
	}
}

/* The immediate of what raw_read() has read, and so its length. */
static inline void raw_finish(struct raw *raw, const uint8_t *bytes, unsigned imm_at, const struct form *f)
{
	raw->imm = imm_read(bytes + imm_at, f);
	raw->imm32 = f->imm_size == 4;
	raw->len = (uint8_t)(imm_at + f->imm_size);
}

/*
 * Without Zydis: an instruction of a form that has been met, of which raw_read() has got
 * every field as Zydis did. Then it does of all of the form: where fields are depends on what
 * raw_key() has, and on those before.
 */
static bool step_quick(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out,
                       bool *fresh)
{
	uint8_t copy[RAW_BYTES] = {0};
	unsigned imm_at, slot;
	const struct form *f;
	struct raw raw;
	uint32_t key;

	if (avail < RAW_BYTES) {
		memcpy(copy, bytes, avail);
		bytes = copy;
	}
	key = raw_read(bytes, &raw, &imm_at);
	f = key ? form_find(cache, key, &slot) : NULL;
	*fresh = key && !f;
	if (!f || !f->quick || imm_at + f->imm_size > avail)
		return false;
	raw_finish(&raw, bytes, imm_at, f);
	form_apply(f, &raw, addr, out);
	return true;
}

/* Can the next one of this form be read without Zydis? */
static void quick_judge(struct form *f, const ZydisDecodedInstruction *z, const uint8_t *bytes)
{
	uint8_t copy[RAW_BYTES] = {0};
	struct raw raw, truth;
	unsigned imm_at;

	memcpy(copy, bytes, z->length);
	f->imm_size = (uint8_t)(z->raw.imm[0].size / 8);
	f->imm_signed = z->raw.imm[0].is_signed;
	if (raw_read(copy, &raw, &imm_at) != f->key || z->raw.imm[1].size)
		return;
	raw_finish(&raw, copy, imm_at, f);
	raw_of(z, &truth);
	f->quick = !memcmp(&raw, &truth, sizeof(raw));
}

/* Every step that was read without Zydis, read again with it (make asan). */
static void step_check(const uint8_t *bytes, size_t avail, uint64_t addr, const struct step *found)
{
#ifdef ETCH_CHECK_STEPS
	struct step truth;

	if (step_decode(NULL, bytes, avail, addr, &truth) && !memcmp(&truth, found, sizeof(truth)))
		return;
	fprintf(stderr, "step_quick: %02x %02x %02x %02x ... is not what Zydis has\n", bytes[0], bytes[1], bytes[2], bytes[3]);
	abort();
#else
	(void)bytes, (void)avail, (void)addr, (void)found;
#endif
}

/* With Zydis: all of it where the form is new (`fresh_form`: it is known to be), or there is none. */
static __attribute__((noinline)) bool step_slowly(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr,
                                                  bool fresh_form, struct step *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecoderContext context;
	struct form *known = NULL, fresh;
	unsigned slot = 0;
	struct raw raw;
	uint32_t key = 0;

	pthread_once(&decoder_once, decoder_init);
	if (cache && !fresh_form) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&lengths, &context, bytes, avail, &z)))
			return false;
		key = raw_key(&z);
		known = key ? form_find(cache, key, &slot) : NULL;
	}
	if (known) {
		raw_of(&z, &raw);
		form_apply(known, &raw, addr, out);
		return true;
	}
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, avail, &z, ops)))
		return false;
	key = cache ? raw_key(&z) : 0;
	if (key && form_make(&z, ops, &fresh)) {
		fresh.key = key;
		quick_judge(&fresh, &z, bytes);
		raw_of(&z, &raw);
		form_apply(&fresh, &raw, addr, out);
		if (!form_find(cache, key, &slot))
			form_add(cache, &fresh, slot);
		return true;
	}
	memset(out, 0, sizeof(*out));
	out->a = out->b = out->index = INSN_NO_REG;
	out->len = z.length;
	step_set(&z, ops, addr, out);
	return true;
}

bool step_decode(struct step_cache *cache, const uint8_t *bytes, size_t avail, uint64_t addr, struct step *out)
{
	bool fresh = false;

	if (!cache || !step_quick(cache, bytes, avail, addr, out, &fresh))
		return step_slowly(cache, bytes, avail, addr, fresh, out);
	step_check(bytes, avail, addr, out);
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
