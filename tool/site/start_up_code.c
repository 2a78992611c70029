/* SPDX-License-Identifier: MIT */
/*
 * Finds the code that may run after etch_sync (start_up_code.h). The search visits each instruction of the file at most
 * once and marks it. It joins no states, so it is not a domain of dataflow/solver.h.
 */
#include "site/start_up_code.h"

#include "analysis/runtimes/runtimes.h"
#include "elf/dynamic.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

/* An edge of the call graph: a direct call, or a jump into another function. */
struct edge {
	uint64_t at;       /* the address at which the edge enters `to` */
	uint32_t from, to; /* numbers of functions */
	uint32_t next;     /* index of the instruction after a call; NO_NEXT for a jump */
};
#define NO_NEXT UINT32_MAX

/* The GOT slot for a function of another module. */
struct named_slot {
	uint64_t slot;
	bool sync;    /* the function arms objects (sync_number()) */
	bool returns; /* the function may return more than once, like setjmp */
	bool stops;   /* the function never returns */
};

/* Number of the functions of libetch that arm objects; sync_number() lists their names. */
#define SYNC_COUNT 4

struct search {
	struct setup *u;
	struct edge *edges; /* sorted by `from` */
	size_t edge_count, edge_capacity;
	struct named_slot *slots;
	size_t slot_count, slot_capacity;
	uint8_t *taken;   /* for each function, whether its address is taken or another module may call it */
	uint8_t *up;      /* for each function, whether it may be on the stack at a call of etch_sync */
	uint8_t *returns; /* for each function, whether it calls a function that may return more than once */
	uint8_t *ends;    /* for each function, whether it has a way to return */
	uint32_t *last;   /* for each function, the index after its last instruction */
	/* a worklist: function << 32 | instruction, for each place from which code is still to be followed */
	uint64_t *todo;
	size_t todo_count, todo_capacity;
	uint32_t entry, main, sync[SYNC_COUNT]; /* numbers of these functions; UINT32_MAX: the file has no such function */
	bool failed;
};

/* Returns the index of a function of libetch that arms objects, by its name; SYNC_COUNT for any other name. */
static unsigned sync_number(const char *name)
{
	static const char *const names[SYNC_COUNT] = {"etch_sync_bytes", "etch_seal_bytes", "etch_sync_all",
	                                              "etch_sync_module"};
	unsigned i;

	for (i = 0; i < SYNC_COUNT && strcmp(name, names[i]) != 0; i++)
		;
	return i;
}

static bool is_sync(const char *name) { return sync_number(name) < SYNC_COUNT; }

/* Is this a function of the file itself that arms objects, because libetch is linked statically? */
static bool is_own_sync(const struct search *x, uint32_t fn)
{
	for (unsigned i = 0; i < SYNC_COUNT; i++)
		if (x->sync[i] == fn && fn != UINT32_MAX)
			return true;
	return false;
}

