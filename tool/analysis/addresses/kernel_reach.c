/* SPDX-License-Identifier: MIT */
/*
 * Follows the arguments of a function to calls that let the kernel store to memory (kernel_reach.h). This is a forward
 * analysis of basic blocks, as a domain of dataflow/solver.h. For each register, and each 8-byte slot of the frame, it
 * has the set of the function's arguments from which the value may be computed. Where paths join, sets are united, so
 * they only grow. A value loaded from other memory is assumed not to come from an argument.
 *
 * If a function is too large to be followed, or is called through too many other functions, the kernel is assumed to
 * store through all of its arguments.
 */
#include "analysis/addresses/kernel_reach.h"

#include "analysis/dataflow/solver.h"
#include "arch/x86/opcodes.h"
#include "support/memory.h"

#include <etch/orc.h>
#include <stdlib.h>
#include <string.h>

#define REGS       16u
#define SLOTS      24u /* number of slots of a frame that are followed; any other slot is assumed to hold no argument */
#define DEPTH_MOST 64u /* most nested calls that are followed */
/* Largest function that is followed, in instructions: a function that passes an argument on is short. */
#define INSNS_MOST 4000u
/* Limit for the average number of walks per function of the file; mutual recursion repeats some walks. */
#define WALKS_MOST 4u

/* What is known of the value of a register. */
struct value {
	uint16_t arguments; /* mask of argument registers: the arguments from which it may be computed */
	struct known_value constant;
};

/* An 8-byte slot of the frame. */
struct slot {
	uint8_t base; /* the register to which it is relative, rsp or rbp; 0: this element is unused */
	int64_t disp;
	uint16_t arguments;
};

struct state {
	bool reached;
	struct value reg[REGS];
	struct slot slot[SLOTS];
};

/* Does a basic block begin at an instruction, and how is it reached? */
enum entered {
	NO_BLOCK,      /* no block begins there: it is only reached from the instruction in front */
	BLOCK_BY_JUMP, /* a direct jump leads there */
	/* Neither a direct jump nor the instruction in front leads there: it may be the target of a jump table. */
	BLOCK_BY_TABLE,
};

/* The analysis of one function. */
struct walk {
	struct kernel_reach *reach;
	const struct func *fn;
	const struct func_code *code;
	uint8_t *entered; /* per instruction: enum entered */
	/* Per instruction that begins a block: the state before it; null if it has not been reached. */
	struct state **at;
	struct worklist list; /* worklist of such instructions */
	/* Masks of argument registers: those stored to memory; those through which the kernel may store; those that point
	 * to memory with such addresses. */
	uint16_t put, registers, vectors;
	bool in_memory;
	bool follow; /* look into all called functions, not only into those that get arguments of this one */
};

void kernel_reach_init(struct kernel_reach *r, const struct imports *imports, struct func_list *l)
{
	*r = (struct kernel_reach){.imports = imports, .list = l};
	r->known = mem_zero(l->count + 1, sizeof(*r->known));
	r->functions = mem_zero(l->count + 1, sizeof(*r->functions));
	r->walks_left = WALKS_MOST * (l->count + 1);
	r->loaded_known = mem_zero(l->count + 1, sizeof(*r->loaded_known));
	r->loaded = mem_zero(l->count + 1, sizeof(*r->loaded));
}

void kernel_reach_free(struct kernel_reach *r)
{
	free(r->known);
	free(r->functions);
	free(r->loaded_known);
	free(r->loaded);
	memset(r, 0, sizeof(*r));
}

static struct slot *slot_of(struct state *s, const struct insn *in, bool add)
{
	struct slot *empty = NULL;
	unsigned i;

	if ((in->base != ETCH_REG_RSP && in->base != ETCH_REG_RBP) || in->index != INSN_NO_REG || in->segment)
		return NULL;
	for (i = 0; i < SLOTS; i++) {
		if (s->slot[i].base == in->base && s->slot[i].disp == in->disp)
			return &s->slot[i];
		if (!s->slot[i].base && !empty)
			empty = &s->slot[i];
	}
	if (add && empty)
		*empty = (struct slot){in->base, in->disp, 0};
	return add ? empty : NULL;
}

