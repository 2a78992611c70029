/* SPDX-License-Identifier: MIT */
/* The transfer function: how one instruction changes the addresses and loaded pointers in registers. */
#include "analysis/addresses/track_internal.h"

#include <etch/orc.h>

#include "arch/x86/opcodes.h"
#include "shared/search.h"
#include "support/sort.h"

static const uint8_t *bytes_of(const struct track *t, size_t i)
{
	return func_bytes_of(t->f->fn, &t->f->code->insns[i]);
}

/* Sets the bytes of the object that a use concerns. If `placed`, these are the bytes at place number k of v. */
static void use_place(struct use *u, const struct addr_value *v, bool placed, unsigned k)
{
	u->off_known = v->exact || placed;
	u->indexed = !u->off_known && v->rooted;
	u->beside = v->beside;
	if (u->off_known)
		u->off = v->off;
	else
		u->off = v->rooted ? v->root : 0;
	if (k)
		u->off = track_moved(u->off, v->more[k - 1]);
}

/* Reports a use of the object in v, if v has one. A store, or an escape, that may be at several places is reported once
 * for each. */
static void place_report(struct track *t, struct use *u, const struct addr_value *v)
{
	bool placed = v->placed && (u->kind == USE_STORE || u->kind == USE_ESCAPE);
	unsigned k, n = placed ? 1u + v->more_count : 1;

	for (k = 0; k < n && t->reporting && v->object >= 0; k++) {
		use_place(u, v, placed, k);
		t->report(t->arg, u);
	}
}

static void use_report(struct track *t, size_t insn, enum use_kind kind, const struct addr_value *v, bool in_register)
{
	struct use u = {.insn = insn, .kind = kind, .object = v->object, .got = v->got, .in_register = in_register};

	place_report(t, &u, v);
}

/* Reports an escape of the address in v. `as_pointer`: see struct use. */
static void escape_report(struct track *t, size_t insn, const struct addr_value *v, bool as_pointer)
{
	struct use u = {.insn = insn,
	                .kind = USE_ESCAPE,
	                .object = v->object,
	                .got = v->got,
	                .in_register = true,
	                .as_pointer = as_pointer};

	place_report(t, &u, v);
}

/* Reports an escape of the address in v to a function or a system call. `kernel`: the kernel may store through it. */
static void argument_report(struct track *t, size_t insn, const struct addr_value *v, bool kernel)
{
	struct use u = {.insn = insn,
	                .kind = USE_ESCAPE,
	                .object = v->object,
	                .got = v->got,
	                .in_register = true,
	                .as_pointer = true,
	                .argument = true,
	                .kernel = kernel};

	place_report(t, &u, v);
}

/* Reports a call or jump through a register that holds a loaded pointer. Returns true if it certainly calls what the
 * slot holds. */
static bool call_report(struct track *t, const struct addr_state *s, size_t i)
{
	const struct insn *in = &t->f->code->insns[i];
	const struct loaded *p;
	struct use u = {.insn = i, .kind = USE_CALL, .in_register = true, .pointer = true};

	if ((in->flow != FLOW_CALL_IND && in->flow != FLOW_JUMP_IND) || in->mem != MEM_NONE || in->src >= REGS)
		return false;
	p = &s->ptr[in->src];
	if (p->object < 0)
		return false;
	u.object = p->object;
	u.off = p->off;
	u.off_known = p->doubt != DOUBT_PLACE && p->doubt != DOUBT_PATHS;
	u.got = p->got;
	u.doubt = p->doubt;
	if (t->reporting)
		t->report(t->arg, &u);
	return p->doubt == DOUBT_NONE;
}

void track_pointers_age(struct addr_state *s, int32_t object)
{
	unsigned r;

	for (r = 0; r < REGS; r++)
		if ((object < 0 || s->ptr[r].object == object) && s->ptr[r].doubt == DOUBT_NONE)
			s->ptr[r].doubt = DOUBT_STALE;
}