static bool returns_twice(const char *name)
{
	static const char *const names[] = {"setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "getcontext", "vfork"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/*
 * Does a function of another module never return? Only names that C, POSIX or the compilers reserve count. Any other
 * name may belong to a function of one of the program's own libraries.
 */
static bool never_returns(const char *name)
{
	static const char *const names[] = {"abort",      "exit",       "longjmp",  "pthread_exit",
	                                    "quick_exit", "siglongjmp", "thrd_exit"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return name[0] == '_' && runtimes_noreturn(name);
}

static uint32_t function_at(const struct search *x, uint64_t addr)
{
	const struct scan *s = x->u->s;
	uint32_t section = elf_section_at(s->file, addr);
	const struct func *fn = section ? func_find(&s->funcs, section, addr) : NULL;

	return fn ? (uint32_t)(fn - s->funcs.funcs) : UINT32_MAX;
}

static void take(struct search *x, uint64_t addr)
{
	uint32_t k = function_at(x, addr);

	if (k != UINT32_MAX)
		x->taken[k] = 1;
}

static void slots_read(struct search *x)
{
	struct dynamic_reloc *r;
	struct error e;
	size_t n, i;

	if (dynamic_relocs_read(x->u->s->file, 0, UINT64_MAX, &r, &n, &e)) {
		x->failed = true;
		return;
	}
	for (i = 0; i < n; i++) {
		struct named_slot k = {.slot = r[i].place};

		if (!r[i].symbol || !r[i].symbol->name)
			continue;
		k.sync = is_sync(r[i].symbol->name);
		k.returns = returns_twice(r[i].symbol->name);
		k.stops = never_returns(r[i].symbol->name);
		if (!k.sync && !k.returns && !k.stops)
			continue;
		mem_reserve(&x->slots, &x->slot_capacity, x->slot_count, sizeof(*x->slots));
		x->slots[x->slot_count++] = k;
	}
	free(r);
}

/* Returns the GOT slot through which an entry of the PLT jumps, or 0. */
static uint64_t plt_target(const struct elf_file *f, uint64_t at)
{
	struct insn in;
	unsigned i;

	for (i = 0; i < 4; i++, at += in.len) {
		struct elf_held held = elf_held(f, elf_section_at(f, at), at);

		if (!held.size || !insn_decode(held.bytes, held.size, at, &in))
			return 0;
		if (in.flow == FLOW_JUMP_IND && in.base == INSN_PC_REG)
			return in.addr + in.len + (uint64_t)in.disp;
	}
	return 0;
}

/* Returns the GOT slot, of a function of another module, through which a call or jump goes; or 0. */
static uint64_t import_slot(const struct search *x, const struct insn *in)
{
	const struct elf_file *f = x->u->s->file;
	uint32_t section;

	if (in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND)
		return in->base == INSN_PC_REG ? in->addr + in->len + (uint64_t)in->disp : 0;
	section = elf_section_at(f, in->target);
	return section && !strncmp(f->sections[section].name, ".plt", 4) ? plt_target(f, in->target) : 0;
}

/* Does a call or jump lead to a function that never returns? */
static bool is_stop(const struct search *x, const struct insn *in)
{
	uint64_t slot = import_slot(x, in);
	uint32_t to;
	size_t i;

	for (i = 0; slot && i < x->slot_count; i++)
		if (x->slots[i].slot == slot && x->slots[i].stops)
			return true;
	if (slot || in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND)
		return false;
	to = function_at(x, in->target);
	return to != UINT32_MAX && !x->ends[to];
}

static void todo_add(struct search *x, uint32_t fn, uint64_t insn)
{
	mem_reserve(&x->todo, &x->todo_capacity, x->todo_count, sizeof(*x->todo));
	x->todo[x->todo_count++] = (uint64_t)fn << 32 | insn;
}

/*
 * Records that function k calls a function of another module through `slot`; `next` is the index of the instruction
 * after the call.
 */
static void import_take(struct search *x, uint32_t k, uint64_t slot, size_t next)
{
	size_t i;

	for (i = 0; i < x->slot_count; i++) {
		if (x->slots[i].slot != slot)
			continue;
		x->returns[k] |= x->slots[i].returns;
		if (x->slots[i].sync) {
			x->up[k] = 1;
			todo_add(x, k, next);
		}
	}
}

static void edge_add(struct search *x, uint32_t from, uint32_t to, uint32_t next, uint64_t at)
{
	mem_reserve(&x->edges, &x->edge_capacity, x->edge_count, sizeof(*x->edges));
	x->edges[x->edge_count++] = (struct edge){at, from, to, next};
}

/* Records a direct jump or call, which is instruction i of function k. */
static void direct_take(struct search *x, uint32_t k, const struct insn *in, size_t i)
{
	const struct scan *s = x->u->s;
	uint32_t section = elf_section_at(s->file, in->target), to;

	if (in->flow != FLOW_CALL && function_at(x, in->target) == k)
		return;
	if (section && !strncmp(s->file->sections[section].name, ".plt", 4)) {
		import_take(x, k, plt_target(s->file, in->target), i + 1);
		return;
	}
	to = function_at(x, in->target);
	if (to == UINT32_MAX) {
		x->failed = true;
		return;
	}
	edge_add(x, k, to, in->flow == FLOW_CALL ? (uint32_t)i + 1 : NO_NEXT, in->target);
	if (is_own_sync(x, to)) {
		x->up[k] = 1;
		todo_add(x, k, i + 1);
	}
}

/*
 * Sets x->ends of a function if it contains an instruction by which it may return. Two ways to return are left to
 * ends_find(): jumps into other functions, and a call at the end.
 */
static void end_read(struct search *x, uint32_t k, const struct func_code *code)
{
	size_t i, last = code->count;

	while (last && code->insns[last - 1].padding)
		last--;
	x->last[k] = (uint32_t)last;
	x->ends[k] =
		!code->whole || !last || code->insns[last - 1].flow == FLOW_NEXT || code->insns[last - 1].flow == FLOW_BRANCH;
	for (i = 0; i < code->count; i++) {
		const struct insn *in = &code->insns[i];
		bool leaves = in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH || in->flow == FLOW_JUMP_IND ||
		              ((in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND) && i + 1 == last);

		/* Whether other functions return (x->ends) is not known yet. */
		if (in->flow == FLOW_RETURN ||
		    (leaves && (import_slot(x, in) || in->flow == FLOW_JUMP_IND || in->flow == FLOW_CALL_IND) &&
		     !is_stop(x, in)))
			x->ends[k] = 1;
	}
}

/*
 * Sets x->ends of the other functions that may return: those that jump to a function that may return, or that end with
 * a call of one.
 */
static void ends_find(struct search *x)
{
	bool more = true;
	size_t i;

	while (more) {
		more = false;
		for (i = 0; i < x->edge_count; i++) {
			const struct edge *e = &x->edges[i];

			if (x->ends[e->from] || !x->ends[e->to] || (e->next != NO_NEXT && e->next != x->last[e->from]))
				continue;
			x->ends[e->from] = 1;
			more = true;
		}
	}
}

/* Reads one function: its calls, and the addresses of functions in its operands. */
static void function_read(struct search *x, uint32_t k, const struct func_code *code)
{
	const struct scan *s = x->u->s;
	bool absolute = s->file->eh.e_type == ET_EXEC;
	size_t i;

	x->failed |= !code->whole;
	end_read(x, k, code);
	for (i = 0; i < code->count; i++) {
		const struct insn *in = &code->insns[i];

		if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH)
			direct_take(x, k, in, i);
		else if (in->flow == FLOW_CALL_IND && in->base == INSN_PC_REG)
			import_take(x, k, in->addr + in->len + (uint64_t)in->disp, i + 1);
		else if (in->mem == MEM_ADDRESS && in->base == INSN_PC_REG && k != x->entry)
			take(x, in->addr + in->len + (uint64_t)in->disp);
		if (absolute && in->imm_len >= 4 && in->flow == FLOW_NEXT && k != x->entry)
			take(x, (uint64_t)in->imm);
	}
}

static int edge_order(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->next < y->next ? -1 : x->next > y->next;
}

/*
 * Finds main, the entry point and the functions that arm objects. Marks _fini as taken, and the exported functions,
 * unless the file is closed.
 */
static void names_read(struct search *x)
{
	const struct scan *s = x->u->s;
	const struct elf_file *f = s->file;
	uint32_t i;

	x->main = UINT32_MAX;
	for (i = 0; i < SYNC_COUNT; i++)
		x->sync[i] = UINT32_MAX;
	x->entry = function_at(x, f->eh.e_entry);
	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		if (!y->section || y->type != STT_FUNC)
			continue;
		if (!strcmp(y->name, "main"))
			x->main = function_at(x, y->value);
		else if (is_sync(y->name))
			x->sync[sync_number(y->name)] = function_at(x, y->value);
		else if (!strcmp(y->name, "_fini"))
			take(x, y->value);
	}
	for (i = 1; i < f->dynsym_count && !s->closed; i++)
		if (f->dynsyms[i].section && f->dynsyms[i].type == STT_FUNC && strcmp(f->dynsyms[i].name, "main"))
			take(x, f->dynsyms[i].value);
}

/* Records the addresses of functions in data as taken, except those that only tables of constructors hold. */
static void words_read(struct search *x)
{
	const struct scan *s = x->u->s;
	uint64_t *word = mem_copy(s->code_words, s->code_word_count * sizeof(*word));
	uint64_t *init = mem_copy(s->init_words, s->init_word_count * sizeof(*init));
	size_t i, k = 0, same, in_tables;

	sort_words(word, s->code_word_count);
	sort_words(init, s->init_word_count);
	for (i = 0; i < s->code_word_count; i += same) {
		same = 1;
		while (i + same < s->code_word_count && word[i + same] == word[i])
			same++;
		while (k < s->init_word_count && init[k] < word[i])
			k++;
		for (in_tables = 0; k < s->init_word_count && init[k] == word[i]; k++)
			in_tables++;
		if (same > in_tables)
			take(x, word[i]);
	}
	free(word);
	free(init);
}

/* Has the program (by ETCH_INIT) or the user (by --init) said that function k runs only before etch_sync? */
static bool is_marked(const struct scan *s, uint32_t k)
{
	const struct func *fn = &s->funcs.funcs[k];

	return elf_name_is(s->file->sections[fn->section].name, ETCH_SEC_INIT) ||
	       word_has(s->init, s->init_count, fn->start);
}

/* Is any function marked? */
static bool has_marked(const struct scan *s) { return s->init_count || elf_section_find(s->file, ETCH_SEC_INIT, 1); }

/* Marks all of a function as code that may run after etch_sync, unless the program says that it does not. */
static void whole_add(struct search *x, uint32_t k)
{
	if (x->u->whole[k] || (x->u->init && x->u->init[k]))
		return;
	x->u->whole[k] = 1;
	todo_add(x, k, UINT32_MAX);
}

/*
 * Sets x->up of the functions that may be on the stack while etch_sync is called. They continue after the call that led
 * there.
 */
static void callers_find(struct search *x)
{
	bool more = true;
	size_t i;

	while (more) {
		more = false;
		for (i = 0; i < x->edge_count; i++) {
			const struct edge *e = &x->edges[i];

			if (!x->up[e->to] || is_own_sync(x, e->to))
				continue;
			if (e->next != NO_NEXT)
				todo_add(x, e->from, e->next);
			more |= !x->up[e->from];
			x->up[e->from] = 1;
		}
	}
}

/* Follows the code that runs after a constructor has called etch_sync: other constructors, and main. */
static void constructors_follow(struct search *x)
{
	const struct scan *s = x->u->s;
	bool early = false;
	size_t i;
	uint32_t k;

	for (i = 0; i < s->init_word_count; i++) {
		k = function_at(x, s->init_words[i]);
		early |= k != UINT32_MAX && x->up[k];
	}
	for (i = 0; early && i < s->init_word_count; i++) {
		k = function_at(x, s->init_words[i]);
		if (k != UINT32_MAX)
			whole_add(x, k);
	}
	if (early)
		whole_add(x, x->main);
}

/* Adds an address in function k, to which a jump or call may lead after etch_sync, to the worklist. */
static void lead_to(struct search *x, uint32_t k, uint64_t at, struct func_code *spare)
{
	struct setup *u = x->u;
	size_t i;

	if (u->s->funcs.funcs[k].start == at) {
		whole_add(x, k);
		return;
	}
	/* Mostly the address is that of a jump back from a cold part. */
	i = func_insn_at(func_code_of(&u->s->funcs, k, spare), at);
	if (i == SIZE_MAX)
		whole_add(x, k);
	else
		todo_add(x, k, i);
}

/*
 * Handles a function all of which may run after etch_sync: the functions that it calls, or to which it jumps, may then
 * run as well.
 */
static void whole_follow(struct search *x, uint32_t k, struct func_code *spare)
{
	struct edge key = {.from = k};
	size_t i = SEARCH(x->edge_count, n, edge_order(&x->edges[n], &key) < 0);

	for (; i < x->edge_count && x->edges[i].from == k; i++)
		lead_to(x, x->edges[i].to, x->edges[i].at, spare);
}

/*
 * Follows the landing pads and fixups of a function. Returns true if control may also enter the function in unknown
 * ways.
 */
static bool entries_follow(struct search *x, uint32_t k, const struct func_code *code)
{
	struct track_entries t = entries_of(&x->u->s->entries, &x->u->s->funcs.funcs[k], code);
	size_t i, to;

	for (i = 0; i < t.pad_count; i++)
		if ((to = func_insn_at(code, t.pads[i].pad)) != SIZE_MAX)
			todo_add(x, k, to);
	for (i = 0; i < t.fault_count; i++)
		if ((to = func_insn_at(code, t.faults[i].to)) != SIZE_MAX)
			todo_add(x, k, to);
	return t.anywhere;
}

/* Follows a direct jump, branch or call of function k. */
static void direct_follow(struct search *x, uint32_t k, const struct func_code *code, const struct insn *in,
                          struct func_code *spare)
{
	uint32_t callee = function_at(x, in->target);
	size_t to = callee == k && in->flow != FLOW_CALL ? func_insn_at(code, in->target) : SIZE_MAX;

	if (to != SIZE_MAX)
		todo_add(x, k, to);
	else if (callee != UINT32_MAX)
		lead_to(x, callee, in->target, spare);
}

/* Follows the code of one function from instruction i on. */
static void function_follow(struct search *x, uint32_t k, size_t i, struct func_code spare[2])
{
	struct setup *u = x->u;
	const struct func_code *code;

	if (u->whole[k])
		return;
	code = func_code_of(&u->s->funcs, k, &spare[0]);
	if (!u->after[k]) {
		u->after[k] = mem_zero(code->count + 1, 1);
		if (entries_follow(x, k, code))
			whole_add(x, k);
	}
	for (; i < code->count && !u->after[k][i]; i++) {
		const struct insn *in = &code->insns[i];

		u->after[k][i] = 1;
		if (in->flow == FLOW_JUMP_IND) {
			whole_add(x, k);
			return;
		}
		if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH)
			direct_follow(x, k, code, in, &spare[1]);
		if (in->flow == FLOW_JUMP || in->flow == FLOW_RETURN || in->flow == FLOW_STOP ||
		    ((in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND) && is_stop(x, in)))
			return;
	}
	/* After its last instruction, control may run into the next function. */
	if (i == code->count && k + 1 < u->s->funcs.count)
		whole_add(x, k + 1);
}

