/* SPDX-License-Identifier: MIT */
/* The transfer function: how one instruction changes an abstract state. */
#include "analysis/flow/state_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lowest number that may be an address of code. */
#define CODE_LOWEST 4096

/* May a value be an address of code? */
static inline bool is_place(struct value v)
{
	return v.kind == VALUE_PLACE || (v.kind == VALUE_CONST && v.off >= CODE_LOWEST);
}

#define HELD(r) [r] = {.kind = VALUE_ENTRY, .reg = (r)}

const struct state state_at_entry = {
	.reg = {HELD(0), HELD(1), HELD(2), HELD(3), [RSP] = {.kind = VALUE_CFA, .off = -8}, HELD(5), HELD(6), HELD(7),
            HELD(8), HELD(9), HELD(10), HELD(11), HELD(12), HELD(13), HELD(14), HELD(15)},
	.lowest = -8,
	.slot = {{.at = -8, .value = {.kind = VALUE_ENTRY, .reg = REG_RA}}},
	.slot_count = 1,
	.known = UINT16_MAX,
	.constants = EFFECT_CONSTANT,
};

/* ---- slots ----------------------------------------------------------------- */

/* In builds with ETCH_CHECK_STEPS: aborts if a slot relative to the CFA is below state.lowest, or overlaps [from,
 * to). */
static inline void slots_check(const struct state *s, int64_t from, int64_t to)
{
#ifdef ETCH_CHECK_STEPS
	unsigned i;

	for (i = 0; i < s->slot_count; i++)
		if (!s->slot[i].aligned &&
		    (s->slot[i].at < s->lowest || (s->slot[i].at < to && from < (int64_t)s->slot[i].at + 8))) {
			fprintf(stderr, "state: a slot at CFA%+d is not looked at\n", s->slot[i].at);
			abort();
		}
#else
	(void)s, (void)from, (void)to;
#endif
}

/* Forgets the slots that a store of `size` bytes at an address overlaps. */
static void slots_overwrite(struct state *s, struct value address, unsigned size)
{
	bool aligned = address.kind == VALUE_ALIGNED;
	unsigned i = 0;

	if (!aligned && (int64_t)address.off + size <= s->lowest) {
		slots_check(s, address.off, (int64_t)address.off + size);
		return;
	}
	while (i < s->slot_count)
		if (s->slot[i].aligned == aligned && s->slot[i].at < (int64_t)address.off + size &&
		    address.off < (int64_t)s->slot[i].at + 8)
			slot_drop(s, i);
		else
			i++;
}

/* Does a store of value v to an address make a slot? It does for values that the caller needs back, and for addresses
 * in the frame that cannot be the address of a local variable. */
static bool is_kept(struct value v, struct value address)
{
	if (v.kind == VALUE_ENTRY)
		return v.reg == REG_RA || (STEP_CALLEE_SAVED >> v.reg & 1);
	return v.kind == VALUE_CFA && (address.kind == VALUE_ALIGNED || v.off >= -8);
}

/* Adds a slot with value v at an address, if there is space. */
static void slot_keep(struct state *s, struct value address, struct value v)
{
	if (s->slot_count == STATE_SLOTS)
		return;
	if (address.kind != VALUE_ALIGNED && address.off < s->lowest)
		s->lowest = address.off;
	s->slot[s->slot_count++] = (struct slot){address.off, address.kind == VALUE_ALIGNED, {0}, v};
}

/* Applies a store of `size` bytes of value v at an address. */
static void slot_store(struct state *s, struct value address, struct value v, unsigned size)
{
	slots_overwrite(s, address, size);
	if (v.kind == VALUE_ENTRY)
		v.reloaded = 0;
	if (size == 8 && is_kept(v, address))
		slot_keep(s, address, v);
}

/* Is v, stored at `address`, a saved rsp? Code with variable-length arrays saves rsp in the frame, and restores it at
 * the end of their scope. */
static bool is_saved_sp(struct value address, struct value v)
{
	return address.kind == VALUE_CFA && v.kind == VALUE_CFA && v.off < -8;
}

/* Forgets the slots that begin more than `below` bytes below rsp. */
static void slots_trim(struct state *s, int64_t below)
{
	struct value sp = s->reg[RSP];
	unsigned i = 0;

	if (!is_address(sp))
		return;
	if (sp.kind != VALUE_ALIGNED && sp.off - below <= s->lowest) {
		slots_check(s, INT64_MIN, sp.off - below);
		return;
	}
	while (i < s->slot_count)
		if (s->slot[i].aligned == (sp.kind == VALUE_ALIGNED) && s->slot[i].at < sp.off - below)
			slot_drop(s, i);
		else
			i++;
}