static bool value_join(struct value *a, const struct value *b)
{
	const struct value was = *a;

	a->arguments |= b->arguments;
	a->constant.known = a->constant.known && b->constant.known && a->constant.value == b->constant.value;
	return a->arguments != was.arguments || a->constant.known != was.constant.known;
}

/* Joins the state *from into *to. Returns true if *to has changed. */
static bool state_join(struct state *to, const struct state *from)
{
	bool changed = false;
	unsigned i;

	if (!from->reached)
		return false;
	if (!to->reached) {
		*to = *from;
		return true;
	}
	for (i = 0; i < REGS; i++)
		changed |= value_join(&to->reg[i], &from->reg[i]);
	for (i = 0; i < SLOTS; i++) {
		struct insn place = {.base = from->slot[i].base, .disp = from->slot[i].disp, .index = INSN_NO_REG};
		struct slot *s = from->slot[i].arguments ? slot_of(to, &place, true) : NULL;

		if (s && (s->arguments | from->slot[i].arguments) != s->arguments) {
			s->arguments |= from->slot[i].arguments;
			changed = true;
		}
	}
	return changed;
}

static uint16_t arguments_in(const struct state *s, uint16_t registers)
{
	uint16_t arguments = 0;
	unsigned r;

	for (r = 0; r < REGS; r++)
		if (registers >> r & 1)
			arguments |= s->reg[r].arguments;
	return arguments;
}

static bool leads_out(const struct walk *w, const struct insn *in)
{
	return in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND ||
	       (in->flow == FLOW_JUMP && !func_holds(w->fn, in->target));
}

/* Sets the registers that an instruction other than a call writes, according to what it reads. */
static void result_set(struct state *s, const struct insn *in)
{
	struct value v = {.arguments = arguments_in(s, in->reads)};
	const struct slot *slot = slot_of(s, in, false);
	unsigned r;

	switch (in->move) {
	case MOVE_COPY: v = s->reg[in->src]; break;
	case MOVE_IMM: v = (struct value){0, {true, in->imm}}; break;
	case MOVE_LOAD: v = (struct value){.arguments = slot && in->mem_size == 8 ? slot->arguments : 0}; break;
	case MOVE_ADDRESS: v.arguments = arguments_in(s, insn_uses(in)); break;
	default: break;
	}
	if (in->move == MOVE_NONE && !in->reads && in->mem == MEM_NONE) /* it clears a register */
		v.constant = (struct known_value){true, 0};
	for (r = 0; r < REGS; r++)
		if (in->writes >> r & 1)
			s->reg[r] = v;
	if (in->move != MOVE_NONE && in->dst < REGS)
		s->reg[in->dst] = v;
}

static void insn_take(struct walk *w, struct state *s, const struct insn *in)
{
	const uint8_t *bytes = func_bytes_of(w->fn, in);
	unsigned r;

	if (insn_is_syscall(bytes, in) || leads_out(w, in)) {
		struct kernel_access a = kernel_reach_at(
			w->reach, (struct kernel_caller){w->fn, w->code}, in, bytes, s->reg[INSN_SYSCALL_NUMBER].constant,
			s->reg[INSN_FIRST_ARGUMENT].constant, w->follow || arguments_in(s, insn_call_arguments()));

		w->registers |= arguments_in(s, a.registers);
		w->vectors |= arguments_in(s, a.vectors);
		w->in_memory |= a.in_memory;
	}
	if (in->mem == MEM_WRITE && in->mem_size == 8) {
		struct slot *slot = slot_of(s, in, arguments_in(s, in->reads) != 0);

		w->put |= arguments_in(s, in->reads);
		if (slot)
			slot->arguments = arguments_in(s, in->reads);
	}
	if (in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND) {
		for (r = 0; r < REGS; r++)
			if (insn_call_clobbers() >> r & 1)
				s->reg[r] = (struct value){0};
		return;
	}
	result_set(s, in);
}

static bool block_join(void *ctx, uint32_t node, const void *state)
{
	struct walk *w = ctx;

	if (!w->at[node])
		w->at[node] = mem_zero(1, sizeof(**w->at));
	return state_join(w->at[node], state);
}

