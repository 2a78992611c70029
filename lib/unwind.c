/* SPDX-License-Identifier: MIT */
/*
 * unwind.c: walks of the stack.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere:
 * no malloc, no lock, no thread-local storage, no libc. Every word of the stack is
 * read inside a window of pages that the kernel has called readable (stack.c). Every
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

#include "unwind_internal.h"

/* Signal frames and loaded CFAs may lead to another stack: so often, at most. */
#define SWITCHES 64
/* Frames of one walk: those of 16 bytes each on a stack of 1 GiB. */
#define FRAMES   (1u << 26)

struct cursor {
	uint64_t reg[17];  /* enum etch_reg; of those in `known` */
	uint32_t known;
	uint32_t frames;
	uint32_t switches;
	int interrupted;   /* rip is looked up as it is */
	const struct etch_target *target; /* null: this process */
	struct window window;
	struct unwind_module module;
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

NO_ASAN static inline uint64_t word_at(uint64_t at)
{
	uint64_t v;

	__builtin_memcpy(&v, (const void *)(uintptr_t)at, 8);
	return v;
}

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
	*v = word_at(at);
	return ETCH_UNWIND_OK;
}

/* ---- one frame ----------------------------------------------------------------------- */

/* The caller's registers are what the kernel saved: struct sigcontext has r8-r15, rdi,
 * rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (asm/sigcontext.h); gregset_t is the same. */
static const uint8_t saved_order[17] = {
	ETCH_R8, ETCH_R9, ETCH_R10, ETCH_R11, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15, ETCH_RDI,
	ETCH_RSI, ETCH_RBP, ETCH_RBX, ETCH_RDX, ETCH_RAX, ETCH_RCX, ETCH_RSP, ETCH_RIP,
};
#define SAVED_RSP 15

/* Makes c's module the one whose table covers this address. */
static inline int enter(struct cursor *c, uint64_t at)
{
	if (at - c->module.text < c->module.text_size)
		return ETCH_UNWIND_OK;
	return c->target ? lookup_target(c->target, at, &c->module) : lookup_module(at, &c->module);
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
	return ETCH_UNWIND_OK;
}

NO_ASAN static int step_rule(struct cursor *c, const struct etch_rule *r)
{
	unsigned reg = r->cfa & 15;
	uint64_t cfa, ip, bp = c->reg[ETCH_RBP], at, sp = c->reg[ETCH_RSP];
	int bp_known = !!(c->known & KNOWN(ETCH_RBP));

	if (r->kind == ETCH_RULE_UNDEF)
		return ETCH_UNWIND_UNDEFINED;
	if (r->kind == ETCH_RULE_END)
		return ETCH_UNWIND_END;
	if (r->kind == ETCH_RULE_SIGNAL)
		return step_signal(c, r);
	if (!(c->known & KNOWN(reg)))
		return ETCH_UNWIND_REGISTER;
	cfa = c->reg[reg] + (uint64_t)(int64_t)r->cfa_off;
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
	struct etch_rule r;
	int ret;

	ret = enter(c, at);
	if (ret)
		return ret;
	if (c->frames == FRAMES)
		return ETCH_UNWIND_LIMIT;
	module_rule(&c->module, at, &r);
	ret = step_rule(c, &r);
	if (ret == ETCH_UNWIND_OK)
		c->frames++;
	return ret;
}

/* ---- many frames --------------------------------------------------------------------- */

struct trace {
	void **ips;
	int count, max;
	const uint64_t *slot; /* where rbp of c's frame is; null: in c */
	/* Of a walk that reuses the previous one; null: it does not. */
	struct etch_walk *previous;
	uint32_t fresh;    /* frames of this walk: the first ones of its array */
	uint32_t old;      /* frames of the previous one: from here */
	int recorded;      /* the frame that the walk is at is the last of the fresh ones */
	uint64_t mark;     /* UNLINKED, or 0: for the next fresh frame */
	int settled;          /* the array is ready for the next walk */
	struct window window; /* that holds the fresh ones */
};

/* What a loop over plain frames keeps at hand. */
struct plain {
	const struct etch_block *block;
	uint64_t text, size, lo, hi;
	uint64_t map;   /* its address less that of the text in granules: it points before the map */
	uint32_t codes; /* map bytes below are rules */
};

/* A frame, and the next. The slot is where rbp of the frame is saved. */
struct frame {
	uint64_t ip, sp;
	const uint64_t *slot;
};

static const uint64_t lost = 0; /* rbp that is not known; a CFA from it is below every stack */

