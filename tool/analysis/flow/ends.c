/* SPDX-License-Identifier: MIT */
/* Heuristics, mostly for open code ranges, whose end no symbol or FDE tells. They decide whether a call is a function's
 * last instruction (by the padding after it), whether code begins as functions begin, and whether the target of a call
 * is a local helper. */
#include "arch/x86/opcodes.h"
#include "arch/x86/padding.h"
#include "analysis/flow/flow_internal.h"
#include "support/memory.h"

#include <stdlib.h>

/* gcc puts fewer bytes of padding than this in front of a loop (-falign-loops=16:11:8), but clang up to 15. */
#define PADDING_LOOP 11u
#define BEGINNING    8u /* number of instructions that are examined from a presumed start on */

bool step_begins_function(const struct step *s, const uint8_t *bytes, uint64_t size)
{
	return (step_pushed(s) & STEP_CALLEE_SAVED) || (s->op == STEP_ADD && s->a == ETCH_REG_RSP && s->imm < 0) ||
	       (s->op == STEP_ADDRESS && s->a == ETCH_REG_RSP && s->b == ETCH_REG_RSP && s->index >= 16 && s->disp < 0) ||
	       insn_is_endbr(bytes, size);
}

/* Does a function's prologue seem to begin at an offset? */
static bool begins_function(struct flow *f, uint64_t off)
{
	const struct code_range *p = f->in.range;
	uint32_t i = flow_step(f, off);

	return i != NO_STEP && step_begins_function(&f->steps[i], p->bytes + off, p->end - p->start - off);
}

/* Does an instruction with this op access memory at b + disp (members of struct step)? */
static bool is_access(unsigned op)
{
	return op == STEP_NONE || op == STEP_LOAD || op == STEP_STORE || op == STEP_FETCH || op == STEP_LIMIT ||
	       op == STEP_EXCHANGE;
}

/* Returns the mask of the registers that an instruction reads for the address of its memory operand, as far as struct
 * step tells. */
static uint16_t address_registers(const struct step *s)
{
	bool indexed = s->index < 16 && s->op != STEP_ADDRESS && s->op != STEP_SUM;

	return (uint16_t)((s->b < 16 && (is_access(s->op) || s->deref) ? 1u << s->b : 0) | (indexed ? 1u << s->index : 0));
}

/* Does the code at an offset use a callee-saved register before it saves it? Then no function begins there. */
static bool is_amidst(struct flow *f, uint64_t off)
{
	uint16_t saved = 0;
	unsigned n;

	for (n = 0; n < BEGINNING; n++) {
		uint32_t i = flow_step(f, off);
		const struct step *s = i == NO_STEP ? NULL : &f->steps[i];

		if (!s)
			return false;
		saved |= step_pushed(s);
		if (s->op == STEP_STORE && s->a < 16)
			saved |= (uint16_t)(1u << s->a);
		if ((s->touches | address_registers(s)) & STEP_CALLEE_SAVED & ~saved)
			return true;
		if (s->flow != FLOW_NEXT)
			return false;
		off += s->len;
	}
	return false;
}

/* Does the code range begin with push %rbp; mov %rsp, %rbp? */
static bool makes_frame(struct flow *f)
{
	uint32_t i = flow_step(f, 0), k;

	if (i == NO_STEP || f->steps[i].op != STEP_PUSH || f->steps[i].a != ETCH_REG_RBP)
		return false;
	k = flow_step(f, f->steps[i].len);
	return k != NO_STEP && f->steps[k].op == STEP_MOVE && f->steps[k].a == ETCH_REG_RBP &&
	       f->steps[k].b == ETCH_REG_RSP;
}

bool flow_begins(struct flow *f)
{
	const struct code_range *p = f->in.range;
	uint64_t off = 0;
	unsigned n;

	if (makes_frame(f)) /* at any address: with -Oz functions are not aligned */
		return true;
	if (is_amidst(f, 0) || (p->start % FUNCTION_ALIGN && !insn_is_endbr(p->bytes, p->end - p->start)))
		return false;
	for (n = 0; n < BEGINNING && !begins_function(f, off); n++) {
		uint32_t i = flow_step(f, off);

		if (i == NO_STEP || f->steps[i].flow != FLOW_NEXT)
			return false;
		off += f->steps[i].len;
	}
	return n < BEGINNING;
}

/* The number of instructions that are examined after a call of the next instruction, for uses of the pushed return
 * address. */
#define ASKED_MOST 8u