/* Returns the loaded pointer that an instruction puts into its destination. v and slot are as for pointers_apply(). */
static struct loaded pointer_result(const struct addr_state *s, const struct insn *in, const struct addr_value *v,
                                    bool slot)
{
	struct loaded result = no_pointer;
	unsigned r, from = REGS;

	switch (in->move) {
	case MOVE_COPY: return s->ptr[in->src];
	case MOVE_IMM: return no_pointer;
	case MOVE_LOAD:
		if (v->object < 0 || slot || in->mem != MEM_READ || in->mem_size != 8)
			return no_pointer;
		return (struct loaded){v->object, v->exact && !in->segment ? DOUBT_NONE : DOUBT_PLACE, v->got, v->off};
	default: break;
	}
	/* Any other instruction makes a different value of a pointer that it reads. */
	for (r = 0; r < REGS; r++)
		if ((in->reads >> r & 1) && s->ptr[r].object >= 0)
			from = r;
	if (in->move == MOVE_ADDRESS && in->base < REGS && s->ptr[in->base].object >= 0)
		from = in->base;
	if (from < REGS) {
		result = s->ptr[from];
		result.doubt = DOUBT_CHANGED;
	}
	return result;
}

/* Updates the loaded pointers in registers. v is the address to which the memory operand refers; `slot`: that is a GOT
 * slot. */
static void pointers_apply(struct addr_state *s, const struct insn *in, const struct addr_value *v, bool slot)
{
	const struct loaded result = pointer_result(s, in, v, slot);
	unsigned r;

	for (r = 0; r < REGS; r++)
		if (in->writes >> r & 1)
			s->ptr[r] = r == 4 ? no_pointer : result;
	if (in->move != MOVE_NONE && in->dst < REGS)
		s->ptr[in->dst] = result;
	if (v->object >= 0 && !slot && (in->mem == MEM_WRITE || in->mem == MEM_UPDATE))
		track_pointers_age(s, v->object);
	if (in->barrier || in->string)
		track_pointers_age(s, -1);
}

bool track_is_switch(const struct addr_state *s, const struct insn *in)
{
	return in->flow == FLOW_JUMP_IND && in->mem == MEM_NONE && in->src < REGS && s->table[in->src] == TABLE_TARGET;
}

/* Updates the roles of registers for jump tables (enum table_part). */
static void tables_apply(const struct track *t, struct addr_state *s, const struct insn *in)
{
	const struct track_entries *x = t->f->entries;
	const uint8_t *bytes = func_bytes_of(t->f->fn, in);
	uint8_t part = TABLE_NONE;
	unsigned r, reads = 0;

	if (!x->lea_count)
		return;
	if (in->move == MOVE_ADDRESS && word_has(x->leas, x->lea_count, in->addr)) {
		part = TABLE_BASE;
	} else if (in->move == MOVE_COPY) {
		part = s->table[in->src];
	} else if (insn_is_table_load(bytes, in) && s->table[in->base] == TABLE_BASE) {
		part = TABLE_ENTRY;
	} else if (insn_is_register_sum(bytes, in)) {
		for (r = 0; r < REGS; r++)
			if (in->reads >> r & 1)
				reads |= 1u << s->table[r];
		part = reads == (1u << TABLE_BASE | 1u << TABLE_ENTRY) ? TABLE_TARGET : TABLE_NONE;
	}
	for (r = 0; r < REGS; r++)
		if ((in->writes >> r & 1) ||
		    ((in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND) && (insn_call_clobbers() >> r & 1)))
			s->table[r] = TABLE_NONE;
	if (in->dst < REGS && (in->writes >> in->dst & 1))
		s->table[in->dst] = part;
}

/* Reports escapes of the addresses in the registers of mask `regs`. Those in `as_pointer` are pointers of the program
 * (struct use). */
static void leave(struct track *t, struct addr_state *s, size_t i, uint16_t regs, uint16_t as_pointer)
{
	unsigned r;

	for (r = 0; r < REGS; r++)
		if ((regs >> r & 1) && s->reg[r].object >= 0)
			escape_report(t, i, &s->reg[r], as_pointer >> r & 1);
}

/* Reports escapes of the addresses in the registers of mask `regs` where control leaves the function. Those in
 * `as_pointer` are arguments or return values. Those in `kernel` are arguments through which the kernel may store. */
static void arguments_leave(struct track *t, struct addr_state *s, size_t i, uint16_t regs, uint16_t as_pointer,
                            uint16_t kernel)
{
	unsigned r;

	for (r = 0; r < REGS; r++)
		if (((regs & (as_pointer | kernel)) >> r & 1) && s->reg[r].object >= 0)
			argument_report(t, i, &s->reg[r], kernel >> r & 1);
	leave(t, s, i, (uint16_t)(regs & ~(as_pointer | kernel)), 0);
}

