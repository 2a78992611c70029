/* SPDX-License-Identifier: MIT */
/*
 * cursor.c: steps over any kind of frame, one at a time, with register values: the slow path of walks.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, no libc. Do not introduce any dependency there. Every word of the stack is read inside a
 * window of pages that the kernel has confirmed as readable (stack_bounds.c), by a load that may fault, in case the
 * pages have been unmapped since then (memory_load()). On one stack the frames must ascend, and a walk goes to a
 * lower one at most SWITCHES times.
 */
#include <signal.h>
#include <ucontext.h>

#include "unwind/cursor.h"
#include "unwind/plain_frames.h"
#include "unwind/recover.h"

/* Maximum number of steps that lead to another stack: signal frames, and CFAs below rsp that are loaded or relative to
 * a register other than rsp. */
#define SWITCHES 64
/* Maximum number of frames of one walk, not counting plain ones: as many frames of 16 bytes as a stack of 1 GiB has. */
#define FRAMES (1u << 26)
/* Bytes below rsp that signal handlers do not touch (psABI 3.2.2). */
#define RED_ZONE 128

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

int cursor_read(struct cursor *c, uint64_t at, uint64_t *v) { return word_read(c, at, v) ? -1 : 0; }

static const word lost = 0; /* stands for the slot of an rbp that is not saved */

/* The order in which the kernel saves the interrupted registers: struct sigcontext has r8-r15,
 * rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (asm/sigcontext.h); gregset_t is the same. */
static const uint8_t saved_order[17] = {
	ETCH_R8,  ETCH_R9,  ETCH_R10, ETCH_R11, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15, ETCH_RDI,
	ETCH_RSI, ETCH_RBP, ETCH_RBX, ETCH_RDX, ETCH_RAX, ETCH_RCX, ETCH_RSP, ETCH_RIP,
};

/* Called when no table covers `at`: notes that rip is in no module with a table, and, for a walk without tables, the
 * module that it is in. */
static __attribute__((noinline)) void enter_bare(struct cursor *c, uint64_t at)
{
	c->text_size = 0;
	if (c->without_tables && !c->target) {
		if (!loaded_image(at, &c->bare))
			c->bare.start = c->bare.end = 0;
		c->bare_key = fallback_key(&c->bare);
	}
}

WALK const struct unwind_module *cursor_enter_other(struct cursor *c, uint64_t at)
{
	const struct unwind_module *m;

	if (at - c->bare.start < c->bare.end - c->bare.start)
		return NULL;
	m = ETCH_UNLIKELY(c->target != NULL) ? lookup_target(c->target, at, &c->capacity) : lookup_module(at, &c->capacity);
	if (ETCH_UNLIKELY(!m)) {
		enter_bare(c, at);
		return NULL;
	}
	c->shared = m == &c->capacity ? NULL : m;
	c->text = m->text;
	c->text_size = m->text_size;
	return m;
}

NO_ASAN static int step_signal(struct cursor *c, const struct etch_rule *r)
{
	uint64_t at = c->reg[ETCH_RSP] + (uint64_t)(int64_t)r->cfa_off - 8 * SAVED_RSP, reg[17], trap;

	for (int i = 0; i < 17; i++)
		if (word_read(c, at + 8 * (uint64_t)i, &reg[saved_order[i]]))
			return ETCH_UNWIND_MEMORY;
	if (c->switches == SWITCHES)
		return ETCH_UNWIND_LIMIT;
	c->switches++;
	/* As in cursor_fault(): the interrupted rsp may have caused the page fault, and point into a stack that is gone. */
	if (!c->target && !word_read(c, at + 8 * SAVED_TRAPNO, &trap) && trap == TRAP_PAGE_FAULT) {
		stack_forget();
		c->window = (struct window){0, 0};
	}
	for (int i = 0; i < 17; i++)
		c->reg[i] = reg[i];
	c->known = KNOWN_ALL;
	c->interrupted = 1;
	c->assumed &= ASSUMED_ANY;
	c->saved = (const word *)(uintptr_t)at;
	return ETCH_UNWIND_OK;
}

