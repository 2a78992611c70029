/* SPDX-License-Identifier: MIT */
/*
 * fallback.c: the rule of a frame whose code no table covers, for walks that ask for it
 * (cursor.without_tables): from .eh_frame, which is read at each step; slower than a table, and
 * as right.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc,
 * no lock, no thread-local storage, no libc. Do not introduce any dependency there.
 */
#include "unwind/cursor.h"
#include "unwind/recover.h"

/* Offset of the interrupted rsp from rsp in the restorer: struct ucontext begins there
 * (asm-generic/ucontext.h, asm/sigcontext.h). */
#define RESTORER_RSP 160

/*
 * Is this the code that a signal handler returns to: mov $__NR_rt_sigreturn,%rax; syscall? The kernel's
 * ABI requires nothing else of it; musl's has no .eh_frame, and gdb and libgcc know it by these bytes.
 */
NO_ASAN static int is_restorer(uint64_t ip)
{
	uint64_t first, last;

	if (!stack_page_readable(ip) || !stack_page_readable(ip + 8) || memory_read(ip, &first) ||
	    memory_read(ip + 1, &last))
		return 0;
	return first == 0x0f0000000fc0c748u && last == 0x050f0000000fc0c7u;
}

/*
 * Code that nothing describes, as a JIT's: rbp is taken to point to the caller's rbp, with the return address
 * behind. A guess (an interrupted function may not have set rbp yet, and then its caller is left out), so only
 * where the program asked for it, and outside of all modules.
 */
NO_ASAN static int frame_pointer_rule(struct cursor *c, struct etch_rule *r)
{
	uint64_t bp = c->reg[ETCH_RBP], next, ip;
	struct prepare_image im;
	struct window w;

	if (!(c->known & KNOWN(ETCH_RBP)) || (bp & 7) || bp < c->reg[ETCH_RSP] ||
	    loaded_image(c->reg[ETCH_RIP] - !c->interrupted, &im) || stack_window(bp, &w) || stack_window(bp + 8, &w) ||
	    memory_read(bp, &next) || memory_read(bp + 8, &ip))
		return ETCH_UNWIND_NOTABLE;
	/* Either leads to another such frame, or back to code that does not use rbp so. */
	if (next <= bp && !loaded_image(ip - 1, &im))
		return ETCH_UNWIND_NOTABLE;
	*r = (struct etch_rule){
		.cfa_off = 16, .cfa = ETCH_REG_RBP, .bp = ETCH_BP_CFA, .bp_off = -16, .kind = ETCH_RULE_CALL};
	return ETCH_UNWIND_OK;
}

int cursor_fallback(struct cursor *c, struct etch_rule *r)
{
	uint64_t ip = c->reg[ETCH_RIP];

	if (c->target)
		return ETCH_UNWIND_NOTABLE;
	if (!c->untabled)
		c->untabled = ip;
	if (recover_rule(loaded_image, ip - !c->interrupted, r))
		return ETCH_UNWIND_OK;
	/* The first address of a function as a return address: makecontext's, a thread's, a restorer's. */
	if (!c->interrupted && recover_rule(loaded_image, ip, r) && r->kind != ETCH_RULE_CALL)
		return ETCH_UNWIND_OK;
	if (is_restorer(ip)) {
		*r =
			(struct etch_rule){.cfa_off = RESTORER_RSP, .cfa = ETCH_REG_RSP | ETCH_CFA_DEREF, .kind = ETCH_RULE_SIGNAL};
		return ETCH_UNWIND_OK;
	}
	if (c->without_tables & CURSOR_FRAME_POINTERS)
		return frame_pointer_rule(c, r);
	return ETCH_UNWIND_NOTABLE;
}
