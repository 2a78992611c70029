/* SPDX-License-Identifier: MIT */
/*
 * Finds and writes the compares that the link step commutes. `cmp %reg,obj` has the object where no encoding takes an
 * immediate. With its operands exchanged, and the condition of every jump, setcc and cmov that reads its flags swapped,
 * it becomes an ordinary site. The file is changed once; later sets only rewrite the compare.
 */
#include "analysis/addresses/flags.h"
#include "site/classify.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* Appends the commuted form of instruction i to the list. Returns false if it has none. */
static bool commuted_add(struct function_scan *c, size_t i)
{
	struct scan *s = c->scan;
	const struct insn *in = &c->func->code->insns[i];
	struct commuted t = {.addr = in->addr, .len = in->len};

	if (!insn_commute(c->func->fn->bytes + (in->addr - c->func->fn->start), in->len, t.bytes))
		return false;
	mem_reserve(&s->commuted, &s->commuted_capacity, s->commuted_count, sizeof(*s->commuted));
	s->commuted[s->commuted_count++] = t;
	return true;
}

void site_compare_commute(struct function_scan *c, size_t insn)
{
	size_t n = c->func->code->count, before = c->scan->commuted_count, i;
	uint8_t *readers = mem_alloc(n + 1, 1);
	bool all = func_flag_readers(c->func, c->live_flags, insn, readers) && commuted_add(c, insn);

	for (i = 0; i < n && all; i++)
		if (readers[i])
			all = commuted_add(c, i);
	if (!all)
		c->scan->commuted_count = before;
	free(readers);
}

void compares_commute(const struct scan *s, struct elf_file *f)
{
	size_t i;

	for (i = 0; i < s->commuted_count; i++) {
		uint8_t *p = (uint8_t *)elf_at(f, s->commuted[i].addr, s->commuted[i].len);

		if (p)
			memcpy(p, s->commuted[i].bytes, s->commuted[i].len);
	}
}
