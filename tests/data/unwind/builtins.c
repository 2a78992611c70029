/* SPDX-License-Identifier: MIT */
/*
 * Code by the convention of V8's builtins: callees take their arguments off the stack, as many as rax says, and callers
 * find their frames by rbp. Functions that push, copy and drop as many words as a register says and then return or call
 * another in their own place, run one instruction at a time (TF). Before each the caller is looked for with a cursor;
 * that it was called from invoke(), with which rbp, is known from invoke() itself.
 *
 *   builtins    for each function: its name, then how many walks were right, were stopped, and were wrong
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <etch/unwind.h>

#include "walk_out.h"

#define ARGUMENTS 24

uint64_t want_ip, want_bp, arguments[ARGUMENTS + 1], count, formal;
extern const char blob_begin[], blob_end[];
extern void *target;
void invoke(void (*shape)(void));

/* rax: number of arguments, which are on the stack, below a word that may be taken for one; rbx: the last of as many
 * more; rdx: how many words to add. */
__asm__(".text\n"
        ".globl invoke\n.type invoke,@function\n"
        "invoke:\n"
        "	push %rbp\n	mov %rsp,%rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	push $0\n"
        "	mov %rbp,want_bp(%rip)\n	lea 1f(%rip),%rcx\n	mov %rcx,want_ip(%rip)\n	mov %rdi,%rcx\n"
        "	mov count(%rip),%rax\n	mov %rax,%r8\n	lea arguments(%rip),%r13\n"
        "2:	test %r8,%r8\n	je 3f\n	push (%r13,%r8,8)\n	dec %r8\n	jmp 2b\n"
        "3:	lea (%r13,%rax,8),%rbx\n	mov formal(%rip),%rdx\n	lea target(%rip),%r13\n"
        "	pushf\n	orl $0x100,(%rsp)\n	popf\n"
        "	call *%rcx\n"
        "1:	lea -40(%rbp),%rsp\n"
        "	pushf\n	andl $~0x100,(%rsp)\n	popf\n"
        "	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n	ret\n"
        ".size invoke,.-invoke\n"
        "	.data\n	.balign 8\ntarget:	.quad Builtins_Call\n	.text\n"
        "	.balign 16\n"
        "blob_begin:\n");