static struct known_value known_in(const struct addr_state *s, unsigned r)
{
	return (struct known_value){s->reg[r].object < 0 && s->reg[r].exact, s->reg[r].off};
}

/* Returns the registers through which the kernel may store to memory at instruction i, which is a call, a jump out of
 * the function, or a system call. */
static uint16_t kernel_registers(struct track *t, const struct addr_state *s, size_t i)
{
	return kernel_reach_at(t->f->kernel, (struct kernel_caller){t->f->fn, t->f->code}, &t->f->code->insns[i],
	                       bytes_of(t, i), known_in(s, INSN_SYSCALL_NUMBER), known_in(s, INSN_FIRST_ARGUMENT), true)
	    .registers;
}

uint16_t track_passed(const struct track *t, const struct insn *in, uint16_t abi)
{
	uint16_t mask = abi;
	int words;

	if (in->callee >= 0 && t->f->clobbers)
		mask = func_live(t->f->clobbers, in->callee, in->entry);
	words = in->callee >= 0 ? function_arguments(t->f->types, t->f->fn->section, in->entry)
	                        : imports_arguments(t->f->imports, in);
	if (words >= 0)
		mask &= insn_first_arguments((unsigned)words) | (in->flow == FLOW_CALL ? 0 : (uint16_t)~insn_call_clobbers());
	/* If callee-saved registers are live at the start of a callee, that is only because it saves them. */
	return in->flow == FLOW_CALL ? mask & insn_call_clobbers() : mask;
}

/* Reports escapes at instruction i, which is a call or a jump out of the function. `abi` is as for track_passed(). */
static void leave_to(struct track *t, struct addr_state *s, size_t i, uint16_t abi)
{
	const struct insn *in = &t->f->code->insns[i];
	uint16_t mask, as_pointer = in->flow == FLOW_BRANCH ? 0 : insn_call_arguments();
	struct detour detour;

	if (!holds_address(s))
		return; /* the usual case */
	if (in->flow != FLOW_CALL && in->flow != FLOW_CALL_IND && track_detour(t, in, &detour)) {
		leave(t, s, i, detour.touched, 0);
		return;
	}
	mask = track_passed(t, in, abi);
	/* At the start of a function, registers hold arguments that the program passes. A part of another function may get
	 * values in any register. */
	if (!t->f->clobbers || (in->callee >= 0 && !func_is_start(t->f->clobbers, in->callee, in->entry)))
		as_pointer = 0;
	arguments_leave(t, s, i, mask, as_pointer, t->reporting && in->flow != FLOW_BRANCH ? kernel_registers(t, s, i) : 0);
}

uint64_t track_pad_of(const struct track *t, uint64_t addr)
{
	size_t lo = SEARCH(t->f->entries->pad_count, i, t->f->entries->pads[i].end <= addr);

	return lo < t->f->entries->pad_count && t->f->entries->pads[lo].start <= addr ? t->f->entries->pads[lo].pad : 0;
}

size_t track_fault_from(const struct track_entries *x, uint64_t addr)
{
	return SEARCH(x->fault_count, i, x->faults[i].insn < addr);
}

bool track_is_outside(const struct track *t, uint64_t addr) { return !func_holds(t->f->fn, addr); }

/* Reports escapes to fixups in other functions, which see all registers. */
static void faults_leave(struct track *t, struct addr_state *s, size_t i)
{
	const struct track_entries *x = t->f->entries;
	uint64_t addr = t->f->code->insns[i].addr;
	size_t k;

	for (k = track_fault_from(x, addr); k < x->fault_count && x->faults[k].insn == addr; k++)
		if (track_is_outside(t, x->faults[k].to))
			leave(t, s, i, 0xffff, 0);
}

/* Weakens what is known of the registers, because control may have entered here from elsewhere. */
static void state_doubt(struct addr_state *s)
{
	unsigned r;

	for (r = 0; r < REGS; r++) {
		s->reg[r].exact = s->reg[r].rooted = false;
		track_places_drop(&s->reg[r]);
		s->table[r] = TABLE_NONE;
		if (s->ptr[r].object >= 0)
			s->ptr[r].doubt = DOUBT_PATHS;
	}
}