void state_unalign(struct state *s)
{
	unsigned i = 0;

	for (i = 0; i < 16; i++)
		if (s->reg[i].kind == VALUE_ALIGNED)
			s->reg[i] = VALUE_NONE;
	for (i = 0; i < s->slot_count;)
		if (s->slot[i].aligned || s->slot[i].value.kind == VALUE_ALIGNED)
			slot_drop(s, i);
		else
			i++;
	s->align = 0;
}

/* ---- one instruction -------------------------------------------------------- */

/* Applies a push of `size` bytes of value v. */
static void push(struct state *s, struct value v, int64_t size)
{
	s->reg[RSP] = value_moved(s->reg[RSP], -size);
	if (is_address(s->reg[RSP]))
		slot_store(s, s->reg[RSP], v, (unsigned)size);
}

/* Is a value a frame pointer: the address of the caller's saved rbp, just below the return address? */
static inline bool is_frame_pointer(const struct state *s, struct value v)
{
	struct value saved = v.kind == VALUE_CFA && v.off == -16 ? slot_load(s, v) : VALUE_NONE;

	return value_is_entry(saved, RBP);
}

/*
 * Applies push %rbp. If rbp is a frame pointer, the push makes a slot, since the value will be popped again, and is not
 * the address of a local variable. Some code makes a second frame this way, to align the stack for a call of C.
 */
static void push_frame(struct state *s)
{
	struct value v = s->reg[RBP];

	push(s, v, 8);
	if (is_address(s->reg[RSP]) && s->reg[RSP].kind != VALUE_ALIGNED && is_frame_pointer(s, v))
		slot_keep(s, s->reg[RSP], v);
}

/* Applies and $-N, %r at offset `at`, which realigns a pointer. */
static void align(struct state *s, unsigned r, uint32_t at)
{
	/* Only a pointer into the frame can become the address of a realigned frame. */
	if (!is_address(s->reg[r])) {
		s->reg[r] = VALUE_NONE; /* for rsp, see transfer_other() */
		return;
	}
	/* How far the alignment moves the pointer is unknown: at a function's entry rsp is 8 modulo 16 by the psABI
	 * (3.2.2), but the caller may not comply. */
	if (s->reg[r].kind == VALUE_ALIGNED && r != RSP) {
		s->reg[r] = VALUE_NONE;
		return;
	}
	if (r != RSP && s->align) {
		s->reg[r] = VALUE_NONE;
		return;
	}
	state_unalign(s);
	s->align = at + 1;
	s->reg[r] = value_of(VALUE_ALIGNED, 0, 0);
}

/* Returns the value that an indexed load yields: perhaps an entry of a jump table. */
static struct value table_entry(const struct state *s, const struct step *in, unsigned size)
{
	struct value base = in->b < 16 ? s->reg[in->b] : value_of(VALUE_CONST, 0, 0);
	struct value index = in->index < 16 ? s->reg[in->index] : VALUE_NONE;
	struct value v = value_of(size == 4 ? VALUE_DISTANCE : VALUE_TARGET, (uint8_t)size, 0);

	base = value_moved(base, in->disp);
	if (base.kind == VALUE_CONST || base.kind == VALUE_PLACE)
		v.off = base.off;
	if (index.kind == VALUE_BELOW && index.off < UINT16_MAX)
		v.most = (uint16_t)(index.off + 1);
	return v;
}

/* Returns the sum of a and b: a VALUE_TARGET if one of them is an entry of a jump table (VALUE_DISTANCE) or may be an
 * address of code; else VALUE_NONE. The table's address is unknown unless the other operand is that address. */
static struct value table_target(struct value a, struct value b)
{
	struct value t = a.kind == VALUE_DISTANCE ? a : b, base = a.kind == VALUE_DISTANCE ? b : a;

	if (t.kind != VALUE_DISTANCE) {
		if (is_place(a) || is_place(b))
			return value_of(VALUE_TARGET, 0, 0);
		return VALUE_NONE;
	}
	t.kind = VALUE_TARGET;
	if ((base.kind != VALUE_CONST && base.kind != VALUE_PLACE) || base.off != t.off)
		t.off = 0;
	return t;
}