/*
 * Recovers a register that a rule of an outer frame needs but the tables do not track: for example, the dynamic
 * linker's lazy resolver has its CFA in rbx. Walks again by .eh_frame from the last frame whose registers are all
 * known, or from this function if no frame was interrupted.
 */
NO_ASAN static __attribute__((noinline)) int register_recover(struct cursor *c, unsigned reg)
{
	uint64_t from[17] = {0};
	bool returned = false;

	if (c->target || c->interrupted || (!c->saved && (RECOVER_SCRATCH >> reg & 1)))
		return ETCH_UNWIND_REGISTER;
	if (c->saved)
		for (int i = 0; i < 17; i++)
			from[saved_order[i]] = c->saved[i];
	if (c->assumed & ASSUMED_LAST) {
		returned = true;
		if ((RECOVER_SCRATCH >> reg & 1) || word_read(c, from[ETCH_RSP], &from[ETCH_RIP]))
			return ETCH_UNWIND_REGISTER;
		from[ETCH_RSP] += 8;
	}
	if (!c->saved)
		__asm__ __volatile__("mov %%rbx, 3*8(%0)\n\t"
		                     "mov %%rsp, 4*8(%0)\n\t"
		                     "mov %%rbp, 5*8(%0)\n\t"
		                     "mov %%r12, 12*8(%0)\n\t"
		                     "mov %%r13, 13*8(%0)\n\t"
		                     "mov %%r14, 14*8(%0)\n\t"
		                     "mov %%r15, 15*8(%0)\n\t"
		                     "lea 0f(%%rip), %%rcx\n"
		                     "0:\tmov %%rcx, 16*8(%0)"
		                     :
		                     : "r"(from)
		                     : "rcx", "memory");
	if (recover_register(from, returned, c->reg[ETCH_RIP], c->reg[ETCH_RSP], reg, loaded_image, &c->reg[reg]))
		return ETCH_UNWIND_REGISTER;
	c->known |= KNOWN(reg);
	return ETCH_UNWIND_OK;
}

/*
 * Finds a return address that is not in the slot where the call pushed it, but in another slot or in a register. In a
 * frame that has called another function only a callee-saved register can hold it.
 */
NO_ASAN static int ra_moved(struct cursor *c, const struct etch_rule *r, uint64_t cfa, uint64_t sp, uint64_t *ip)
{
	uint64_t at = cfa + (uint64_t)(int64_t)r->cfa_add;
	unsigned reg = r->ra & 15;

	if (cfa < sp)
		return ETCH_UNWIND_NOPROGRESS;
	if (cfa == sp && !c->interrupted) {
		/* The frame is empty: it made a call after popping its own return address. */
		if (c->switches == SWITCHES)
			return ETCH_UNWIND_LIMIT;
		c->switches++;
	}
	if (r->ra == ETCH_RA_SLOT) {
		/* Only in an interrupted frame may the slot be below rsp, in the red zone. */
		if ((int64_t)(at - sp) < (c->interrupted ? -RED_ZONE : 0))
			return ETCH_UNWIND_NOPROGRESS;
		return word_read(c, at, ip) ? ETCH_UNWIND_MEMORY : ETCH_UNWIND_OK;
	}
	if (!c->interrupted && !(CALLEE_SAVED >> reg & 1))
		return ETCH_UNWIND_REGISTER;
	if (!(c->known & KNOWN(reg)) && register_recover(c, reg))
		return ETCH_UNWIND_REGISTER;
	*ip = c->reg[reg];
	return ETCH_UNWIND_OK;
}

/* Replaces *bp, this frame's rbp, which may be `known` or not, by the caller's. Returns 1, or 0 if the caller's is
 * unknown. If rbp's slot is unreadable, rbp is unknown and the walk continues. */