#define BUILTIN(name, text)                                                                                         \
	__asm__(".text\n	.balign 32\n.globl Builtins_" #name "\n.type Builtins_" #name ",@function\nBuiltins_" #name \
	        ":\n" text ".size Builtins_" #name ",.-Builtins_" #name "\n");                                          \
	void Builtins_##name(void);

/* What others call in their own place, with a frame of its own. */
BUILTIN(Call, "	push %rbp\n	mov %rsp,%rbp\n	push %rdi\n	nop\n	mov %rbp,%rsp\n	pop %rbp\n"
              "	pop %r10\n	lea (%rsp,%rax,8),%rsp\n	push %r10\n	ret\n")
/* Two by whose names V8 is known. */
BUILTIN(InterpreterEntryTrampoline, "	push %rbp\n	mov %rsp,%rbp\n	push %rsi\n	mov %rax,%rbx\n	leave\n	pop %rcx\n"
                                    "	lea (%rsp,%rbx,8),%rsp\n	push %rcx\n	ret\n")
BUILTIN(CEntry_Return1,
        "	push %rbp\n	mov %rsp,%rbp\n	lea 16(%rbp,%rax,8),%r15\n	push %r15\n	nop\n	mov 8(%rbp),%rcx\n"
        "	mov (%rbp),%rbp\n	lea (%r15),%rsp\n	push %rcx\n	ret\n")
/* pushes more arguments */
BUILTIN(Pushes,
        "	pop %r10\n	mov %rdx,%r9\n	neg %r9\n	lea (%rbx,%r9,8),%rbx\n	xor %r9d,%r9d\n	jmp 2f\n"
        "1:	push (%rbx,%r9,8)\n	inc %r9\n	inc %rax\n2:	cmp %rdx,%r9\n	jl 1b\n	push %r10\n	jmp Builtins_Call\n")
BUILTIN(Resumes,
        "	pop %r11\n	mov (%r13),%rcx\n	test %rdx,%rdx\n	jg 3f\n	mov $0,%r9d\n	jmp 2f\n3:	mov %rdx,%r9\n"
        "1:	dec %r9\n	jl 2f\n	push (%rbx)\n	inc %rax\n	jmp 1b\n2:	push (%rbx)\n	inc %rax\n	push %r11\n	jmp "
        "*%rcx\n")
/* takes two words of its own first, and puts them back */
BUILTIN(Bound,
        "	test %rdx,%rdx\n	je 2f\n	pop %r8\n	pop %r10\n	add %rdx,%rax\n1:	push (%rbx)\n	dec %rdx\n	jg 1b\n"
        "	push %r10\n	push %r8\n2:	jmp Builtins_Call\n")
/* drops its arguments and goes on, with a frame */
BUILTIN(Applies, "	mov 8(%rsp),%rdi\n	pop %rcx\n	lea (%rsp,%rax,8),%rsp\n	push %rdx\n	push %rcx\n	mov "
                 "$1,%eax\n	test %rdx,%rdx\n"
                 "	je 1f\n	jmp Builtins_Call\n1:	push %rbp\n	mov %rsp,%rbp\n	push %rdi\n	nop\n	pop %rdi\n	mov "
                 "%rbp,%rsp\n	pop %rbp\n"
                 "	jmp Builtins_Call\n")
/* copies what is on the stack down, the return address too, and fills what is free */
BUILTIN(Adapts,
        "	mov %rdx,%rcx\n	test %rcx,%rcx\n	jle 3f\n	mov %rsp,%r8\n	lea (,%rcx,8),%r10\n	sub %r10,%rsp\n	"
        "lea 1(%rax),%r9\n"
        "	xor %r11d,%r11d\n1:	mov (%r8,%r11,8),%r10\n	mov %r10,(%rsp,%r11,8)\n	inc %r11\n	cmp %r9,%r11\n	jl 1b\n"
        "	lea (%rsp,%r9,8),%r8\n	add %rcx,%rax\n2:	dec %rcx\n	movq $0,(%r8,%rcx,8)\n	jg 2b\n"
        "3:	mov (%r13),%rcx\n	nop\n	jmp *%rcx\n")
/* calls what takes arguments off on one path: rsp is as before, which the call does not show */
BUILTIN(Dispatches, "	push %rbp\n	mov %rsp,%rbp\n	sub $32,%rsp\n	mov %rax,-8(%rbp)\n	test %rdx,%rdx\n	je 1f\n	"
                    "push $1\n	push $2\n"
                    "	mov $2,%eax\n	call Builtins_Call\n1:	mov -8(%rbp),%rax\n	mov (%r13),%rcx\n	mov "
                    "(%rbp),%rbp\n	add $40,%rsp\n"
                    "	jmp *%rcx\n")
/* ... and on all: what the code has pushed is gone, though no path says so */
BUILTIN(Always, "	push %rbp\n	mov %rsp,%rbp\n	sub $24,%rsp\n	mov %rax,-8(%rbp)\n	push $1\n	push $2\n	mov "
                "$2,%eax\n	call Builtins_Call\n"
                "	mov -8(%rbp),%rax\n	mov (%r13),%rcx\n	mov (%rbp),%rbp\n	add $32,%rsp\n	nop\n	jmp *%rcx\n")
/* ... and puts a new argument where its return address was */
BUILTIN(Replaces,
        "	push %rbp\n	mov %rsp,%rbp\n	sub $32,%rsp\n	mov %rax,-8(%rbp)\n	test %rdx,%rdx\n	je 1f\n	push $1\n	"
        "mov $1,%eax\n"
        "	call Builtins_Call\n1:	mov -8(%rbp),%rax\n	mov (%rbp),%rbp\n	add $40,%rsp\n	push %rbx\n	push 8(%rsp)\n"
        "	mov %rax,16(%rsp)\n	add $2,%rax\n	jmp Builtins_Call\n")
/* a handler of an interpreter: goes on by a table in memory. What a compiler left behind its jump is never run */
BUILTIN(
	Handler,
	"	push %rbp\n	mov %rsp,%rbp\n	sub $24,%rsp\n	mov %rax,-8(%rbp)\n	test %rdx,%rdx\n	jne 2f\n"
	"1:	mov -8(%rbp),%rax\n	xor %r8d,%r8d\n	mov (%r13,%r8,8),%r8\n	mov (%rbp),%rbp\n	mov %r8,%rcx\n	add $32,%rsp\n"
	"	jmp *%rcx\n	jmp 2f\n"
	"2:	push %rdi\n	mov $1,%eax\n	call Builtins_Call\n	nop\n	jmp 1b\n")
/* what C calls: keeps the registers that C keeps, though others do not */
BUILTIN(JSEntry, "	push %rbp\n	mov %rsp,%rbp\n	push $2\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	push %rbx\n"
                 "	xor %ebx,%ebx\n	mov %rax,%r12\n	xor %eax,%eax\n	call Builtins_Call\n	mov %r12,%rax\n"
                 "	pop %rbx\n	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	add $8,%rsp\n	pop %rbp\n"
                 "	pop %r10\n	lea (%rsp,%rax,8),%rsp\n	push %r10\n	ret\n")
/* leaves the frame of the code that called it, which set up none of its own; `Framed` does so */
BUILTIN(Leaves, "	pop %r10\n	pop %rdi\n	mov %rbp,%rsp\n	pop %rbp\n	jmp Builtins_Call\n")
BUILTIN(Framed, "	push %rbp\n	mov %rsp,%rbp\n	push %rdi\n	call Builtins_Leaves\n	int3\n")
/* a return that is a jump: into other code in the same frame */
BUILTIN(Replacement,
        "	push %rbp\n	mov %rsp,%rbp\n	push %rdi\n	push $0\n	lea 1f(%rip),%rcx\n	mov %rcx,(%rsp)\n	ret\n"
        "1:	nop\n	mov %rbp,%rsp\n	pop %rbp\n	pop %r10\n	lea (%rsp,%rax,8),%rsp\n	push %r10\n	ret\n")

__asm__(".text\nblob_end:\n");

#define ALL(X)                                                                                                   \
	X(Call)                                                                                                      \
	X(InterpreterEntryTrampoline)                                                                                \
	X(CEntry_Return1)                                                                                            \
	X(Pushes)                                                                                                    \
	X(Resumes) X(Bound) X(Applies) X(Adapts) X(Dispatches) X(Always) X(Replaces) X(Handler) X(JSEntry) X(Framed) \
		X(Replacement)

static unsigned right, stopped, wrong;
static uint64_t stops[8];

static int is_inside(uint64_t ip) { return ip - (uintptr_t)blob_begin < (uintptr_t)(blob_end - blob_begin); }

/* Is the cursor in invoke(), with its rbp, and does it come to the caller of that? */
static int is_right(struct etch_cursor *c)
{
	uint64_t ip = 0, bp = 0;

	etch_get_reg(c, ETCH_RIP, &ip);
	etch_get_reg(c, ETCH_RBP, &bp);
	if (ip != want_ip || bp != want_bp || etch_step(c))
		return 0;
	etch_get_reg(c, ETCH_RIP, &ip);
	etch_get_reg(c, ETCH_RBP, &bp);
	return ip == ((uint64_t *)want_bp)[1] && bp == ((uint64_t *)want_bp)[0];
}

static void trap(int sig, siginfo_t *info, void *context)
{
	uint64_t ip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	struct etch_cursor c;

	(void)sig, (void)info;
	if (!is_inside(ip))
		return;
	if (!walk_out(&c, context, blob_begin, blob_end)) {
		if (stopped < 8)
			stops[stopped] = ip - (uintptr_t)blob_begin;
		stopped++;
		return;
	}
	if (is_right(&c)) {
		right++;
	} else {
		if (wrong < 8)
			fprintf(stderr, "wrong at +0x%lx\n", (unsigned long)(ip - (uintptr_t)blob_begin));
		wrong++;
	}
}

static void shape_run(const char *name, void (*shape)(void))
{
	unsigned i;

	right = stopped = wrong = 0;
	for (count = 0; count <= ARGUMENTS; count += 1 + count / 3)
		for (formal = 0; formal <= ARGUMENTS; formal += 1 + formal / 2)
			invoke(shape);
	printf("%s %u %u %u", name, right, stopped, wrong);
	for (i = 0; i < stopped && i < 8; i++)
		printf(" +0x%lx", (unsigned long)stops[i]);
	printf("\n");
}

int main(void)
{
	struct sigaction a = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &a, NULL);
#define RUN(name) shape_run(#name, Builtins_##name);
	ALL(RUN)
	return 0;
}
