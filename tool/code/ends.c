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

bool flow_begins(struct flow *f)
{
	const struct piece *p = f->piece;
	uint64_t off = 0;
	unsigned n;

	if (is_amidst(f, 0) || (p->start % FUNCTION_ALIGN && !insn_is_endbr(p->bytes, p->end - p->start)))
		return false;
	for (n = 0; n < BEGINNING && !begins_function(f, off); n++) {
		uint32_t i = flow_step(f, off);

		if (i == NO_STEP || f->steps[i].flow != FLOW_NEXT)
			return false;
		off += f->steps[i].len;
	}
	return n < BEGINNING;
}

/* Instructions behind a call of the next one that are asked what they do with the word that it has pushed. */
#define ASKED_MOST 8u

/* Is it memory that b and disp are the address of? */
static bool is_access(unsigned op)
{
	return op == STEP_NONE || op == STEP_LOAD || op == STEP_STORE || op == STEP_FETCH || op == STEP_LIMIT;
}

bool flow_asks_where(struct flow *f, uint64_t off)
{
	const struct piece *p = f->piece;
	int64_t above = 0; /* bytes of the stack above that word */
	struct step s;
	unsigned n;

	for (n = 0; n < ASKED_MOST; n++, off += s.len) {
		if (!step_decode(f->cache, p->bytes + off, p->end - p->start - off, p->start + off, &s) || s.flow != FLOW_NEXT)
			return false;
		if (s.op == STEP_PUSH)
			above += s.imm;
		else if (s.op == STEP_POP)
			above -= s.imm;
		else if (s.op == STEP_ADD && s.a == ETCH_REG_RSP)
			above -= s.imm;
		else if (s.op == STEP_ADDRESS && s.a == ETCH_REG_RSP && s.b == ETCH_REG_RSP)
			above -= s.disp;
		else if (s.b == ETCH_REG_RSP && s.disp == above && is_access(s.op))
			return true;
		else if (s.a == ETCH_REG_RSP || s.writes >> ETCH_REG_RSP & 1)
			return false;
		if (above < 0)
			return true;
	}
	return false;
}

bool flow_is_end(struct flow *f, const struct step *call, uint64_t off)
{
	uint64_t size = f->piece->end - f->piece->start, from = off;

	if (f->piece->open && call->flow == FLOW_CALL && (uint64_t)call->imm == f->piece->start + off)
		return true;
	if (f->piece->open && f->piece->outermost && flow_is_noreturn(f, call)) {
		uint32_t i = flow_step(f, off);

		return i == NO_STEP || f->steps[i].op != STEP_HALT;
	}
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