/* What the first ASKED_MOST instructions at an offset do with a return address that is on top of the stack. 0: neither
 * of the two is seen. */
enum { RA_READ = 1, RA_POPPED = 2 };

/* Returns RA_READ, RA_POPPED or 0: what the code at an offset does with a return address on top of the stack. */
static int return_address_use(struct step_cache *cache, const struct code_range *p, uint64_t off)
{
	int64_t above = 0, pushed; /* bytes pushed so far, below the return address; bytes pushed by one instruction */
	struct step s;
	unsigned n;

	for (n = 0; n < ASKED_MOST; n++, off += s.len) {
		if (!step_decode(cache, p->bytes + off, p->end - p->start - off, p->start + off, &s) || s.flow != FLOW_NEXT)
			return 0;
		pushed = flow_pushed(&s);
		if (pushed && pushed != FLOW_NOT_PUSHED)
			above += pushed;
		else if (s.b == ETCH_REG_RSP && s.disp == above && is_access(s.op))
			return RA_READ;
		else if (pushed)
			return 0;
		if (above < 0)
			return RA_POPPED;
	}
	return 0;
}

bool flow_uses_return_address(struct flow *f, uint64_t off)
{
	return return_address_use(f->cache, f->in.range, off) != 0;
}

bool code_pops_return_address(const struct code_range *p, uint64_t off)
{
	return return_address_use(NULL, p, off) == RA_POPPED;
}

/* Moves *off past padding in the code range. Returns false if other code leads to these bytes, or if they do not
 * decode, so that they are not only padding. */
static bool skip_padding(struct flow *f, uint64_t *off)
{
	const uint8_t *bytes = f->in.range->bytes;
	uint64_t start = f->in.range->start, size = flow_size(f);

	while (*off < size) {
		uint64_t zeros = padding_zeros(bytes + *off, size - *off);
		uint32_t i;

		/* Zero bytes are padding, unless a branch leads to them. */
		if (zeros &&
		    (*off + zeros == size || padding_after_call(bytes + *off, size - *off, start + *off, FUNCTION_ALIGN)) &&
		    !(f->at[*off] && f->leader[f->at[*off] - 1])) {
			*off += zeros;
			continue;
		}
		i = flow_step(f, *off);
		if (i == NO_STEP || (f->seen[i] & FLOW_SCANNED && f->leader[i]))
			return false;
		if (!f->steps[i].padding)
			return true;
		*off += f->steps[i].len;
	}
	return true;
}

bool flow_is_end(struct flow *f, const struct step *call, uint64_t off)
{
	uint64_t size = flow_size(f), from = off;

	if (f->in.noted && (f->in.range->resumes || f->in.range->part))
		return false;
	if (f->in.range->open && call->flow == FLOW_CALL && (uint64_t)call->imm == f->in.range->start + off)
		return true;
	if (f->in.range->open && f->in.range->outermost && flow_is_noreturn(f, call)) {
		uint32_t i = flow_step(f, off);

		return i == NO_STEP || f->steps[i].op != STEP_HALT;
	}
	if (!skip_padding(f, &off))
		return false;
	if (off >= size)
		return true;
	if (!f->in.range->open || off == from || (f->in.range->start + off) % FUNCTION_ALIGN)
		return false;
	return begins_function(f, off) || (off - from >= PADDING_LOOP && !is_amidst(f, off));
}

/* The number of instructions that are examined from the start of a code range on, for uses of its caller's
 * registers. */
#define FRAMED_MOST 64u

/* Does the instruction overwrite register r, or save it, so that later uses of r prove nothing about the caller? */
static bool settles(const struct step *s, unsigned r)
{
	if (s->writes >> r & 1 || (r == ETCH_REG_RBP && (s->op == STEP_LEAVE || s->op == STEP_ENTER)))
		return true;
	if ((s->op == STEP_SWAP || s->op == STEP_PUSH2 || s->op == STEP_POP2) && s->b == r)
		return true;
	return s->a == r && s->op != STEP_NONE && s->op != STEP_COMPARE && s->op != STEP_LIMIT;
}

/* Does the instruction access memory at the address in register r? */
static bool uses_memory(const struct step *s, unsigned r)
{
	return (s->b == r && (is_access(s->op) || s->op == STEP_ENTRY || s->deref)) ||
	       (s->index == r && s->op != STEP_ADDRESS && s->op != STEP_SUM);
}

