/* SPDX-License-Identifier: MIT */
/* The plugin of stress.c: sites of its own on the program's ops, an ops object of its
 * own, and a target that the program calls directly while it is loaded. */
#include <stddef.h>

#include "pv/stress.h"

#define P(x) __attribute__((visibility("default"))) x

uint64_t plugin_target(uint64_t a, uint64_t b);
P(uint64_t plugin_target(uint64_t a, uint64_t b)) { return 7 * a + b; }

static SITE_ALONE uint64_t own0(uint64_t a, uint64_t b) { return 3 * a + b + 1000001; }
static uint64_t own_zero(uint64_t a, uint64_t b) { (void)a; (void)b; return 0; }
static DEFINE_PV_OPS(struct stress_ops, own) = {.c0 = own0, .c1 = pv_ident_64};

static SITE_ALONE uint64_t tail0(uint64_t a, uint64_t b) { return stress_ops.c0(a, b); }
static SITE_ALONE uint64_t call1(uint64_t a, uint64_t b)
{
	uint64_t r = stress_ops.c1(a, b);

	__asm__ volatile("" : "+r"(r));
	return r;
}
static SITE_ALONE uint64_t own_call(uint64_t a, uint64_t b) { return own.c0(a, b) + 1; }
static SITE_ALONE uint64_t own_tail(uint64_t a, uint64_t b) { return own.c1(a, b); }
SITE_CALL(plugin_got, "movq stress_ops@GOTPCREL(%rip), %r10", "call *8(%r10)");
SITE_JMP(plugin_got_jmp, "movq stress_ops@GOTPCREL(%rip), %r11", "jmp *(%r11)");

/* Wrong results of `rounds` rounds. */
int plugin_check(unsigned rounds);
P(int plugin_check(unsigned rounds))
{
	int bad = 0;

	for (uint64_t i = 0; i < rounds; i++) {
		bad += call_ok(C0, tail0, i << 33 | 9, i) == 0;
		bad += call_ok(C1, call1, i << 34 | 3, i) == 0;
		bad += call_ok(ASM1, plugin_got, i << 33 | 7, i) == 0;
		bad += call_ok(ASM0, plugin_got_jmp, i << 35 | 7, i) == 0;
	}
	bad += own_call(5, 6) != 1000001 + 15 + 6 + 1 || own_tail(77, 1) != 77;
	bad += pv_set(own.c0, own_zero) != 0 || pv_set(own.c1, own0) != 0;
	bad += own_call(5, 6) != 1 || own_tail(5, 6) != 1000001 + 15 + 6;
	return bad;
}
