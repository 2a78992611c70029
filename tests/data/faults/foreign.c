/* SPDX-License-Identifier: MIT */
/*
 * Faults and signals that are not libetch's: foreign MODE HANDLER EVENT
 *
 * MODE: without libetch's handlers; with etch_fault_init() before the program installs
 * its own, after that, or both. Whatever the mode, what is printed and how the process
 * ends must be the same. Linked without PIE, and what is mapped has fixed addresses.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>

#define PLACE ((char *)0x100000000) /* 0: read-only, 1: no access, 2: file that ends before */
#define PAGE  4096

static const char *mode, *handler_kind, *event;
static char alternate[1 << 16] __attribute__((aligned(16)));
static sigjmp_buf back;
static volatile int events, in_front;

/* The first instruction of each faults; each can be left by a return from it. */
void load_byte(const char *);
void store_byte(char *);
void jump_to(void *);
__asm__(".text\n"
        "load_byte: movb (%rdi), %al\n\tret\n"
        "store_byte: movb %al, (%rdi)\n\tret\n"
        "jump_to: jmp *%rdi\n");

static void say(const char *format, ...)
{
	char line[400];
	va_list ap;

	va_start(ap, format);
	if (write(1, line, (size_t)vsnprintf(line, sizeof(line), format, ap)) < 0)
		_exit(9);
	va_end(ap);
}

/* What libetch promises holds meanwhile, as long as its handler is the one in front. */
static void still_ours(void)
{
	uint64_t v = 1;

	if (in_front && (etch_probe_read_64(&v, PLACE + PAGE) != -EFAULT || v))
		_exit(8);
	if (in_front && (etch_probe_read_64(&v, PLACE + 2 * PAGE) != -EFAULT || v))
		_exit(8);
}

static unsigned long mask_now(void)
{
	unsigned long mask = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8);
	return mask;
}

static void describe(int sig, const siginfo_t *info, const ucontext_t *u)
{
	char here;

	say("handler: signal %d mask %lx errno %d %s\n", sig, mask_now(), errno,
	    &here >= alternate && &here < alternate + sizeof(alternate) ? "alternate stack" : "stack");
	if (info && !strcmp(event, "overflow")) {
		say("  code %d near the stack pointer %d\n", info->si_code,
		    labs((long)info->si_addr - (long)u->uc_mcontext.gregs[REG_RSP]) < 8192);
		return;
	}
	if (info)
		say("  code %d addr %lx errno %d\n", info->si_code, info->si_code > 0 ? (long)info->si_addr : 0, info->si_errno);
	if (info && info->si_code <= 0)
		say("  sender %d %d value %lx\n", info->si_pid == getpid(), info->si_uid == getuid(),
		    info->si_code == SI_QUEUE ? (long)info->si_value.sival_ptr : 0);
	if (info && info->si_code > 0)
		say("  rip %lx rdi %lx trap %ld error %ld\n", (long)u->uc_mcontext.gregs[REG_RIP], (long)u->uc_mcontext.gregs[REG_RDI],
		    (long)u->uc_mcontext.gregs[REG_TRAPNO], (long)u->uc_mcontext.gregs[REG_ERR]);
}

static void on_info(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;

	describe(sig, info, u);
	if (events++ == 20)
		_exit(7);
	if (info->si_code <= 0)
		return;
	if (!strcmp(handler_kind, "longjmp") || !strcmp(event, "overflow"))
		siglongjmp(back, 1);
	/* The first time it happens again. */
	if (events & 1)
		return;
	g[REG_RIP] = *(greg_t *)g[REG_RSP];
	g[REG_RSP] += 8;
}

static void on_plain(int sig)
{
	describe(sig, NULL, NULL);
	if (events++ == 20)
		_exit(7);
	if (strcmp(event, "raise") && strcmp(event, "kill") && strcmp(event, "tgkill") && strcmp(event, "sigqueue") &&
	    strcmp(event, "pthread_kill"))
		siglongjmp(back, 1);
}

