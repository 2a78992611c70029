/* SPDX-License-Identifier: MIT */
/* Makes the form of an instruction that Zydis has decoded, and makes struct step for other instructions of this form
 * from their raw fields. */
#include "arch/x86/form.h"
#include "arch/x86/step_full.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define RSP 4u

/* Returns the number of the general-purpose register in a field. `byte`: it is an 8-bit register; without REX, the
 * numbers 4 to 7 then mean ah, ch, dh and bh. */
static inline unsigned field_reg(const struct raw *z, unsigned field, bool byte)
{
	unsigned r = z->field[field];

	return byte && r >= 4 && r < 8 && z->legacy && !z->rex ? r - 4 : r;
}

static unsigned field_of(unsigned encoding)
{
	switch (encoding) {
	case ZYDIS_OPERAND_ENCODING_MODRM_REG: return FIELD_REG;
	case ZYDIS_OPERAND_ENCODING_MODRM_RM: return FIELD_RM;
	case ZYDIS_OPERAND_ENCODING_OPCODE: return FIELD_OPCODE;
	case ZYDIS_OPERAND_ENCODING_NDSNDD: return FIELD_VVVV;
	default: return FIELD_NONE;
	}
}

/* Sets the properties of a form that depend on its explicit memory operand. */
static void form_memory(struct form *f, const ZydisDecodedOperand *op)
{
	f->memory = true;
	f->follow = op->mem.segment != ZYDIS_REGISTER_FS && op->mem.segment != ZYDIS_REGISTER_GS &&
	            (op->mem.index == ZYDIS_REGISTER_NONE || zydis_gpr(op->mem.index) != INSN_NO_REG);
	if (full_stored(op))
		f->stored = full_stored(op);
}

bool form_make(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops, struct form *f)
{
	struct step flow = {.a = INSN_NO_REG};
	unsigned i, r, n = 0;

	memset(f, 0, sizeof(*f));
	f->mnemonic = (uint16_t)z->mnemonic;
	f->op[0].reg = f->op[1].reg = INSN_NO_REG;
	f->base.a = f->base.b = f->base.index = INSN_NO_REG;
	if (zydis_is_padding(z)) {
		f->base.padding = f->done = true;
		f->base.flow = z->mnemonic == ZYDIS_MNEMONIC_INT3 ? FLOW_STOP : FLOW_NEXT;
		return true;
	}
	full_flow(z, ops, 0, &flow);
	f->base.flow = flow.flow;
	f->base.op = flow.op; /* STEP_HALT, or STEP_NONE */
	f->base.cond = flow.cond;
	f->base.writes = flow.writes;
	f->base.direction = full_direction(z->mnemonic);
	f->base.writes |= full_kernel_writes(z);
	f->done = flow.flow != FLOW_NEXT || flow.op == STEP_HALT || full_syscall(z->mnemonic, &f->base);
	f->flags = full_writes_flags(z);
	for (i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];
		bool explicit = i < z->operand_count_visible && i < 2;

		if (explicit)
			f->op[i] = (struct operand){(uint8_t)op->type, INSN_NO_REG, 0, false, op->size};
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
				form_memory(f, op);
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			r = zydis_gpr(op->reg.value);
			if (r == INSN_NO_REG)
				continue;
			if (explicit) {
				f->op[i].reg = (uint8_t)r;
				f->op[i].field = (uint8_t)field_of(op->encoding);
				f->op[i].high = zydis_is_high_byte(op->reg.value);
			}
			if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) || (full_calls(flow.flow) && r == RSP))
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

/* Sets base, index and displacement of *out from the ModRM and SIB bytes (SDM vol. 2, 2.1.5). */
static inline void memory_raw(const struct raw *z, uint64_t addr, struct step *out)
{
	unsigned rm = z->field[FIELD_RM];

	if (z->far)
		return;
	out->disp = z->disp;
	if ((rm & 7) == 5 && z->mod == 0) {
		out->b = INSN_PC_REG;
		if (out->flow == FLOW_NEXT || flow_is_indirect(out->flow))
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

/* Copies an operand of a form, and sets its register to the one in the instruction's field. */
static inline void operand_fill(const struct operand *of, const struct raw *z, struct operand *out)
{
	*out = *of;
	if (!of->field)
		return;
	out->reg = (uint8_t)field_reg(z, of->field, of->size == 8);
	out->high = of->size == 8 && z->field[of->field] != out->reg;
}

void form_apply(const struct form *f, const struct raw *z, uint64_t addr, struct step *out)
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
		if (flow_is_direct(out->flow)) {
			out->imm = (int64_t)(addr + z->len + (uint64_t)z->imm);
		} else if (flow_is_indirect(out->flow)) {
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
		shape_apply((enum shape)f->shape, ops, z, out);
	}
	full_complete(out, f->flags, z->imm32, z->imm);
}

struct form *form_find(const struct forms *all, uint32_t key, unsigned *slot)
{
	unsigned h = key * 0x9e3779b1u >> (32 - FORM_BITS);

	for (; all->slots[h]; h = (h + 1) & (FORM_SLOTS - 1))
		if (all->list[all->slots[h] - 1].key == key)
			return &all->list[all->slots[h] - 1];
	*slot = h;
	return NULL;
}

struct form *form_add(struct forms *all, const struct form *f, unsigned slot)
{
	if (all->count == all->capacity) {
		unsigned capacity = all->capacity ? 2 * all->capacity : 128;

		if (capacity > FORMS_MOST)
			return NULL;
		all->list = mem_resize(all->list, capacity, sizeof(*all->list));
		all->capacity = capacity;
	}
	all->list[all->count] = *f;
	all->slots[slot] = (uint16_t)++all->count;
	return &all->list[all->count - 1];
}

static inline int64_t imm_read(const uint8_t *p, const struct form *f)
{
	int32_t word;
	int64_t imm;

	switch (f->imm_size) {
	case 0: return 0;
	case 1: return f->imm_signed ? (int8_t)*p : *p;
	case 4: memcpy(&word, p, sizeof(word)); return f->imm_signed ? word : (int64_t)(uint32_t)word;
	case 8: memcpy(&imm, p, sizeof(imm)); return imm;
	default: /* 2 */ imm = p[0] | p[1] << 8; return f->imm_signed ? (int16_t)imm : imm;
	}
}

void form_finish(const struct form *f, const uint8_t *bytes, unsigned imm_at, struct raw *raw)
{
	raw->imm = imm_read(bytes + imm_at, f);
	raw->imm32 = f->imm_size == 4;
	raw->len = (uint8_t)(imm_at + f->imm_size);
}

void form_compare(struct form *f, const ZydisDecodedInstruction *z, const uint8_t *bytes)
{
	uint8_t copy[RAW_BYTES] = {0};
	struct raw raw, truth;
	unsigned imm_at;

	if (f->compared)
		return;
	memcpy(copy, bytes, z->length);
	f->imm_size = (uint8_t)(z->raw.imm[0].size / 8);
	f->imm_signed = z->raw.imm[0].is_signed;
	if (raw_read(copy, &raw, &imm_at) != f->key)
		return;
	f->compared = true;
	if (z->raw.imm[1].size)
		return;
	form_finish(f, copy, imm_at, &raw);
	raw_of(z, &truth);
	f->quick = !memcmp(&raw, &truth, sizeof(raw));
}