/*
 * Sets `init`: finds the functions that run only before etch_sync, as the program says. These are the marked ones, and
 * those whose address is not taken and that only such functions call.
 */
static void init_find(struct search *x)
{
	const struct scan *s = x->u->s;
	uint8_t *init = mem_zero(s->funcs.count + 1, 1), *called = mem_zero(s->funcs.count + 1, 1);
	bool more = true, some = false;
	uint32_t k;
	size_t i;

	for (i = 0; i < x->edge_count; i++)
		called[x->edges[i].to] = 1;
	for (k = 0; k < s->funcs.count; k++) {
		some |= is_marked(s, k);
		init[k] = is_marked(s, k) || (called[k] && !x->taken[k] && k != x->main && k != x->entry);
	}
	while (some && more) {
		more = false;
		for (i = 0; i < x->edge_count; i++) {
			const struct edge *e = &x->edges[i];

			if (init[e->from] || !init[e->to] || is_marked(s, e->to))
				continue;
			init[e->to] = 0;
			more = true;
		}
	}
	free(called);
	if (some)
		x->u->init = init;
	else
		free(init);
}

static void search_run(struct search *x)
{
	struct scan *s = x->u->s;
	struct func_code spare[2] = {{0}, {0}};
	uint32_t k;
	size_t n;

	slots_read(x);
	names_read(x);
	if (x->main == UINT32_MAX)
		x->failed = true;
	for (k = 0; k < s->funcs.count && (!x->failed || has_marked(s)); k++)
		function_read(x, k, func_code_of(&s->funcs, k, &spare[0]));
	words_read(x);
	init_find(x);
	ends_find(x);
	if (x->edge_count)
		qsort(x->edges, x->edge_count, sizeof(*x->edges), edge_order);
	x->failed |= !x->todo_count; /* the search fails if nothing calls etch_sync */
	if (!x->failed)
		callers_find(x);
	for (k = 0; k < s->funcs.count && !x->failed; k++) {
		/*
		 * The search also fails if a function that is on the stack during a call of etch_sync has unknown callers, or
		 * calls setjmp, which may return again.
		 */
		x->failed |= x->up[k] && (x->returns[k] || (x->taken[k] && k != x->main));
		if (x->taken[k] && k != x->main)
			whole_add(x, k);
	}
	constructors_follow(x);
	for (n = 0; n < x->todo_count && !x->failed; n++)
		if ((x->todo[n] & UINT32_MAX) == UINT32_MAX)
			whole_follow(x, (uint32_t)(x->todo[n] >> 32), &spare[1]);
		else
			function_follow(x, (uint32_t)(x->todo[n] >> 32), x->todo[n] & UINT32_MAX, spare);
	func_code_free(&spare[0]);
	func_code_free(&spare[1]);
}