/*
 * From the frame of a return address to the next, if the frame is plain: 1, else 0 and
 * *f is as it was. shift: that of the map; 0: no map. bp: *f->slot.
 */
NO_ASAN static inline __attribute__((always_inline)) int plain_step(const struct plain *p, struct frame *f, uint64_t bp,
                                                                    const unsigned shift)
{
	const struct etch_map_rule *m = NULL;
	uint64_t cfa, base, bp_at;
	int64_t cfa_off, bp_off;
	uint32_t from_rbp, saved;

	if (shift) {
		uint32_t code;

		if (ETCH_ODD(f->ip - p->text > p->size))
			return 0;
		code = *(const uint8_t *)(uintptr_t)(p->map + (f->ip >> shift));
		m = &p->block->map_palette[code];
		if (ETCH_ODD(code >= p->codes))
			m = etch_map_exception(p->block, f->ip - p->text, code);
	}
	if (shift && !ETCH_ODD(!m)) {
		cfa_off = m->cfa;
		bp_off = m->bp;
		from_rbp = m->flags & ETCH_MAP_RBP;
		saved = m->bp != 0;
	} else {
		const struct etch_rule *r;
		uint32_t kind;

		if (ETCH_ODD(f->ip - 1 - p->text >= p->size))
			return 0;
		r = etch_block_find_in(p->block, f->ip - 1 - p->text);
		__builtin_memcpy(&kind, &r->cfa, 4);
		/* cfa rsp or rbp, bp same or at the CFA, kind CALL, ra at the CFA */
		if (ETCH_ODD((kind & ~0x0101u) != (ETCH_REG_RSP | ETCH_RULE_CALL << 16)))
			return 0;
		cfa_off = r->cfa_off;
		bp_off = r->bp_off;
		from_rbp = kind & 1;
		saved = kind & 0x100;
	}
	base = from_rbp ? bp : f->sp;
	cfa = base + (uint64_t)cfa_off;
	bp_at = cfa + (uint64_t)bp_off;
	/* lo is at least a page, so that a CFA that is too low does not wrap. */
	if (ETCH_ODD(cfa - 8 < f->sp) || ETCH_ODD(cfa > p->hi) || ETCH_ODD(bp_at - p->lo > p->hi - 8 - p->lo))
		return 0;
	f->ip = word_at(cfa - 8);
	f->slot = saved ? (const uint64_t *)(uintptr_t)bp_at : f->slot;
	f->sp = cfa;
	return 1;
}

/*
 * From c's frame, whose rip is in the trace, over frames that are plain. rip is not
 * `interrupted`, the module is open and not a target's. Leaves c at the last frame that
 * it has put into the trace; the trace may be full.
 */
NO_ASAN static inline __attribute__((always_inline)) void fast(struct cursor *c, struct trace *t,
                                                               const struct plain *p, const unsigned shift)
{
	struct frame f = { c->reg[ETCH_RIP], c->reg[ETCH_RSP], t->slot };
	void **out = t->ips + t->count, **end = t->ips + t->max;

	if (!f.slot)
		f.slot = c->known & KNOWN(ETCH_RBP) ? &c->reg[ETCH_RBP] : &lost;
	while (out < end && plain_step(p, &f, *f.slot, shift))
		*out++ = (void *)(uintptr_t)f.ip;
	t->slot = f.slot;
	c->reg[ETCH_RBP] = *f.slot;
	c->reg[ETCH_RIP] = f.ip;
	c->reg[ETCH_RSP] = f.sp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (f.slot != &lost ? KNOWN(ETCH_RBP) : 0);
	t->count = (int)(out - t->ips);
}

/* ---- reuse of the previous walk -------------------------------------------------------- */

/*
 * A frame's ip, sp, slot and what is in the slot decide what the next frame's sp and
 * slot are, by a rule of the table. So where this walk meets a frame of an earlier one
 * with all four the same, and the words at the next frame's sp - 8 and slot are still
 * those that were found then, the next frame is the same too, and so on. Pairs of
 * neighbours in the array stay true for as long as code and tables do not change,
 * whether or not the stack has changed in between.
 *
 * Two things are not said by those words: a frame that is not plain has a next one that
 * depends on more, and memory outside of the window may not be read. The former has a
 * mark in its successor's ip; the latter empties the array.
 */
#define UNLINKED ((uint64_t)1 << 63)

static inline __attribute__((always_inline)) void record(struct trace *t, const struct frame *f, uint64_t bp)
{
	struct etch_walk_frame *at;

	if (t->fresh == t->old)
		t->old++; /* the place of one that might have been met */
	at = &t->previous->frame[t->fresh++];
	at->ip = f->ip | t->mark;
	at->sp = f->sp;
	at->slot = (uint64_t)(uintptr_t)f->slot;
	at->bp = bp;
	t->mark = 0;
}

