/* SPDX-License-Identifier: MIT */
/*
 * One call through an ops object a function, each of a kind that etch rewrite treats
 * in a way of its own; and, as assembly, every encoding that it takes. With LIBRARY
 * the same as a shared object, whose run() is called by rewrite_use.c.
 */
#include <etch/pv.h>
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

struct ops {
	unsigned long (*val)(unsigned long);
	unsigned (*val32)(unsigned);
	void (*flush)(void);
	int (*add)(int, int);
	int (*zero)(void);
	int (*five)(void);
	int (*none)(void);
	size_t (*length)(const char *);
	void (*set)(long *, long);
	unsigned (*pair)(unsigned);
	unsigned (*saved)(unsigned);
	int (*open)(int);
	int (*pick)(int);
	int (*weak)(int);
	void (*stop)(int);
};

void native_set(long *p, long v);
unsigned native_pair(unsigned x);
unsigned native_saved(unsigned x);
PV_NATIVE(native_set, "mov %rsi,(%rdi)");
PV_NATIVE(native_pair, "mov %edi,%eax; inc %eax");
PV_NATIVE(native_saved, "mov %edi,%eax; lea 0(%rip),%rdx"); /* not the same at another place: called */

static NOINLINE int add(int a, int b) { return a + 10 * b; }
static NOINLINE int add2(int a, int b) { return a + 100 * b; }
static int zero(void) { return 0; }
static int five(void) { return 5; }
int open_to_all(int x);
NOINLINE int open_to_all(int x) { return x + 7; }
__attribute__((weak)) int weakly(int x);
NOINLINE int weakly(int x) { return x - 7; }
static NOINLINE __attribute__((noreturn)) void stop(int x)
{
	printf("%d\n", x);
	__builtin_trap();
}
static int picked(int x) { return x * 3; }
__attribute__((used)) static int (*pick_one(void))(int) { return picked; }
static int pick(int) __attribute__((ifunc("pick_one")));

extern struct ops pv_table __attribute__((visibility("hidden")));
DEFINE_PV_OPS(struct ops, pv_table) = {
	pv_ident_64, pv_ident_32, pv_nop, add, zero, five, 0, strlen, native_set, native_pair, native_saved,
	open_to_all, pick, weakly, stop,
};

#define USE(type, name, parameters, expression) \
	NOINLINE type name parameters;          \
	NOINLINE type name parameters { return expression; }
USE(unsigned long, use_val, (unsigned long x), pv_table.val(x) + 1)
USE(unsigned, use_val32, (unsigned x), pv_table.val32(x) + 1)
USE(int, use_flush, (int x), (pv_table.flush(), x + 1))
USE(int, use_add, (int x), pv_table.add(x, 2) + 1)
USE(int, use_tail, (int x), pv_table.add(x, 3))
USE(int, use_zero, (int x), pv_table.zero() + x)
USE(int, use_five, (int x), pv_table.five() + x)
USE(int, use_none, (int x), x ? x : pv_table.none() + 1)
USE(int, use_length, (const char *s), (int)pv_table.length(s) + 1)
USE(long, use_set, (long *p, long v), (pv_table.set(p, v), *p + 1))
USE(unsigned, use_pair, (unsigned x), pv_table.pair(x) + 1)
USE(unsigned, use_saved, (unsigned x), pv_table.saved(x) + 1)
USE(int, use_open, (int x), pv_table.open(x) + 1)
USE(int, use_pick, (int x), pv_table.pick(x) + 1)
USE(int, use_weak, (int x), pv_table.weak(x) + 1)
/* The code after it is reached as far as its rows may know: the slot can be set. */
USE(int, use_stop, (int x), x ? x : (pv_table.stop(x), x + 5))

/* int asm_NAME(int a, int b): calls or jumps to pv_table.add, at offset 24. The site is
 * aligned to a word, which it therefore does not cross. */