bool state_table(const struct state *s, const struct step *jump, struct value *out)
{
	if (jump->deref && jump->index != INSN_NO_REG)
		*out = table_entry(s, jump, 8);
	else if (!jump->deref && jump->a < 16 && s->reg[jump->a].kind == VALUE_TARGET)
		*out = s->reg[jump->a];
	else
		return false;
	return true;
}

/* Updates state.known after any instruction. */
static void known_set(struct state *s, const struct step *in)
{
	uint16_t known = s->known & (uint16_t)~in->writes;

	if (in->a < 16)
		known = (uint16_t)((known & ~bit(in->a)) | (s->reg[in->a].kind != VALUE_ANY ? bit(in->a) : 0));
	if (in->op == STEP_SWAP)
		known |= bit(in->b);
	if (in->op == STEP_POP2 && in->b < 16)
		known = (uint16_t)((known & ~bit(in->b)) | (s->reg[in->b].kind != VALUE_ANY ? bit(in->b) : 0));
	s->known = known | bit(RSP) | (in->op == STEP_LEAVE || in->op == STEP_ENTER ? bit(RBP) : 0);
}

/* Updates state.known after an instruction without EFFECT_OTHER. */
static inline void known_set_one(struct state *s, const struct step *in, int32_t sp)
{
	if (in->a < 16)
		s->known = (uint16_t)((s->known & ~(1u << in->a)) | (unsigned)(s->reg[in->a].kind != VALUE_ANY) << in->a);
	s->known |= bit(RSP);
#ifdef ETCH_CHECK_STEPS
	struct state all;

	state_copy(&all, s);
	known_set(&all, in);
	if (!in->writes && s->reg[RSP].off == sp && all.known == s->known)
		return;
	fprintf(stderr, "state: an instruction of kind %u changes more than it is said to\n", in->op);
	abort();
#else
	(void)sp;
#endif
}

/* Returns n as a value of the given kind (VALUE_CONST or VALUE_PLACE) if the analysis follows constants and n fits;
 * else VALUE_NONE. */
static inline struct value number_of(const struct state *s, uint8_t kind, int64_t n)
{
	return s->constants && n >= 0 && n <= INT32_MAX ? value_of(kind, 0, (int32_t)n) : VALUE_NONE;
}

static void transfer_push(struct state *s, const struct step *in)
{
	struct value v = in->a < 16 ? s->reg[in->a] : VALUE_NONE;

	if (in->a == INSN_NO_REG && in->b < 16 && in->index == INSN_NO_REG) /* it pushes memory */
		v = slot_load(s, value_moved(s->reg[in->b], in->disp));
	if (in->a == RBP && in->imm == 8)
		push_frame(s);
	else
		push(s, v, in->imm);
	if (__builtin_expect(s->abi_flags & ABI_FRAMES_BY_RBP, 0))
		state_pushed(s, v);
}

static void transfer_pop(struct state *s, const struct step *in)
{
	struct value v = in->imm == 8 ? slot_load(s, s->reg[RSP]) : VALUE_NONE, to;

	s->reg[RSP] = value_moved(s->reg[RSP], in->imm);
	if (__builtin_expect(s->abi_flags & ABI_FRAMES_BY_RBP, 0) && v.kind == VALUE_ENTRY && v.reg == REG_RA)
		slots_trim(s, 0); /* with its return address the frame is gone, and rsp may now move by any distance */
	if (in->a < 16) {
		s->reg[in->a] = v;
	} else if (in->size) { /* it pops into memory; the address is relative to rsp after the pop (SDM 2, POP) */
		to = value_moved(s->reg[in->b], in->disp);
		if (is_address(to))
			slot_store(s, to, v, in->size);
	}
}

/* Applies push2 or pop2 as two instructions. */
static void transfer_pair(struct state *s, const struct step *in, void (*transfer)(struct state *, const struct step *))
{
	struct step one = *in;

	one.imm /= 2;
	one.b = one.index = INSN_NO_REG;
	transfer(s, &one);
	one.a = in->b;
	transfer(s, &one);
}

/* Applies add or sub of two registers. */
static void transfer_sum(struct state *s, const struct step *in)
{
	struct value v = s->reg[in->a], w = s->reg[in->b];

	if (in->op == STEP_ADDREG &&
	    (v.kind == VALUE_DISTANCE || w.kind == VALUE_DISTANCE || (is_place(w) && !is_address(v))))
		s->reg[in->a] = table_target(v, w);
	else if (w.kind == VALUE_CONST && (in->a == RSP || !is_address(v)))
		s->reg[in->a] = value_moved(v, in->op == STEP_ADDREG ? w.off : -(int64_t)w.off);
	else if (is_place(v) && !is_address(w))
		s->reg[in->a] = value_of(VALUE_TARGET, 0, 0); /* a computed jump into an array of equally sized code */
	else
		s->reg[in->a] = VALUE_NONE;
}