NO_ASAN static int caller_bp(struct cursor *c, const struct etch_rule *r, uint64_t cfa, int known, uint64_t *bp)
{
	uint64_t at;

	switch (r->bp) {
	case ETCH_BP_SAME: return known;
	case ETCH_BP_CFA: at = cfa; break;
	case ETCH_BP_RBP:
		if (!known)
			return 0;
		at = *bp;
		break;
	case ETCH_BP_RSP: at = c->reg[ETCH_RSP]; break;
	default: return 0;
	}
	return !word_read(c, at + (uint64_t)(int64_t)r->bp_off, bp);
}

/*
 * Called if the rule says that the caller's frame lies below this one. On one stack it cannot, so the function has
 * switched stacks, or the stack is corrupt. A rule whose CFA is relative to rsp does not leave the stack. One whose
 * CFA is relative to rbp may, but rbp is also the register that a corrupt stack most often has wrong. So three checks
 * apply: the word below such a CFA must be an address to which functions return; the walk ends where it comes to a
 * CFA for the second time; and the kernel is asked again about the pages of a stack that this thread may have
 * unmapped since an earlier walk.
 *
 * The circle is found as R. Brent does it (BIT 20, 1980): the CFA that is remembered is replaced at the 1st, 2nd,
 * 4th, 8th switch and so on.
 */
NO_ASAN static __attribute__((noinline)) int stack_descend(struct cursor *c, const struct etch_rule *r, uint64_t cfa)
{
	uint64_t ip;

	if (!rule_may_switch(r))
		return ETCH_UNWIND_NOPROGRESS;
	if (c->switches == SWITCHES)
		return ETCH_UNWIND_LIMIT;
	if (!(r->cfa & ETCH_CFA_DEREF) && (r->cfa & 15) == ETCH_REG_RBP) {
		if ((cfa & 7) || cfa < 8 || cfa == c->descent)
			return ETCH_UNWIND_NOPROGRESS;
		if ((!c->target && stack_reopen(cfa - 8, &c->window)) || word_read(c, cfa - 8, &ip))
			return ETCH_UNWIND_MEMORY;
		if (!cursor_returns_to(c, ip))
			return ETCH_UNWIND_NOPROGRESS;
		if (!(c->switches & (c->switches + 1)))
			c->descent = cfa;
	}
	c->switches++;
	return ETCH_UNWIND_OK;
}

/* Finds the CFA by the rule *r, whose register is known. Returns 0, or -1 if memory cannot be read. */
NO_ASAN static inline int rule_cfa(struct cursor *c, const struct etch_rule *r, uint64_t *cfa)
{
	uint64_t base = c->reg[r->cfa & 15];

	if (r->cfa & ETCH_CFA_INDEX)
		base = c->reg[ETCH_RSP] + 8 * base;
	*cfa = base + (uint64_t)(int64_t)r->cfa_off;
	if (r->cfa & ETCH_CFA_DEREF) {
		if (word_read(c, *cfa, cfa))
			return -1;
		*cfa += (uint64_t)(int64_t)r->cfa_add;
	}
	return 0;
}

/* Steps to the caller's frame by the rule *r. */
NO_ASAN static int step_rule(struct cursor *c, const struct etch_rule *r)
{
	unsigned reg = r->cfa & 15;
	uint64_t cfa, ip, bp, sp = c->reg[ETCH_RSP];
	int bp_known, trusted = 1, ret;
	struct prepare_image image;

	/* Only the table's header has been validated: the rule may be malformed or of a later format. */
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
	if (rule_cfa(c, r, &cfa))
		return ETCH_UNWIND_MEMORY;
	if (r->ra == ETCH_RA_CFA) {
		if (cfa - 8 < sp || cfa < 8) {
			ret = stack_descend(c, r, cfa);
			if (ret != ETCH_UNWIND_OK)
				return ret;
		}
		if (word_read(c, cfa - 8, &ip))
			return ETCH_UNWIND_MEMORY;
		/* The callee may have changed the register; if so, this is hardly a return address. */
		if (!trusted && !cursor_enter(c, ip - 1) && !(c->without_tables && loaded_image(ip - 1, &image))) {
			c->known &= ~KNOWN(reg); /* another try does not trust the register either */
			return ETCH_UNWIND_REGISTER;
		}
	} else {
		ret = ra_moved(c, r, cfa, sp, &ip);
		if (ret != ETCH_UNWIND_OK)
			return ret;
	}
	bp_known = caller_bp(c, r, cfa, bp_known, &bp);
	c->reg[ETCH_RIP] = ip;
	c->reg[ETCH_RSP] = cfa;
	c->reg[ETCH_RBP] = bp;
	c->known = KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | (bp_known ? KNOWN(ETCH_RBP) : 0);
	c->interrupted = 0;
	return ETCH_UNWIND_OK;
}

