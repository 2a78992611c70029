/* SPDX-License-Identifier: MIT */
/*
 * sampler_wishes.c: what the program wishes about SIGPROF, and about the system calls of its handler, by
 * the C library's functions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/seccomp.h>

#include "sampler.h"

int sampling __attribute__((used)); /* read by syscall(), below */

int libc_sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	static int (*next)(int, const struct sigaction *, struct sigaction *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sigaction");
	return next(sig, new, old);
}

/*
 * The program's own wishes about SIGPROF are not followed: without a handler the next
 * signal would end it. (vim(1) resets all that it knows of.)
 */
__attribute__((visibility("default"))) int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	return libc_sigaction(sig, sig == SIGPROF && sampling ? NULL : new, old);
}

__attribute__((visibility("default"))) sighandler_t signal(int sig, sighandler_t handler)
{
	static sighandler_t (*next)(int, sighandler_t);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "signal");
	return sig == SIGPROF && sampling ? SIG_DFL : next(sig, handler);
}

/*
 * chromium's children ask the kernel for all defaults before they run a program, and a signal then ends
 * them. As the C library's, but that SIGPROF stays as it is; in assembly, since a clone(2) by it
 * returns on another stack.
 */
__asm__(".text\n.globl syscall\n.type syscall, @function\nsyscall:\n\t.cfi_startproc\n"
	"cmpl $13, %edi\n\tjne 1f\n\tcmpl $27, %esi\n\tjne 1f\n\t" /* rt_sigaction, SIGPROF */
	"cmpl $0, sampling(%rip)\n\tje 1f\n\txorl %edx, %edx\n"
	"1:\tmovq %rdi, %rax\n\tmovq %rsi, %rdi\n\tmovq %rdx, %rsi\n\tmovq %rcx, %rdx\n\t"
	"movq %r8, %r10\n\tmovq %r9, %r8\n\tmovq 8(%rsp), %r9\n\tsyscall\n\t"
	"cmpq $-4095, %rax\n\tjae 2f\n\tret\n"
	"2:\tnegl %eax\n\tmovl %eax, %edi\n\tjmp system_call_failed\n\t"
	".cfi_endproc\n.size syscall, . - syscall");

__attribute__((used)) static long system_call_failed(int error)
{
	errno = error;
	return -1;
}

/*
 * A process that confines itself allows the system calls that it makes itself; the return from a
 * signal handler need not be one of them, and then the kernel ends it (sshd's unprivileged child).
 * From here on it is not sampled.
 */
__attribute__((visibility("default"))) int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arg[i] = va_arg(list, unsigned long);
	va_end(list);
	/* Without a filter it only asks (firefox). */
	if (option == PR_SET_SECCOMP && sampling && (arg[0] == SECCOMP_MODE_STRICT || arg[1]))
		timers_end();
	return (int)syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
}
