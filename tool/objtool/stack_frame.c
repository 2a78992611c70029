/* SPDX-License-Identifier: MIT */
/* Applies instructions to the frame that --stackval follows (stack_frame.h). */
#include "objtool/stack_frame.h"
#include "support/memory.h"

#include <stdio.h>
#include <string.h>

#define RSP ((int)ETCH_REG_RSP)
#define RBP ((int)ETCH_REG_RBP)

static int32_t plus(int32_t a, int64_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static int32_t minus(int32_t a, int64_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
static int32_t negative(int32_t a) { return minus(0, a); }

static bool is_at(const struct spot *s, int32_t base, int32_t off) { return s->base == base && s->off == off; }

void stack_frame_none(struct stack_frame *out)
{
	int i;

	memset(out, 0, sizeof(*out));
	out->kind = ETCH_RULE_CALL;
	out->cfa.base = out->aligner = BASE_NONE;
	out->aligner_at = -1;
	for (i = 0; i < FRAME_SPOTS; i++)
		out->saved[i].base = BASE_NONE;
	for (i = 0; i < 16; i++)
		out->copies[i].base = BASE_NONE;
}

void stack_frame_start(struct stack_frame *out)
{
	stack_frame_none(out);
	out->cfa = (struct spot){RSP, 8};
	out->saved[FRAME_RETURN] = (struct spot){BASE_CFA, -8};
	out->size = 8;
}

void stack_frame_hinted(const struct note_frame *hint, bool typed, struct stack_frame *out)
{
	if (hint->function) {
		stack_frame_start(out);
		return;
	}
	stack_frame_none(out);
	if (typed && hint->reg == NOTE_NO_REG && hint->kind == ETCH_RULE_CALL) {
		out->unknown = true;
		return;
	}
	out->kind = hint->kind;
	out->cfa.off = hint->off;
	if (hint->reg < NOTE_NO_REG)
		out->cfa.base = hint->reg;
	if (hint->reg < NOTE_NO_REG && hint->deref)
		out->cfa.base = hint->reg == RSP ? BASE_RSP_DEREF : BASE_RBP_DEREF;
}

/* Records where a register is saved, unless it has been saved already. */
static void save(struct stack_frame *f, int reg, int32_t base, int32_t off)
{
	if (STEP_CALLEE_SAVED >> reg & 1 && f->saved[reg].base == BASE_NONE)
		f->saved[reg] = (struct spot){base, off};
}

static void restore(struct stack_frame *f, int reg) { f->saved[reg] = (struct spot){BASE_NONE, 0}; }

/* Applies that rsp goes down by some bytes. */
static void grow(struct stack_frame *f, int64_t bytes)
{
	f->size = plus(f->size, bytes);
	if (f->cfa.base == RSP)
		f->cfa.off = plus(f->cfa.off, bytes);
}

/* Applies an instruction that copies another register, whose value is `from`, to the register that is the base of the
 * CFA. */
static void base_copy(struct stack_frame *f, const struct spot *from)
{
	if (f->cfa.base == RSP && from->base == BASE_CFA)
		f->size = f->cfa.off = negative(from->off);
	else if (f->cfa.base == RSP && is_at(from, BASE_RSP_DEREF, f->cfa.off))
		f->cfa.base = BASE_RSP_DEREF; /* rsp now points to the top of another stack, where the old rsp has been saved */
	else
		f->cfa = (struct spot){BASE_NONE, 0};
}

static void copy(struct stack_frame *f, int to, int from, bool all)
{
	const struct spot *x = &f->copies[from];

	if (from == RSP && to == RBP && f->cfa.base == RSP && is_at(&f->saved[RBP], BASE_CFA, negative(f->cfa.off))) {
		f->cfa.base = RBP;
		f->scratch = false;
	} else if (from == RSP && to == RBP && f->aligned) {
		f->saved[RBP] = (struct spot){RBP, negative(f->size)};
		f->scratch = false;
	} else if (from == RSP && f->cfa.base == RSP) {
		f->copies[to] = (struct spot){BASE_CFA, negative(f->size)};
	} else if (from == RBP && to == RSP && (f->cfa.base == RBP || f->cfa.base == f->aligner)) {
		f->size = negative(f->saved[RBP].off);
	} else if (to == f->cfa.base) {
		base_copy(f, x);
	} else if (to == RSP && is_at(x, BASE_RSP_DEREF, f->cfa.off)) {
		f->size = plus(f->size, 8); /* counts the value that will be popped into rsp */
	} else if (all && x->base == BASE_CFA) {
		f->copies[to] = *x;
	}
}

static const char *add(struct stack_frame *f, int to, int from, int64_t off, const struct stack_rules *rules)
{
	if (to == RSP && from == RSP) {
		grow(f, -off);
	} else if (to == RSP && from == RBP) {
		if (!rules->copies || !is_at(&f->cfa, RBP, 0))
			f->size = negative(plus(f->saved[RBP].off, off));
	} else if (from == RSP && f->cfa.base == RSP) {
		f->aligner = to;
		f->copies[to] = (struct spot){BASE_CFA, minus((int32_t)off, f->size)};
	} else if (f->aligned && to == RSP && from == f->aligner) {
		f->size = negative((int32_t)off);
		f->cfa = (struct spot){RSP, f->size};
		f->aligner = BASE_NONE;
		f->aligned = false;
	} else if (to == f->cfa.base && !rules->hinted) {
		return "unsupported stack register modification";
	}
	return NULL;
}

static const char *align(struct stack_frame *f)
{
	if (f->cfa.base != (f->aligner == BASE_NONE ? RBP : RSP))
		return "unsupported stack pointer realignment";
	if (f->aligner != BASE_NONE) {
		f->cfa = (struct spot){f->aligner, 0};
		f->size = 0;
		f->aligned = true;
	}
	return NULL;
}

static void push(struct stack_frame *f, unsigned reg, bool pointers)
{
	int r = (int)reg;

	grow(f, 8);
	if (reg > 15)
		return;
	if (f->aligned && r == f->cfa.base && r == f->aligner) {
		f->aligner_at = negative(f->size);
		f->cfa = (struct spot){BASE_RBP_DEREF, f->aligner_at};
	} else if (f->aligned && r == RBP && f->cfa.base == f->aligner) {
		f->size = 0;
	} else {
		save(f, r, f->aligned ? RBP : BASE_CFA, negative(f->size));
	}
	if (pointers && r == RBP && f->cfa.base != RBP)
		f->scratch = true;
}

static void pop(struct stack_frame *f, int reg)
{
	if (reg == RSP && f->cfa.base == BASE_RSP_DEREF) {
		f->cfa.base = RSP; /* rsp points again to the stack from which the code has come */
		return;
	}
	if (!f->aligned && reg == f->cfa.base)
		f->cfa.base = RSP;
	if (f->aligned && f->cfa.base == BASE_RBP_DEREF && reg == f->aligner && f->aligner_at == negative(f->size)) {
		f->cfa = (struct spot){f->aligner, 0};
		f->aligner_at = -1;
	} else if (f->size == negative(f->saved[reg].off)) {
		restore(f, reg);
	}
	grow(f, -8);
}

static void load(struct stack_frame *f, int reg, int from, int32_t off)
{
	if (!f->aligned && reg == RBP && f->cfa.base == RBP)
		f->cfa = (struct spot){RSP, f->size};
	if (f->aligned && from == RBP && off == f->aligner_at) {
		f->cfa = (struct spot){f->aligner, 0};
		f->aligner_at = -1;
	}
	if ((f->aligned && from == RBP && off == f->saved[reg].off) ||
	    (from == f->cfa.base && off == plus(f->saved[reg].off, f->cfa.off)) ||
	    (from == RSP && off == plus(f->saved[reg].off, f->size)))
		restore(f, reg);
}

static void store(struct stack_frame *f, int reg, int to, int32_t off)
{
	if (f->aligned && reg == f->cfa.base && reg == f->aligner) {
		f->cfa = (struct spot){BASE_RBP_DEREF, off};
		f->aligner_at = off;
	} else if (f->aligned) {
		save(f, reg, RBP, off);
	} else if (to == f->cfa.base) {
		save(f, reg, BASE_CFA, minus(off, f->cfa.off));
	} else if (to == RSP) {
		save(f, reg, BASE_CFA, minus(off, f->size));
	} else if (reg == RSP && !off) {
		f->copies[to] = (struct spot){BASE_RSP_DEREF, f->cfa.off};
	}
}

/* True if an instruction can change the frame. */
static bool matters(const struct step *s, const struct stack_rules *rules)
{
	bool base = s->b == ETCH_REG_RSP || s->b == ETCH_REG_RBP;

	switch (s->op) {
	case STEP_PUSH:
	case STEP_POP:
	case STEP_PUSH2:
	case STEP_POP2:
	case STEP_LEAVE: return true;
	case STEP_MOVE: return rules->copies || s->a == ETCH_REG_RSP || s->b == ETCH_REG_RSP;
	case STEP_ADDRESS: return s->b < 16;
	case STEP_ADD:
	case STEP_ALIGN:
	case STEP_ADDREG:
	case STEP_SUBREG: return s->a == ETCH_REG_RSP;
	case STEP_LOAD: return s->a < 16 && base;
	case STEP_STORE: return s->a < 16 && s->b < 16 && s->size == 8 && (base || s->a == ETCH_REG_RSP);
	default: return rules->pushes || rules->returns;
	}
}

/* True if copying a register to another may change the frame. */
static bool copy_may_change(const struct stack_frame *f, const struct step *s, bool copies)
{
	return s->a == ETCH_REG_RSP || s->b == ETCH_REG_RSP || s->a == f->cfa.base ||
	       (copies && f->copies[s->b].base == BASE_CFA);
}

bool stack_frame_may_change(const struct stack_frame *f, const struct step *s, bool copies)
{
	const struct stack_rules rules = {.copies = copies};

	if (f->unknown || !matters(s, &rules))
		return false;
	if (f->aligned || f->cfa.base == BASE_NONE)
		return true;
	switch (s->op) {
	case STEP_MOVE: return s->b > 15 || copy_may_change(f, s, copies);
	case STEP_ADDRESS:
		if (s->disp)
			return s->a == ETCH_REG_RSP || s->b == ETCH_REG_RSP || s->a == f->cfa.base;
		return copy_may_change(f, s, copies);
	case STEP_LOAD: return STEP_CALLEE_SAVED >> s->a & 1;
	case STEP_STORE: return s->a == ETCH_REG_RSP || STEP_CALLEE_SAVED >> s->a & 1;
	default: return true;
	}
}

/* Applies an instruction to the frame of an interrupt, in which only the distance of the CFA from rsp matters. */
static void interrupted_step(struct stack_frame *f, const struct step *s, const struct stack_rules *rules)
{
	int64_t up = 0;

	if (s->op == STEP_PUSH || rules->pushes)
		up = 8;
	else if (s->op == STEP_PUSH2 || s->op == STEP_POP2)
		up = s->op == STEP_PUSH2 ? s->imm : -s->imm;
	else if (s->op == STEP_POP || s->op == STEP_LEAVE)
		up = -8;
	else if (rules->returns)
		up = -IRET_POPS;
	else if (s->op == STEP_ADD)
		up = -s->imm;
	else if (s->op == STEP_ADDRESS && s->a == ETCH_REG_RSP && s->b == ETCH_REG_RSP)
		up = -(int64_t)s->disp;
	if (f->cfa.base == RSP || f->cfa.base == BASE_RSP_DEREF)
		f->cfa.off = plus(f->cfa.off, up);
}

/* Applies a pop into a register; INSN_NO_REG stands for any other destination. */
static void pop_any(struct stack_frame *f, unsigned reg)
{
	if (reg < 16)
		pop(f, (uint8_t)reg);
	else
		grow(f, -8);
}

const char *stack_frame_step(struct stack_frame *f, const struct step *s, const struct stack_rules *rules)
{
	uint8_t kind = f->kind & (uint8_t)~RULE_SIGNAL;

	if (f->unknown || !matters(s, rules))
		return NULL;
	if (f->cfa.base == BASE_NONE)
		return rules->function ? "undefined stack state" : NULL;
	if (kind == RULE_REGS || kind == RULE_REGS_PARTIAL) {
		interrupted_step(f, s, rules);
		return NULL;
	}
	switch (s->op) {
	case STEP_PUSH: push(f, s->a, rules->pointers); break;
	case STEP_POP: pop_any(f, s->size ? INSN_NO_REG : s->a); break;
	case STEP_PUSH2:
		push(f, s->a, rules->pointers);
		push(f, s->b, rules->pointers);
		break;
	case STEP_POP2:
		pop_any(f, s->a);
		pop_any(f, s->b);
		break;
	case STEP_LEAVE:
		copy(f, RSP, RBP, rules->copies);
		pop(f, RBP);
		break;
	case STEP_ADDRESS:
		if (s->disp)
			return add(f, s->a, s->b, s->disp, rules);
		copy(f, s->a, s->b, rules->copies);
		break;
	case STEP_MOVE: copy(f, s->a, s->b, rules->copies); break;
	case STEP_ADD: return add(f, RSP, RSP, s->imm, rules);
	case STEP_ADDREG:
	case STEP_SUBREG: return add(f, RSP, s->b, 0, rules);
	case STEP_ALIGN: return align(f);
	case STEP_LOAD: load(f, s->a, s->b, s->disp); break;
	case STEP_STORE: store(f, s->a, s->b, s->disp); break;
	default: grow(f, rules->pushes ? 8 : -IRET_POPS); break;
	}
	return NULL;
}

/* ---- questions about a frame --------------------------------------------------------------- */

bool stack_frame_modified(const struct stack_frame *f)
{
	struct stack_frame start;

	stack_frame_start(&start);
	return !is_at(&f->cfa, RSP, start.cfa.off) || f->aligned || f->size != start.size ||
	       memcmp(f->saved, start.saved, sizeof(start.saved)) != 0;
}

bool stack_frame_has_pointer(const struct stack_frame *f)
{
	if (f->cfa.base == RBP && is_at(&f->saved[RBP], BASE_CFA, negative(f->cfa.off)) &&
	    is_at(&f->saved[FRAME_RETURN], BASE_CFA, minus(8, f->cfa.off)))
		return true;
	return f->aligned && f->saved[RBP].base == RBP;
}

/* Returns the number by which warnings name a kind of frame. It is the number of the kind in hints. */
static int kind_number(const struct stack_frame *f, bool typed)
{
	uint8_t kind = f->kind & (uint8_t)~RULE_SIGNAL;

	if (kind == RULE_REGS || kind == RULE_REGS_PARTIAL)
		return (kind == RULE_REGS ? 1 : 2) + (typed ? 2 : 0);
	if (!typed)
		return 0;
	return f->kind == ETCH_RULE_END ? 1 : 2;
}

bool stack_frames_differ(const struct stack_frame *x, const struct stack_frame *y, bool typed, char *out, size_t size)
{
	static const char prefix[] = "stack state mismatch:";
	int kinds[2] = {kind_number(x, typed), kind_number(y, typed)}, i;

	if (memcmp(&x->cfa, &y->cfa, sizeof(x->cfa))) {
		snprintf(out, size, "%s cfa1=%d%+d cfa2=%d%+d", prefix, x->cfa.base, x->cfa.off, y->cfa.base, y->cfa.off);
		return true;
	}
	for (i = 0; i < FRAME_SPOTS; i++)
		if (memcmp(&x->saved[i], &y->saved[i], sizeof(x->saved[i]))) {
			snprintf(out, size, "%s reg1[%d]=%d%+d reg2[%d]=%d%+d", prefix, i, x->saved[i].base, x->saved[i].off, i,
			         y->saved[i].base, y->saved[i].off);
			return true;
		}
	if (kinds[0] != kinds[1]) {
		snprintf(out, size, "%s type1=%d type2=%d", prefix, kinds[0], kinds[1]);
		return true;
	}
	if (x->aligned == y->aligned && (!x->aligned || (x->aligner == y->aligner && x->aligner_at == y->aligner_at)))
		return false;
	snprintf(out, size, "%s drap1=%d(%d,%d) drap2=%d(%d,%d)", prefix, x->aligned, x->aligner, x->aligner_at, y->aligned,
	         y->aligner, y->aligner_at);
	return true;
}

/* ---- numbers of frames ------------------------------------------------------------------- */

static size_t hash_of(const struct stack_frame *f)
{
	const uint8_t *bytes = (const uint8_t *)f;
	uint64_t h = 0, word;
	size_t i;

	for (i = 0; i + sizeof(word) <= sizeof(*f); i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return (size_t)h;
}

/* Returns the slot of a frame, or the empty slot where it belongs. */
static uint32_t *slot_of(const struct stack_frames *x, const struct stack_frame *f)
{
	size_t i = hash_of(f) & (x->slot_count - 1);

	while (x->slots[i] && memcmp(&x->list[x->slots[i] - 1], f, sizeof(*f)))
		i = (i + 1) & (x->slot_count - 1);
	return &x->slots[i];
}

uint32_t stack_frames_number(struct stack_frames *x, const struct stack_frame *f)
{
	uint32_t *slot;
	size_t i;

	if (2 * x->count >= x->slot_count) {
		x->slot_count = x->slot_count ? 2 * x->slot_count : 256;
		free(x->slots);
		x->slots = mem_zero(x->slot_count, sizeof(*x->slots));
		for (i = 0; i < x->count; i++)
			*slot_of(x, &x->list[i]) = (uint32_t)i + 1;
	}
	slot = slot_of(x, f);
	if (!*slot) {
		mem_reserve(&x->list, &x->capacity, x->count, sizeof(*x->list));
		x->list[x->count++] = *f;
		*slot = (uint32_t)x->count;
	}
	return *slot - 1;
}

void stack_frames_free(struct stack_frames *x)
{
	free(x->list);
	free(x->slots);
}
