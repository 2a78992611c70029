/* SPDX-License-Identifier: MIT */
/*
 * GHC, for Haskell (arch/x86/ghc_code.h). Its code keeps its frames on a stack of its own, to which rbp points (Sp),
 * and leaves rsp as StgRun has set it. It returns by jumps to code that follows info tables.
 * analysis/interproc/own_stack.c decides which code ranges of a file contain such code.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/flow/flow_internal.h"
#include "analysis/runtimes/columns.h"
#include "arch/x86/ghc_code.h"

/* Most repetitions of ghc_follow() and the search for jump tables, each of which may find more for the other. */
#define GHC_TIMES 8

/* Is this indirect jump, in state s, the one by which StgRun enters code of GHC? If so, sets *out to the rule of all
 * such code. */
static bool ghc_is_run(const struct step *in, const struct state *s, struct etch_rule *out)
{
	const struct value *code, *base = &s->reg[GHC_BASE];

	if (in->deref || in->a >= 16)
		return false;
	code = &s->reg[in->a];
	if (code->kind != VALUE_ENTRY || code->reg != GHC_RUN_CODE || base->kind != VALUE_ENTRY ||
	    base->reg != GHC_RUN_REGISTERS)
		return false;
	state_rule(s, out);
	/* The rule must not depend on rbp, which is Sp in code of GHC. */
	return out->kind == ETCH_RULE_CALL && (out->cfa & ~ETCH_CFA_DEREF) == ETCH_REG_RSP && out->cfa_off > GHC_RESERVED &&
	       out->ra == ETCH_RA_CFA && (out->bp == ETCH_BP_CFA || out->bp == ETCH_BP_RSP);
}

/* May a code range be code of GHC? Such code has no .eh_frame and is not in the PLT. */
static bool ghc_may_be(const struct code_range *p) { return p->fde < 0 && !p->plt && !p->function && !p->outermost; }

/* Does code of GHC begin at an address, i.e. is an info table in front of it? */
static bool ghc_begins(const struct flow_env *env, uint64_t addr)
{
	const struct code_section *c = space_at(env->space, addr);

	return c && ghc_is_entry(c->bytes + (addr - c->addr), addr, addr - c->addr);
}

/* If the code range takes addresses of code inside itself, as return addresses, enters that code. Returns true if any
 * of it is new. */
static bool ghc_follow(struct flow *f)
{
	bool some = false;
	struct state entry;

	state_entry(&entry);
	for (; f->in.own_stack && f->walk.runtime_next < f->step_count; f->walk.runtime_next++) {
		const struct step *in = &f->steps[f->walk.runtime_next];
		uint64_t to = (uint64_t)in->imm, off = to - f->in.range->start;

		if (!(f->seen[f->walk.runtime_next] & FLOW_WALKED) || in->flow != FLOW_NEXT || !flow_inside(f, to) ||
		    !flow_takes_address(f, in) || flow_walked(f, off) || !ghc_begins(f->in.env, to))
			continue;
		flow_enter(f, to, &entry);
		flow_walk(f);
		some = true;
	}
	return some;
}

/* Does the code range contain a jump table whose targets are not known? */
static bool ghc_switches(const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->step_count; i++) {
		const struct step *in = &f->steps[i];

		if ((f->seen[i] & FLOW_WALKED) && in->flow == FLOW_JUMP_IND && (!in->deref || in->index != INSN_NO_REG) &&
		    !(in->number && f->jumps[in->number - 1].entries))
			return true;
	}
	return false;
}

/* Is rsp at all indirect jumps as StgRun has set it? Sets *out to a state in which only rsp is known. Only looks at
 * jumps that earlier calls have not looked at, as jumps_agree() does. */
static bool ghc_agree(struct flow *f, struct state *out)
{
	struct flow_agreed *a = &f->walk.agreed;
	unsigned r;

	state_entry(out);
	for (r = 0; r < 16; r++)
		if (r != ETCH_REG_RSP)
			out->reg[r] = (struct value){0};
	out->known = 1u << ETCH_REG_RSP;
	for (; a->upto < f->jump_count; a->upto++)
		a->differ |=
			memcmp(&f->jumps[a->upto].state.reg[ETCH_REG_RSP], &out->reg[ETCH_REG_RSP], sizeof(struct value)) != 0;
	return !a->differ;
}

/* Returns the size of the info table at an offset, if reached code follows it; 0 if there is none. */
static uint64_t ghc_table(const struct flow *f, uint64_t off)
{
	uint64_t size = f->in.range->end - f->in.range->start, k;

	for (k = GHC_TABLE_LEAST; off % 8 == 0 && k <= GHC_TABLE_MOST && off + k < size; k += 8)
		if (flow_walked(f, off + k) && ghc_begins(f->in.env, f->in.range->start + off + k))
			return k;
	return 0;
}

/* Sets *out to the rule for the GHC release that a library's name states, e.g. libHSbase-4.15.1.0-ghc9.0.2.so. Returns
 * 1; -1 if the release is unknown; 0 if the name is not that of such a library. */
static int ghc_library(const char *name, struct etch_rule *out)
{
	const char *at = strncmp(name, "libHS", 5) ? NULL : strstr(name, "-ghc");
	unsigned major, minor;

	if (!at || sscanf(at, "-ghc%3u.%3u.", &major, &minor) != 2)
		return 0;
	return ghc_convention(major, minor, out) ? 1 : -1;
}

const struct flow_runtime ghc_flow = {
	.may_be = ghc_may_be,
	.begins = ghc_begins,
	.library = ghc_library,
	.reserved = GHC_RESERVED,
	.enters = ghc_is_run,
	.follow = ghc_follow,
	.follow_most = GHC_TIMES,
	.switches = ghc_switches,
	.agree = ghc_agree,
	.table = ghc_table,
};
