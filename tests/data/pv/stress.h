/* SPDX-License-Identifier: MIT */
/*
 * stress.h: the model that stress.c and its plugin share. A slot's sets are numbered,
 * and what each set is remembered; a target's result tells which it was. So one call
 * tells a target that was never set, one that was replaced before the call began, and
 * a call that did half of two things.
 */
#ifndef TEST_PV_STRESS_H
#define TEST_PV_STRESS_H

#include <etch/pv.h>
#include <stdatomic.h>
#include <stdint.h>

typedef uint64_t two_fn(uint64_t, uint64_t);
typedef void void_fn(void);

struct stress_ops {
	two_fn *asm0, *asm1; /* called by assembly that can tell a nop, too */
	char capacity[200];      /* what follows needs four bytes of displacement */
	two_fn *c0, *c1;     /* called from C: no nop, whose result would be anything */
	void_fn *v;
};
DECLARE_PV_OPS(struct stress_ops, stress_ops);

enum slot { ASM0, ASM1, C0, C1, V, SLOTS };
enum target { DIRECT0, DIRECT1, IDENT, FIRST, ADD, TWO, ZERO, FIVE, PLUGIN, NOP, TARGETS };

#define SENTINEL 0x5e5e5e5eul /* in rax before a call: left there by a nop */

/* What a target returns; of V's slot DIRECT0, DIRECT1 and NOP only, which count. */
static inline uint64_t target_result(enum target t, uint64_t a, uint64_t b)
{
	switch (t) {
	case DIRECT0: return 3 * a + b + 1000001;
	case DIRECT1: return 5 * a - b + 1000003;
	case IDENT:
	case FIRST: return a;
	case ADD: return a + b;
	case TWO: return a - b;
	case ZERO: return 0;
	case FIVE: return 5;
	case PLUGIN: return 7 * a + b;
	default: return SENTINEL;
	}
}

/* A slot's sets: begun, and returned; number n was to target ring[n]. One writer at a time. */
#define RING 65536u
struct history {
	_Atomic uint64_t begun __attribute__((aligned(64)));
	_Atomic uint64_t done;
	_Atomic uint8_t ring[RING];
};
extern struct history history[SLOTS];

/* Is it what a call may give that began when `done` sets had returned? 1 = yes, 0 =
 * no, -1 = too many sets in between to say. Call it at once after the call. */
static inline int result_ok(const struct history *h, uint64_t done, uint64_t a, uint64_t b, uint64_t result)
{
	uint64_t n, begun = atomic_load(&h->begun);

	if (begun - done > RING / 2)
		return -1;
	for (n = done; n <= begun; n++)
		if (target_result((enum target)h->ring[n % RING], a, b) == result)
			return 1;
	return 0;
}

static inline int call_ok(enum slot slot, two_fn *site, uint64_t a, uint64_t b)
{
	uint64_t done = atomic_load(&history[slot].done);

	return result_ok(&history[slot], done, a, b, site(a, b));
}

/*
 * A function around one site of assembly, in one word: `insn`, after `before`, which
 * may set registers other than those of arguments; rax holds the sentinel at first.
 */
#define SITE_BEGIN(name)                                                                                   \
	"\n\t.text\n\t.p2align 4\n\t.globl " #name "\n\t.hidden " #name "\n\t.type " #name ", @function\n" #name ":\n\t" \
	".cfi_startproc\n\tmovl $0x5e5e5e5e, %eax\n\t"
#define SITE_END(name) "\n\t.cfi_endproc\n\t.size " #name ", . - " #name
#define SITE_CALL(name, before, insn)                                                                      \
	__asm__(SITE_BEGIN(name) "subq $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\t" before "\n\t.p2align 3\n\t" insn    \
	        "\n\taddq $8, %rsp\n\t.cfi_adjust_cfa_offset -8\n\tret" SITE_END(name));                   \
	uint64_t name(uint64_t a, uint64_t b)
#define SITE_JMP(name, before, insn)                                                                       \
	__asm__(SITE_BEGIN(name) before "\n\t.p2align 3\n\t" insn SITE_END(name));                            \
	uint64_t name(uint64_t a, uint64_t b)

#define SITE_ALONE __attribute__((noinline))

#endif