static void block_walk(void *ctx, uint32_t node);
static const struct dataflow_domain blocks = {.join = block_join, .transfer = block_walk};

/* Analyses a block, and passes the state at its end to the blocks to which it leads. */
static void block_walk(void *ctx, uint32_t node)
{
	struct walk *w = ctx;
	struct state s = *w->at[node];
	const struct insn *in;
	size_t i = node, k;

	do {
		in = &w->code->insns[i];
		insn_take(w, &s, in);
		if (func_is_jump(in)) {
			k = func_insn_at(w->code, in->target);
			if (k != SIZE_MAX)
				dataflow_pass(&blocks, &w->list, w, (uint32_t)k, &s);
		}
		if (in->flow == FLOW_JUMP_IND)
			for (k = 0; k < w->code->count; k++)
				if (w->entered[k] == BLOCK_BY_TABLE)
					dataflow_pass(&blocks, &w->list, w, (uint32_t)k, &s);
		if (!func_falls_through(in) || ++i == w->code->count)
			return;
	} while (!w->entered[i]);
	dataflow_pass(&blocks, &w->list, w, (uint32_t)i, &s);
}

static void blocks_find(struct walk *w)
{
	size_t i, to;

	for (i = 0; i < w->code->count; i++) {
		const struct insn *in = &w->code->insns[i];

		if (func_is_jump(in) && (to = func_insn_at(w->code, in->target)) != SIZE_MAX)
			w->entered[to] = BLOCK_BY_JUMP;
		if (!func_falls_through(in) && i + 1 < w->code->count && !w->entered[i + 1])
			w->entered[i + 1] = BLOCK_BY_TABLE;
	}
}

static void function_walk(struct walk *w)
{
	const uint16_t passed = insn_first_arguments(6);
	struct state entry = {.reached = true};
	unsigned r;
	size_t i;

	if (!w->code->count)
		return;
	for (r = 0; r < REGS; r++)
		entry.reg[r].arguments = passed & (uint16_t)(1u << r);
	w->entered = mem_zero(w->code->count, sizeof(*w->entered));
	w->at = mem_zero(w->code->count, sizeof(*w->at));
	blocks_find(w);
	dataflow_pass(&blocks, &w->list, w, 0, &entry);
	dataflow_solve(&blocks, &w->list, w);
	for (i = 0; i < w->code->count; i++)
		free(w->at[i]);
	free(w->at);
	free(w->entered);
	worklist_free(&w->list);
}

/* The result for a function that is not analysed: the kernel may store through all arguments. */
static struct kernel_access unknown_reach(void) { return (struct kernel_access){.registers = insn_first_arguments(6)}; }

/*
 * Returns what the kernel may do through the arguments of function k. If the result is needed while it is still being
 * computed, as in recursion, the preliminary result is used; the computation of the function itself adds the rest. A
 * result that was computed from the preliminary result of a caller is not final, and is computed again the next time it
 * is needed.
 */
static struct kernel_access function_reach(struct kernel_reach *r, size_t k)
{
	struct walk w = {.reach = r, .fn = &r->list->funcs[k]};
	struct func_code code = {0};
	unsigned outer = r->unfinished;

	if (r->known[k] == KERNEL_REACH_FINAL)
		return r->functions[k];
	if (r->known[k]) {
		if (r->known[k] - 1u < r->unfinished)
			r->unfinished = r->known[k] - 1u;
		return r->functions[k];
	}
	if (r->depth >= DEPTH_MOST || !r->walks_left)
		return unknown_reach();
	r->walks_left--;
	r->known[k] = (uint8_t)(r->depth++ + 1);
	r->unfinished = DEPTH_MOST;
	/* Decode a copy, since the list may meanwhile decode its functions anew. */
	func_decode(w.fn, &code);
	w.code = &code;
	if (code.count > INSNS_MOST || !code.whole)
		w.registers = unknown_reach().registers;
	else
		function_walk(&w);
	func_code_free(&code);
	r->depth--;
	r->functions[k] = (struct kernel_access){w.registers | (w.in_memory ? w.put : 0), w.vectors, w.vectors};
	r->known[k] = r->unfinished < r->depth ? 0 : KERNEL_REACH_FINAL;
	if (r->unfinished > outer || r->unfinished >= r->depth)
		r->unfinished = outer;
	return r->functions[k];
}

