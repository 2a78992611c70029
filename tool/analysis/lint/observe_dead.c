/* SPDX-License-Identifier: MIT */
/* Adds ETCH-F002 for instructions that no path reaches, and says why. Padding and data do not count. */
#include "analysis/runtimes/runtimes.h"
#include "analysis/lint/observe_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* Are the bytes at offsets [off, end) zero? */
static bool is_zero(const struct observe *o, uint64_t off, uint64_t end)
{
	while (off < end && !o->f->in.range->bytes[off])
		off++;
	return off == end;
}

/* Removes nops, traps and zeros from both ends of the offsets [*off, *end). Sets *count to the number of instructions
 * left, and *final to the offset of the last of them. Returns false if none is left, or if the bytes do not decode and
 * therefore are data. */
static bool run_measure(struct observe *o, uint64_t *off, uint64_t *end, uint64_t *final, unsigned *count)
{
	uint64_t at = *off, last = 0;
	bool begun = false;

	*count = 0;
	while (at < *end && !is_zero(o, at, *end)) {
		uint32_t i = flow_step(o->f, at);
		const struct step *s;

		if (i == NO_STEP)
			return false;
		s = &o->f->steps[i];
		if (!s->padding && s->flow != FLOW_STOP && s->op != STEP_HALT) {
			if (!begun)
				*off = at;
			begun = true;
			*final = at;
			last = at + s->len;
			++*count;
		}
		at += s->len;
	}
	*end = last;
	return begun && at <= o->size;
}

/* Does the code range have an indirect jump with unknown targets? */
static bool has_open_jump(const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->jump_count; i++)
		if (!f->jumps[i].entries)
			return true;
	return false;
}

/*
 * Does the name or the code of a function prove that it never returns? Elsewhere, it is also evidence that no code
 * follows calls of it. That proves nothing here: whether error(3) returns depends on its first argument.
 */
static bool is_certain(const struct observe *o, uint64_t target)
{
	const struct flow_env *env = o->f->in.env;
	const struct code_range *p;

	if (target & FLOW_EXTERN) {
		target &= ~FLOW_EXTERN;
		return target < env->file->symbol_count && runtimes_noreturn(env->file->symbols[target].name);
	}
	p = target & FLOW_SLOT ? NULL : range_at(env, target);
	return p && !p->plt;
}

/* Writes why the code after step s is not reached, or what could still lead there. `before` is the index of s; s is
 * null if no reachable step precedes the code. */
static void describe_way(const struct observe *o, const struct step *s, uint32_t before, char *out, size_t size)
{
	static const char *const nothing = "and no reachable code leads here";
	char what[DESCRIPTION_MOST];

	if (has_open_jump(o->f)) {
		snprintf(out, size, "only an indirect jump with an unknown table could lead here");
	} else if (!s || o->f->in.start == START_PART || (s->flow != FLOW_CALL && !o->f->in.range->named)) {
		/* A switch in the hot part may jump to the cold part. */
		snprintf(out, size, "only an indirect jump in another part of the function could lead here");
	} else if (s->flow == FLOW_CALL || s->flow == FLOW_CALL_IND) {
		describe_target(o, flow_exit_target(s), what);
		snprintf(out, size, "it follows a call of %s, which does not return, %s", what, nothing);
	} else if (s->op == STEP_SYSCALL) {
		snprintf(out, size, "it follows a system call that ends the program, %s", nothing);
	} else {
		describe_insn(o, o->f->step_at[before], what);
		snprintf(out, size, "it follows `%s`, %s", what, nothing);
	}
}

void observe_dead(struct observe *o, uint64_t off, uint64_t end, uint32_t before)
{
	const struct step *s;
	char insn[DESCRIPTION_MOST], why[DESCRIPTION_MOST + 120];
	struct finding *x;
	uint64_t final = 0;
	unsigned count;

	/* Without a symbol or an FDE, the end of the code range is inferred: the bytes may belong to other functions. */
	if ((o->f->in.range->fde < 0 && !o->f->in.range->named) || !run_measure(o, &off, &end, &final, &count))
		return;
	s = before == NO_STEP ? NULL : &o->f->steps[before];
	if (s && (s->flow == FLOW_CALL || s->flow == FLOW_CALL_IND) && !is_certain(o, flow_exit_target(s)))
		return;
	describe_way(o, s, before, why, sizeof(why));
	x = OBSERVE(o, "ETCH-F002", 0, o->f->in.range->start + off,
	            "%u instruction%s (%" PRIu64 " bytes) %s not reached: %s", count, count == 1 ? "" : "s", end - off,
	            count == 1 ? "is" : "are", why);
	describe_insn(o, off, insn);
	OBSERVE_FACT_AT(o, x, off, "the first", "%s", insn);
	if (count > 1) { /* observe_edges() looks for the fact that is labelled "the last" */
		describe_insn(o, final, insn);
		OBSERVE_FACT_AT(o, x, final, "the last", "%s", insn);
	}
	if (s) {
		describe_insn(o, o->f->step_at[before], insn);
		OBSERVE_FACT_AT(o, x, o->f->step_at[before], "follows", "%s", insn);
	}
}
