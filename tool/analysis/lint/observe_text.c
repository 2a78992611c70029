/* SPDX-License-Identifier: MIT */
/* Writes the text of instructions, targets and states for findings. Text that is longer than DESCRIPTION_MOST is
 * truncated. */
#include "analysis/lint/observe_internal.h"

#include "arch/x86/insn.h"
#include "arch/x86/rule_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void describe_insn(const struct observe *o, uint64_t off, char *out)
{
	const struct code_range *p = o->f->in.range;

	if (off < o->size)
		insn_text(p->bytes + off, o->size - off, p->start + off - o->base, out, DESCRIPTION_MOST);
	else
		out[0] = '\0';
}

/* Appends text to `out`, which is truncated at DESCRIPTION_MOST. */
static void add(char *out, const char *text)
{
	size_t n = strlen(out);

	snprintf(out + n, DESCRIPTION_MOST - n, "%s", text);
}

void describe_value(struct value v, char *out)
{
	switch (v.kind) {
	case VALUE_CFA: snprintf(out, DESCRIPTION_MOST, "CFA%+d", v.off); break;
	case VALUE_ENTRY:
		if (v.reg == REG_RA)
			snprintf(out, DESCRIPTION_MOST, "the return address");
		else
			snprintf(out, DESCRIPTION_MOST, "the caller's %s", reg_text(v.reg));
		break;
	case VALUE_ALIGNED: snprintf(out, DESCRIPTION_MOST, "an address in the realigned frame"); break;
	case VALUE_CONST: snprintf(out, DESCRIPTION_MOST, "%d", v.off); break;
	case VALUE_PLACE: snprintf(out, DESCRIPTION_MOST, "the address %#x", (unsigned)v.off); break;
	default: snprintf(out, DESCRIPTION_MOST, "not known");
	}
}

/* Appends the saved registers, beginning with the one nearest to the CFA. */
static void describe_saved(const struct state *s, char *out)
{
	char part[64];
	int32_t below = 0;

	for (;;) {
		const struct slot *best = NULL;
		unsigned i;

		for (i = 0; i < s->slot_count; i++) {
			const struct slot *x = &s->slot[i];

			if (!x->aligned && x->value.kind == VALUE_ENTRY && x->value.reg != REG_RA && x->at < below &&
			    (!best || x->at > best->at))
				best = x;
		}
		if (!best)
			return;
		below = best->at;
		snprintf(part, sizeof(part), "; %s saved at CFA%+d", reg_text(best->value.reg), best->at);
		add(out, part);
	}
}

void describe_state(const struct state *s, char *out)
{
	struct value sp = s->reg[ETCH_REG_RSP], bp = s->reg[ETCH_REG_RBP];
	char part[64];

	if (sp.kind != VALUE_CFA)
		snprintf(out, DESCRIPTION_MOST, "rsp is not known");
	else if (sp.off == -8)
		snprintf(out, DESCRIPTION_MOST, "rsp is CFA-8, as on entry");
	else if (sp.off < -8)
		snprintf(out, DESCRIPTION_MOST, "rsp is CFA%+d (%" PRId64 " bytes pushed)", sp.off, -8 - (int64_t)sp.off);
	else
		snprintf(out, DESCRIPTION_MOST, "rsp is CFA%+d (%" PRId64 " bytes more popped than pushed)", sp.off,
		         (int64_t)sp.off + 8);
	if (bp.kind == VALUE_CFA) {
		snprintf(part, sizeof(part), "; rbp is CFA%+d", bp.off);
		add(out, part);
	}
	describe_saved(s, out);
}

void describe_target(const struct observe *o, uint64_t target, char *out)
{
	const struct flow_env *env = o->f->in.env;
	const struct code_section *c;
	uint64_t n = target & ~FLOW_EXTERN;

	if (target & FLOW_EXTERN) {
		const char *name = n < env->file->symbol_count ? env->file->symbols[n].name : "";

		snprintf(out, DESCRIPTION_MOST, "%s", name[0] ? name : "an unnamed symbol");
	} else if (target & FLOW_SLOT) {
		snprintf(out, DESCRIPTION_MOST, "the address stored at %#" PRIx64, target & ~FLOW_SLOT);
	} else if ((c = space_at(env->space, target))) {
		symbol_index_describe(&env->names, env->file, c->section, elf_is_object(env->file) ? target - c->addr : target,
		                      out, DESCRIPTION_MOST);
	} else {
		snprintf(out, DESCRIPTION_MOST, "%#" PRIx64, target);
	}
}