int cursor_rule(struct cursor *c, struct etch_rule *r)
{
	/* A return address belongs to the call before it, which may be the last instruction of its function. */
	uint64_t at = c->reg[ETCH_RIP] - !c->interrupted;
	const struct unwind_module *m = cursor_enter(c, at);

	if (!m && !c->without_tables)
		return ETCH_UNWIND_NOTABLE;
	if (!m || m->encoding == MODULE_IN_PLACE)
		return cursor_fallback(c, m, r);
	module_rule(m, at, r);
	return ETCH_UNWIND_OK;
}

/*
 * Steps over a plain frame (plain_frames.h) by its map byte, which is possible for most frames of a walk, and returns
 * 1. Returns 0 with the cursor unchanged for another kind of frame, or the first one of a module or a window. The
 * step is not counted in c->frames, because such frames ascend on one stack.
 */
NO_ASAN static inline __attribute__((always_inline)) int step_by_map(struct cursor *c)
{
	const struct unwind_module *m = c->shared ? c->shared : &c->capacity;
	const word *slot = c->known & KNOWN(ETCH_RBP) ? &c->reg[ETCH_RBP] : &lost;
	struct frame f = {c->reg[ETCH_RIP], c->reg[ETCH_RSP], slot};
	uint64_t bp;
	const struct steps steps = steps_of(m, &c->window);

	/* An empty window, such as that of another process, is too small. An unknown rbp is 0, which is no CFA. */
	if (c->interrupted || f.ip - 1 - c->text >= c->text_size || m->by < PLAIN_MAP_6 ||
	    f.sp - steps.lo - STEP_BYTES >= steps.hi - steps.lo ||
	    !map_step(&steps, &f, (enum plain_by)(m->by & (PLAIN_SHIFT | PLAIN_OPEN))) || !f.ip)
		return 0;
	if (f.slot != slot) {
		if (memory_read((uint64_t)(uintptr_t)f.slot, &bp))
			return 0;
		c->reg[ETCH_RBP] = bp;
		c->known |= KNOWN(ETCH_RBP);
	}
	c->reg[ETCH_RIP] = f.ip;
	c->reg[ETCH_RSP] = f.sp;
	c->known &= KNOWN(ETCH_RIP) | KNOWN(ETCH_RSP) | KNOWN(ETCH_RBP);
	return 1;
}

NO_ASAN static __attribute__((noinline)) int step_any(struct cursor *c)
{
	struct etch_rule r = {.kind = ETCH_RULE_UNDEF};
	int ret = cursor_rule(c, &r);

	if (c->frames == FRAMES)
		return ETCH_UNWIND_LIMIT;
	if (c->interrupted && r.kind == ETCH_RULE_UNDEF && cursor_assume(c) == ETCH_UNWIND_OK) {
		c->frames++;
		return ETCH_UNWIND_OK;
	}
	if (ret != ETCH_UNWIND_OK)
		return ret;
	ret = step_rule(c, &r);
	if (ret == ETCH_UNWIND_OK)
		c->frames++;
	return ret;
}

NO_ASAN int cursor_step(struct cursor *c) { return step_by_map(c) ? ETCH_UNWIND_OK : step_any(c); }

int cursor_at_signal(struct cursor *c)
{
	struct etch_rule r;

	return cursor_rule(c, &r) == ETCH_UNWIND_OK && r.kind == ETCH_RULE_SIGNAL;
}

/* ---- the first frame of a walk ------------------------------------------------------- */

