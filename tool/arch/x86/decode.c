/* SPDX-License-Identifier: MIT */
/* Decodes bytes to struct insn by the first decoder, Zydis. Also contains functions of insn.h that need only the
 * bytes. */
#include "arch/x86/insn.h"
#include "arch/x86/newer.h"
#include "arch/x86/zydis.h"

#include <string.h>

/* Sets flow, target and src of *out. */
static void flow_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out)
{
	bool direct = z->operand_count && ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[0].imm.is_relative;

	if (direct)
		out->target = out->addr + z->length + (uint64_t)ops[0].imm.value.s;
	out->flow = (uint8_t)zydis_flow(z, direct);
	if ((out->flow == FLOW_CALL_IND || out->flow == FLOW_JUMP_IND) && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		out->src = (uint8_t)zydis_gpr(ops[0].reg.value);
}

/* Sets the members of *out that describe its memory operand. */
static void memory_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op, struct insn *out)
{
	bool read = op->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
	bool write = op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;

	if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN || z->meta.category == ZYDIS_CATEGORY_PREFETCH ||
	    z->meta.category == ZYDIS_CATEGORY_WIDENOP || z->mnemonic == ZYDIS_MNEMONIC_NOP || (!read && !write))
		out->mem = MEM_ADDRESS;
	else if (read)
		out->mem = write ? MEM_UPDATE : MEM_READ;
	else
		out->mem = MEM_WRITE;
	out->mem_size = op->size / 8;
	out->base =
		(uint8_t)(op->mem.base == ZYDIS_REGISTER_RIP || op->mem.base == ZYDIS_REGISTER_EIP ? INSN_PC_REG
	                                                                                       : zydis_gpr(op->mem.base));
	out->index = (uint8_t)zydis_gpr(op->mem.index);
	out->scale = op->mem.scale;
	if (newer_is_register(op->mem.index))
		out->index = INSN_HIGH_REG;
	else if (op->mem.index != ZYDIS_REGISTER_NONE && out->index == INSN_NO_REG)
		out->index = out->base; /* a vector index (gather); any value but INSN_NO_REG says that there is an index */
	if (newer_is_register(op->mem.base)) { /* the former index becomes the base */
		out->base = out->index;
		if (out->base == INSN_HIGH_REG)
			out->base = INSN_NO_REG;
		out->index = INSN_HIGH_REG;
		out->scale = 1;
	}
	out->disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	out->segment = op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS;
	if (z->raw.disp.size) {
		out->disp_at = z->raw.disp.offset;
		out->disp_len = z->raw.disp.size / 8;
	}
}

/* Returns if_register if the source of an instruction is a register, `from`; if_memory if it is memory; else
 * MOVE_NONE. */
static uint8_t move_by(const ZydisDecodedOperand *source, unsigned from, enum insn_move if_register,
                       enum insn_move if_memory)
{
	if (from != INSN_NO_REG)
		return (uint8_t)if_register;
	return (uint8_t)(source->type == ZYDIS_OPERAND_TYPE_MEMORY ? if_memory : MOVE_NONE);
}