/* Does the instruction compute with the value of register r? A plain copy does not count: it may save the register. */
static bool uses_number(const struct step *s, unsigned r)
{
	switch (s->op) {
	case STEP_COMPARE: return s->a == r || s->b == r;
	case STEP_LIMIT:
	case STEP_ADD:
	case STEP_ALIGN: return s->a == r;
	case STEP_ADDREG:
	case STEP_SUBREG: return s->a != s->b && (s->a == r || s->b == r);
	case STEP_ADDRESS:
	case STEP_EXTEND: return s->b == r;
	case STEP_SUM: return s->b == r || s->index == r;
	default: return false;
	}
}

/* Does the instruction use a register of the mask *left? With `memory` only uses in an address count. Removes from
 * *left the registers that settles() is true of. */
static bool uses_any(const struct step *s, bool memory, unsigned *left)
{
	unsigned mask;

	for (mask = *left; mask; mask &= mask - 1) {
		unsigned r = (unsigned)__builtin_ctz(mask);

		if (uses_memory(s, r) || (!memory && uses_number(s, r)))
			return true;
		if (settles(s, r))
			*left &= ~(1u << r);
	}
	return false;
}

/* Does the instruction access the return address or the caller's frame above it, relative to rsp? */
static bool uses_stack(const struct step *s)
{
	return s->b == ETCH_REG_RSP && s->disp >= 0 && (is_access(s->op) || s->deref);
}

/* Does the instruction change rsp? */
static bool moves_stack(const struct step *s)
{
	return s->a == ETCH_REG_RSP || s->op == STEP_PUSH || s->op == STEP_POP || s->op == STEP_PUSH2 ||
	       s->op == STEP_POP2 || settles(s, ETCH_REG_RSP);
}

/* The number of instructions that are examined from the target of a jump on, for a return. */
#define BACK_MOST 256u

/* Sets *by to how much an instruction adds to rsp. Returns false if that is not known. */
static bool stack_moved(const struct step *s, int64_t *by)
{
	*by = 0;
	if (s->op == STEP_PUSH || s->op == STEP_PUSH2)
		*by = -s->imm;
	else if ((s->op == STEP_POP && s->a != ETCH_REG_RSP) || s->op == STEP_POP2)
		*by = s->imm;
	else if (s->op == STEP_ADD && s->a == ETCH_REG_RSP)
		*by = s->imm;
	else if (s->op == STEP_ADDRESS && s->a == ETCH_REG_RSP && s->b == ETCH_REG_RSP && s->index >= 16)
		*by = s->disp;
	else
		return !settles(s, ETCH_REG_RSP);
	return true;
}

/*
 * Does the code at `target`, outside of the code range, return to the return address that was on top of the stack at
 * the start of the range, if control enters it by a jump with rsp at CFA + at? Examines one path, on which no branch is
 * taken. (If the range begins in a frame of other code, this path would first have to take that frame down.)
 */
static bool returns_home(const struct flow *f, uint64_t target, int64_t at)
{
	const struct code_section *c = NULL;
	int64_t by;
	struct step s;
	unsigned n;

	for (n = 0; n < BACK_MOST; n++) {
		if (!c || target - c->addr >= c->size)
			c = target & (FLOW_EXTERN | FLOW_SLOT) ? NULL : space_at(f->in.env->space, target);
		if (!c || !step_decode(NULL, c->bytes + (target - c->addr), c->size - (target - c->addr), target, &s))
			return false;
		if (s.flow == FLOW_RETURN)
			return at == -8;
		if (s.flow == FLOW_JUMP) {
			target = (uint64_t)s.imm;
			continue;
		}
		if (s.flow == FLOW_NEXT && !stack_moved(&s, &by))
			return false;
		if (s.flow != FLOW_NEXT && s.flow != FLOW_BRANCH && !flow_is_call(s.flow))
			return false;
		at += s.flow == FLOW_NEXT ? by : 0;
		target += s.len;
	}
	return false;
}

/*
 * Does the code return to its caller in a way that the walk has not proven? It may do so after a jump that is not
 * followed (then the state at the return is only that of the jump), if all its returns look like a function's; or in
 * other code to which it jumps.
 */
static bool leads_home(const struct flow *f)
{
	size_t i;

	if (f->found.returns_unbalanced || f->found.exit_sp_mismatch || f->found.exit_sp_unknown)
		return false;
	if (f->found.inner_returns)
		return true;
	for (i = 0; i < f->found.exit_count; i++)
		if (f->found.exits[i].kind == EXIT_TAIL && returns_home(f, f->found.exits[i].target, -8))
			return true;
	for (i = 0; i < f->found.edge_count; i++) {
		struct value sp = f->found.edges[i].state.reg[ETCH_REG_RSP];

		if (sp.kind == VALUE_CFA && returns_home(f, f->found.edges[i].target, sp.off))
			return true;
	}
	return false;
}