void cursor_load_rest(struct cursor *c)
{
	for (int i = 0; i < 17; i++)
		c->reg[saved_order[i]] = c->saved[i];
	c->known = KNOWN_ALL;
}

void cursor_from(struct cursor *c, const void *ucontext)
{
	const ucontext_t *u = ucontext;

	cursor_start(c);
	c->saved = (const word *)(const void *)u->uc_mcontext.gregs;
	c->interrupted = 1;
	cursor_load_rest(c);
}

/* ---- etch/unwind.h -------------------------------------------------------------------- */

UNWIND_API const char *etch_unwind_strerror(int status)
{
	switch (etch_unwind_reason(status)) {
	case ETCH_UNWIND_OK: return "a frame was found";
	case ETCH_UNWIND_END: return "outermost frame: the trace is complete";
	case ETCH_UNWIND_NOTABLE: return "no unwind table for this address";
	case ETCH_UNWIND_UNDEFINED: return "the unwind table has no rule for this address";
	case ETCH_UNWIND_REGISTER: return "a register that is needed is unknown in this frame";
	case ETCH_UNWIND_MEMORY: return "stack memory cannot be read";
	case ETCH_UNWIND_NOPROGRESS: return "the caller's frame is not above this one: corrupt stack";
	case ETCH_UNWIND_LIMIT: return "frame limit reached";
	case ETCH_UNWIND_EINVAL: return "invalid argument";
	}
	return "unknown status";
}

int cursor_init_entered(struct cursor *c, const void *ucontext);

/* etch_cursor_init() jumps here, so the caller of this function's frame is that of the public function. */
__attribute__((noinline, used)) int cursor_init_entered(struct cursor *c, const void *ucontext)
{
	cursor_begin(c, ucontext, __builtin_frame_address(0));
	if (ucontext) {
		cursor_behind_set(c);
	} else {
		c->behind.reg[5] = c->reg[ETCH_RBP];
		c->behind.reg[6] = c->reg[ETCH_RSP];
		c->behind.reg[7] = c->reg[ETCH_RIP];
		c->behind.known = CALLEE_SAVED | KNOWN(ETCH_RSP) | KNOWN(ETCH_RIP);
		c->behind.interrupted = 0;
	}
	return ETCH_UNWIND_OK;
}

/* The function consists of its assembly alone, whatever the compiler is told to add (as in etch/pv.h). */
#if !defined(__clang__) && __GNUC__ >= 11
#define NAKED \
	__attribute__((naked, noinline, no_instrument_function, no_stack_protector, no_profile_instrument_function))
#else
#define NAKED __attribute__((naked, noinline))
#endif

/* Stores the caller's registers before any C code changes them. */
UNWIND_API NAKED int etch_cursor_init(struct etch_cursor *cursor __attribute__((unused)),
                                      const void *ucontext __attribute__((unused)))
{
	__asm__("mov %%rbx, %c0(%%rdi)\n\t"
	        "mov %%r12, %c0+8(%%rdi)\n\t"
	        "mov %%r13, %c0+16(%%rdi)\n\t"
	        "mov %%r14, %c0+24(%%rdi)\n\t"
	        "mov %%r15, %c0+32(%%rdi)\n\t"
	        "jmp cursor_init_entered"
	        :
	        : "i"(offsetof(struct cursor, behind)));
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
	cursor_behind_set(c);
	return ETCH_UNWIND_OK;
}

UNWIND_API int etch_step(struct etch_cursor *cursor)
{
	struct cursor *c = (struct cursor *)cursor;
	int ret = cursor_step(c);

	return ETCH_UNLIKELY(c->interrupted || ret == ETCH_UNWIND_REGISTER) ? cursor_stepped(c, ret) : ret;
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

UNWIND_API int etch_assumed(const struct etch_cursor *cursor)
{
	return ((const struct cursor *)cursor)->assumed & ASSUMED_ANY;
}

UNWIND_API int etch_interrupted(const struct etch_cursor *cursor)
{
	return ((const struct cursor *)cursor)->interrupted;
}
