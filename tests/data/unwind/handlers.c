/* SPDX-License-Identifier: MIT */
/*
 * An interpreter built as JavaScriptCore's LLInt: handlers that a computed goto enters, in frames that rbp points to.
 * Its table is filled at start, with labels relative to an address of the code, and found through a word in memory, as
 * a GOT slot. A tail call copies the callee's frame over its own; where an exception is caught, rbp is loaded from
 * memory. One handler moves its frame down, as where a function is called with too few arguments: while it copies the words,
 * the return address is in one place or the other, so no row says where. A prefix has the next bytecode done by a table of
 * its own, for wide operands.
 *
 *   handlers    runs each program of bytecodes one instruction at a time (TF); before each instruction the caller is
 *               looked for with a cursor, and that it was called from invoke(), with which rbp, is known from invoke()
 *               itself. For each: its name, then how many walks were right, were stopped while words are copied, were
 *               stopped elsewhere, and were wrong
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#include <etch/unwind.h>

#include "walk_out.h"

uint64_t want_ip, want_bp, machine[4], table[32], *table_at = table, wide[2], *wide_at = wide;
extern const char code_begin[], code_end[], copy_begin[], copy_end[];
void invoke(const char *program);
void fill(uint64_t *to, uint64_t *wide);

/* `run` makes the frame; above it are the number of arguments, and these. r13: the program; r8: where in it. */
__asm__(".text\n"
        ".globl invoke\n.type invoke,@function\n"
        "invoke:\n"
        "	push %rbp\n	mov %rsp,%rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
        "	mov %rbp,want_bp(%rip)\n	lea 1f(%rip),%rcx\n	mov %rcx,want_ip(%rip)\n"
        "	sub $8,%rsp\n	push $7\n	push $1\n	xor %esi,%esi\n"
        "	pushf\n	orl $0x100,(%rsp)\n	popf\n"
        "	call run\n"
        "1:	lea -40(%rbp),%rsp\n"
        "	pushf\n	andl $~0x100,(%rsp)\n	popf\n"
        "	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n	ret\n"
        ".size invoke,.-invoke\n"
        "	.balign 16\n"
        "code_begin:\n");

/* After it are the words that stand in front of each handler: here one that decodes as a far return. */
#define DISPATCH "	movzbl (%r13,%r8),%eax\n	mov table_at(%rip),%rsi\n	jmp *(%rsi,%rax,8)\n	.long 0x4ca\n"

__asm__(
	".globl run\n.type run,@function\n"
	"run:	push %rbp\n	mov %rsp,%rbp\n	push %r13\n	push %r14\n	sub $48,%rsp\n	mov %rdi,%r13\n	mov %rsi,%r8\n"
	"	movzbl (%r13,%r8),%eax\n	mov table_at(%rip),%rsi\n	jmp *(%rsi,%rax,8)\n"
	".size run,.-run\n	.long 0x4ca\n"
	".Lcalls:\n	add %r13,%r8\n	mov %rbp,%rsi\n	mov %r8,%rdi\n	call helper\n	mov %rax,%r8\n	sub %r13,%r8\n"
	"	add $1,%r8\n" DISPATCH /* a local variable */
	".Llocal:\n	mov -40(%rbp),%rdx\n	add $1,%rdx\n	mov %rdx,-48(%rbp)\n	add $1,%r8\n" DISPATCH
	/* Moves the frame down by two words, and fills what becomes free above. */
	".Lmove:\n	add $11,%edx\n	mov $-2,%rsi\n	lea -64(%rbp),%rcx\n	mov %rsi,%rax\n	shl $3,%rax\n"
	"	add %rax,%rbp\n	add %rax,%rsp\n"
	"copy_begin:\n1:	mov (%rcx),%rax\n	mov %rax,(%rcx,%rsi,8)\n	add $8,%rcx\n	sub $1,%edx\n	jne 1b\n"
	"copy_end:\n	mov %rsi,%rdx\n	mov $10,%rax\n"
	"2:	mov %rax,(%rcx,%rsi,8)\n	add $8,%rcx\n	add $1,%edx\n	jne 2b\n	jmp .Lgrown\n	.long 0x4ca\n"
	".Lreturn:\n	mov -48(%rbp),%rax\n	lea -16(%rbp),%rsp\n	pop %r14\n	pop %r13\n	pop %rbp\n	ret\n"
	"	.long 0x4ca\n"
	/* Has the rest of the program run in a frame of its own instead of this one: of one argument, as invoke() gives. */
	".Ltail:\n	mov %r13,%rdi\n	lea 1(%r8),%rsi\n	mov -8(%rbp),%r13\n	mov -16(%rbp),%r14\n	lea run(%rip),%r10\n"
	"	mov 16(%rbp),%ecx\n	shl $3,%ecx\n	add $39,%ecx\n	and $-16,%ecx\n	mov %rbp,%rdx\n	add %rcx,%rdx\n"
	"	sub $48,%rsp\n	movq $5,8(%rsp)\n	movq $1,(%rsp)\n	mov (%rsp),%ecx\n	shl $3,%ecx\n	add $39,%ecx\n"
	"	and $-16,%ecx\n	sub $8,%rsp\n	sub $8,%ecx\n	mov 8(%rbp),%r8\n	mov %r8,(%rsp)\n	sub %rcx,%rdx\n"
	"	mov (%rbp),%rbp\n"
	"1:	sub $8,%ecx\n	mov (%rsp,%rcx),%r8\n	mov %r8,(%rdx,%rcx)\n	test %ecx,%ecx\n	jne 1b\n"
	"	mov %rdx,%rsp\n	mov 16(%rsp),%rdx\n	mov %rdx,16(%rsp)\n	jmp 2f\n	nop\n2:	jmp *%r10\n"
	"	.long 0x4ca\n"
	/* Calls run() for what is behind the next bytecode, which is where an exception is caught. */
	".Ltry:\n	mov %rbp,machine(%rip)\n	lea 1(%r8),%rax\n	mov %rax,machine+8(%rip)\n	mov %r13,%rdi\n"
	"	lea 2(%r8),%rsi\n	push $1\n	push $1\n	call run\n	add $16,%rsp\n	jmp .Lreturn\n	.long 0x4ca\n"
	".Lgrown:\n	add $1,%r8\n" DISPATCH
	".Lwide:\n	movzbl 1(%r13,%r8),%eax\n	mov wide_at(%rip),%rsi\n	jmp *(%rsi,%rax,8)\n	.long 0x4ca\n"
	".Lraise:\n	lea machine(%rip),%rdi\n	mov 8(%rdi),%r8\n" DISPATCH
	".Lcatch:\n	lea machine(%rip),%rcx\n	mov 16(%rbp),%rdx\n	mov (%rcx),%rbp\n	lea -80(%rbp),%rdx\n"
	"	mov %rdx,%rsp\n	mov %rbp,%rdi\n	call helper\n	add $1,%r8\n	jmp .Lreturn\n"
	".Lgrow:\n	mov 16(%rbp),%edx\n	cmp $9,%edx\n	ja .Lgrown\n	jmp .Lmove\n	.long 0x4ca\n"
	".Lwide_local:\n	mov -40(%rbp),%rdx\n	mov %rdx,-56(%rbp)\n	add $2,%r8\n" DISPATCH
	"	.balign 16\n"
	"helper:	push %rbx\n	mov %rdi,%rbx\n	mov %rbx,%rax\n	pop %rbx\n	ret\n"
	"code_end:\n"
	"	.balign 16\n.globl fill\n.type fill,@function\n"
	"fill:	push %rbp\n	mov %rsp,%rbp\n	call 1f\n1:	pop %rcx\n"
	"	.irp name,calls,local,return,tail,try,raise,catch,grow,wide,grown,move,calls,calls,calls,calls,calls,calls,calls,"
	"calls,calls,calls,calls,calls\n"
	"	lea .L\\name-1b(%rcx),%r8\n	mov %r8,(%rdi)\n	add $8,%rdi\n	.endr\n"
	"	lea .Lwide_local-1b(%rcx),%r8\n	mov %r8,(%rsi)\n	mov %r8,8(%rsi)\n"
	"	pop %rbp\n	ret\n.size fill,.-fill\n");

