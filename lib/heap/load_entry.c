/* SPDX-License-Identifier: MIT */
/*
 * load_entry.c: functions of libc that the recorder must know about before they run: dlopen(3) and dlmopen(3)
 * (unseen.c), and the two through which a program asks for a seccomp filter.
 *
 * Each is an entry that tells the recorder, and jumps to the next definition with the arguments and the return
 * address as they were: dlopen(3) reads the return address, and syscall(2) has arguments on the stack.
 */
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "heap/recorder.h"

/* Called with the first arguments; returns the address to continue at. */
typedef void *before_fn(long a, long b, long c);

#define ENTRY(name)                                                                                     \
	before_fn before_##name __attribute__((visibility("hidden"), used));                                \
	__asm__(".text\n\t.globl " #name "\n\t.type " #name ", @function\n" #name ":\n\t.cfi_startproc\n\t" \
	        "push %rdi\n\t.cfi_adjust_cfa_offset 8\n\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n\t"        \
	        "push %rdx\n\t.cfi_adjust_cfa_offset 8\n\tpush %rcx\n\t.cfi_adjust_cfa_offset 8\n\t"        \
	        "push %r8\n\t.cfi_adjust_cfa_offset 8\n\tpush %r9\n\t.cfi_adjust_cfa_offset 8\n\t"          \
	        "sub $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\tcall before_" #name "\n\t"                     \
	        "add $8, %rsp\n\t.cfi_adjust_cfa_offset -8\n\t"                                             \
	        "pop %r9\n\t.cfi_adjust_cfa_offset -8\n\tpop %r8\n\t.cfi_adjust_cfa_offset -8\n\t"          \
	        "pop %rcx\n\t.cfi_adjust_cfa_offset -8\n\tpop %rdx\n\t.cfi_adjust_cfa_offset -8\n\t"        \
	        "pop %rsi\n\t.cfi_adjust_cfa_offset -8\n\tpop %rdi\n\t.cfi_adjust_cfa_offset -8\n\t"        \
	        "jmp *%rax\n\t.cfi_endproc\n\t.size " #name ", .-" #name)

/* The functions are looked up one by one, not all at once as in next_malloc.c, because programs seldom call them. */
static void *next(void **where, const char *name)
{
	void *p = __atomic_load_n(where, __ATOMIC_RELAXED);

	if (!p) {
		p = dlsym(RTLD_NEXT, name);
		__atomic_store_n(where, p, __ATOMIC_RELAXED);
	}
	return p;
}

ENTRY(dlopen);
void *before_dlopen(long file, long mode, long unused)
{
	static void *where;

	(void)unused;
	if (file && (mode & RTLD_DEEPBIND) && !(mode & RTLD_NOLOAD))
		unseen_call(true);
	else
		unseen_look();
	return next(&where, "dlopen");
}

ENTRY(dlmopen);
void *before_dlmopen(long space, long file, long mode)
{
	static void *where;

	if (space == LM_ID_NEWLM)
		unseen_call(false);
	else if (space == LM_ID_BASE && file && (mode & RTLD_DEEPBIND) && !(mode & RTLD_NOLOAD))
		unseen_call(true);
	else
		unseen_look();
	return next(&where, "dlmopen");
}

/* A filter may kill the process for a system call that the recorder makes, but the program does not. */
ENTRY(prctl);
void *before_prctl(long option, long mode, long unused)
{
	static void *where;

	(void)mode;
	(void)unused;
	if (option == PR_SET_SECCOMP)
		recorder_end(HEAP_ENDED_SANDBOX);
	return next(&where, "prctl");
}

ENTRY(syscall);
void *before_syscall(long number, long operation, long option)
{
	static void *where;

	(void)option;
	if ((number == SYS_seccomp && (operation == SECCOMP_SET_MODE_STRICT || operation == SECCOMP_SET_MODE_FILTER)) ||
	    (number == SYS_prctl && operation == PR_SET_SECCOMP))
		recorder_end(HEAP_ENDED_SANDBOX);
	return next(&where, "syscall");
}
