/* SPDX-License-Identifier: MIT */
/*
 * A CFA in rax at a call, as OpenSSL's assembly has it: the callee leaves rax alone, and
 * no rule says so. Single-stepped through three callees: a walk from the trap's context must
 * reach main from the one that keeps rax; from the one that changes it and puts it back, and
 * from a callee's callee, it must end, and at no other frame than these.
 * Prints "WHICH steps N whole N wrong N".
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <etch/unwind.h>

void scratch_keeps(void), scratch_changes(void), scratch_deeper(void);

__asm__(".text\n"
	".macro outer name, callee\n"
	".globl \\name\n"
	".type \\name, @function\n"
	"\\name: .cfi_startproc\n"
	"	mov	%rsp, %rax\n"
	"	.cfi_def_cfa rax, 8\n"
	"	sub	$1024, %rsp\n"
	"	and	$-256, %rsp\n"
	"	mov	$128, %ecx\n" /* nothing that earlier signal frames have left there is to look like a return address */
	"1:	movq	$0, -8(%rsp,%rcx,8)\n"
	"	dec	%ecx\n"
	"	jnz	1b\n"
	"	call	\\callee\n"
	"	mov	%rax, %rsp\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size \\name, . - \\name\n"
	".endm\n"
	".macro inner name\n"
	".type \\name, @function\n"
	"\\name: .cfi_startproc\n"
	".endm\n"
	".macro end name\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size \\name, . - \\name\n"
	".endm\n"
	"	outer scratch_keeps, keeps\n"
	"	outer scratch_changes, changes\n"
	"	outer scratch_deeper, deeper\n"
	"inner keeps\n"
	"	nop\n"
	"	xor	%ecx, %ecx\n"
	"	nop\n"
	"end keeps\n"
	"inner changes\n"
	"	mov	%rax, %rcx\n"
	"	lea	64(%rsp), %rax\n"
	"	nop\n"
	"	mov	%rcx, %rax\n"
	"end changes\n"
	"inner deeper\n"
	"	nop\n"
	"	call	keeps\n"
	"	nop\n"
	"end deeper\n");

extern const char __start_main_text[], __stop_main_text[];
static unsigned long steps, whole, wrong;

static void trap(int sig, siginfo_t *info, void *context)
{
	void *ips[64];
	int status, n = etch_backtrace_from(context, ips, 64, &status), in_main = 0;

	(void)sig, (void)info;
	steps++;
	for (int i = 0; i < n; i++)
		in_main |= (uint64_t)ips[i] - (uint64_t)__start_main_text < (uint64_t)(__stop_main_text - __start_main_text);
	whole += in_main && status == ETCH_UNWIND_END;
	/* It may stop, at one of the three functions. It may not go on elsewhere. */
	wrong += !in_main && (status >= 0 || n > 3);
	wrong += in_main && status != ETCH_UNWIND_END;
}

__attribute__((section("main_text"), noinline)) static void through(const char *name, void (*outer)(void))
{
	steps = whole = wrong = 0;
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq; call *%0\n\t"
	                 "pushfq; andl $~0x100, (%%rsp); popfq"
	                 : "+b"(outer) : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
	printf("%s steps %lu whole %lu wrong %lu\n", name, steps, whole, wrong);
}

__attribute__((section("main_text"))) int main(void)
{
	struct sigaction a;

	memset(&a, 0, sizeof(a));
	a.sa_sigaction = trap;
	a.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &a, NULL);
	etch_unwind_prepare();
	through("keeps", scratch_keeps);
	through("changes", scratch_changes);
	through("deeper", scratch_deeper);
	return 0;
}