/* Applies the effect of a call to the registers. If a compiler sees the callee, it may rely on the callee not changing
 * a register that the ABI allows it to change (gcc's -fipa-ra). */
static void call_clobber(struct track *t, struct addr_state *s, const struct insn *in)
{
	bool known = in->callee >= 0 && t->f->clobbers, vague = false;
	uint16_t clobbered = insn_call_clobbers();
	unsigned r;

	if (known) {
		uint16_t mask = func_clobbers(t->f->clobbers, in->callee);

		vague = t->f->clobbers->vague[in->callee];
		if (func_is_start(t->f->clobbers, in->callee, in->entry))
			clobbered &= mask;
	}
	for (r = 0; r < REGS; r++) {
		if (!(clobbered >> r & 1))
			continue;
		if (!vague) {
			s->reg[r] = nothing;
			s->ptr[r] = no_pointer;
			continue;
		}
		s->reg[r].exact = s->reg[r].rooted = false;
		track_places_drop(&s->reg[r]);
		if (s->ptr[r].object >= 0)
			s->ptr[r].doubt = DOUBT_PATHS;
	}
}

/* What the memory operand of an instruction refers to. */
struct mem_operand {
	struct addr_value v;
	bool in_register; /* the operand is relative to a register that holds the address */
	bool slot;        /* the operand is a GOT slot; `v` is the address in the slot */
};

static struct mem_operand operand_find(struct track *t, const struct addr_state *s, size_t i)
{
	struct mem_operand o = {.slot = t->f->mem[i].object >= 0 && t->f->mem[i].got};

	o.v = track_operand(t, s, i, &o.in_register);
	if (o.slot) {
		/* Not exact if it is the slot of another symbol, which lies inside the object at an offset. */
		o.v.exact = o.v.rooted = !o.v.off;
		o.v.off = o.v.root = 0;
		o.v.got = true;
	}
	return o;
}

/* operand_use() for an operand that is a GOT slot. */
static struct addr_value slot_use(struct track *t, const struct addr_state *s, size_t i, const struct mem_operand *o)
{
	const struct insn *in = &t->f->code->insns[i];

	if (in->no_escape)
		return nothing;
	if (in->move == MOVE_LOAD)
		return o->v;
	if (in->move == MOVE_SUM_LOAD)
		return track_sum_load(s, in, &o->v);
	if (in->newer && in->copies)
		escape_report(t, i, &o->v, true);
	else if (in->mem != MEM_ADDRESS || in->move == MOVE_ADDRESS)
		use_report(t, i, USE_ESCAPE, &o->v, false);
	return nothing;
}

/* Reports the use that an instruction makes of its memory operand. Returns the address that it loads from the operand,
 * or computes by it, into a register. */
static struct addr_value operand_use(struct track *t, const struct addr_state *s, size_t i, const struct mem_operand *o)
{
	const struct insn *in = &t->f->code->insns[i];

	if (o->slot)
		return slot_use(t, s, i, o);
	if (o->v.object < 0)
		return nothing;
	if (in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND)
		use_report(t, i, USE_CALL, &o->v, o->in_register);
	else if (in->mem == MEM_READ)
		use_report(t, i, USE_READ, &o->v, o->in_register);
	else if (in->mem == MEM_WRITE || in->mem == MEM_UPDATE)
		use_report(t, i, USE_STORE, &o->v, o->in_register);
	else if (in->no_escape)
		return nothing;
	else if (in->move == MOVE_ADDRESS)
		return o->v;
	else if (in->newer && in->copies) /* it is copied to a register that is not followed */
		escape_report(t, i, &o->v, true);
	else if (!in->padding && (in->writes || in->newer))
		/* A lea with a result of less than 64 bits truncates the address. */
		use_report(t, i, USE_ESCAPE, &o->v, o->in_register);
	return nothing;
}

/* Does an instruction read a register whose value may be one of two constants? */
static bool reads_choice(const struct addr_state *s, const struct insn *in)
{
	unsigned r;

	for (r = 0; r < REGS; r++)
		if ((in->reads >> r & 1) && s->reg[r].object < 0 && s->reg[r].choice)
			return true;
	return false;
}

