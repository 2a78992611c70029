/* SPDX-License-Identifier: MIT */
/*
 * unwind.c: walks of the stack.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere:
 * no malloc, no lock, no thread-local storage, no libc. Every word of the stack is
 * read inside a window of pages that the kernel has called readable (stack.c), by a load
 * that is allowed to fault, in case they are no longer (memory_load()). Every
 * loop is bounded: on one stack frames must lie higher and higher, and a walk changes
 * stacks SWITCHES times at most. Do not introduce any other dependency here.
 *
 * Two speeds. step() does everything, for one frame, with values. fast() does what
 * nearly all frames need: an ordinary frame, CFA from rsp or rbp, rbp saved relative to
 * the CFA or not at all; it leaves the loop, at the frame where it is, for anything
 * else. It carries the address of the slot where rbp is saved, not its value: only a
 * rule that counts from rbp waits for that load.
 */
#include <signal.h>
#include <ucontext.h>

#include "recover.h"
#include "unwind_internal.h"

/* Signal frames and loaded CFAs may lead to another stack: so often, at most. */
#define SWITCHES 64
/* Frames of one walk: those of 16 bytes each on a stack of 1 GiB. */
#define FRAMES   (1u << 26)

/* A corrupt stack may have its words anywhere. */
typedef memory_word word;

struct cursor {
	uint64_t reg[17];  /* enum etch_reg; of those in `known` */
	uint32_t known;
	uint32_t frames;
	uint32_t switches;
	int interrupted;   /* rip is looked up as it is */
	const struct etch_target *target; /* null: this process */
	const word *saved; /* registers of the last interrupted frame, in saved_order; null: there was none */
	struct window window;
	const struct unwind_module *shared; /* the module that rip was in last; null: it is in `room` */
	struct unwind_module room;          /* text_size 0: none */
};

#define KNOWN(r)  (1u << (r))
#define KNOWN_ALL 0x1ffffu

_Static_assert(sizeof(struct cursor) <= sizeof(struct etch_cursor), "a cursor fits");

UNWIND_API const char *etch_unwind_strerror(int status)
{
	switch (status) {
	case ETCH_UNWIND_OK: return "a frame was found";
	case ETCH_UNWIND_END: return "outermost frame: the trace is complete";
	case ETCH_UNWIND_NOTABLE: return "no unwind table for this address";
	case ETCH_UNWIND_UNDEFINED: return "the unwind table has no rule for this address";
	case ETCH_UNWIND_REGISTER: return "a register is needed that is not known in this frame";
	case ETCH_UNWIND_MEMORY: return "memory that is needed cannot be read";
	case ETCH_UNWIND_NOPROGRESS: return "the caller's frame would not lie above: the stack is corrupt";
	case ETCH_UNWIND_LIMIT: return "more frames than were asked for, or than a walk may have";
	case ETCH_UNWIND_EINVAL: return "invalid argument";
	}
	return "unknown status";
}

/* ---- memory ---------------------------------------------------------------------- */

NO_ASAN static int word_read(struct cursor *c, uint64_t at, uint64_t *v)
{
	struct window w;

	if (c->target)
		return c->target->read(c->target->arg, at, v) ? ETCH_UNWIND_MEMORY : ETCH_UNWIND_OK;
	if (!window_has(&c->window, at)) {
		if (stack_window(at, &w))
			return ETCH_UNWIND_MEMORY;
		c->window = w;
	}
	return memory_read(at, v) ? ETCH_UNWIND_MEMORY : ETCH_UNWIND_OK;
}

/* ---- one frame ----------------------------------------------------------------------- */

/* The caller's registers are what the kernel saved: struct sigcontext has r8-r15, rdi,
 * rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (asm/sigcontext.h); gregset_t is the same. */
static const uint8_t saved_order[17] = {
	ETCH_R8, ETCH_R9, ETCH_R10, ETCH_R11, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15, ETCH_RDI,
	ETCH_RSI, ETCH_RBP, ETCH_RBX, ETCH_RDX, ETCH_RAX, ETCH_RCX, ETCH_RSP, ETCH_RIP,
};
#define SAVED_RSP 15

/* The module whose table covers this address, or null. Not a pointer to keep: a cursor
 * may be copied. */