static void transfer_load(struct state *s, const struct step *in)
{
	struct value from = in->b < 16 ? value_moved(s->reg[in->b], in->disp) : VALUE_NONE, v = slot_load(s, from);

	if (in->a == RSP && (s->abi_flags & ABI_SWITCHES_STACK) && in->b < 16 && !is_address(s->reg[in->b]) &&
	    s->reg[RSP].kind == VALUE_CFA)
		return; /* see profile.switches_stack */
	if (in->a != RSP && is_saved_sp(from, v))
		v = VALUE_NONE; /* it is perhaps not rsp but the address of a variable */
	if (v.kind == VALUE_ENTRY)
		v.reloaded = 1;
	s->reg[in->a] = v;
	if (__builtin_expect(s->abi_flags & ABI_HANDLER, 0) && in->a == RBP)
		state_rbp_loaded(s, from);
}

/*
 * Is the store mov %rsp, (%reg) in a file where this instruction switches stacks (profile.switches_stack)? Then the
 * register points to the top of another stack, and becomes the base of addresses there, as if that were a realigned
 * frame.
 */
static bool saves_sp_elsewhere(const struct state *s, const struct step *in)
{
	return __builtin_expect(s->abi_flags & ABI_SWITCHES_STACK, 0) && in->a == RSP && s->reg[RSP].kind == VALUE_CFA &&
	       !in->disp && in->index == INSN_NO_REG && !is_address(s->reg[in->b]) && !s->align;
}

/* Applies a store: to the frame, or of rsp to switch stacks. */
static void transfer_store(struct state *s, const struct step *in, uint32_t at)
{
	struct value to;

	if (in->b >= 16)
		return;
	if (__builtin_expect(s->abi_flags & ABI_FRAMES_BY_RBP, 0) && in->index != INSN_NO_REG) {
		state_stored_among(s);
		return;
	}
	if (saves_sp_elsewhere(s, in)) {
		s->align = at + 1;
		s->reg[in->b] = value_of(VALUE_ALIGNED, 0, 0);
		s->known |= bit(in->b);
	}
	to = value_moved(s->reg[in->b], in->disp);
	if (is_address(to))
		slot_store(s, to, in->a < 16 ? s->reg[in->a] : VALUE_NONE, in->a < 16 ? 8 : in->size);
	if (in->a == RSP && is_saved_sp(to, s->reg[RSP]))
		slot_keep(s, to, s->reg[RSP]);
}

static void transfer_exchange(struct state *s, const struct step *in)
{
	struct value at = in->b < 16 ? value_moved(s->reg[in->b], in->disp) : VALUE_NONE, v = slot_load(s, at);

	if (is_address(at))
		slot_store(s, at, s->reg[in->a], 8);
	if (v.kind == VALUE_ENTRY)
		v.reloaded = 1;
	s->reg[in->a] = v;
}

static void transfer_leave(struct state *s)
{
	struct value v = s->reg[RBP];

	s->reg[RBP] = slot_load(s, v);
	s->reg[RSP] = value_moved(v, 8);
}

static void transfer_enter(struct state *s, const struct step *in)
{
	push(s, s->reg[RBP], 8);
	s->reg[RBP] = s->reg[RSP];
	s->reg[RSP] = value_moved(s->reg[RSP], -in->imm);
}

static void transfer_swap(struct state *s, const struct step *in)
{
	struct value v = s->reg[in->a];

	s->reg[in->a] = s->reg[in->b];
	s->reg[in->b] = v;
}

/* Applies lea with an index, which may compute a target from an entry of a jump table. */
static void transfer_lea(struct state *s, const struct step *in)
{
	struct value v = s->reg[in->b], w = s->reg[in->index];

	s->reg[in->a] = is_place(v) ? table_target(value_moved(v, in->disp), w) : table_target(v, value_moved(w, in->disp));
}

/* In code without a red zone: forgets all slots below rsp, and those of a realigned frame once rsp has left that frame.
 * `sp` is the value of rsp before the instruction. */