/* Is this frame one of the previous walk's? t->old is then that one. */
static inline __attribute__((always_inline)) int met(struct trace *t, const struct frame *f, uint64_t bp)
{
	const struct etch_walk_frame *at = t->previous->frame;
	uint32_t i = t->old;

	while (i < ETCH_WALK_FRAMES && at[i].sp < f->sp)
		i++;
	t->old = i;
	return i < ETCH_WALK_FRAMES && at[i].sp == f->sp && !((at[i].ip ^ f->ip) << 1) &&
	       at[i].slot == (uint64_t)(uintptr_t)f->slot && at[i].bp == bp;
}

/* The fresh frames, to where those end that stay. */
static void settle(struct trace *t, uint32_t end)
{
	struct etch_walk_frame *from = t->previous->frame + t->fresh, *to = t->previous->frame + end;

	for (uint32_t i = 0; i < t->fresh; i++)
		*--to = *--from;
	t->previous->count = ETCH_WALK_FRAMES - end + t->fresh;
}

/* When the walk is over, if no frame that it met led to the end. */
static void settle_last(struct trace *t, int status)
{
	if (t->fresh) {
		settle(t, ETCH_WALK_FRAMES);
		t->previous->lo = t->window.lo;
		t->previous->hi = t->window.hi;
		/* What ends a walk at the last of these frames ends it always. */
		t->previous->status = ETCH_UNWIND_OK;
		if (t->recorded && (status == ETCH_UNWIND_END || status == ETCH_UNWIND_UNDEFINED))
			t->previous->status = status;
	} else {
		t->previous->count = ETCH_WALK_FRAMES - t->old;
	}
}

/* fast() with a previous walk. ETCH_UNWIND_OK, or the status of a walk that is over,
 * with its array settled. */
NO_ASAN static inline __attribute__((always_inline)) int fast_reuse(struct cursor *c, struct trace *t,
                                                                    const struct plain *p, const unsigned shift)
{
	struct etch_walk *w = t->previous;
	struct frame f = { c->reg[ETCH_RIP], c->reg[ETCH_RSP], t->slot };
	void **out = t->ips + t->count, **end = t->ips + t->max;
	int meets = p->lo <= w->lo && p->hi >= w->hi, ret = ETCH_UNWIND_OK;
	uint64_t bp;

	if (!f.slot) {
		w->rbp = c->reg[ETCH_RBP];
		f.slot = c->known & KNOWN(ETCH_RBP) ? &w->rbp : &lost;
	}
	/* Another stack: what was found on the one before is left aside. */
	if (p->lo > t->window.lo || p->hi < t->window.hi)
		t->fresh = 0;
	t->window.lo = p->lo;
	t->window.hi = p->hi;
	bp = *f.slot;
	if (t->recorded && t->fresh)
		goto recorded;
	for (;;) {
		if (meets && met(t, &f, bp)) {
			struct etch_walk_frame *first = &w->frame[t->old], *at = first;
			const struct etch_walk_frame *last = &w->frame[ETCH_WALK_FRAMES - 1];

			while (at < last && out < end && word_at(at[1].sp - 8) == at[1].ip && word_at(at[1].slot) == at[1].bp) {
				at++;
				*out++ = (void *)(uintptr_t)at->ip;
			}
			first->ip = f.ip | t->mark;
			t->mark = 0;
			if (out == end || (at == last && w->status != ETCH_UNWIND_OK)) {
				ret = at == last && w->status != ETCH_UNWIND_OK ? w->status : ETCH_UNWIND_LIMIT;
				settle(t, t->old);
				t->settled = 1;
				break;
			}
			for (; first <= at; first++)
				w->frame[t->fresh++] = *first;
			t->old = (uint32_t)(first - w->frame);
			f.ip = at->ip & ~UNLINKED;
			f.sp = at->sp;
			f.slot = (const uint64_t *)(uintptr_t)at->slot;
			bp = at->bp;
		} else {
			if (t->fresh == ETCH_WALK_FRAMES) {
				/* Too deep to be kept. */
				w->count = 0;
				w->busy = 0;
				t->previous = NULL;
				break;
			}
			record(t, &f, bp);
		}
recorded:
		t->recorded = 1;
		if (out == end || !plain_step(p, &f, bp, shift))
			break;
		*out++ = (void *)(uintptr_t)f.ip;
		bp = *f.slot;
	}
	t->slot = f.slot;
	c->reg[ETCH_RBP] = bp;
	c->reg[ETCH_RIP] = f.ip;
	c->reg[ETCH_RSP] = f.sp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (f.slot != &lost ? KNOWN(ETCH_RBP) : 0);
	t->count = (int)(out - t->ips);
	return ret;
}