/*
 * Finds the address that instruction i puts into its destination from operands other than memory; leaves *result
 * unchanged if there is none. *data is the mask of the registers that it reads; those whose addresses it only moves are
 * removed.
 */
static void registers_move(struct track *t, const struct addr_state *s, size_t i, struct addr_value *result,
                           uint16_t *data)
{
	const struct insn *in = &t->f->code->insns[i];
	const struct ref *x = &t->f->imm[i];
	struct addr_value imm = nothing;

	if (x->object >= 0)
		imm = (struct addr_value){x->object, true, .beside = x->beside, .off = x->off, .rooted = true, .root = x->off};
	switch (in->move) {
	case MOVE_NONE:
		/* If a register is compared with this address, it is stored nowhere; if they are equal, it escaped earlier. */
		if (!insn_compares_constant(bytes_of(t, i), in))
			escape_report(t, i, &imm, insn_captures_pointer(bytes_of(t, i), in));
		break;
	case MOVE_LOAD: break;
	case MOVE_SUM_LOAD:
		if (result->object < 0)
			result->choice = s->reg[in->dst].choice;
		else if (s->reg[in->dst].object < 0)
			*data &= (uint16_t) ~(1u << in->dst);
		break;
	case MOVE_ADDRESS: track_sum(s, in, result); break;
	case MOVE_COPY:
		*result = s->reg[in->src];
		*data &= (uint16_t) ~(1u << in->src);
		break;
	case MOVE_ADD:
		if (imm.object >= 0) {
			*result = imm; /* the address of an array plus an index */
			track_index_add(result, s, in->dst, 1);
			result->root = result->off;
		} else {
			*result = s->reg[in->dst];
			result->off = track_moved(result->off, in->imm);
			*data &= (uint16_t) ~(1u << in->dst);
		}
		break;
	case MOVE_IMM:
		if (!in->no_escape)
			*result = imm;
		if (imm.object < 0) {
			result->off = in->imm;
			result->exact = true;
		}
		break;
	case MOVE_SUM: track_registers_sum(s, in, result, data); break;
	default: break;
	}
}

static void call_leave(struct track *t, struct addr_state *s, size_t i)
{
	const struct insn *in = &t->f->code->insns[i];
	uint64_t pad = track_pad_of(t, in->addr);

	leave_to(t, s, i, in->flow == FLOW_CALL_IND ? insn_pointer_arguments() : insn_call_arguments());
	/* A landing pad outside of the function, or an unknown one, gets the callee-saved registers. */
	if (t->opaque || (pad && track_is_outside(t, pad)))
		leave(t, s, i, (uint16_t)~insn_call_clobbers(), 0);
	call_clobber(t, s, in);
	track_pointers_age(s, -1);
}

/* Reports the addresses that escape where control leaves the function at instruction i. `tail`: an indirect jump that
 * goes through a function pointer in an object. */
static void control_leave(struct track *t, struct addr_state *s, size_t i, bool tail)
{
	const struct insn *in = &t->f->code->insns[i];
	uint16_t kernel;

	switch (in->flow) {
	case FLOW_CALL:
	case FLOW_CALL_IND: call_leave(t, s, i); break;
	case FLOW_RETURN:
		arguments_leave(t, s, i, insn_first_returns(function_returned(t->f->types, t->f->fn->section, t->f->fn->start)),
		                0xffff, 0);
		break;
	case FLOW_JUMP_IND:
		if (track_is_switch(s, in))
			break; /* it is followed to its targets with these registers */
		if (imports_leads_out(t->f->imports, in)) {
			leave_to(t, s, i, insn_call_arguments() | (uint16_t)~insn_call_clobbers());
			break; /* this is a tail call */
		}
		if (t->reporting && holds_address(s) && (kernel = kernel_registers(t, s, i)) != 0)
			arguments_leave(t, s, i, kernel, 0, kernel);
		/* Unless this is a tail call, it may be a jump inside of this function, which uses any register. */
		leave(t, s, i, tail ? insn_pointer_arguments() | (uint16_t)~insn_call_clobbers() : 0xffff,
		      tail ? insn_call_arguments() : 0);
		break;
	case FLOW_JUMP:
		/* A jump out of the function is a tail call, which passes arguments and callee-saved registers. */
		if (track_is_outside(t, in->target))
			leave_to(t, s, i, insn_call_arguments() | (uint16_t)~insn_call_clobbers());
		break;
	case FLOW_BRANCH:
		/* A branch out of the function usually leads to its cold part, which may use any register. */
		if (track_is_outside(t, in->target))
			leave_to(t, s, i, 0xffff);
		break;
	default: break;
	}
	/* Control falls through into the next function, as in assembly code with two entries. */
	if (i == t->last && (in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH))
		leave(t, s, i, 0xffff, 0);
}