/* Sets move, dst, src and the sign of imm of *out, if the instruction is one of enum insn_move. */
static void move_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out)
{
	const ZydisDecodedOperand *a = &ops[0], *b = &ops[1];
	unsigned from;

	if (z->operand_count_visible < 2 || a->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return;
	out->dst = (uint8_t)zydis_gpr(a->reg.value);
	if (out->dst == INSN_NO_REG)
		return;
	if (z->mnemonic == ZYDIS_MNEMONIC_MOV && b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && a->size >= 32)
		out->move = MOVE_IMM;
	if (out->move || a->size != 64)
		return;
	from = b->type == ZYDIS_OPERAND_TYPE_REGISTER ? zydis_gpr(b->reg.value) : INSN_NO_REG;
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_MOV: out->move = move_by(b, from, MOVE_COPY, MOVE_LOAD); break;
	case ZYDIS_MNEMONIC_LEA: out->move = MOVE_ADDRESS; break;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		if (b->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			out->move = MOVE_ADD;
		else if (z->mnemonic == ZYDIS_MNEMONIC_ADD)
			out->move = move_by(b, from, MOVE_SUM, MOVE_SUM_LOAD);
		break;
	default: break;
	}
	if (out->move == MOVE_COPY || out->move == MOVE_SUM)
		out->src = (uint8_t)from;
	if (out->move == MOVE_ADD && z->mnemonic == ZYDIS_MNEMONIC_SUB)
		out->imm = -out->imm;
}

/* Sets the memory operand, and the masks of the registers that are read and written. */
static void operands_set(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct insn *out)
{
	unsigned i, r;

	for (i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];

		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT || op->mem.disp.has_displacement) {
				memory_set(z, op, out);
			} else if (zydis_gpr(op->mem.base) != 4) { /* a string instruction; with base 4 (rsp) it is a push or pop */
				out->string = true;
				if (zydis_gpr(op->mem.base) != INSN_NO_REG)
					out->reads |= (uint16_t)(1u << zydis_gpr(op->mem.base));
			}
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			r = zydis_gpr(op->reg.value);
			if (r == INSN_NO_REG)
				continue;
			/* A conditional write (cmov), or a write of 8 or 16 bits, leaves the old value or a part of it in place, so
			 * it counts as a read, too. */
			if ((op->actions & ZYDIS_OPERAND_ACTION_MASK_READ) || (op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE) ||
			    ((op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && op->size < 32))
				out->reads |= (uint16_t)(1u << r);
			if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
				out->writes |= (uint16_t)(1u << r);
		}
	}
}

/* Does an instruction order memory accesses, or enter the kernel, which may change memory? */
static bool is_barrier(const ZydisDecodedInstruction *z, const struct insn *out)
{
	return zydis_enters_kernel(z) || (z->attributes & ZYDIS_ATTRIB_HAS_LOCK) || z->mnemonic == ZYDIS_MNEMONIC_MFENCE ||
	       (z->mnemonic == ZYDIS_MNEMONIC_XCHG && out->mem != MEM_NONE);
}

/* Is the instruction xor %r,%r or sub %r,%r, whose result does not depend on the register? */
static bool is_zeroing(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
	return (z->mnemonic == ZYDIS_MNEMONIC_XOR || z->mnemonic == ZYDIS_MNEMONIC_SUB) &&
	       ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ops[0].reg.value == ops[1].reg.value && ops[0].size >= 32;
}

/* Does the instruction change a bit of memory whose number is in a register? Then that bit may be anywhere in
 * memory. */
static bool changes_any_bit(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, const struct insn *out)
{
	return out->mem == MEM_UPDATE && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       (z->mnemonic == ZYDIS_MNEMONIC_BTS || z->mnemonic == ZYDIS_MNEMONIC_BTR ||
	        z->mnemonic == ZYDIS_MNEMONIC_BTC);
}

/* Does an instruction copy a value unchanged, or compute an address (lea)? */
static bool is_copy(const ZydisDecodedInstruction *z)
{
	return z->mnemonic == ZYDIS_MNEMONIC_MOV || z->mnemonic == ZYDIS_MNEMONIC_PUSH ||
	       z->mnemonic == ZYDIS_MNEMONIC_LEA || (unsigned)z->mnemonic == NEWER_PUSH2;
}

/* Is the instruction a lea with a DS prefix, or a mov from the GOT with one? Linkers may relax such a mov to lea, or to
 * a mov of an immediate. */
static bool is_marked(const uint8_t *bytes, const struct insn *out)
{
	return bytes[0] == 0x3e && out->len >= 4 && (bytes[1] & 0xf8) == 0x48 &&
	       (bytes[2] == 0x8d || (bytes[2] == 0x8b && out->base == INSN_PC_REG) ||
	        (bytes[2] == 0xc7 && out->move == MOVE_IMM));
}

