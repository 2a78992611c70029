/* SPDX-License-Identifier: MIT */
/*
 * sync.c: makes every thread of the process execute newly stored code. The barrier that Linux offers for code
 * modified under running threads is membarrier(2) with PRIVATE_EXPEDITED_SYNC_CORE.
 */
#include <sys/stat.h>

#include "patch/patch.h"
#include "common/sys.h"
#include "common/valgrind.h"

/* From linux/membarrier.h, which may be older than the kernel. */
#define MEMBARRIER_QUERY     0
#define MEMBARRIER_SYNC_CORE (1 << 5)
#define MEMBARRIER_REGISTER  (1 << 6)

/* glibc 2.32 and later: true if the process has never created a second thread. */
extern char __libc_single_threaded __attribute__((weak));

/* The ID of the process whose memory this is; 0 while it is unknown. */
static long process;

void sync_process_is(long pid) { process = pid; }

int sync_alone(void)
{
	struct stat st;

	/* In the child of a vfork(2), the threads of the parent, which are not counted here, run in the same memory. */
	if (process && process != sys_call3(SYS_getpid, 0, 0, 0))
		return 0;
	/* The link count of the task directory is two, plus one per thread. */
	if (sys_call3(SYS_stat, (long)"/proc/self/task", (long)&st, 0) == 0)
		return st.st_nlink == 3;
	return &__libc_single_threaded && __libc_single_threaded;
}

int sync_had_threads(void) { return &__libc_single_threaded && !__libc_single_threaded; }

static int sync_registered;

/* Registers for membarrier(2). The registration belongs to the address space: fork keeps it,
 * execve clears it together with this variable. */
static int sync_register(void)
{
	if (!sync_registered)
		sync_registered = sys_membarrier(MEMBARRIER_REGISTER) == 0;
	return sync_registered;
}

int sync_available(void)
{
	long commands;

	if (!sync_register())
		return 0;
	commands = sys_membarrier(MEMBARRIER_QUERY);
	return commands >= 0 && (commands & MEMBARRIER_SYNC_CORE);
}

int sync_cores(void)
{
	if (sys_membarrier(MEMBARRIER_SYNC_CORE) == 0)
		return 0;
	/* The registration is gone, for example after a checkpoint was restored without it. */
	sync_registered = 0;
	if (sync_register() && sys_membarrier(MEMBARRIER_SYNC_CORE) == 0)
		return 0;
	return ETCH_ENOSYNC;
}

void sync_self(void)
{
	uint32_t a = 0, b, c = 0, d;

	__asm__ __volatile__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
}

void sync_valgrind(uint64_t from, uint64_t to) { valgrind_request(VALGRIND_DISCARD_TRANSLATIONS, from, to - from); }
