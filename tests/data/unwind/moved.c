/* SPDX-License-Identifier: MIT */
/*
 * Return addresses that do not stay where the call has put them: functions that pop, copy, exchange and
 * overwrite theirs, run one instruction at a time (TF). Before each the caller is looked for with a cursor; that
 * it was called from invoke(), with which rsp and rbp, is known from invoke() itself.
 *
 *   moved    for each function: its name, then how many walks were right, were stopped, and were wrong
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <etch/unwind.h>

#include "walk_out.h"

uint64_t want_ip, want_sp, want_bp, way;
extern const char shapes_begin[], shapes_end[];
void invoke(void (*shape)(void), void (*helper)(void));
void helper(void), keeper(void);

__asm__(".text\n"
        ".globl invoke\n.type invoke,@function\n"
        "invoke:\n"
        "	push %rbp\n	mov %rsp,%rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
        "	mov %rdi,%rax\n	mov %rsi,%rdx\n	mov way(%rip),%rdi\n"
        "	push $0\n	push $0\n	push $0\n"
        "	mov %rsp,want_sp(%rip)\n	mov %rbp,want_bp(%rip)\n	lea 1f(%rip),%rcx\n	mov %rcx,want_ip(%rip)\n"
        "	pushf\n	orl $0x100,(%rsp)\n	popf\n"
        "	call *%rax\n"
        "1:	mov want_bp(%rip),%rbp\n	lea -40(%rbp),%rsp\n"
        "	pushf\n	andl $~0x100,(%rsp)\n	popf\n"
        "	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n	ret\n"
        ".size invoke,.-invoke\n"
        "	.balign 16\n"
        "shapes_begin:\n"
        ".globl helper\n.type helper,@function\n"
        "helper:	.cfi_startproc\n"
        "	push %rbp\n	.cfi_def_cfa_offset 16\n	.cfi_offset %rbp,-16\n"
        "	xor %eax,%eax\n	xor %ecx,%ecx\n	xor %r8d,%r8d\n"
        "	pop %rbp\n	.cfi_def_cfa_offset 8\n	.cfi_restore %rbp\n	ret\n"
        "	.cfi_endproc\n.size helper,.-helper\n"
        /* by a convention of its own: changes nothing */
        ".globl keeper\n.type keeper,@function\n"
        "keeper:	nop\n	ret\n.size keeper,.-keeper\n");

