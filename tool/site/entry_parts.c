/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions that are parts of other functions, such as cold parts in .text.unlikely: only direct jumps of the
 * other function lead to a part. A jump back from a part belongs to the function, so that its target is not an entry.
 */
#include "site/entries_internal.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>

/* Returns the number of the function that contains an address, or UINT32_MAX. */
static uint32_t number_at(const struct builder *b, uint32_t section, uint64_t addr)
{
	const struct func *fn = section ? func_find(b->funcs, section, addr) : NULL;

	return fn ? (uint32_t)(fn - b->funcs->funcs) : UINT32_MAX;
}

void part_open(struct builder *b, uint32_t section, uint64_t addr)
{
	uint32_t k = b->open ? number_at(b, section, addr) : UINT32_MAX;

	if (k != UINT32_MAX)
		b->open[k] = true;
}

void part_jump_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t to)
{
	uint32_t k = number_at(b, section, to);
	struct entry x = {section, to, false, b->open != NULL};

	if (k == UINT32_MAX)
		return;
	if (b->open) {
		mem_reserve(&b->jumps, &b->jump_capacity, b->jump_count, sizeof(*b->jumps));
		b->jumps[b->jump_count++] = (struct jump){(uint32_t)(fn - b->funcs->funcs), k, in->addr, to};
	}
	if (b->funcs->funcs[k].start != to)
		entry_append(&b->out->list, &b->out->count, &b->out->capacity, &x);
}

/* Opens the functions that other modules, the dynamic linker or the kernel may enter (part_open()). */
static void symbols_open(struct builder *b)
{
	static const int64_t called[] = {DT_INIT, DT_FINI};
	const struct elf_file *f = b->f;
	uint64_t at;
	uint32_t i;

	for (i = 1; i < f->symbol_count + f->dynsym_count; i++) {
		const struct elf_symbol *y = i < f->symbol_count ? &f->symbols[i] : &f->dynsyms[i - f->symbol_count];

		if (y->section && (y->bind != STB_LOCAL || y->type == STT_GNU_IFUNC))
			part_open(b, y->section, y->value);
	}
	for (i = 0; i < sizeof(called) / sizeof(called[0]); i++)
		if (elf_dynamic(f, called[i], &at))
			part_open(b, elf_section_at(f, at), at);
	part_open(b, elf_section_at(f, f->eh.e_entry), f->eh.e_entry);
}

static int jump_order(const void *a, const void *b)
{
	const struct jump *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->insn < y->insn ? -1 : x->insn > y->insn;
}

static int return_order(const void *a, const void *b)
{
	const struct track_return *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->insn < y->insn ? -1 : x->insn > y->insn;
}

/* Can function k be decoded, and does control never continue from the function before it into it? */
static bool is_apart(struct builder *b, uint32_t k)
{
	const struct func *fn = &b->funcs->funcs[k];
	struct func_code spare = {0};
	const struct func_code *code = func_code_of(b->funcs, k, &spare);
	bool apart = !fn->vague && code->whole;

	if (apart && k && fn[-1].section == fn->section && fn[-1].end == fn->start) {
		size_t last;

		code = func_code_of(b->funcs, k - 1, &spare);
		for (last = code->count; last && code->insns[last - 1].padding; last--)
			;
		apart =
			code->whole && last && code->insns[last - 1].flow != FLOW_NEXT && code->insns[last - 1].flow != FLOW_BRANCH;
	}
	func_code_free(&spare);
	return apart;
}

/* Returns the index of the first jump to a target at or after an address in function `to`. The jumps are sorted. */
static size_t jumps_from(const struct builder *b, uint32_t to, uint64_t target)
{
	return SEARCH(b->jump_count, i, b->jumps[i].to < to || (b->jumps[i].to == to && b->jumps[i].target < target));
}

/* Does a direct jump of function `from` lead into function `to`? */
static bool leads_to(const struct builder *b, uint32_t from, uint32_t to)
{
	size_t i;

	for (i = jumps_from(b, to, 0); i < b->jump_count && b->jumps[i].to == to; i++)
		if (b->jumps[i].from == from)
			return true;
	return false;
}

/*
 * Sets ways[] for each part that jumps back: only jumps of one function lead into it. The jumps are sorted, so all
 * jumps to one function are consecutive.
 */
static void ways_find(struct builder *b, uint32_t *ways)
{
	size_t i, n;

	for (i = 0; i < b->jump_count; i = n) {
		const struct jump *x = &b->jumps[i];
		bool sole = !b->open[x->to];

		for (n = i; n < b->jump_count && b->jumps[n].to == x->to; n++)
			sole &= b->jumps[n].from == x->from;
		if (sole && leads_to(b, x->to, x->from) && is_apart(b, x->to))
			ways[x->to] = (uint32_t)(n - i);
	}
}

/* Does the jump x lead from a part back into the function to which the part belongs? */
static bool is_return(const struct builder *b, const uint32_t *ways, const struct jump *x)
{
	return ways[x->from] && b->jumps[jumps_from(b, x->from, 0)].from == x->to;
}

/* Do only jumps of parts back into their function lead to an entry? */
static bool is_by_part(const struct builder *b, const uint32_t *ways, const struct entry *x)
{
	uint32_t k = x->by_jump ? number_at(b, x->section, x->addr) : UINT32_MAX;
	size_t i;

	if (k == UINT32_MAX)
		return false;
	for (i = jumps_from(b, k, x->addr); i < b->jump_count && b->jumps[i].to == k && b->jumps[i].target == x->addr; i++)
		if (!is_return(b, ways, &b->jumps[i]))
			return false;
	return true;
}

void parts_build(struct builder *b)
{
	struct entries *x = b->out;
	size_t i, capacity = 0;

	x->by_part = mem_zero(x->count + 1, sizeof(*x->by_part));
	if (!b->open)
		return;
	x->ways = mem_zero(b->funcs->count + 1, sizeof(*x->ways));
	symbols_open(b);
	if (b->jump_count)
		qsort(b->jumps, b->jump_count, sizeof(*b->jumps), jump_order);
	ways_find(b, x->ways);
	for (i = 0; i < b->jump_count; i++)
		if (is_return(b, x->ways, &b->jumps[i])) {
			mem_reserve(&x->returns, &capacity, x->return_count, sizeof(*x->returns));
			x->returns[x->return_count++] =
				(struct track_return){b->jumps[i].insn, b->jumps[i].target, b->jumps[i].from};
		}
	if (x->return_count)
		qsort(x->returns, x->return_count, sizeof(*x->returns), return_order);
	for (i = 0; i < x->count; i++)
		x->by_part[i] = is_by_part(b, x->ways, &x->list[i]);
}