static void stack_shrink(struct state *s, struct value sp)
{
	unsigned i;

	slots_trim(s, 0);
	for (i = 0; sp.kind == VALUE_ALIGNED && s->reg[RSP].kind == VALUE_CFA && i < s->slot_count;)
		if (s->slot[i].aligned)
			slot_drop(s, i);
		else
			i++;
}

/* Applies the effects of an instruction with EFFECT_OTHER that its op does not describe: overwritten registers, and the
 * consequences of a change of rsp. `sp` is the value of rsp before the instruction. */
static void transfer_other(struct state *s, const struct step *in, uint32_t at, struct value sp)
{
	unsigned writes;

	for (writes = in->writes; writes; writes &= writes - 1)
		s->reg[__builtin_ctz(writes)] = VALUE_NONE;
	known_set(s, in);
	/* rsp has moved by an unknown distance. As in a realigned frame, its new value becomes the address to which slots
	 * are relative, unless rbp already holds such an address, since there can be only one. */
	if (!is_address(s->reg[RSP]) && s->reg[RBP].kind != VALUE_ALIGNED &&
	    (in->a == RSP || (in->op == STEP_SWAP && in->b == RSP) || (in->writes >> RSP & 1))) {
		state_unalign(s);
		s->align = at + 1;
		s->reg[RSP] = value_of(VALUE_ALIGNED, 0, 0);
	} else if (__builtin_expect(s->abi_flags & ABI_NO_RED_ZONE, 0) && !value_same(s->reg[RSP], sp)) {
		stack_shrink(s, sp);
	} else if (s->reg[RSP].off > sp.off) {
		slots_trim(s, RED_ZONE);
	}
}

void state_transfer(struct state *s, const struct step *in, uint32_t at)
{
	struct value v, sp = s->reg[RSP];

	switch (in->op) {
	case STEP_NONE:
	case STEP_COMPARE:
	case STEP_LIMIT:
	case STEP_HALT:
	case STEP_SYSCALL: break;
	case STEP_PUSH: transfer_push(s, in); break;
	case STEP_POP: transfer_pop(s, in); break;
	case STEP_PUSH2: transfer_pair(s, in, transfer_push); break;
	case STEP_POP2: transfer_pair(s, in, transfer_pop); break;
	case STEP_MOVE: s->reg[in->a] = s->reg[in->b]; break;
	case STEP_ADDRESS:
		s->reg[in->a] = in->b < 16 ? value_moved(s->reg[in->b], in->disp) : number_of(s, VALUE_PLACE, in->imm);
		break;
	case STEP_ADD: s->reg[in->a] = value_moved(s->reg[in->a], in->imm); break;
	case STEP_ADDREG:
	case STEP_SUBREG: transfer_sum(s, in); break;
	case STEP_ALIGN: align(s, in->a, at); break;
	case STEP_LOAD: transfer_load(s, in); break;
	case STEP_STORE: transfer_store(s, in, at); break;
	case STEP_EXCHANGE: transfer_exchange(s, in); break;
	case STEP_LEAVE: transfer_leave(s); break;
	case STEP_ENTER: transfer_enter(s, in); break;
	case STEP_SWAP: transfer_swap(s, in); break;
	case STEP_CONST: s->reg[in->a] = number_of(s, VALUE_CONST, in->imm); break;
	case STEP_EXTEND:
		v = s->reg[in->b];
		s->reg[in->a] = v.kind == VALUE_BELOW || (v.kind == VALUE_CONST && !in->imm) ? v : VALUE_NONE;
		s->reg[in->a].off >>= in->imm;
		break;
	case STEP_FETCH:
		s->reg[in->a] = VALUE_NONE;
		break; /* the width of the load bounds the value, but no jump table relies on that */
	case STEP_SUM: transfer_lea(s, in); break;
	case STEP_ENTRY: s->reg[in->a] = s->constants ? table_entry(s, in, in->size) : VALUE_NONE; break;
	}
	if (in->effects & EFFECT_OTHER)
		transfer_other(s, in, at, sp);
	else
		known_set_one(s, in, sp.off);
}

void state_call(struct state *s)
{
	unsigned lost = s->known & (unsigned)~(STEP_CALLEE_SAVED | bit(RSP));

	s->known &= (uint16_t)~lost;
	for (; lost; lost &= lost - 1)
		s->reg[__builtin_ctz(lost)] = VALUE_NONE;
	/* The callee's frame overwrites everything below rsp. */
	slots_trim(s, 0);
}
