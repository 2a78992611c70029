/* SPDX-License-Identifier: MIT */
/*
 * Calls every function that has an entry of the exception table with an address that
 * cannot be read, and with one that can; says what came of it; and makes sure that each
 * entry of the program has faulted, and gone on where the table says.
 */
#include <etch/extable.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

/* ---- entries of C ------------------------------------------------------------------ */

__attribute__((noinline, section(".text.zz"))) static long read_err(const int *p)
{
	long err = 0;
	int v;

	__asm__ __volatile__("1: movl %2, %1\n2:\n\t" ETCH_EX_EFAULT("1b", "2b", "%0") : "+r"(err), "=r"(v) : "m"(*p));
	return err ? err : v;
}

/* In a high register, and in a 32-bit operand. */
__attribute__((noinline)) static long read_high(const int *p)
{
	register long err __asm__("r13") = 0;
	unsigned v = 9;

	__asm__ __volatile__("1: movl %2, %1\n2:\n\t" ETCH_EX_EFAULT("1b", "2b", "%0") : "+r"(err), "=r"(v) : "m"(*p));
	__asm__ __volatile__("1: movl %1, %0\n2:\n\t" ETCH_EX_ZERO("1b", "2b", "%k0") : "+r"(v) : "m"(*p));
	return err + v;
}

__attribute__((noinline)) static long write_plain(int *p)
{
	long done = 0;

	__asm__ __volatile__("1: movl $5, %1\n\tmov $1, %0\n2:\n\t" ETCH_EX_PLAIN("1b", "2b") : "+r"(done), "=m"(*p));
	return done;
}

/* The error label is reached by the table alone, and may be in a part of its own. */
int error_seen;
__attribute__((noinline, cold)) static void error_note(void) { error_seen++; }
__attribute__((noinline)) static long read_goto(const int *p, int *out)
{
	int keep[8];

	memset(keep, 3, sizeof(keep));
	__asm__ goto("1: movl (%0), %%eax\n\tmovl %%eax, (%1)\n\t" ETCH_EX_PLAIN("1b", "%l[error]")
	             : : "r"(p), "r"(out), "m"(keep) : "rax", "memory" : error);
	return *out;
error:
	error_note();
	return -400 - (keep[7] & 7);
}

static long goto_call(const int *p)
{
	int v;

	return read_goto(p, &v);
}

/* ---- entries of other files ----------------------------------------------------------- */

long template_int(const int *p), template_both(const int *p), template_long(const long *p), template_again(const int *p);
long shape_len(char *dst, const char *src, unsigned long n), shape_frame(char *dst, const char *src, unsigned long n);
long shape_section(char *dst, const char *src, unsigned long n), shape_shared_a(char *dst, const char *src, unsigned long n);
long shape_shared_b(char *dst, const char *src, unsigned long n), shape_store(char *dst, char *src, unsigned long n);
long shape_update(char *dst, char *src, unsigned long n), shape_string(char *dst, const char *src, unsigned long n);

/* ---- what happened --------------------------------------------------------------------- */

static struct { unsigned long insn, to; } seen[256];
static volatile unsigned seen_count;

static void handler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	unsigned long insn = (unsigned long)u->uc_mcontext.gregs[REG_RIP];

	(void)info;
	if (!etch_fixup_exception(u)) {
		signal(sig, SIG_DFL);
		return;
	}
	seen[seen_count % 256].insn = insn;
	seen[seen_count++ % 256].to = (unsigned long)u->uc_mcontext.gregs[REG_RIP];
}

static unsigned check(void)
{
	unsigned bad = 0, live = 0, k;
	const struct etch_ex *e;

	for (e = etch_ex_start_; e < etch_ex_stop_; e++) {
		unsigned long insn = (unsigned long)&e->insn + (unsigned long)(long)e->insn;
		unsigned long to = (unsigned long)&e->fixup + (unsigned long)(long)e->fixup;

		if (!e->insn) /* dropped by the linker */
			continue;
		live++;
		for (k = 0; k < seen_count; k++)
			if (seen[k].insn == insn && seen[k].to == to)
				break;
		if (k == seen_count || !etch_fault_expected((const void *)insn)) {
			printf("entry %ld has not done what it says\n", (long)(e - etch_ex_start_));
			bad++;
		}
	}
	printf("entries %u\n", live);
	return bad;
}

#define EACH(say) \
	say(read_err((const int *)p)) say(read_high((const int *)p)) say(write_plain((int *)p)) say(goto_call((const int *)p)) \
	say(template_int((const int *)p)) say(template_both((const int *)p)) say(template_long((const long *)p)) \
	say(template_again((const int *)p)) say(shape_frame(to, p, 1)) say(shape_section(to, p, 1)) say(shape_shared_a(to, p, 1)) \
	say(shape_shared_b(to, p, 8)) say(shape_store(to, p, 1)) say(shape_update(to, p, 8)) say(shape_string(to, p, 1))
#define SAY(call) printf("%ld ", call);

int main(void)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), to[64], *p;
	unsigned n;

	sigaction(SIGSEGV, &sa, NULL);
	mprotect(page + 4096, 4096, PROT_NONE);
	memset(page, 1, 4096);
	p = page + 64;
	EACH(SAY)
	printf("faults %u\n", seen_count);
	p = page + 4096;
	EACH(SAY)
	for (n = 0; n <= 24; n++) /* n bytes, of which 13 are there */
		printf("%ld ", shape_len(to, page + 4096 - 13, n));
	printf("errors %d\n", error_seen);
	return check() != 0;
}
