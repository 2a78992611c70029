/* SPDX-License-Identifier: MIT */
/* ETCH-F002: instructions that nothing reaches, and what would make them reachable. */
#include "code/observe_parts.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_zero(const struct observe *o, uint64_t off, uint64_t end)
{
	while (off < end && !o->f->piece->bytes[off])
		off++;
	return off == end;
}

/* The instructions of a run, without what only fills space: nops, traps, zeros. False:
 * there are none, or it is data. */
static bool run_measure(struct observe *o, uint64_t *off, uint64_t *end, unsigned *count)
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

void observe_dead(struct observe *o, uint64_t off, uint64_t end, uint32_t before)
{
	const struct step *s;
	char insn[WORDS_MOST], why[WORDS_MOST + 80], to[WORDS_MOST];
	struct finding *x;
	unsigned count;
	uint64_t target;

	if (!run_measure(o, &off, &end, &count))
		return;
	s = before == NO_STEP ? NULL : &o->f->steps[before];
	if (has_open_jump(o->f)) {
		snprintf(why, sizeof(why), "only an indirect jump whose table is not to be seen could lead here");
	} else if (!s) {
		snprintf(why, sizeof(why), "no direct jump leads here, only an indirect one could");
	} else if (s->flow == FLOW_CALL || s->flow == FLOW_CALL_IND) {
		target = flow_exit_target(s);
		words_target(o, target, to);
		snprintf(why, sizeof(why), "it lies behind a call of %s, which does not return, and nothing jumps here",
		         target ? to : "something");
	} else if (s->op == STEP_SYSCALL) {
		snprintf(why, sizeof(why), "it lies behind a system call that ends the program, and nothing jumps here");
	} else {
		words_insn(o, o->f->step_at[before], insn);
		snprintf(why, sizeof(why), "it lies behind `%s`, and nothing jumps here", insn);
	}
	x = OBSERVE(o, "ETCH-F002", 0, o->f->piece->start + off, "%u instruction%s (%" PRIu64 " bytes) %s not reached: %s", count,
	            count == 1 ? "" : "s", end - off, count == 1 ? "is" : "are", why);
	words_insn(o, off, insn);
	OBSERVE_FACT_AT(o, x, off, "the first", "%s", insn);
	if (s) {
		words_insn(o, o->f->step_at[before], insn);
		OBSERVE_FACT_AT(o, x, o->f->step_at[before], "lies behind", "%s", insn);
	}
}
