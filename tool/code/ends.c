/* SPDX-License-Identifier: MIT */
/* Where a function ends of which nothing says where: behind a call that does not come back, as the padding tells. */
#include "arch/x86/cet.h"
#include "code/flow_parts.h"

/* More than gcc fills up in front of a loop (-falign-loops=16:11:8). clang fills up to 15 bytes there. */
#define PADDING_LOOP 11u
#define BEGINNING    8u /* instructions of a function in which its registers are told from its caller's */

/* As functions begin: endbr64, or a callee-saved register pushed, or room made on the stack. */
static bool begins_function(struct flow *f, uint64_t off)
{
	const struct piece *p = f->piece;
	uint32_t i = flow_step(f, off);
	const struct step *s = i == NO_STEP ? NULL : &f->steps[i];

	if (!s)
		return false;
	return insn_is_endbr(p->bytes + off, p->end - p->start - off) ||
	       (s->op == STEP_PUSH && s->a < 16 && (STEP_CALLEE_SAVED >> s->a & 1)) ||
	       (s->op == STEP_ADD && s->a == ETCH_REG_RSP && s->imm < 0);
}

/* As no function begins: a register that belongs to the caller is used, and has not been put away. */
static bool is_amidst(struct flow *f, uint64_t off)
{
	uint16_t saved = 0;
	unsigned n;

	for (n = 0; n < BEGINNING; n++) {
		uint32_t i = flow_step(f, off);
		const struct step *s = i == NO_STEP ? NULL : &f->steps[i];

		if (!s)
			return false;
		if ((s->op == STEP_PUSH || s->op == STEP_STORE) && s->a < 16)
			saved |= (uint16_t)(1u << s->a);
		if (s->touches & STEP_CALLEE_SAVED & ~saved)
			return true;
		if (s->flow != FLOW_NEXT)
			return false;
		off += s->len;
	}
	return false;
}

bool flow_is_end(struct flow *f, uint64_t off)
{
	uint64_t size = f->piece->end - f->piece->start, from = off;

	while (off < size) {
		uint32_t i = flow_step(f, off);

		if (i == NO_STEP || (f->seen[i] & FLOW_SCANNED && f->leader[i]))
			return false;
		if (!f->steps[i].padding)
			break;
		off += f->steps[i].len;
	}
	if (off >= size)
		return true;
	if (!f->piece->open || off == from || (f->piece->start + off) % FUNCTION_ALIGN)
		return false;
	return begins_function(f, off) || (off - from >= PADDING_LOOP && !is_amidst(f, off));
}
