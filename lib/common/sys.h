/* SPDX-License-Identifier: MIT */
/*
 * sys.h: the system calls of libetch, without libc.
 *
 * They are needed for two reasons. The fault handler may not touch errno, a lock or a lazily bound symbol. And under
 * libetch's lock a call through the PLT could enter the dynamic linker, whose lock another thread may hold while it
 * waits for libetch's lock in a module's constructor.
 *
 * Each function returns the result or a negative errno.
 */
#ifndef ETCH_LIB_COMMON_SYS_H
#define ETCH_LIB_COMMON_SYS_H

#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static inline long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ __volatile__("syscall"
	                     : "=a"(ret)
	                     : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                     : "rcx", "r11", "memory");
	return ret;
}

static inline long sys_call3(long nr, long a, long b, long c)
{
	long ret;

	__asm__ __volatile__("syscall" : "=a"(ret) : "0"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return ret;
}

/* Maps zeroed memory; null on failure. flags: additional mmap(2) flags, or 0. */
static inline void *sys_map(uint64_t size, int flags)
{
	long p = sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return p < 0 && p > -4096 ? 0 : (void *)p;
}

static inline long sys_mprotect(uint64_t at, uint64_t size, int prot)
{
	return sys_call3(SYS_mprotect, (long)at, (long)size, prot);
}

static inline long sys_munmap(void *at, uint64_t size) { return sys_call3(SYS_munmap, (long)at, (long)size, 0); }

static inline long sys_membarrier(int command) { return sys_call3(SYS_membarrier, command, 0, 0); }

#endif