static const struct unwind_module *enter(struct cursor *c, uint64_t at)
{
	const struct unwind_module *m = c->shared ? c->shared : &c->room;

	if (at - m->text < m->text_size)
		return m;
	m = c->target ? lookup_target(c->target, at, &c->room) : lookup_module(at, &c->room);
	c->shared = m == &c->room ? NULL : m;
	if (!m)
		c->room.text_size = 0;
	return m;
}

NO_ASAN static int step_signal(struct cursor *c, const struct etch_rule *r)
{
	uint64_t at = c->reg[ETCH_RSP] + (uint64_t)(int64_t)r->cfa_off - 8 * SAVED_RSP, reg[17];

	for (int i = 0; i < 17; i++)
		if (word_read(c, at + 8 * (uint64_t)i, &reg[saved_order[i]]))
			return ETCH_UNWIND_MEMORY;
	if (c->switches == SWITCHES)
		return ETCH_UNWIND_LIMIT;
	c->switches++;
	for (int i = 0; i < 17; i++)
		c->reg[i] = reg[i];
	c->known = KNOWN_ALL;
	c->interrupted = 1;
	c->saved = (const word *)(uintptr_t)at;
	return ETCH_UNWIND_OK;
}

/*
 * A register that a rule of an outer frame needs and the tables do not follow: the
 * dynamic linker's lazy resolver has its CFA in rbx. Found from .eh_frame, once more
 * from the last frame whose registers are all known; where no frame was interrupted,
 * from here.
 */
NO_ASAN static __attribute__((noinline)) int register_recover(struct cursor *c, unsigned reg)
{
	uint64_t from[17] = { 0 };

	if (c->target || c->interrupted || (!c->saved && (RECOVER_SCRATCH >> reg & 1)))
		return ETCH_UNWIND_REGISTER;
	if (c->saved)
		for (int i = 0; i < 17; i++)
			from[saved_order[i]] = c->saved[i];
	else
		__asm__ __volatile__("mov %%rbx, 3*8(%0)\n\t"
		                     "mov %%rsp, 4*8(%0)\n\t"
		                     "mov %%rbp, 5*8(%0)\n\t"
		                     "mov %%r12, 12*8(%0)\n\t"
		                     "mov %%r13, 13*8(%0)\n\t"
		                     "mov %%r14, 14*8(%0)\n\t"
		                     "mov %%r15, 15*8(%0)\n\t"
		                     "lea 0f(%%rip), %%rcx\n"
		                     "0:\tmov %%rcx, 16*8(%0)"
		                     : : "r"(from) : "rcx", "memory");
	if (recover_register(from, c->reg[ETCH_RIP], c->reg[ETCH_RSP], reg, lookup_image, &c->reg[reg]))
		return ETCH_UNWIND_REGISTER;
	c->known |= KNOWN(reg);
	return ETCH_UNWIND_OK;
}

NO_ASAN static int step_rule(struct cursor *c, const struct etch_rule *r)
{
	unsigned reg = r->cfa & 15;
	uint64_t cfa, ip, bp, at, sp = c->reg[ETCH_RSP];
	int bp_known, trusted = 1;

	/* Only the header of a table has been looked at: this one may be of a later format. */
	if (r->kind == ETCH_RULE_UNDEF || !etch_rule_valid(r))
		return ETCH_UNWIND_UNDEFINED;
	if (r->kind == ETCH_RULE_END)
		return ETCH_UNWIND_END;
	if (r->kind == ETCH_RULE_SIGNAL)
		return step_signal(c, r);
	if (!(c->known & KNOWN(reg))) {
		if (register_recover(c, reg))
			return ETCH_UNWIND_REGISTER;
		trusted = !(RECOVER_SCRATCH >> reg & 1);
	}
	bp = c->reg[ETCH_RBP];
	bp_known = !!(c->known & KNOWN(ETCH_RBP));
	cfa = (r->cfa & ETCH_CFA_INDEX ? sp + 8 * c->reg[reg] : c->reg[reg]) + (uint64_t)(int64_t)r->cfa_off;
	if (r->cfa & ETCH_CFA_DEREF) {
		if (word_read(c, cfa, &cfa))
			return ETCH_UNWIND_MEMORY;
		cfa += (uint64_t)(int64_t)r->cfa_add;
	}
	if (r->ra == ETCH_RA_CFA) {
		if (cfa - 8 < sp || cfa < 8) {
			/* A loaded CFA may belong to another stack. */
			if (!(r->cfa & ETCH_CFA_DEREF))
				return ETCH_UNWIND_NOPROGRESS;
			if (c->switches++ == SWITCHES)
				return ETCH_UNWIND_LIMIT;
		}
		if (word_read(c, cfa - 8, &ip))
			return ETCH_UNWIND_MEMORY;
		/* Had the callee changed it, there is hardly a return address there. */
		if (!trusted && !enter(c, ip - 1))
			return ETCH_UNWIND_REGISTER;
	} else {
		/* Only an interrupted frame has its return address in a register, so that
		 * this cannot happen twice in a row. */
		if (!(c->known & KNOWN(r->ra & 15)) || !c->interrupted)
			return ETCH_UNWIND_REGISTER;
		if (cfa < sp)
			return ETCH_UNWIND_NOPROGRESS;
		ip = c->reg[r->ra & 15];
	}
	switch (r->bp) {
	case ETCH_BP_SAME:
		at = 0;
		break;
	case ETCH_BP_CFA:
		at = cfa;
		break;
	case ETCH_BP_RBP:
		at = bp;
		break;
	case ETCH_BP_RSP:
		at = sp;
		break;
	default:
		at = 0;
		bp_known = 0;
	}
	if (r->bp == ETCH_BP_CFA || r->bp == ETCH_BP_RSP || (r->bp == ETCH_BP_RBP && bp_known))
		/* A slot that cannot be read costs rbp, not the walk. */
		bp_known = !word_read(c, at + (uint64_t)(int64_t)r->bp_off, &bp);
	c->reg[ETCH_RIP] = ip;
	c->reg[ETCH_RSP] = cfa;
	c->reg[ETCH_RBP] = bp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (bp_known ? KNOWN(ETCH_RBP) : 0);
	c->interrupted = 0;
	return ETCH_UNWIND_OK;
}

