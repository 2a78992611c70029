/* SPDX-License-Identifier: MIT */
/*
 * Determines for --stackval where a jump leads: inside its function, to another function, or, by the return thunk, back
 * to the caller.
 */
#include "arch/x86/opcodes.h"
#include "objtool/stack_walk.h"

#include <string.h>

/* If a symbol is a cold part, returns the length of its name without the suffix; otherwise 0. */
static size_t cold_length(const struct elf_symbol *y)
{
	const char *cold = strstr(y->name, ".cold");

	return cold ? (size_t)(cold - y->name) : 0;
}

/* True if the function whose paths are followed has this name, or has it as an alias. */
static bool is_named(const struct stack_walk *w, const char *name, size_t length)
{
	const struct symbol_index *x = &w->map->functions;
	size_t i = w->number;

	while (i && x->list[i - 1]->section == w->function->section && x->list[i - 1]->value == w->function->value)
		i--;
	for (; i < x->count && x->list[i]->section == w->function->section && x->list[i]->value == w->function->value; i++)
		if (strlen(x->list[i]->name) == length && !memcmp(x->list[i]->name, name, length))
			return true;
	return false;
}

bool stack_is_own(const struct stack_walk *w, const struct elf_symbol *y)
{
	size_t cold;

	if (y->section == w->function->section && y->value == w->function->value)
		return true;
	cold = cold_length(y);
	return cold && is_named(w, y->name, cold);
}

/*
 * Records a function that contains an address as the result of the last search (struct near_function), if it is the
 * last function that begins at or before the address. Then it contains all addresses up to its end or to the next
 * function.
 */
static void near_note(const struct stack_walk *w, uint64_t at, const struct elf_symbol *y)
{
	const struct symbol_index *x = &w->map->functions;
	const struct code_section *c = space_at(&w->map->space, at);
	size_t k = symbol_index_above(x, y->section, at - c->addr);
	uint64_t end = y->size < c->size - y->value ? y->value + y->size : c->size;

	if (!k || x->list[k - 1]->section != y->section || x->list[k - 1]->value != y->value)
		return;
	if (k < x->count && x->list[k]->section == y->section && x->list[k]->value < end)
		end = x->list[k]->value;
	*w->near = (struct near_function){c->addr + y->value, c->addr + end, y};
}

const struct elf_symbol *stack_function_at(const struct stack_walk *w, uint64_t at)
{
	const struct elf_symbol *y;
	size_t k;

	if (w->alternatives.marks[at - w->map->space.first] & ALTERNATIVE_REPLACEMENT)
		return w->function;
	if (at - w->near->from < w->near->to - w->near->from)
		return w->near->function;
	y = function_at(w->map, at, &k);
	if (y)
		near_note(w, at, y);
	return y;
}

static bool begins(const char *name, const char *prefix) { return !strncmp(name, prefix, strlen(prefix)); }

/* True if an address is the start of a function or, with --ibt, comes just after the endbr at the start. */
static bool is_start(const struct stack_walk *w, const struct code_section *c, const struct elf_symbol *y, uint64_t at)
{
	uint64_t start = c->addr + y->value;

	if (at == start)
		return true;
	return w->options->ibt && at == start + ENDBR_SIZE && insn_is_endbr(c->bytes + y->value, c->size - y->value);
}

enum stack_way stack_way_of(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                            uint64_t *to, const struct elf_symbol **called)
{
	const struct elf_symbol *y = symbol_in(w->map, part, at, s), *from = stack_function_at(w, at), *there;
	bool named = y && y->type != STT_SECTION, later = w->options->release->newer_validation;
	const struct code_section *c;
	const char *thunk;
	struct target t;
	size_t k;

	*called = named ? y : NULL;
	thunk = named && y->bind == STB_GLOBAL ? linux_thunk_name(w->options->release, y->name) : "";
	if (!strcmp(thunk, RETURN_THUNK))
		return WAY_RETURN;
	if (begins(thunk, "__x86_indirect_"))
		return WAY_INDIRECT;
	if (named && from)
		return WAY_AWAY;
	t = target_of(w->map, part, at, s);
	c = t.at ? space_at(&w->map->space, t.at) : NULL;
	if (!c)
		return WAY_NOWHERE;
	*to = t.at;
	there = function_at(w->map, t.at, &k);
	if (!there || !is_start(w, c, there, t.at))
		return WAY_INSIDE;
	*called = there;
	if (!from || !w->function)
		return later && symbol_index_find(&w->map->labels, part->code->section, at - part->code->addr) ? WAY_AWAY
		                                                                                               : WAY_INSIDE;
	if (stack_is_own(w, there) || (cold_length(there) && !cold_length(from)))
		return WAY_INSIDE;
	return WAY_AWAY;
}
