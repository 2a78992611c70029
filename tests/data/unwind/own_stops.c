/* SPDX-License-Identifier: MIT */
/*
 * Linked into a program or preloaded: its main thread walks its own stack by libgcc's _Unwind_Backtrace, in a signal
 * handler at random times of its processor time. OWN_STOPS=FILE and COUNT, in the environment: a line a stop, the
 * addresses of the frames after the handler's, innermost first; then the program ends. With OWN_BACKTRACE=1 they are
 * those of glibc's backtrace(); with 2 there are two lines a stop, of backtrace() and of _Unwind_Backtrace.
 */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <unwind.h>

#define FRAMES 2000

#ifdef __GLIBC__
#include <execinfo.h>
#pragma weak backtrace /* not there where it is linked into a static program after libc.a */
#else
#define backtrace(to, n) 0
/* For a static program of musl: what libgcc asks glibc for. */
int _dl_find_object(void *address, unsigned long long *found);
int _dl_find_object(void *address, unsigned long long *found)
{
	const Elf64_Phdr *p = (const Elf64_Phdr *)getauxval(AT_PHDR);
	unsigned long i;

	(void)address;
	for (i = 0; i < getauxval(AT_PHNUM); i++)
		if (p[i].p_type == PT_GNU_EH_FRAME) {
			found[0] = found[3] = 0;
			found[1] = 0;
			found[2] = ~0ull;
			found[4] = p[i].p_vaddr; /* dlfo_eh_frame */
			return 0;
		}
	return -1;
}
#endif

static int out = -1, left, own;
static unsigned long pc;
static struct walk {
	unsigned long frame[FRAMES];
	int count;
	int behind; /* the frame that was interrupted has been seen */
} walk;

static _Unwind_Reason_Code take(struct _Unwind_Context *c, void *ctx)
{
	unsigned long ip = _Unwind_GetIP(c);

	(void)ctx;
	walk.behind |= ip == pc;
	if (walk.behind && walk.count < FRAMES)
		walk.frame[walk.count++] = ip;
	return _URC_NO_REASON;
}

static void arm(void)
{
	static unsigned seed = 1;
	struct itimerval next = {.it_value.tv_usec = 1000};

	seed = seed * 1103515245 + 12345;
	next.it_value.tv_usec += (seed >> 16) % 7000;
	setitimer(ITIMER_PROF, &next, NULL);
}

static void write_frames(void)
{
	char text[20];
	int i;

	for (i = 0; i < walk.count; i++)
		if (write(out, text, (size_t)snprintf(text, sizeof(text), "%lx ", walk.frame[i])) < 0)
			_exit(1);
	if (write(out, "\n", 1) < 0)
		_exit(1);
}

static void take_backtrace(void)
{
	void *all[FRAMES];
	int i, n = backtrace(all, FRAMES);

	for (i = 0; i < n; i++) {
		walk.behind |= (unsigned long)all[i] == pc;
		if (walk.behind)
			walk.frame[walk.count++] = (unsigned long)all[i];
	}
	write_frames();
}

static void stop(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;

	(void)sig, (void)info;
	if (syscall(SYS_gettid) == getpid()) {
		pc = (unsigned long)u->uc_mcontext.gregs[REG_RIP];
		walk.count = walk.behind = 0;
		if (own)
			take_backtrace();
		if (own != 1) {
			walk.count = walk.behind = 0;
			_Unwind_Backtrace(take, NULL);
			write_frames();
		}
		if (--left <= 0)
			_exit(0);
	}
	arm();
}

__attribute__((constructor)) static void begin(void)
{
	const struct sigaction act = {.sa_sigaction = stop, .sa_flags = SA_SIGINFO | SA_RESTART};
	const char *path = getenv("OWN_STOPS"), *count = getenv("COUNT"), *how = getenv("OWN_BACKTRACE");

	if (!path || !count)
		return;
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	left = atoi(count);
	own = how ? atoi(how) : 0;
	unsetenv("OWN_STOPS"); /* not for children */
	sigaction(SIGPROF, &act, NULL);
	arm();
}