static int step(struct cursor *c)
{
	/* What returns to an address is the instruction before it, and a call may be the
	 * last one of its function. */
	uint64_t at = c->reg[ETCH_RIP] - !c->interrupted;
	const struct unwind_module *m = enter(c, at);
	struct etch_rule r;
	int ret;

	if (!m)
		return ETCH_UNWIND_NOTABLE;
	if (c->frames == FRAMES)
		return ETCH_UNWIND_LIMIT;
	module_rule(m, at, &r);
	ret = step_rule(c, &r);
	if (ret == ETCH_UNWIND_OK)
		c->frames++;
	return ret;
}

/* ---- many frames --------------------------------------------------------------------- */

struct trace {
	void **ips;
	int count, max;
	int status;                 /* it is wanted */
	struct etch_walk *previous; /* to be reused; null: none */
	struct reuse *reuse;
};

/* What a loop over plain frames keeps at hand. */
struct plain {
	uint64_t text, size, text_1; /* text_1: text + 1 */
	uint64_t lo, hi, span; /* the window, and its size less 8 */
	uint64_t map;          /* its address less that of the text in granules: it points before the map */
	uint64_t codes, rbp_codes; /* map bytes below are rules; of those, from here on with a CFA from rbp */
	const struct etch_map_rule *rules;
	const struct etch_block *block;
};

/* A frame. The slot is where its rbp is saved. */
struct frame {
	uint64_t ip, sp;
	const word *slot;
};

NO_ASAN static inline uint64_t slot_load(const struct frame *f) { return memory_load((uint64_t)(uintptr_t)f->slot); }

static const word lost = 0; /* rbp that is not known; a CFA from it is below every stack */

/* To the frame that the CFA and the slot are for, if that lies where it may. */
NO_ASAN static inline __attribute__((always_inline)) int plain_move(const struct plain *p, struct frame *f, uint64_t cfa,
                                                                    uint64_t bp_at, uint32_t saved)
{
	/* lo is at least a page, so that a CFA that is too low does not wrap. */
	if (ETCH_ODD(cfa - 8 < f->sp) || ETCH_ODD(cfa > p->hi) || ETCH_ODD(bp_at - p->lo > p->span))
		return 0;
	f->ip = memory_load(cfa - 8);
	f->slot = saved ? (const word *)(uintptr_t)bp_at : f->slot;
	f->sp = cfa;
	return 1;
}

/*
 * From the frame of a return address to the next by the rule that the map has for it:
 * 1; or 0 and *f is as it was. bp: what is in f->slot.
 *
 * What a walk waits for is one chain of loads: return address, map byte, rule, next
 * return address. The map byte alone says from which register the CFA counts, while the
 * rule is still being loaded. The CFA is loaded by an instruction of its own, because
 * the compiler computes the rule's address first, a cycle more.
 */
