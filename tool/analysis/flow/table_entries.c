/* SPDX-License-Identifier: MIT */
/* Reads the entries of jump tables: from the file's bytes, or from the relocation that fills the word when the file is
 * loaded, since linkers may leave 0 there. */
#include "analysis/flow/flow_internal.h"
#include "shared/search.h"

#include <string.h>

/* Returns the target of the table entry at `bytes`, which is an address, or 4 bytes relative to the table. */
static uint64_t entry_target(const struct value *t, const uint8_t *bytes)
{
	uint64_t target;
	int32_t rel;

	if (t->reg == 8) {
		memcpy(&target, bytes, 8);
		return target;
	}
	memcpy(&rel, bytes, 4);
	return (uint64_t)(uint32_t)t->off + (uint64_t)(int64_t)rel;
}

/* Does a relocation make the word at an address an address of code? Then *target is that address of code. */
static bool is_relocated(const struct flow_env *env, uint64_t at, uint64_t *target)
{
	size_t i = SEARCH(env->pointer_count, k, env->pointers[k].place < at);

	if (i == env->pointer_count || env->pointers[i].place != at)
		return false;
	*target = env->pointers[i].target;
	return true;
}

uint64_t jump_table_entry(const struct flow_env *env, const struct code_range *p, const struct value *t, unsigned i)
{
	uint64_t at = (uint64_t)(uint32_t)t->off + (uint64_t)i * t->reg, target;
	const uint8_t *bytes;

	if (t->reg == 8 && is_relocated(env, at, &target))
		return target;
	bytes = at >= p->start && at < p->end && p->end - at >= t->reg ? p->bytes + (at - p->start)
	                                                               : elf_at(env->file, at, t->reg);
	return bytes ? entry_target(t, bytes) : 0;
}

uint64_t jump_table_target(const struct flow *f, const struct value *t, unsigned i)
{
	return jump_table_entry(f->in.env, f->in.range, t, i);
}
