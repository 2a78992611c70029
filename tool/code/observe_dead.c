/* SPDX-License-Identifier: MIT */
/* ETCH-F002: instructions that nothing reaches, and what would make them reachable. */
#include "code/noreturn.h"
#include "code/observe_parts.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_zero(const struct observe *o, uint64_t off, uint64_t end)
{
	while (off < end && !o->f->piece->bytes[off])
		off++;
	return off == end;
}

/* The instructions of a run, up to the one at *final, without what only fills space: nops, traps, zeros. False:
 * there are none, or it is data. */
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

static bool has_open_jump(const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->jump_count; i++)
		if (!f->jumps[i].entries)
			return true;
	return false;
}

/*
 * Is it known that a function does not return, other than by calls of it that have nothing
 * behind them? error(3) returns or not by its first argument.
 */
static bool is_certain(const struct observe *o, uint64_t target)
{
	const struct flow_env *env = o->f->env;
	const struct piece *p;

	if (target & FLOW_EXTERN) {
		target &= ~FLOW_EXTERN;
		return target < env->file->symbol_count && noreturn_known(env->file->symbols[target].name);
	}
	p = target & FLOW_SLOT ? NULL : piece_at(env, target);
	return p && !p->plt;
}

/* What could lead to code that lies behind s. */
static void words_way(const struct observe *o, const struct step *s, uint32_t before, char *out, size_t size)
{
	static const char *const nothing = "and nothing that is reached leads here";
	char what[WORDS_MOST];

	if (has_open_jump(o->f)) {
		snprintf(out, size, "only an indirect jump whose table is not to be seen could lead here");
	} else if (!s || o->f->start == START_PART || (s->flow != FLOW_CALL && !o->f->piece->named)) {
		/* a switch of a function may lead into its cold part */
		snprintf(out, size, "only an indirect jump of another part of the function could lead here");
	} else if (s->flow == FLOW_CALL || s->flow == FLOW_CALL_IND) {
		words_target(o, flow_exit_target(s), what);
		snprintf(out, size, "it lies behind a call of %s, which does not return, %s", what, nothing);
	} else if (s->op == STEP_SYSCALL) {
		snprintf(out, size, "it lies behind a system call that ends the program, %s", nothing);
	} else {
		words_insn(o, o->f->step_at[before], what);
		snprintf(out, size, "it lies behind `%s`, %s", what, nothing);
	}
}

void observe_dead(struct observe *o, uint64_t off, uint64_t end, uint32_t before)
{
	const struct step *s;
	char insn[WORDS_MOST], why[WORDS_MOST + 120];
	struct finding *x;
	uint64_t final = 0;
	unsigned count;

	/* Where what nobody names ends is a guess: other functions may follow. */
	if ((o->f->piece->fde < 0 && !o->f->piece->named) || !run_measure(o, &off, &end, &final, &count))
		return;
	s = before == NO_STEP ? NULL : &o->f->steps[before];
	if (s && (s->flow == FLOW_CALL || s->flow == FLOW_CALL_IND) && !is_certain(o, flow_exit_target(s)))
		return;
	words_way(o, s, before, why, sizeof(why));
	x = OBSERVE(o, "ETCH-F002", 0, o->f->piece->start + off, "%u instruction%s (%" PRIu64 " bytes) %s not reached: %s", count,
	            count == 1 ? "" : "s", end - off, count == 1 ? "is" : "are", why);
	words_insn(o, off, insn);
	OBSERVE_FACT_AT(o, x, off, "the first", "%s", insn);
	if (count > 1) { /* observe_edges() asks for it */
		words_insn(o, final, insn);
		OBSERVE_FACT_AT(o, x, final, "the last", "%s", insn);
	}
	if (s) {
		words_insn(o, o->f->step_at[before], insn);
		OBSERVE_FACT_AT(o, x, o->f->step_at[before], "lies behind", "%s", insn);
	}
}