NO_ASAN static inline __attribute__((always_inline)) int map_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                  const unsigned shift)
{
	uint64_t code, cfa, rest;
	int64_t cfa_off, bp_off;

	if (ETCH_ODD(f->ip - p->text > p->size))
		return 0;
	code = *(const uint8_t *)(uintptr_t)(p->map + (f->ip >> shift));
	if (ETCH_ODD(code >= p->codes))
		return 0;
	__asm__("movslq (%1,%2,8), %0" : "=r"(cfa_off) : "r"(p->rules), "r"(code), "m"(p->rules[code]));
	rest = *(const uint32_t *)(const void *)((const uint8_t *)&p->rules[code] + 4);
	cfa = (code >= p->rbp_codes ? bp : f->sp) + (uint64_t)cfa_off;
	bp_off = (int16_t)rest;
	return plain_move(p, f, cfa, cfa + (uint64_t)bp_off, bp_off != 0);
}

/* The same by the full table. */
NO_ASAN static inline __attribute__((always_inline)) int full_step(const struct plain *p, struct frame *f, uint64_t bp)
{
	const struct etch_rule *r;
	uint64_t cfa, from_sp, from_bp;
	uint32_t kind;

	if (ETCH_ODD(f->ip - p->text_1 >= p->size))
		return 0;
	r = etch_block_find_in(p->block, f->ip - p->text_1);
	__builtin_memcpy(&kind, &r->cfa, 4);
	/* cfa rsp or rbp, bp same or at the CFA, kind CALL, ra at the CFA */
	if (ETCH_ODD((kind & ~0x0101u) != (ETCH_REG_RSP | ETCH_RULE_CALL << 16)))
		return 0;
	/* Both sums, then the choice: which register it is takes longer to know. */
	from_sp = f->sp + (uint64_t)(int64_t)r->cfa_off;
	from_bp = bp + (uint64_t)(int64_t)r->cfa_off;
	__asm__("" : "+r"(from_sp), "+r"(from_bp));
	cfa = kind & 1 ? from_bp : from_sp;
	return plain_move(p, f, cfa, cfa + (uint64_t)(int64_t)r->bp_off, kind & 0x100);
}

/* By an exception of the map, or the full table. */
NO_ASAN static __attribute__((noinline)) int odd_step(const struct plain *p, struct frame *f)
{
	const struct etch_map_rule *m = NULL;
	uint64_t bp = slot_load(f), cfa;

	if (f->ip - p->text <= p->size)
		m = etch_map_find_in(p->block, f->ip - p->text);
	if (!m)
		return full_step(p, f, bp);
	cfa = (m->flags & ETCH_MAP_RBP ? bp : f->sp) + (uint64_t)(int64_t)m->cfa;
	return plain_move(p, f, cfa, cfa + (uint64_t)(int64_t)m->bp, m->bp != 0);
}

/* Whatever kind of map there is: 0 for none. */
NO_ASAN static inline __attribute__((always_inline)) int plain_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                    const unsigned shift)
{
	return shift ? map_step(p, f, bp, shift) : full_step(p, f, bp);
}

/*
 * Over plain frames, into the trace from out to end; returns its new end. Leaves *frame
 * at the last one.
 */
NO_ASAN static inline __attribute__((always_inline)) void **fast(const struct plain *p, struct frame *frame, void **out,
                                                                 void **end, const unsigned shift)
{
	for (;;) {
		struct frame f = *frame;

		while (out < end && plain_step(p, &f, slot_load(&f), shift))
			*out++ = (void *)(uintptr_t)f.ip;
		*frame = f;
		if (out == end || !shift || !odd_step(p, frame))
			return out;
		*out++ = (void *)(uintptr_t)frame->ip;
	}
}

NO_ASAN static __attribute__((noinline)) void **fast_0(const struct plain *p, struct frame *f, void **out, void **end)
{
	return fast(p, f, out, end, 0);
}

NO_ASAN static __attribute__((noinline)) void **fast_6(const struct plain *p, struct frame *f, void **out, void **end)
{
	return fast(p, f, out, end, 6);
}

NO_ASAN static __attribute__((noinline)) void **fast_7(const struct plain *p, struct frame *f, void **out, void **end)
{
	return fast(p, f, out, end, 7);
}

/* ---- reuse of the previous walk -------------------------------------------------------- */