#define ASM_FUNCTION(name, before, align, site, after)                                   \
	int asm_##name(int a, int b);                                                    \
	__asm__(".pushsection .text.asm_" #name ",\"ax\",@progbits\n\t"                  \
	        ".p2align 4\n\t.globl asm_" #name "\n\t.hidden asm_" #name "\n\t"        \
	        ".type asm_" #name ", @function\nasm_" #name ":\n\t.cfi_startproc\n\t"   \
	        before "\n\t" align "\n\t" site "\n\t" after "\n\t.cfi_endproc\n\t"      \
	        ".size asm_" #name ", . - asm_" #name "\n\t.popsection")
#define ASM_CALL(name, load, site) \
	ASM_FUNCTION(call_##name, "sub $8,%rsp\n\t.cfi_adjust_cfa_offset 8\n\t" load, ".p2align 3", site, \
	             "add $8,%rsp\n\t.cfi_adjust_cfa_offset -8\n\tret")
#define ASM_JUMP(name, load, site) ASM_FUNCTION(jmp_##name, load, ".p2align 3", site, "")
#define ASM_BOTH(name, load, operand)                    \
	ASM_CALL(name, load, "callq *" operand);         \
	ASM_JUMP(name, load, "jmp *" operand)
ASM_BOTH(rip, "", "pv_table+24(%rip)");
ASM_BOTH(base0, "lea pv_table+24(%rip),%rax", "(%rax)");
ASM_BOTH(base8, "lea pv_table(%rip),%rax", "24(%rax)");
ASM_BOTH(base_rex, "lea pv_table+16(%rip),%r11", "8(%r11)");
ASM_FUNCTION(call_sib, "push %r12\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_rel_offset %r12, 0\n\tlea pv_table(%rip),%r12",
             ".p2align 3", "callq *24(%r12)", "pop %r12\n\t.cfi_adjust_cfa_offset -8\n\tret");
ASM_BOTH(reg, "mov pv_table+24(%rip),%rax", "%rax");
ASM_BOTH(reg_rex, "mov pv_table+24(%rip),%r11", "%r11");
ASM_BOTH(reg_copy, "mov pv_table+24(%rip),%r11\n\tmov %r11,%rax", "%rax");
ASM_CALL(wide, "lea pv_table(%rip),%rax", ".byte 0xff,0x90,24,0,0,0"); /* four bytes of displacement */
ASM_CALL(notrack, "", ".byte 0x3e\n\tcallq *pv_table+24(%rip)");
ASM_JUMP(notrack, "mov pv_table+24(%rip),%rax", ".byte 0x3e\n\tjmp *%rax");
ASM_FUNCTION(crossing, "sub $8,%rsp\n\t.cfi_adjust_cfa_offset 8", ".p2align 3\n\tnopl (%rax)", "callq *pv_table+24(%rip)",
             "add $8,%rsp\n\t.cfi_adjust_cfa_offset -8\n\tret");
#ifdef ABSOLUTE
ASM_BOTH(abs, "", "pv_table+24");
#endif
/* Not the object's: an index, and two slots that meet. */
ASM_CALL(index, "lea pv_table(%rip),%rax\n\tmov $3,%ecx", "callq *(%rax,%rcx,8)");
ASM_CALL(meets, "mov pv_table+24(%rip),%rax\n\ttest %edi,%edi\n\tjne 1f\n\tmov pv_table+88(%rip),%rax\n1:", "callq *%rax");

int run(void);
static int print(void)
{
	long v = 3;

	printf("%lu %u %d %d %d %d %d %d %d ", use_val(~0ul - 5), use_val32(9), use_flush(1), use_add(4), use_tail(4),
	       use_zero(1), use_five(1), use_none(1), use_length("four"));
	printf("%ld %u %u %d %d %d %d |", use_set(&v, 40), use_pair(1), use_saved(1), use_open(1), use_pick(2),
	       use_weak(2), use_stop(3));
	printf(" %d %d %d %d %d %d %d %d %d %d", asm_call_rip(1, 2), asm_call_base0(1, 2), asm_call_base8(1, 2),
	       asm_call_base_rex(1, 2), asm_call_sib(1, 2), asm_call_reg(1, 2), asm_call_reg_rex(1, 2),
	       asm_call_reg_copy(1, 2), asm_call_wide(1, 2), asm_call_notrack(1, 2));
	printf(" %d %d %d %d %d %d %d %d %d", asm_jmp_rip(1, 2), asm_jmp_base0(1, 2), asm_jmp_base8(1, 2),
	       asm_jmp_base_rex(1, 2), asm_jmp_reg(1, 2), asm_jmp_reg_rex(1, 2),
	       asm_jmp_reg_copy(1, 2), asm_jmp_notrack(1, 2), asm_crossing(1, 2));
#ifdef ABSOLUTE
	printf(" %d %d", asm_call_abs(1, 2), asm_jmp_abs(1, 2));
#endif
	printf(" %d %d\n", asm_call_index(1, 2), asm_call_meets(1, 2));
	return 0;
}

int run(void)
{
	int failed;

	print();
	failed = (pv_set(pv_table.add, add2) != 0) + (pv_set(pv_table.val32, native_pair) != 0) + (pv_set(pv_table.open, picked) != 0);
	print();
	failed += pv_set(pv_table.add, add) != 0;
	printf("%d sets failed, %ld sites differ\n", failed, etch_verify(0, 0));
	return failed != 0;
}

#ifndef LIBRARY
int main(void) { return run(); }
#endif