/* ---- walks --------------------------------------------------------------------------------- */

/* Over the plain frames of c's module. Inlined once for each kind of map. */
NO_ASAN static inline __attribute__((always_inline)) int fast_any(struct cursor *c, struct trace *t, const struct plain *p)
{
	const unsigned shift = c->module.block.map_shift;

	if (t->previous)
		return shift == 6 ? fast_reuse(c, t, p, 6) : shift == 7 ? fast_reuse(c, t, p, 7) : fast_reuse(c, t, p, 0);
	if (shift == 6)
		fast(c, t, p, 6);
	else if (shift == 7)
		fast(c, t, p, 7);
	else
		fast(c, t, p, 0);
	return ETCH_UNWIND_OK;
}

/* Modules one behind the other, as long as frames are plain; then c is at a frame that
 * step() has to look at, or the trace is full. */
NO_ASAN static int plain_frames(struct cursor *c, struct trace *t)
{
	struct plain p;
	uint64_t ip;
	int ret;

	do {
		ip = c->reg[ETCH_RIP];
		ret = enter(c, ip - 1);
		if (ret)
			return ret;
		if (c->module.encoding != ETCH_ENCODING_BLOCK ||
		    (!window_has(&c->window, c->reg[ETCH_RSP]) && stack_window(c->reg[ETCH_RSP], &c->window)))
			return ETCH_UNWIND_OK;
		p.block = &c->module.block;
		p.text = c->module.text;
		p.size = c->module.text_size;
		p.lo = c->window.lo;
		p.hi = c->window.hi;
		p.map = (uint64_t)(uintptr_t)p.block->map - (p.text >> p.block->map_shift);
		p.codes = p.block->map_palette_count;
		ret = fast_any(c, t, &p);
		if (ret)
			return ret;
	} while (c->reg[ETCH_RIP] - 1 - p.text >= p.size && t->count < t->max);
	return ETCH_UNWIND_OK;
}

NO_ASAN static int walk(struct cursor *c, struct trace *t)
{
	int ret;

	for (;;) {
		if (t->count == t->max)
			return ETCH_UNWIND_LIMIT;
		t->ips[t->count++] = (void *)(uintptr_t)c->reg[ETCH_RIP];
		if (!c->interrupted) {
			ret = plain_frames(c, t);
			if (ret)
				return ret;
		}
		ret = step(c);
		if (ret)
			return ret;
		t->slot = NULL;
		t->recorded = 0;
		t->mark = UNLINKED;
	}
}

static void cursor_start(struct cursor *c)
{
	c->frames = c->switches = 0;
	c->target = NULL;
	c->window.lo = c->window.hi = 0;
	c->module.text = c->module.text_size = 0;
	c->module.encoding = 0;
	stack_begin();
}

static void cursor_from(struct cursor *c, const void *ucontext)
{
	const ucontext_t *u = ucontext;

	cursor_start(c);
	for (int i = 0; i < 17; i++)
		c->reg[saved_order[i]] = (uint64_t)u->uc_mcontext.gregs[i];
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

	if (max <= 0)
		return 0;
	cursor_here(&c, __builtin_frame_address(0));
	walk(&c, &t);
	return t.count;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace_from(const void *ucontext, void **ips, int max, int *status)
{
	struct trace t = { .ips = ips, .max = max < 0 ? 0 : max };
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
	struct trace t = { .ips = ips, .max = max < 0 ? 0 : max };
	struct cursor c;
	int ret;

	if (ucontext)
		cursor_from(&c, ucontext);
	else
		cursor_here(&c, __builtin_frame_address(0));
	/* A signal handler may find its own thread inside this function. */
	if (!__atomic_load_n(&w->busy, __ATOMIC_RELAXED) && w->count <= ETCH_WALK_FRAMES) {
		__atomic_store_n(&w->busy, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		t.previous = w;
		t.old = ETCH_WALK_FRAMES - w->count;
		t.window.lo = UINT64_MAX;
	}
	ret = walk(&c, &t);
	if (t.previous) {
		if (!t.settled)
			settle_last(&t, ret);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&w->busy, 0, __ATOMIC_RELAXED);
	}
	if (status)
		*status = ret;
	return t.count;
}

UNWIND_API void etch_walk_reset(struct etch_walk *w)
{
	w->count = 0;
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