/*
 * A frame's ip, sp, slot and what is in the slot decide what the next frame's sp and
 * slot are, by a rule of the table. So where this walk meets a frame of an earlier one
 * with all four the same, and the words at the next frame's sp - 8 and slot are still
 * those that were found then, the next frame is the same too, and so on. Neighbours in
 * the array stay true for as long as code and tables do not change, whether or not the
 * stack has changed in between.
 *
 * Two things are not said by those words: a frame that is not plain has a next one that
 * depends on more, and memory outside of the window may not be read. The former has a
 * mark in its successor's ip; and frames of one window only are kept.
 *
 * The state has two arrays: one has the previous walk, the other gets this one's frames.
 * When a walk meets the previous one and follows it to its end, only its first frames
 * are new, and they are copied to the front of the others.
 */
#define UNLINKED ((uint64_t)1 << 63)
#define ROOM     ETCH_WALK_FRAMES
#define FRONT    128u /* frames that may later be put in front */
#define FRESH_MOST (ROOM - FRONT - 1) /* the one behind the last is read, too */

struct reuse {
	struct etch_walk_frame *old;   /* the previous walk's array */
	struct etch_walk_frame *fresh; /* this one's, from its first frame */
	uint32_t at, end;      /* of the old ones those that may still be met */
	uint32_t limit;        /* end, or 0 on a stack that they are not of */
	uint32_t count;        /* fresh ones */
	int recorded;          /* the frame that the walk is at is the last of the fresh ones */
	int settled;           /* the state is ready for the next walk */
	uint64_t mark;         /* UNLINKED, or 0: for the next fresh frame */
	struct window window;  /* that holds the fresh ones */
};

static void reuse_begin(struct reuse *r, struct etch_walk *w)
{
	/* Frames refer to the state itself, which may have been moved. */
	if (w->self != (uint64_t)(uintptr_t)w) {
		w->first = w->end = 0;
		w->self = (uint64_t)(uintptr_t)w;
	}
	r->old = w->frame[w->which & 1];
	r->fresh = w->frame[~w->which & 1] + FRONT;
	r->at = w->first;
	r->end = w->end;
	r->limit = r->count = 0;
	r->recorded = r->settled = 0;
	r->mark = UNLINKED;
	r->window.lo = UINT64_MAX;
	r->window.hi = 0;
}

/* What is found from here on is in this window. */
static void reuse_window(struct reuse *r, const struct etch_walk *w, const struct window *now)
{
	/* Another stack: what was found on the one before is left aside. */
	if (now->lo > r->window.lo || now->hi < r->window.hi)
		r->count = 0;
	r->window = *now;
	r->limit = now->lo <= w->lo && now->hi >= w->hi ? r->end : 0;
}

/* The fresh frames are what the next walk may meet. */
static void reuse_keep(struct reuse *r, struct etch_walk *w, int status)
{
	r->settled = 1;
	if (!r->count)
		return;
	w->which ^= 1;
	w->first = FRONT;
	w->end = FRONT + r->count;
	w->lo = r->window.lo;
	w->hi = r->window.hi;
	/* What ends a walk at the last of these frames ends it always. */
	w->status = ETCH_UNWIND_OK;
	if (r->recorded && (status == ETCH_UNWIND_END || status == ETCH_UNWIND_UNDEFINED || status == ETCH_UNWIND_LIMIT))
		w->status = status;
}

/* Old frames behind the fresh ones: 1, or 0 if there is no room. */
static int reuse_append(struct reuse *r, uint32_t from, uint32_t to)
{
	if (to - from > FRESH_MOST - r->count)
		return 0;
	while (from < to)
		r->fresh[r->count++] = r->old[from++];
	return 1;
}

/* The old frames from r->at are the rest of this walk. */
static void reuse_join(struct reuse *r, struct etch_walk *w)
{
	r->settled = 1;
	w->lo = r->window.lo; /* which is the larger */
	w->hi = r->window.hi;
	if (r->count <= r->at) {
		for (uint32_t i = r->count; i--;)
			r->old[--r->at] = r->fresh[i];
	} else if (reuse_append(r, r->at, r->end)) {
		w->which ^= 1;
		w->first = FRONT;
		w->end = FRONT + r->count;
		return;
	}
	w->first = r->at;
}

/* Too deep to be kept. */
static void reuse_give_up(struct trace *t)
{
	t->previous->first = t->previous->end = 0;
	t->previous->busy = 0;
	t->previous = NULL;
}