/* Returns what the kernel may do in the functions of other modules whose addresses a function loads. */
static struct kernel_access loaded_reach(struct kernel_reach *r, struct kernel_caller from)
{
	const size_t k = (size_t)(from.fn - r->list->funcs);
	struct kernel_access *a = &r->loaded[k];
	size_t i;

	if (k >= r->list->count)
		return (struct kernel_access){insn_call_arguments(), 0, true}; /* the function is not in the list */
	if (r->loaded_known[k])
		return *a;
	r->loaded_known[k] = true;
	for (i = 0; i < from.code->count; i++) {
		const struct insn *in = &from.code->insns[i];
		const struct kernel_store *store = in->move == MOVE_LOAD ? imports_kernel(r->imports, in) : NULL;

		if (store) {
			a->registers |= insn_arguments(store->arguments);
			a->vectors |= insn_arguments(store->vectors & ~KERNEL_STORE_ELSEWHERE);
			a->in_memory |= store->vectors;
		}
	}
	return *a;
}

/* Returns what the kernel may do at a system call with a number. */
static struct kernel_access syscall_reach(struct known_value number)
{
	const struct kernel_store *k;

	if (!number.known)
		return (struct kernel_access){insn_syscall_arguments(), 0, true};
	k = kernel_store_numbered(number.value);
	if (!k)
		return (struct kernel_access){0};
	return (struct kernel_access){insn_syscall_arguments_of(k->arguments),
	                              insn_syscall_arguments_of(k->vectors & ~KERNEL_STORE_ELSEWHERE), k->vectors};
}

/* Returns what the kernel may do in a function of another module, given the value of its first argument. */
static struct kernel_access import_reach(const struct kernel_store *k, struct known_value first)
{
	unsigned shift = 0; /* syscall(2) has the arguments of the system call after its number */

	if (kernel_store_is_any(k) && first.known) {
		k = kernel_store_numbered(first.value);
		shift = 1;
	}
	if (!k)
		return (struct kernel_access){0};
	return (struct kernel_access){insn_arguments((uint8_t)(k->arguments << shift)),
	                              insn_arguments((uint8_t)((k->vectors & ~KERNEL_STORE_ELSEWHERE) << shift)),
	                              k->vectors};
}

/* Returns what the kernel may do in the function of the file that begins at an address; nothing, if none begins
 * there. */
static struct kernel_access own_reach(struct kernel_reach *r, uint64_t addr)
{
	uint32_t section = elf_section_at(r->imports->file, addr);
	const struct func *fn = section ? func_find(r->list, section, addr) : NULL;

	return fn && fn->start == addr ? function_reach(r, (size_t)(fn - r->list->funcs)) : (struct kernel_access){0};
}

struct kernel_access kernel_reach_at(struct kernel_reach *r, struct kernel_caller from, const struct insn *in,
                                     const uint8_t *bytes, struct known_value number, struct known_value first,
                                     bool follow)
{
	const struct kernel_store *k;

	if (!r || !r->list)
		return (struct kernel_access){0};
	if (insn_is_syscall(bytes, in))
		return syscall_reach(number);
	k = imports_kernel(r->imports, in);
	if (k)
		return import_reach(k, first);
	if ((in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND) && in->base != INSN_PC_REG)
		return loaded_reach(r, from);
	if (follow && (in->flow == FLOW_CALL || in->flow == FLOW_JUMP))
		return own_reach(r, in->target);
	return (struct kernel_access){0};
}

bool kernel_reach_in_memory(struct kernel_reach *r, const struct func *fn, const struct func_code *code)
{
	struct walk w = {.reach = r, .fn = fn, .code = code, .follow = true};

	if (!r || !r->list)
		return false;
	if (code->count > INSNS_MOST)
		return true;
	function_walk(&w);
	return w.in_memory;
}
