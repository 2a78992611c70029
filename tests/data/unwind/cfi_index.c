/* SPDX-License-Identifier: MIT */
/*
 * A frame whose CFA is behind an array on the stack, as OpenSSL's bn_mul_mont has it:
 * *(rsp + 8 * r9 + 8) + 8. One instruction at a time; a walk from each must come to main
 * and to the end.
 */
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

#include <etch/unwind.h>

unsigned long mulmont(unsigned long words, unsigned long fill);

__asm__(".text\n"
        ".globl mulmont\n"
        ".type mulmont,@function\n"
        "mulmont:\n"
        "	.cfi_startproc\n"
        "	movq %rdi, %r9\n"
        "	movq %rsp, %rax\n"
        "	.cfi_def_cfa_register %rax\n"
        "	pushq %rbx\n"
        "	.cfi_offset %rbx, -16\n"
        "	pushq %rbp\n"
        "	.cfi_offset %rbp, -24\n"
        "	negq %r9\n"
        "	leaq -16(%rsp,%r9,8), %r10\n"
        "	negq %r9\n"
        "	andq $-1024, %r10\n"
        "	movq %r10, %rsp\n"
        "	movq %rax, 8(%rsp,%r9,8)\n"
        "	.cfi_escape 0x0f, 0x0a, 0x77, 0x08, 0x79, 0x00, 0x38, 0x1e, 0x22, 0x06, 0x23, 0x08\n"
        "	movq %r9, %rbp\n"
        "	xorl %ebx, %ebx\n"
        "1:	movq %rsi, -8(%rsp,%rbp,8)\n"
        "	addq -8(%rsp,%rbp,8), %rbx\n"
        "	decq %rbp\n"
        "	jnz 1b\n"
        "	movq %rbx, %rax\n"
        "	movq 8(%rsp,%r9,8), %rsi\n"
        "	.cfi_def_cfa %rsi, 8\n"
        "	movq -16(%rsi), %rbp\n"
        "	.cfi_restore %rbp\n"
        "	movq -8(%rsi), %rbx\n"
        "	.cfi_restore %rbx\n"
        "	leaq (%rsi), %rsp\n"
        "	.cfi_def_cfa_register %rsp\n"
        "	ret\n"
        "	.cfi_endproc\n"
        "	.size mulmont, .-mulmont\n");

static unsigned long inside, whole;
extern const char __start_main_text[], __stop_main_text[];

static void trap(int sig, siginfo_t *info, void *context)
{
	uint64_t at = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP], ip = 0;
	struct etch_cursor c;
	int status, found = 0;

	(void)sig;
	(void)info;
	if (at - (uint64_t)mulmont >= 200)
		return; /* main, whose pushfq its .eh_frame does not know */
	inside++;
	etch_cursor_init(&c, context);
	do {
		etch_get_reg(&c, ETCH_RIP, &ip);
		found |= ip - (uint64_t)__start_main_text < (uint64_t)(__stop_main_text - __start_main_text);
	} while ((status = etch_step(&c)) == ETCH_UNWIND_OK);
	whole += found && status == ETCH_UNWIND_END;
}

__attribute__((section("main_text"))) int main(void)
{
	struct sigaction sa = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
	unsigned long sum = 0, n;

	if (etch_unwind_prepare() < 0) /* tables of .eh_frame, for what has none */
		return 2;
	sigaction(SIGTRAP, &sa, NULL);
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" ::: "cc", "memory");
	for (n = 1; n < 40; n += 9)
		sum += mulmont(n, n);
	__asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" ::: "cc", "memory");
	printf("steps %lu whole %lu sum %lu\n", inside, whole, sum);
	return 0;
}