/*
 * Is this frame one of the previous walk's? r->at is then that one. Both walks go
 * outward; a step of this one passes two of the other's at most, without a branch that
 * would have to be guessed.
 */
NO_ASAN static inline __attribute__((always_inline)) int reuse_met(struct reuse *r, const struct frame *f, uint64_t bp)
{
	const struct etch_walk_frame *old = &r->old[r->at];
	uint64_t differ;

	if (ETCH_ODD(r->at >= r->limit))
		return 0;
	differ = (old->sp ^ f->sp) | (old->ip ^ f->ip) << 1 | (old->slot ^ (uint64_t)(uintptr_t)f->slot) | (old->bp ^ bp);
	if (ETCH_ODD(!differ))
		return 1;
	r->at += (uint32_t)(old[0].sp <= f->sp) + (uint32_t)((old[0].sp <= f->sp) & (old[1].sp <= f->sp));
	return 0;
}

/*
 * From a frame that has been met, as far as the stack is the same. *status: that of the
 * walk if it is over, with its state settled; or ETCH_UNWIND_OK.
 */
NO_ASAN static void **reuse_follow(struct frame *f, struct trace *t, void **out, void **end, int *status)
{
	struct reuse *r = t->reuse;
	struct etch_walk *w = t->previous;
	struct etch_walk_frame *met = &r->old[r->at], *last = &r->old[r->end - 1], *at = met, *stop = last;

	if (end - out < stop - at)
		stop = at + (end - out);
	while (at < stop && !(at[1].ip & UNLINKED) && memory_load(at[1].sp - 8) == at[1].ip &&
	       memory_load(at[1].slot) == at[1].bp) {
		at++;
		*out++ = (void *)(uintptr_t)at->ip;
	}
	if (!r->recorded)
		met->ip = f->ip | r->mark;
	r->mark = 0;
	r->recorded = 1;
	f->ip = at->ip & ~UNLINKED;
	f->sp = at->sp;
	f->slot = (const word *)(uintptr_t)at->slot;
	*status = ETCH_UNWIND_OK;
	if (at == last && w->status != ETCH_UNWIND_OK && (w->status != ETCH_UNWIND_LIMIT || out == end))
		*status = w->status;
	else if (out == end && (!t->status || (at < last && !(at[1].ip & UNLINKED))))
		*status = ETCH_UNWIND_LIMIT;
	if (*status != ETCH_UNWIND_OK) {
		reuse_join(r, w);
	} else if (reuse_append(r, r->at, (uint32_t)(at + 1 - r->old))) {
		r->at = (uint32_t)(at + 1 - r->old);
	} else {
		reuse_give_up(t);
	}
	return out;
}

/* fast() with a previous walk; ends at a frame of that walk too, which is then not yet
 * recorded. */
NO_ASAN static inline __attribute__((always_inline)) void **fast_reuse(const struct plain *p, struct frame *frame,
                                                                       struct trace *t, void **out, void **end,
                                                                       const unsigned shift)
{
	struct reuse r = *t->reuse;
	struct frame f = *frame;
	uint64_t bp = slot_load(&f);

	for (;;) {
		if (!r.recorded) {
			struct etch_walk_frame *to = &r.fresh[r.count];

			if (ETCH_ODD(r.count == FRESH_MOST)) {
				*frame = f;
				reuse_give_up(t);
				return out;
			}
			to->ip = f.ip | r.mark;
			to->sp = f.sp;
			to->slot = (uint64_t)(uintptr_t)f.slot;
			to->bp = bp;
			r.count++;
			r.mark = 0;
			r.recorded = 1;
		}
		if (out == end || (!plain_step(p, &f, bp, shift) && (!shift || !odd_step(p, &f))))
			break;
		*out++ = (void *)(uintptr_t)f.ip;
		r.recorded = 0;
		bp = slot_load(&f);
		if (reuse_met(&r, &f, bp))
			break;
	}
	*frame = f;
	*t->reuse = r;
	return out;
}

NO_ASAN static __attribute__((noinline)) void **reuse_0(const struct plain *p, struct frame *f, struct trace *t, void **out,
                                                        void **end)
{
	return fast_reuse(p, f, t, out, end, 0);
}

NO_ASAN static __attribute__((noinline)) void **reuse_6(const struct plain *p, struct frame *f, struct trace *t, void **out,
                                                        void **end)
{
	return fast_reuse(p, f, t, out, end, 6);
}

