/* SPDX-License-Identifier: MIT */
/*
 * Compares that the link step turns round. `cmp %reg,obj` has the object on the side where no instruction takes an
 * immediate. With its operands exchanged, and with them the conditions of all jumps, setcc and cmov that ask for its
 * outcome, it is a compare as any other. That is done once, in the file; what a set changes later is the compare alone.
 */
#include "analysis/addresses/flags.h"
#include "site/classify.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* Turns instruction i into the next place of the list. */
static bool turned_add(struct function_scan *c, size_t i)
{
	struct scan *s = c->scan;
	const struct insn *in = &c->func->code->insns[i];
	struct turned t = {.addr = in->addr, .len = in->len};

	if (!insn_turned(c->func->fn->bytes + (in->addr - c->func->fn->start), in->len, t.bytes))
		return false;
	mem_room(&s->turned, &s->turned_room, s->turned_count, sizeof(*s->turned));
	s->turned[s->turned_count++] = t;
	return true;
}

void site_compare_turn(struct function_scan *c, size_t insn)
{
	size_t n = c->func->code->count, before = c->scan->turned_count, i;
	uint8_t *readers = mem_alloc(n + 1, 1);
	bool all = func_flag_readers(c->func, c->live_flags, insn, readers) && turned_add(c, insn);

	for (i = 0; i < n && all; i++)
		if (readers[i])
			all = turned_add(c, i);
	if (!all)
		c->scan->turned_count = before;
	free(readers);
}

void compares_turn(const struct scan *s, struct elf_file *f)
{
	size_t i;

	for (i = 0; i < s->turned_count; i++) {
		uint8_t *p = (uint8_t *)elf_at(f, s->turned[i].addr, s->turned[i].len);

		if (p)
			memcpy(p, s->turned[i].bytes, s->turned[i].len);
	}
}