/*
 * Does instruction i load a register from the stack slot to which the instruction before it, in the same block, has
 * stored it? Compilers without optimization pass `this` in this way. The register keeps its value, and the store has
 * been reported as an escape.
 */
static bool is_reload(const struct track *t, size_t i)
{
	const struct insn *in = &t->f->code->insns[i], *store = in - 1;

	return i && in->move == MOVE_LOAD && in->mem == MEM_READ && in->mem_size == 8 && in->dst < REGS &&
	       (in->base == ETCH_REG_RSP || in->base == ETCH_REG_RBP) && in->index == INSN_NO_REG && !in->segment &&
	       store->mem == MEM_WRITE && store->mem_size == 8 && store->base == in->base && store->index == INSN_NO_REG &&
	       store->disp == in->disp && !store->segment && !store->writes && !store->imm_len &&
	       store->reads == 1u << in->dst && t->f->fn->bytes[store->addr - t->f->fn->start + 1] == OPCODE_MOV_TO_RM &&
	       !track_is_leader(t, i);
}

/* Does instruction i capture the addresses in its operands, so that other code may use them? */
static bool captures_pointer(const struct track *t, const struct addr_state *s, size_t i)
{
	const struct insn *in = &t->f->code->insns[i];
	unsigned r;

	if (insn_captures_pointer(bytes_of(t, i), in))
		return true;
	for (r = 0; r < REGS && (!(in->reads >> r & 1) || s->reg[r].object < 0); r++)
		;
	return t->reporting && r < REGS && frame_slot_is_variable(t->f, i);
}

/* Reports escapes of the addresses in `data`, the registers that instruction i reads other than just to move them. */
static void data_leave(struct track *t, struct addr_state *s, size_t i, uint16_t data)
{
	const struct insn *in = &t->f->code->insns[i];

	if (insn_is_syscall(bytes_of(t, i), in)) {
		arguments_leave(t, s, i, data, 0, t->reporting && holds_address(s) ? kernel_registers(t, s, i) : 0);
		return;
	}
	if (insn_only_compares(bytes_of(t, i), in) || (t->reporting && data && frame_push_is_overwritten(t->f, i)))
		return;
	leave(t, s, i, data, captures_pointer(t, s, i) ? data : 0);
}

void track_insn(struct track *t, struct addr_state *s, size_t i)
{
	const struct insn *in = &t->f->code->insns[i];
	struct addr_value result, chosen;
	uint16_t data = in->reads;
	struct mem_operand mem;
	unsigned r, chosen_in;
	bool tail, choice, made;

	if (t->f->entries->anywhere)
		state_doubt(s);
	mem = operand_find(t, s, i);
	tail = call_report(t, s, i) || (mem.v.object >= 0 && !mem.slot && in->index == INSN_NO_REG);
	faults_leave(t, s, i);
	result = operand_use(t, s, i, &mem);
	if (is_reload(t, i))
		result = s->reg[in->dst];
	registers_move(t, s, i, &result, &data);
	made = track_choice(t, s, i, &data, &chosen, &chosen_in);
	if (insn_replaces_part(bytes_of(t, i), in))
		data &= (uint16_t)~in->writes;
	data_leave(t, s, i, data);
	pointers_apply(s, in, &mem.v, mem.slot);
	choice = in->move == MOVE_NONE && (insn_makes_choice(bytes_of(t, i), in) || reads_choice(s, in));
	for (r = 0; r < REGS; r++)
		if (in->writes >> r & 1) {
			s->reg[r] = nothing;
			s->reg[r].choice = choice;
		}
	if (made)
		s->reg[chosen_in] = chosen;
	else if (in->move != MOVE_NONE && in->dst < REGS)
		s->reg[in->dst] = result;
	control_leave(t, s, i, tail);
	tables_apply(t, s, in);
}