bool insn_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct insn *out)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	bool newer = !ZYAN_SUCCESS(ZydisDecoderDecodeFull(zydis_decoder(), bytes, avail, &z, ops));

	if (newer && !newer_decode(bytes, avail, &z, ops))
		return false;
	memset(out, 0, sizeof(*out));
	out->newer = newer;
	out->copies = newer && is_copy(&z);
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
	if (zydis_enters_kernel(&z))
		out->reads |= insn_syscall_arguments();
	out->barrier = is_barrier(&z, out);
	if (is_zeroing(&z, ops))
		out->reads = 0;
	if (changes_any_bit(&z, ops, out))
		out->mem_size = 0;
	flow_set(&z, ops, out);
	move_set(&z, ops, out);
	zydis_flags(&z, ops, out);
	out->stack_odd = (out->writes & 1u << 4) && !zydis_stack_even(&z, ops);
	out->padding = zydis_is_padding(&z);
	if (out->padding) { /* the operands of a nop are neither read nor written */
		out->reads = out->writes = 0;
		out->mem = MEM_NONE;
		out->move = MOVE_NONE;
	}
	out->no_escape = is_marked(bytes, out);
	return true;
}

bool insn_is_reserved(const uint8_t *bytes, size_t avail) { return newer_is_reserved(bytes, avail); }

bool insn_accesses_memory(const uint8_t *bytes, size_t avail)
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	unsigned i;

	if (!zydis_decode(bytes, avail, &z, ops))
		return false;
	/* Hints for the cache never fault (SDM vol. 2, PREFETCHh, CLDEMOTE), and nops of any length access no memory. */
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

bool insn_is_table_load(const uint8_t *bytes, const struct insn *in)
{
	return in->mem == MEM_READ && in->mem_size == 4 && in->base < 16 && in->index < 16 && !in->disp && !in->segment &&
	       (bytes[0] & 0xf8) == 0x48 && bytes[1] == 0x63 && bytes[3] >> 6 == 2;
}

bool insn_is_register_sum(const uint8_t *bytes, const struct insn *in)
{
	return in->mem == MEM_NONE && in->len == 3 && (bytes[0] & 0xf8) == 0x48 && (bytes[1] == 0x01 || bytes[1] == 0x03) &&
	       bytes[2] >> 6 == 3;
}

bool insn_is_locked(const uint8_t *bytes) { return bytes[0] == 0xf0; }

/* rax rcx rdx rsi rdi r8-r11 */
uint16_t insn_call_clobbers(void) { return 1u << 0 | 1u << 1 | 1u << 2 | 1u << 6 | 1u << 7 | 0xf00u; }
/* rdi rsi rdx rcx r8 r9, and r10 (static chain pointer) */
uint16_t insn_call_arguments(void) { return 1u << 7 | 1u << 6 | 1u << 2 | 1u << 1 | 0x700u; }
/* Returns the mask of the registers order[i] for which bit i of `arguments` is set. */
static uint16_t in_order(const uint8_t order[6], unsigned arguments)
{
	uint16_t mask = 0;
	unsigned i;

	for (i = 0; i < 6; i++)
		if (arguments >> i & 1)
			mask |= (uint16_t)(1u << order[i]);
	return mask;
}

uint16_t insn_arguments(uint8_t arguments)
{
	static const uint8_t order[] = {INSN_FIRST_ARGUMENT, 6, 2, 1, 8, 9}; /* rdi rsi rdx rcx r8 r9: psABI 3.2.3 */

	return in_order(order, arguments);
}

uint16_t insn_syscall_arguments_of(uint8_t arguments)
{
	static const uint8_t order[] = {7, 6, 2, 10, 8, 9}; /* rdi rsi rdx r10 r8 r9: psABI A.2.1 */

	return in_order(order, arguments);
}

bool insn_is_syscall(const uint8_t *bytes, const struct insn *in)
{
	return in->len == 2 && bytes[0] == 0x0f && bytes[1] == 0x05;
}

uint16_t insn_first_arguments(unsigned count) { return insn_arguments((uint8_t)((1u << (count < 6 ? count : 6)) - 1)); }
uint16_t insn_first_returns(unsigned count)
{
	switch (count) {
	case 0: return 0;
	case 1: return 1u << 0;
	default: return insn_return_values();
	}
}
uint16_t insn_pointer_arguments(void) { return insn_call_arguments() & (uint16_t) ~(1u << 10); }
/* rdi rsi rdx r10 r8 r9: arguments of a system call (psABI A.2.1) */
uint16_t insn_syscall_arguments(void) { return 1u << 7 | 1u << 6 | 1u << 2 | 0x700u; }
/* rax rdx */
uint16_t insn_return_values(void) { return 1u << 0 | 1u << 2; }
