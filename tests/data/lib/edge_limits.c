/* SPDX-License-Identifier: MIT */
/* edge: systems that allow less: PR_SET_MDWE, and filters of membarrier(2) and mprotect(2). */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "edge.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

void deny(int nr, int error, unsigned arg, uint32_t mask, uint32_t value)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * arg)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, error ? SECCOMP_RET_ERRNO | (uint32_t)error : SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

static void deny_all(int nr, int error) { deny(nr, error, 0, 0, 0); }

/* A set that must fail with `error`, and change nothing. */
static void check_refused(int error)
{
	int before = sum_plain();

	CHECK_EQ(etch_set(&plain, before + 1), error);
	CHECK_EQ(sum_plain(), before);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	check_closed();
}

static void case_mdwe(void)
{
	CHECK(!prctl(PR_SET_MDWE, 1, 0, 0, 0));
	check_refused(ETCH_EPERM);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), ETCH_EPERM);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), ETCH_EPERM);
	CHECK_PERMS(&stored, "rw-p");
	check_refused(ETCH_EPERM);
	CHECK_EQ(etch_set(&stored, 5), 0);
	CHECK_EQ(stored_read(), 5);
}

/* The rest of a case that goes on in a fresh image under a limit: nothing could be
 * armed, so sets are stores. */
static void case_unarmed(void)
{
	CHECK_EQ(info_now().armed, 0);
	CHECK_EQ(info_now().readonly_pages, 0);
	CHECK_PERMS(read_plain_site, "r-xp");
	for (int v = 0; v < 10; v++) {
		CHECK_EQ(etch_set(&plain, v), 0);
		CHECK_EQ(sum_plain(), v);
	}
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void start_again(void)
{
	execl("/proc/self/exe", "edge", "unarmed", (char *)NULL);
	CHECK(!"exec");
}

static void case_mdwe_start(void)
{
	CHECK(!prctl(PR_SET_MDWE, 1, 0, 0, 0)); /* kept by exec */
	start_again();
}

static void case_membarrier_start(void)
{
	deny_all(SYS_membarrier, ENOSYS);
	start_again();
}

static void case_mprotect_start(void)
{
	/* PROT_EXEC alone: ld.so must work. */
	deny(SYS_mprotect, EPERM, 2, PROT_EXEC, PROT_EXEC);
	start_again();
}

/* Single-threaded, no barrier is needed; with a thread it is. */
static void case_membarrier(void)
{
	pthread_t t;

	deny_all(SYS_membarrier, EPERM);
	CHECK_EQ(etch_set(&plain, 8), 0);
	CHECK_EQ(sum_plain(), 8);
	t = thread_start();
	check_refused(ETCH_ENOSYNC);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), ETCH_ENOSYNC);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), ETCH_ENOSYNC);
	CHECK_PERMS(&stored, "rw-p");
	CHECK_EQ(read_stored_site[0], 0x8b);
	check_closed();
	thread_end(t);
	CHECK_EQ(etch_set(&plain, 9), 0);
	CHECK_EQ(sum_plain(), 9);
}

/* The kernel says it can, and then fails: the change is taken back. */
static void case_membarrier_late(void)
{
	pthread_t t = thread_start();

	deny(SYS_membarrier, EPERM, 0, 1 << 5, 1 << 5);
	check_refused(ETCH_ENOSYNC);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), ETCH_ENOSYNC);
	CHECK_EQ(read_stored_site[0], 0x8b);
	CHECK_PERMS(&stored, "rw-p");
	thread_end(t);
}

static void refuse_mprotect(int error, int want)
{
	deny_all(SYS_mprotect, error);
	check_refused(want);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), want);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), want);
	CHECK_PERMS(&stored, "rw-p");
	check_refused(want);
}

static void case_mprotect_eperm(void) { refuse_mprotect(EPERM, ETCH_EPERM); }
static void case_mprotect_eacces(void) { refuse_mprotect(EACCES, ETCH_EPERM); }
/* What hugetlbfs text answers: a part of a huge page cannot be protected. */
static void case_mprotect_einval(void) { refuse_mprotect(EINVAL, ETCH_EPERM); }
/* Out of mappings. */
static void case_mprotect_enomem(void) { refuse_mprotect(ENOMEM, ETCH_ENOMEM); }

/* The last of several runs of pages fails: the earlier ones are closed again. */
static void case_mprotect_second(void)
{
	uint32_t page = (uint32_t)(uintptr_t)far2_bytes;

	deny(SYS_mprotect, EACCES, 0, 0xffffffff, page);
	check_refused(ETCH_EPERM);
	CHECK_EQ(etch_set(&wide, 6), 0);
}

/* Data opens, text may not be writable and executable: its pages are swapped. Where that is refused
 * too, nothing has changed. */
static void case_mprotect_text(void)
{
	pthread_t t = thread_start();

	deny(SYS_mprotect, EACCES, 2, PROT_EXEC | PROT_WRITE, PROT_EXEC | PROT_WRITE);
	CHECK_EQ(etch_set(&plain, 99), 0);
	CHECK_EQ(sum_plain(), 99);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	check_closed();
	deny(SYS_mprotect, EACCES, 2, PROT_EXEC, PROT_EXEC);
	check_refused(ETCH_EPERM);
	thread_end(t);
	check_refused(ETCH_EPERM);
}

/* A set that changes nothing asks the system for nothing. */
static void case_same(void)
{
	int v = 7;
	struct etch_change c[] = {ETCH_CHANGE(&plain, &v), ETCH_CHANGE(&plain, &v)};

	deny_all(SYS_mprotect, 0);
	deny_all(SYS_membarrier, 0);
	CHECK_EQ(etch_set(&plain, 7), 0);
	CHECK_EQ(etch_set_batch(c, 2), 0);
	CHECK_EQ(etch_sync(&plain, sizeof(plain)), 0);
	CHECK_EQ(etch_release(&stored, sizeof(stored)), 0);
	CHECK_EQ(etch_set(&stored, 5), 0);
	CHECK_EQ(stored_read(), 5);
}

const struct edge_case edge_limits[] = {
	CASE(mdwe), CASE(mdwe_start), CASE(membarrier), CASE(membarrier_late), CASE(membarrier_start),
	CASE(mprotect_eperm), CASE(mprotect_eacces), CASE(mprotect_einval), CASE(mprotect_enomem),
	CASE(mprotect_second), CASE(mprotect_text), CASE(mprotect_start), CASE(same), CASE(unarmed), {0},
};