/* Does the code range use a frame that other code has made, that is, registers or stack of its caller? With `returns`,
 * the range returns to a caller, so only uses of rbp count: see flow_begins_framed(). */
static bool uses_frame(struct flow *f, bool returns)
{
	unsigned left = returns ? 1u << ETCH_REG_RBP : STEP_CALLEE_SAVED | STEP_SCRATCH, n;
	bool stack = !returns; /* rsp is still unchanged, so accesses relative to it count */
	uint64_t off = 0;

	for (n = 0; n < FRAMED_MOST && left; n++) {
		uint32_t i = flow_step(f, off);
		struct step s;

		if (i == NO_STEP)
			return false;
		s = f->steps[i]; /* the list may move */
		off += s.len;
		if (s.padding)
			continue;
		if (uses_any(&s, returns, &left) || (stack && uses_stack(&s)))
			return true;
		stack = stack && !moves_stack(&s);
		if (flow_is_call(s.flow)) {
			if (!flow_comes_back(f, &s) || flow_is_end(f, &s, off))
				return false;
			left &= ~STEP_SCRATCH;
		} else if (s.flow != FLOW_NEXT && s.flow != FLOW_BRANCH) {
			return false;
		}
	}
	return false;
}

/*
 * Distinguishes code that begins in a frame of other code, as an interpreter's handlers do, from a function whose
 * arguments are in unusual places. No convention passes an argument in rbp, but some pass one or two in the other
 * registers (nested functions of C do) or on the stack. Such functions return, or restore a register before a tail call
 * (flow.found.returns_to_caller); handlers do neither. So in code that returns, only uses of rbp in an address count.
 */
bool flow_begins_framed(struct flow *f)
{
	bool returns = f->found.returns_to_caller;

	return uses_frame(f, returns) && (returns || !leads_home(f) || uses_frame(f, true));
}

/* ---- helpers ------------------------------------------------------------------------------ */

/*
 * The target of a call inside an open code range is either a local helper, as assembly has them in the middle of a
 * function, or the beginning of the next function. If some jump passes over the target, it is a helper. That code in
 * front of the target falls through into it shows nothing, since a call in that code may be noreturn.
 */

/* Counts a jump between two offsets for every offset that it passes over. flow.walk.paths holds differences at first,
 * which paths_make() adds up. */
static void path_add(struct flow *f, uint64_t from, uint64_t to)
{
	f->walk.paths[from < to ? from + 1 : to + 1]++;
	f->walk.paths[from < to ? to + 1 : from + 1]--;
}

/* Counts the jumps of step i to targets inside the code range. */
static void paths_of(struct flow *f, uint32_t i)
{
	uint64_t off = f->step_at[i];
	struct step in = f->steps[i];
	unsigned k;

	if ((in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH) && flow_inside(f, (uint64_t)in.imm))
		path_add(f, off, (uint64_t)in.imm - f->in.range->start);
	for (k = 0; in.flow == FLOW_JUMP_IND && in.number && k < f->jumps[in.number - 1].entries; k++) {
		uint64_t target = jump_table_target(f, &f->jumps[in.number - 1].what, k);

		if (flow_inside(f, target))
			path_add(f, off, target - f->in.range->start);
	}
}

/* Fills flow.walk.paths: for each offset, the number of jumps that pass over it. */
static void paths_make(struct flow *f)
{
	uint64_t size = flow_size(f), off;
	uint32_t i, count = (uint32_t)f->step_count;

	free(f->walk.paths);
	f->walk.paths = mem_zero(size + 2, sizeof(*f->walk.paths));
	for (i = 0; i < count; i++) /* skips steps that are decoded but not walked */
		if (f->seen[i] & FLOW_WALKED)
			paths_of(f, i);
	for (off = 1; off <= size; off++)
		f->walk.paths[off] += f->walk.paths[off - 1];
}

bool flow_is_helper(struct flow *f, uint64_t target)
{
	if (!f->in.relaxed || !f->in.range->open || !f->walk.has_helpers || !flow_inside(f, target))
		return false;
	if (!f->walk.paths)
		paths_make(f);
	return f->walk.paths[target - f->in.range->start] > 0;
}