static void handlers(void)
{
	struct sigaction act;

	memset(&act, 0, sizeof(act));
	act.sa_sigaction = on_info;
	act.sa_flags = SA_SIGINFO;
	if (!strcmp(handler_kind, "dfl"))
		return;
	if (!strcmp(handler_kind, "ign")) {
		act.sa_handler = SIG_IGN;
		act.sa_flags = 0;
	} else if (!strcmp(handler_kind, "plain")) {
		act.sa_handler = on_plain;
		act.sa_flags = 0;
	} else if (!strcmp(handler_kind, "nodefer")) {
		act.sa_flags |= SA_NODEFER;
	} else if (!strcmp(handler_kind, "resethand")) {
		act.sa_flags |= (int)SA_RESETHAND;
	} else if (!strcmp(handler_kind, "mask")) {
		sigaddset(&act.sa_mask, SIGUSR1);
		sigaddset(&act.sa_mask, SIGRTMIN + 3);
	} else if (!strcmp(handler_kind, "onstack") || !strcmp(handler_kind, "longjmp")) {
		act.sa_flags |= SA_ONSTACK;
	}
	if (sigaction(SIGSEGV, &act, NULL) || sigaction(SIGBUS, &act, NULL))
		_exit(2);
}

static volatile int depth;

static long deeper(volatile char *p)
{
	volatile char capacity[4096];

	capacity[0] = *p;
	return depth++ == 1 << 30 ? 0 : deeper(capacity) + capacity[0];
}

static void happen(void)
{
	union sigval v = {.sival_ptr = (void *)0x1234567};
	pid_t pid = getpid();

	if (!strcmp(event, "load"))
		load_byte(NULL);
	else if (!strcmp(event, "far"))
		load_byte(PLACE + PAGE + 5);
	else if (!strcmp(event, "store"))
		store_byte(PLACE + 7);
	else if (!strcmp(event, "exec"))
		jump_to(PLACE);
	else if (!strcmp(event, "gp"))
		load_byte((char *)0x8000000000000001);
	else if (!strcmp(event, "kernel"))
		load_byte((char *)0xffffffff81000000);
	else if (!strcmp(event, "bus"))
		load_byte(PLACE + 2 * PAGE + 9);
	else if (!strcmp(event, "overflow"))
		deeper((volatile char *)&v);
	else if (!strcmp(event, "raise"))
		raise(SIGSEGV);
	else if (!strcmp(event, "kill"))
		kill(pid, SIGBUS);
	else if (!strcmp(event, "tgkill"))
		syscall(SYS_tgkill, pid, syscall(SYS_gettid), SIGSEGV);
	else if (!strcmp(event, "sigqueue"))
		sigqueue(pid, SIGSEGV, v);
	else if (!strcmp(event, "pthread_kill"))
		pthread_kill(pthread_self(), SIGSEGV);
	else
		_exit(2);
}

static void *thread(void *mask)
{
	stack_t ss = {.ss_sp = alternate, .ss_size = sizeof(alternate)}, now;

	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, NULL);
	sigaltstack(&ss, NULL);
	for (volatile int i = 0; i < 2; i++) {
		still_ours();
		errno = 1000 + i;
		if (!sigsetjmp(back, 1))
			happen();
		if (!strcmp(handler_kind, "resethand"))
			in_front = 0;
		sigaltstack(NULL, &now);
		say("went on: mask %lx flags %d errno %d\n", mask_now(), now.ss_flags, errno);
	}
	still_ours();
	return NULL;
}

int main(int argc, char **argv)
{
	struct rlimit stack = {256 << 10, 256 << 10};
	pthread_t t;
	int fd;

	if (argc < 4)
		return 2;
	mode = argv[1];
	handler_kind = argv[2];
	event = argv[3];
	fd = memfd_create("file", 0);
	if (mmap(PLACE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != PLACE ||
	    mmap(PLACE + PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
	    mmap(PLACE + 2 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return 2;
	if ((!strcmp(mode, "before") || !strcmp(mode, "both")) && etch_fault_init())
		return 2;
	handlers();
	if ((!strcmp(mode, "after") || !strcmp(mode, "both")) && etch_fault_init())
		return 2;
	in_front = !strcmp(mode, "after") || (!strcmp(handler_kind, "dfl") && strcmp(mode, "without"));
	if (argc > 4) { /* in a thread that comes later, whose stack has a fixed place */
		pthread_attr_t a;
		sigset_t all, before;

		/* What is sent to the process is for that thread. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		pthread_attr_init(&a);
		pthread_attr_setstack(&a, mmap((void *)0x200000000, 1 << 18, PROT_READ | PROT_WRITE,
		                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), 1 << 18);
		if (pthread_create(&t, &a, thread, &before))
			return 2;
		pthread_join(t, NULL);
	} else {
		setrlimit(RLIMIT_STACK, &stack);
		thread(NULL);
	}
	say("end\n");
	return 0;
}