void setup_find(struct setup *u, struct scan *s)
{
	size_t n = s->funcs.count;
	struct search x = {.u = u};

	*u = (struct setup){.s = s};
	if (s->stripped || !n || !s->entries.built)
		return;
	u->whole = mem_zero(n, 1);
	u->after = mem_zero(n, sizeof(*u->after));
	x.taken = mem_zero(n, 1);
	x.up = mem_zero(n, 1);
	x.returns = mem_zero(n, 1);
	x.ends = mem_zero(n, 1);
	x.last = mem_zero(n, sizeof(*x.last));
	search_run(&x);
	u->known = !x.failed;
	free(x.edges);
	free(x.slots);
	free(x.taken);
	free(x.up);
	free(x.returns);
	free(x.ends);
	free(x.last);
	free(x.todo);
}

bool setup_runs_after(const struct setup *u, uint32_t section, uint64_t addr)
{
	const struct func *fn = u->known ? func_find(&u->s->funcs, section, addr) : NULL;
	struct func_code spare = {0};
	size_t k, i;
	bool after;

	if (!fn)
		return true;
	k = (size_t)(fn - u->s->funcs.funcs);
	if (u->whole[k] || !u->after[k])
		return u->whole[k];
	i = func_insn_at(func_code_of(&u->s->funcs, k, &spare), addr);
	after = i == SIZE_MAX || u->after[k][i];
	func_code_free(&spare);
	return after;
}

bool setup_is_init(const struct setup *u, uint32_t section, uint64_t addr)
{
	const struct func *fn;

	if (u->s && elf_name_is(u->s->file->sections[section].name, ETCH_SEC_INIT))
		return true;
	fn = u->init ? func_find(&u->s->funcs, section, addr) : NULL;
	return fn && u->init[fn - u->s->funcs.funcs];
}

void setup_free(struct setup *u)
{
	size_t i;

	for (i = 0; u->after && i < u->s->funcs.count; i++)
		free(u->after[i]);
	free(u->after);
	free(u->whole);
	free(u->init);
	memset(u, 0, sizeof(*u));
}