#define SHAPE(name, text)                                                                                          \
	__asm__(".text\n	.balign 16\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" text ".size " #name \
	        ",.-" #name "\n");                                                                                     \
	void name(void);

/* popped, and pushed again below registers of the caller's */
SHAPE(again, "	pop %rax\n	push %rbx\n	push %rsi\n	push %rax\n	push %rbp\n	mov %rsp,%rbp\n	sub $16,%rsp\n"
             "	call *%rdx\n	nop\n	leave\n	ret $16\n")
/* copied to another slot, and overwritten where it was */
SHAPE(copied, "	mov (%rsp),%rcx\n	push %rcx\n	movq $0,8(%rsp)\n	call *%rdx\n	nop\n	pop %rcx\n	mov "
              "%rcx,(%rsp)\n	ret\n")
SHAPE(copied_push, "	push (%rsp)\n	movq $0,8(%rsp)\n	call *%rdx\n	nop\n	pop (%rsp)\n	ret\n")
SHAPE(copied_pop, "	push %rbx\n	push 8(%rsp)\n	movq $0,16(%rsp)\n	nop\n	pop 8(%rsp)\n	pop %rbx\n	ret\n")
/* overwritten by a callee-saved register, and by pop */
SHAPE(pop_over, "	mov (%rsp),%rax\n	push %rbx\n	pop (%rsp)\n	nop\n	mov %rax,(%rsp)\n	ret\n")
/* overwritten in part, or by a vector */
SHAPE(partial, "	push (%rsp)\n	movb $0,12(%rsp)\n	call *%rdx\n	pop (%rsp)\n	ret\n")
SHAPE(vector, "	push (%rsp)\n	pxor %xmm0,%xmm0\n	movups %xmm0,8(%rsp)\n	call *%rdx\n	pop (%rsp)\n	ret\n")
/* in a callee-saved register while others are called */
SHAPE(in_rbx, "	pop %rbx\n	call *%rdx\n	nop\n	jmp *%rbx\n")
SHAPE(in_rbp, "	pop %rbp\n	call *%rdx\n	nop\n	push %rbp\n	ret\n")
SHAPE(in_both, "	pop %rax\n	mov %rax,%r12\n	push %rsi\n	call *%rdx\n	nop\n	add $8,%rsp\n	push %r12\n	ret\n")
/* in one that calls may change: what the callee does with it is not known */
SHAPE(in_rax, "	pop %rax\n	call keeper\n	push %rax\n	ret\n")
SHAPE(jumps, "	pop %rcx\n	nop\n	jmp *%rcx\n")
SHAPE(pushes, "	pop %rcx\n	nop\n	push %rcx\n	nop\n	ret\n")
SHAPE(exchanged, "	mov %rbx,%rax\n	xchg %rax,(%rsp)\n	nop\n	xchg (%rsp),%rax\n	nop\n	ret\n")
SHAPE(swapped, "	pop %rcx\n	xchg %rcx,%r9\n	push $0\n	xor %ecx,%ecx\n	nop\n	add $8,%rsp\n	jmp *%r9\n")
/* the kernel changes rcx and r11 */
SHAPE(kernel, "	mov (%rsp),%rcx\n	mov %rcx,%r8\n	movq $0,(%rsp)\n	mov $39,%eax\n	syscall\n	nop\n	mov "
              "%r8,(%rsp)\n	ret\n")
SHAPE(red_zone, "	pop %rax\n	mov %rax,-24(%rsp)\n	movq $0,-8(%rsp)\n	xor %eax,%eax\n	nop\n	mov "
                "-24(%rsp),%rcx\n	push %rcx\n	ret\n")
/* paths that meet with it in different places; and with one in common */
SHAPE(apart, "	test %edi,%edi\n	je 1f\n	pop %rax\n	push %rbx\n	push %rax\n	jmp 2f\n1:	push %rbx\n2:	nop\n"
             "	test %edi,%edi\n	je 3f\n	ret $8\n3:	pop %rbx\n	ret\n")
SHAPE(common,
      "	test %edi,%edi\n	je 1f\n	pop %rax\n	push %rbx\n	push %rax\n	jmp 2f\n1:	mov (%rsp),%rax\n	push %rbx\n"
      "2:	nop\n	add $16,%rsp\n	jmp *%rax\n")
/* a jump by return: of a register that calls may change, and of one that they may not */
SHAPE(thunk, "	lea 3f(%rip),%rcx\n	call 1f\n2:	pause\n	jmp 2b\n1:	mov %rcx,(%rsp)\n	ret\n3:	nop\n	ret\n")
SHAPE(thunk_rbx,
      "	push %rbx\n	lea 3f(%rip),%rbx\n	call 1f\n2:	pause\n	jmp 2b\n1:	mov %rbx,(%rsp)\n	ret\n3:	pop %rbx\n	ret\n")
/* overwritten, and kept where no row can say: in a vector, in a realigned frame */
SHAPE(hidden, "	movq (%rsp),%xmm0\n	mov %rbx,(%rsp)\n	nop\n	movq %xmm0,(%rsp)\n	nop\n	ret\n")
SHAPE(aligned,
      "	lea 8(%rsp),%r10\n	and $-32,%rsp\n	push -8(%r10)\n	push %rbp\n	mov %rsp,%rbp\n	push %r10\n	push %rdx\n"
      "	movq $0,-8(%r10)\n	call *%rdx\n	nop\n	mov -8(%rbp),%r10\n	mov 8(%rbp),%rax\n	mov %rax,-8(%r10)\n"
      "	leave\n	lea -8(%r10),%rsp\n	ret\n")
/* takes its arguments off the stack */
SHAPE(takes, "	pop %rcx\n	add $16,%rsp\n	push %rcx\n	nop\n	ret\n")

__asm__(".text\nshapes_end:\n");

#define ALL(X)                                                                                                       \
	X(again)                                                                                                         \
	X(copied) X(copied_push) X(copied_pop) X(pop_over) X(partial) X(vector) X(in_rbx) X(in_rbp) X(in_both) X(in_rax) \
		X(jumps) X(pushes) X(exchanged) X(swapped) X(kernel) X(red_zone) X(apart) X(common) X(thunk) X(thunk_rbx)    \
			X(hidden) X(aligned) X(takes)

static unsigned right, stopped, wrong;
static uint64_t stops[8];

static int is_inside(uint64_t ip) { return ip - (uintptr_t)shapes_begin < (uintptr_t)(shapes_end - shapes_begin); }

static void trap(int sig, siginfo_t *info, void *context)
{
	uint64_t ip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP], at, sp, bp;
	struct etch_cursor c;

	(void)sig, (void)info;
	if (!is_inside(ip))
		return;
	if (!walk_out(&c, context, shapes_begin, shapes_end)) {
		if (stopped < 8)
			stops[stopped] = ip - (uintptr_t)shapes_begin;
		stopped++;
		return;
	}
	etch_get_reg(&c, ETCH_RIP, &at);
	etch_get_reg(&c, ETCH_RSP, &sp);
	if (at != want_ip || sp != want_sp || (!etch_get_reg(&c, ETCH_RBP, &bp) && bp != want_bp)) {
		wrong++;
		fprintf(stderr, "at +%#lx: the caller is %#lx with rsp %+ld\n", (long)(ip - (uintptr_t)shapes_begin), (long)at,
		        (long)(sp - want_sp));
	} else {
		right++;
	}
}

static void look(const char *name, void (*shape)(void))
{
	right = stopped = wrong = 0;
	for (way = 0; way < 2; way++)
		invoke(shape, helper);
	printf("%s %u %u %u", name, right, stopped, wrong);
	for (unsigned i = 0; i < stopped && i < 8; i++)
		printf(" %#lx", (long)stops[i]);
	printf("\n");
}

int main(void)
{
	struct sigaction a = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &a, NULL);
	etch_unwind_prepare();
#define LOOK(name) look(#name, name);
	ALL(LOOK)
	return 0;
}