NO_ASAN static __attribute__((noinline)) void **reuse_7(const struct plain *p, struct frame *f, struct trace *t, void **out,
                                                        void **end)
{
	return fast_reuse(p, f, t, out, end, 7);
}

/* ---- walks --------------------------------------------------------------------------------- */

NO_ASAN static void **plain_module(const struct unwind_module *m, const struct window *window, struct frame *f,
                                   struct trace *t, void **out, void **end)
{
	struct plain p;

	p.block = &m->block;
	p.rules = m->block.map_palette;
	p.codes = m->block.map_palette_count;
	p.rbp_codes = m->block.map_rbp;
	p.map = (uint64_t)(uintptr_t)m->block.map - (m->text >> m->block.map_shift);
	p.text = m->text;
	p.text_1 = m->text + 1;
	p.size = m->text_size;
	p.lo = window->lo;
	p.hi = window->hi;
	p.span = p.hi - 8 - p.lo;
	if (t->previous)
		return m->block.map_shift == 6   ? reuse_6(&p, f, t, out, end)
		       : m->block.map_shift == 7 ? reuse_7(&p, f, t, out, end)
		                                 : reuse_0(&p, f, t, out, end);
	return m->block.map_shift == 6   ? fast_6(&p, f, out, end)
	       : m->block.map_shift == 7 ? fast_7(&p, f, out, end)
	                                 : fast_0(&p, f, out, end);
}

/*
 * From c's frame, whose rip is in the trace and not `interrupted`, over plain frames,
 * whatever modules they are of. Then c is at a frame that step() has to look at, or the
 * trace is full: ETCH_UNWIND_OK; or the walk is over.
 */
NO_ASAN static int plain_frames(struct cursor *c, struct trace *t)
{
	void **out = t->ips + t->count, **end = t->ips + t->max;
	struct frame f = { c->reg[ETCH_RIP], c->reg[ETCH_RSP], &lost };
	const struct unwind_module *m;
	int ret = ETCH_UNWIND_OK;

	if (c->known & KNOWN(ETCH_RBP)) {
		f.slot = &c->reg[ETCH_RBP];
		if (t->previous) {
			t->previous->rbp = c->reg[ETCH_RBP];
			f.slot = &t->previous->rbp;
		}
	}
	if (!window_has(&c->window, f.sp) && stack_window(f.sp, &c->window))
		return ETCH_UNWIND_OK;
	for (;;) {
		if (t->previous && !t->reuse->recorded) {
			reuse_window(t->reuse, t->previous, &c->window);
			if (reuse_met(t->reuse, &f, slot_load(&f))) {
				out = reuse_follow(&f, t, out, end, &ret);
				if (ret)
					break;
			}
		}
		m = enter(c, f.ip - 1);
		if (!m)
			ret = ETCH_UNWIND_NOTABLE;
		if (!m || m->encoding != ETCH_ENCODING_BLOCK)
			break;
		out = plain_module(m, &c->window, &f, t, out, end);
		if (out == end)
			break;
		if (t->previous && !t->reuse->recorded)
			continue;
		if (f.ip - 1 - m->text < m->text_size)
			break;
	}
	c->reg[ETCH_RBP] = slot_load(&f);
	c->reg[ETCH_RIP] = f.ip;
	c->reg[ETCH_RSP] = f.sp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (f.slot != &lost ? KNOWN(ETCH_RBP) : 0);
	t->count = (int)(out - t->ips);
	return ret;
}

NO_ASAN static int walk(struct cursor *c, struct trace *t)
{
	int ret;

	if (t->max <= 0)
		return ETCH_UNWIND_LIMIT;
	for (;;) {
		t->ips[t->count++] = (void *)(uintptr_t)c->reg[ETCH_RIP];
		if (!c->interrupted) {
			ret = plain_frames(c, t);
			if (ret)
				return ret;
		}
		/* Whether there is one more matters to the status alone. */
		if (t->count == t->max && !t->status)
			return ETCH_UNWIND_LIMIT;
		ret = step(c);
		if (ret)
			return ret;
		if (t->count == t->max)
			return ETCH_UNWIND_LIMIT;
		if (t->previous) {
			t->reuse->recorded = 0;
			t->reuse->mark = UNLINKED;
		}
	}
}