enum { CALLS, LOCAL, RETURN, TAIL, TRY, RAISE, CATCH, GROW, WIDE };

static const struct {
	const char *name;
	char code[8];
} program[] = {
	{"calls", {CALLS, LOCAL, RETURN}},
	{"tail", {LOCAL, TAIL, CALLS, RETURN}},
	{"catch", {LOCAL, TRY, CATCH, CALLS, RAISE}},
	{"both", {TAIL, TRY, CATCH, TAIL, LOCAL, RAISE}},
	{"grow", {CALLS, GROW, LOCAL, RETURN}},
	{"wide", {LOCAL, WIDE, LOCAL, CALLS, RETURN}},
};

static unsigned right, copying, stopped, wrong;
static uint64_t stops[8];

static int is_inside(uint64_t ip) { return ip - (uintptr_t)code_begin < (uintptr_t)(code_end - code_begin); }
static int is_copying(uint64_t ip) { return ip - (uintptr_t)copy_begin < (uintptr_t)(copy_end - copy_begin); }

static void trap(int sig, siginfo_t *info, void *context)
{
	uint64_t ip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP], at = 0, bp = 0;
	struct etch_cursor c;

	(void)sig, (void)info;
	if (!is_inside(ip))
		return;
	if (!walk_out(&c, context, code_begin, code_end)) {
		if (is_copying(ip)) {
			copying++;
			return;
		}
		if (stopped < 8)
			stops[stopped] = ip - (uintptr_t)code_begin;
		stopped++;
		return;
	}
	etch_get_reg(&c, ETCH_RIP, &at);
	etch_get_reg(&c, ETCH_RBP, &bp);
	if (at == want_ip && bp == want_bp) {
		right++;
	} else {
		fprintf(stderr, "wrong at +0x%lx\n", (unsigned long)(ip - (uintptr_t)code_begin));
		wrong++;
	}
}

int main(void)
{
	struct sigaction a = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
	unsigned i, k;

	fill(table, wide);
	sigaction(SIGTRAP, &a, NULL);
	for (i = 0; i < sizeof(program) / sizeof(program[0]); i++) {
		right = copying = stopped = wrong = 0;
		invoke(program[i].code);
		printf("%s %u %u %u %u", program[i].name, right, copying, stopped, wrong);
		for (k = 0; k < stopped && k < 8; k++)
			printf(" +0x%lx", (unsigned long)stops[k]);
		printf("\n");
	}
	return 0;
}
