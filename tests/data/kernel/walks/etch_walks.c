// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * etch_walks: a kernel module that unwinds what a timer interrupt has interrupted, by the kernel's own ORC unwinder, and
 * says at how many walks it got to the end. Loading it takes until `walks` of them are done. Before, it prints a hash of
 * each page of the kernel's code as it is now, patched.
 */
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <asm/irq_regs.h>
#include <asm/unwind.h>

static unsigned int walks = 30000, period = 200; /* microseconds */
module_param(walks, uint, 0444);
module_param(period, uint, 0444);

#define BROKEN 64

static struct hrtimer timer;
static DECLARE_COMPLETION(finished);
static unsigned int done, whole, broken, user;
static unsigned long frames, broken_at[BROKEN], interrupted_at[BROKEN];

/* Unwinds from the interrupted instruction. */
static void walk(struct pt_regs *regs)
{
	struct unwind_state state;
	unsigned long last = regs->ip;

	for (unwind_start(&state, current, regs, NULL); !unwind_done(&state); unwind_next_frame(&state)) {
		unsigned long ip = unwind_get_return_address(&state);

		if (ip)
			last = ip;
		frames++;
	}
	if (!unwind_error(&state)) {
		whole++;
		return;
	}
	if (broken < BROKEN) {
		broken_at[broken] = last;
		interrupted_at[broken] = regs->ip;
	}
	broken++;
}

static enum hrtimer_restart tick(struct hrtimer *t)
{
	struct pt_regs *regs = get_irq_regs();

	if (regs && user_mode(regs))
		user++;
	else if (regs)
		walk(regs);
	if (++done >= walks) {
		complete(&finished);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(t, ns_to_ktime(period * 1000ull));
	return HRTIMER_RESTART;
}

/* The address of a symbol that is not exported; or 0. */
static unsigned long address_of(const char *name)
{
	struct kprobe probe = {.symbol_name = "kallsyms_lookup_name"};
	unsigned long (*lookup)(const char *name);

	if (register_kprobe(&probe))
		return 0;
	lookup = (void *)probe.addr;
	unregister_kprobe(&probe); /* gives the code back as it was */
	return lookup(name);
}

/* FNV-1a of each page. */
static void text_print(void)
{
	unsigned long at = address_of("_stext"), end = address_of("_etext"), i;

	for (; at && at < end; at += PAGE_SIZE) {
		u64 hash = 0xcbf29ce484222325;

		for (i = at; i < min(at + PAGE_SIZE, end); i++)
			hash = (hash ^ READ_ONCE(*(u8 *)i)) * 0x100000001b3;
		pr_info("etch_walks: text %lx %016llx\n", at, hash);
	}
}

static int __init etch_walks_init(void)
{
	unsigned int i;

	text_print();
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer.function = tick;
	hrtimer_start(&timer, ns_to_ktime(period * 1000ull), HRTIMER_MODE_REL_HARD);
	wait_for_completion(&finished);
	hrtimer_cancel(&timer);
	pr_info("etch_walks: ticks %u user %u whole %u broken %u frames %lu\n", done, user, whole, broken, frames);
	for (i = 0; i < min(broken, (unsigned int)BROKEN); i++)
		pr_info("etch_walks: broken at %pS, interrupted %pS\n", (void *)broken_at[i], (void *)interrupted_at[i]);
	return 0;
}

static void __exit etch_walks_exit(void)
{
}

module_init(etch_walks_init);
module_exit(etch_walks_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Walks of interrupted stacks, for tests of ORC tables");