static void cursor_start(struct cursor *c)
{
	c->frames = c->switches = 0;
	c->target = NULL;
	c->saved = NULL;
	c->window.lo = c->window.hi = 0;
	c->shared = NULL;
	c->room.text = c->room.text_size = 0;
	stack_begin();
}

static void cursor_from(struct cursor *c, const void *ucontext)
{
	const ucontext_t *u = ucontext;

	cursor_start(c);
	c->saved = (const word *)(const void *)u->uc_mcontext.gregs;
	for (int i = 0; i < 17; i++)
		c->reg[saved_order[i]] = c->saved[i];
	c->known = KNOWN_ALL;
	c->interrupted = 1;
}

/* `frame`: __builtin_frame_address(0) of the function that the caller has called. */
NO_ASAN static inline __attribute__((always_inline)) void cursor_here(struct cursor *c, const uint64_t *frame)
{
	cursor_start(c);
	c->reg[ETCH_RBP] = frame[0];
	c->reg[ETCH_RIP] = frame[1];
	c->reg[ETCH_RSP] = (uint64_t)(uintptr_t)(frame + 2);
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | KNOWN(ETCH_RBP);
	c->interrupted = 0;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace(void **ips, int max)
{
	struct trace t = { .ips = ips, .max = max };
	struct cursor c;

	cursor_here(&c, __builtin_frame_address(0));
	walk(&c, &t);
	return t.count;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace_from(const void *ucontext, void **ips, int max, int *status)
{
	struct trace t = { .ips = ips, .max = max, .status = !!status };
	struct cursor c;
	int ret;

	if (ucontext)
		cursor_from(&c, ucontext);
	else
		cursor_here(&c, __builtin_frame_address(0));
	ret = walk(&c, &t);
	if (status)
		*status = ret;
	return t.count;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace_reuse(struct etch_walk *w, const void *ucontext, void **ips,
                                                              int max, int *status)
{
	struct trace t = { .ips = ips, .max = max, .status = !!status };
	struct reuse r;
	struct cursor c;
	int ret;

	if (ucontext)
		cursor_from(&c, ucontext);
	else
		cursor_here(&c, __builtin_frame_address(0));
	/* A signal handler may find its own thread inside this function. */
	if (!__atomic_load_n(&w->busy, __ATOMIC_RELAXED)) {
		__atomic_store_n(&w->busy, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		t.previous = w;
		t.reuse = &r;
		reuse_begin(&r, w);
	}
	ret = walk(&c, &t);
	if (t.previous) {
		if (!r.settled)
			reuse_keep(&r, w, ret);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&w->busy, 0, __ATOMIC_RELAXED);
	}
	if (status)
		*status = ret;
	return t.count;
}

UNWIND_API void etch_walk_reset(struct etch_walk *w)
{
	w->first = w->end = 0;
}

/* ---- cursors ------------------------------------------------------------------------- */

UNWIND_API __attribute__((noinline)) int etch_cursor_init(struct etch_cursor *cursor, const void *ucontext)
{
	struct cursor *c = (struct cursor *)cursor;

	if (ucontext)
		cursor_from(c, ucontext);
	else
		cursor_here(c, __builtin_frame_address(0));
	return ETCH_UNWIND_OK;
}

UNWIND_API int etch_cursor_init_target(struct etch_cursor *cursor, const struct etch_target *target,
                                       const uint64_t regs[17])
{
	struct cursor *c = (struct cursor *)cursor;

	if (!target || !target->read)
		return ETCH_UNWIND_EINVAL;
	cursor_start(c);
	for (int i = 0; i < 17; i++)
		c->reg[i] = regs[i];
	c->known = KNOWN_ALL;
	c->interrupted = 1;
	c->target = target;
	return ETCH_UNWIND_OK;
}

UNWIND_API int etch_step(struct etch_cursor *cursor)
{
	return step((struct cursor *)cursor);
}

UNWIND_API int etch_get_reg(const struct etch_cursor *cursor, int reg, uint64_t *value)
{
	const struct cursor *c = (const struct cursor *)cursor;

	if (reg < 0 || reg > ETCH_RIP)
		return ETCH_UNWIND_EINVAL;
	if (!(c->known & KNOWN(reg)))
		return ETCH_UNWIND_REGISTER;
	*value = c->reg[reg];
	return ETCH_UNWIND_OK;
}

UNWIND_API int etch_interrupted(const struct etch_cursor *cursor)
{
	return ((const struct cursor *)cursor)->interrupted;
}
