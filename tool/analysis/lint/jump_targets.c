/* SPDX-License-Identifier: MIT */
/* Adds ETCH-H004 (observe.h), in one pass over the indirect jumps of a code range and the entries of their tables. */
#include "analysis/lint/observe.h"

#include "arch/x86/opcodes.h"
#include "analysis/flow/flow_internal.h"

#include <inttypes.h>
#include <string.h>

/* Is there an endbr64 at a target? Returns true for targets outside of the code, which are not the subject of this
 * finding. */
static bool target_is_good(const struct flow *f, uint64_t target)
{
	const struct code_section *c = space_at(f->in.env->space, target);

	return !c || insn_is_endbr(c->bytes + (target - c->addr), c->size - (target - c->addr));
}

/* Adds one finding for a table, at its first target without endbr64, which also says how many more there are. `at` is
 * the address of the jump. */
static void table_look(const struct flow *f, uint64_t at, const struct flow_jump *j, struct findings *out)
{
	uint64_t first = 0;
	struct finding *x;
	unsigned i, n = 0;

	for (i = 0; i < j->entries; i++) {
		uint64_t target = jump_table_target(f, &j->what, i);

		if (target_is_good(f, target))
			continue;
		first = n++ ? first : target;
	}
	if (!n)
		return;
	x = finding_add(out, "ETCH-H004", 0, first,
	                n > 1 ? "this target of a tracked jump table has no endbr64, nor have %u more"
	                      : "this target of a tracked jump table has no endbr64",
	                n - 1);
	finding_fact_at(x, 0, at, "the jump", "through the table at %#" PRIx64 ", %u entries",
	                (uint64_t)(uint32_t)j->what.off, j->entries);
}

void targets_observe(struct flow *f, struct findings *out)
{
	size_t i;

	for (i = 0; i < f->step_count; i++) {
		const struct step *in = &f->steps[i];

		if (in->flow != FLOW_JUMP_IND || !(f->seen[i] & FLOW_SCANNED) || !in->number ||
		    insn_is_notrack(f->in.range->bytes + f->step_at[i], in->len))
			continue;
		table_look(f, f->in.range->start + f->step_at[i], &f->jumps[in->number - 1], out);
	}
}
