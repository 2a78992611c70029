/* SPDX-License-Identifier: MIT */
/* Records and prints the steps of paths for --backtrace (warning_backtrace.h). */
#include "objtool/warning_backtrace.h"
#include "support/memory.h"

#include <stdlib.h>

uint32_t backtrace_step_add(struct backtrace *b, uint32_t from, uint64_t at, enum turn turn)
{
	mem_reserve(&b->list, &b->capacity, b->count, sizeof(*b->list));
	b->list[b->count++] = (struct backtrace_step){.at = at, .from = from, .turn = (uint8_t)turn};
	return (uint32_t)b->count;
}

static void line_print(const struct code_map *map, struct place_names *names, uint64_t at, const char *mark)
{
	const struct code_section *c = space_at(&map->space, at);

	if (c)
		objtool_trace(map->f, names, c->section, at - c->addr, mark);
}

void backtrace_print(const struct backtrace *b, const struct code_map *map, struct place_names *names, uint32_t last)
{
	static const char *const marks[] = {"", "(alt)", "(branch)", "(branch-cond)", "(call)"};

	for (; last; last = b->list[last - 1].from)
		line_print(map, names, b->list[last - 1].at, marks[b->list[last - 1].turn]);
}

void backtrace_begin_print(const struct backtrace *b, const struct code_map *map, struct place_names *names,
                           uint64_t at, const char *mark)
{
	if (b->on)
		line_print(map, names, at, mark);
}

void backtrace_clear(struct backtrace *b) { b->count = 0; }

void backtrace_free(struct backtrace *b) { free(b->list); }
