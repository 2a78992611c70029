/* SPDX-License-Identifier: MIT */
/*
 * A function whose CFA counts from rax, as OpenSSL has some, and two that it calls: one leaves rax alone, one has it point
 * to where something else than a return address lies. Both are interrupted, and the trace is taken from there.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#include <etch/unwind.h>

#define FUNCTION(name, body) \
	".globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n" body ".cfi_endproc\n.size " name ",.-" name "\n"
#define CALLS(callee) \
	"	lea 8(%rsp), %rax\n	.cfi_def_cfa %rax, 0\n	sub $40, %rsp\n	movq $0x1234, 16(%rsp)\n	call " callee "\n" \
	"	add $40, %rsp\n	.cfi_def_cfa %rsp, 8\n	ret\n"

__asm__(".text\n"
        FUNCTION("keeps", "	int3\n	ret\n")
        FUNCTION("changes", "	lea 32(%rsp), %rax\n	int3\n	ret\n") /* 8 above what is no return address */
        FUNCTION("asks_keeps", CALLS("keeps"))
        FUNCTION("asks_changes", CALLS("changes")));
void asks_keeps(void), asks_changes(void);
int main(void);

static const char *which;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	struct etch_cursor c;
	uint64_t ip = 0;
	int status;

	(void)sig;
	(void)info;
	etch_cursor_init(&c, context);
	status = etch_step(&c);
	printf("%s: %d frame, ", which, status == ETCH_UNWIND_OK);
	status = etch_step(&c);
	if (status != ETCH_UNWIND_OK && etch_step(&c) != status)
		printf("another answer, ");
	etch_get_reg(&c, ETCH_RIP, &ip);
	if (status == ETCH_UNWIND_OK)
		printf("then %s\n", ip - (uint64_t)(uintptr_t)main < 400 ? "main" : "somewhere");
	else
		printf("then status %d\n", status);
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	if (etch_unwind_prepare() < 0)
		return 2;
	sigaction(SIGTRAP, &sa, NULL);
	which = "kept";
	asks_keeps();
	which = "changed";
	asks_changes();
	return 0;
}
