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
};

/*
 * From c's frame, whose rip is in the trace, over frames that are plain. rip is not
 * `interrupted`, the module is open, not a target's. shift: of the map, or 0 to look
 * into the full table. Leaves c at the last frame that it has put into the trace; the
 * trace may be full.
 */
NO_ASAN static inline __attribute__((always_inline)) void fast(struct cursor *c, struct trace *t, const unsigned shift)
{
	static const uint64_t lost = 0; /* a CFA from this rbp is below every stack */
	const struct etch_block *b = &c->module.block;
	uint64_t text = c->module.text, size = c->module.text_size;
	uint64_t ip = c->reg[ETCH_RIP], sp = c->reg[ETCH_RSP], lo, hi, span;
	/* A fixed address less a fixed number: unsigned, as it points before the map. */
	uint64_t map = (uint64_t)(uintptr_t)b->map - (shift ? text >> shift : 0);
	uint32_t codes = b->map_palette_count;
	const uint64_t *slot = c->known & KNOWN(ETCH_RBP) ? &c->reg[ETCH_RBP] : &lost;
	void **out = t->ips + t->count, **end = t->ips + t->max;

	if (!window_has(&c->window, sp) && stack_window(sp, &c->window))
		return;
	lo = c->window.lo;
	hi = c->window.hi;
	span = hi - 8 - lo;
	while (out < end) {
		uint64_t cfa, base, bp_at, bp = *slot;
		int64_t cfa_off, bp_off;
		uint32_t from_rbp, saved;

		if (shift) {
			const struct etch_map_rule *p;
			uint32_t code;

			if (ip - text > size)
				break;
			code = *(const uint8_t *)(uintptr_t)(map + (ip >> shift));
			p = &b->map_palette[code];
			if (__builtin_expect(code >= codes, 0)) {
				p = etch_map_exception(b, ip - text, code);
				if (!p)
					break;
			}
			cfa_off = p->cfa;
			bp_off = p->bp;
			from_rbp = p->flags & ETCH_MAP_RBP;
			saved = p->bp != 0;
		} else {
			const struct etch_rule *r;
			uint32_t kind;

			if (ip - 1 - text >= size)
				break;
			r = etch_block_find_in(b, ip - 1 - text);
			__builtin_memcpy(&kind, &r->cfa, 4);
			/* cfa rsp or rbp, bp same or at the CFA, kind CALL, ra at the CFA */
			if (__builtin_expect((kind & ~0x0101u) != (ETCH_REG_RSP | ETCH_RULE_CALL << 16), 0))
				break;
			cfa_off = r->cfa_off;
			bp_off = r->bp_off;
			from_rbp = kind & 1;
			saved = kind & 0x100;
		}
		base = from_rbp ? bp : sp;
		cfa = base + (uint64_t)cfa_off;
		bp_at = cfa + (uint64_t)bp_off;
		if (__builtin_expect(cfa - 8 < sp, 0) || __builtin_expect(cfa > hi, 0) || __builtin_expect(cfa < 8, 0) ||
		    __builtin_expect(bp_at - lo > span, 0))
			break;
		ip = word_at(cfa - 8);
		slot = saved ? (const uint64_t *)(uintptr_t)bp_at : slot;
		sp = cfa;
		*out++ = (void *)(uintptr_t)ip;
	}
	c->reg[ETCH_RBP] = *slot;
	c->reg[ETCH_RIP] = ip;
	c->reg[ETCH_RSP] = sp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (slot != &lost ? KNOWN(ETCH_RBP) : 0);
	t->count = (int)(out - t->ips);
}

NO_ASAN static int walk(struct cursor *c, struct trace *t)
{
	int ret;

	for (;;) {
		if (t->count == t->max)
			return ETCH_UNWIND_LIMIT;
		t->ips[t->count++] = (void *)(uintptr_t)c->reg[ETCH_RIP];
		if (!c->interrupted) {
			ret = enter(c, c->reg[ETCH_RIP] - 1);
			if (ret)
				return ret;
			if (c->module.encoding == ETCH_ENCODING_BLOCK) {
				if (c->module.block.map_shift == 6)
					fast(c, t, 6);
				else if (c->module.block.map_shift == 7)
					fast(c, t, 7);
				else
					fast(c, t, 0);
			}
		}
		ret = step(c);
		if (ret)
			return ret;
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
	struct trace t = { ips, 0, max };
	struct cursor c;

	if (max <= 0)
		return 0;
	cursor_here(&c, __builtin_frame_address(0));
	walk(&c, &t);
	return t.count;
}

UNWIND_API __attribute__((noinline)) int etch_backtrace_from(const void *ucontext, void **ips, int max, int *status)
{
	struct trace t = { ips, 0, max < 0 ? 0 : max };
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
