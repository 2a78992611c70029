/* SPDX-License-Identifier: MIT */
/*
 * Callee-saved registers of outer frames: `marked` puts numbers of its own into rbx, r12 to r15 and calls on, with C
 * functions between that use these registers for themselves. From the innermost function, each frame in `marked` must
 * have its numbers. registers cursor|signal|handler|unw|gcc: prints how many registers were right, wrong and unknown.
 * Nothing here has .eh_frame. registers closed: takes the pages of a static program's register table away, and prints how
 * many, how many frames the walks have then, and the signal that asking for a register ends in.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef DROP_IN
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <unwind.h>
#else
#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <etch/orc_registers.h>
#include <etch/unwind.h>
#endif

#define DEPTH 12
#define MARK(n, i) (0x5eed000000000000u + 0x10000u * (uint64_t)(n) + (uint64_t)(i))

void marked(int n, void (*call)(int), const uint64_t marks[5]);
extern const char marked_end[];
__asm__(".text\n"
        ".globl marked\n"
        ".type marked, @function\n"
        "marked:\n"
        "push %r15\n push %r14\n push %r13\n push %r12\n push %rbx\n"
        "mov 0(%rdx), %rbx\n mov 8(%rdx), %r12\n mov 16(%rdx), %r13\n mov 24(%rdx), %r14\n mov 32(%rdx), %r15\n"
        "call *%rsi\n"
        "pop %rbx\n pop %r12\n pop %r13\n pop %r14\n pop %r15\n"
        "ret\n"
        ".size marked, .-marked\n"
        "marked_end:\n");

static const char *mode;
static int next, right, wrong, unknown;
static volatile uint64_t sink;

/* One frame: known(reg, &value) of rbx, r12 to r15. */
static void frame(uint64_t ip, const uint64_t *value, const int *known)
{
	if (ip - (uint64_t)(uintptr_t)marked >= (uint64_t)(marked_end - (const char *)marked))
		return;
	next++;
	for (int i = 0; i < 5; i++) {
		if (!known[i])
			unknown++;
		else if (value[i] == MARK(next, i))
			right++;
		else
			wrong++;
	}
}

#ifdef DROP_IN
static void from_here(void)
{
	static const int reg[5] = {UNW_X86_64_RBX, UNW_X86_64_R12, UNW_X86_64_R13, UNW_X86_64_R14, UNW_X86_64_R15};
	unw_context_t context;
	unw_cursor_t c;
	unw_word_t ip, value[5];
	int known[5];

	unw_getcontext(&context);
	unw_init_local(&c, &context);
	while (unw_step(&c) > 0) {
		unw_get_reg(&c, UNW_REG_IP, &ip);
		for (int i = 0; i < 5; i++)
			known[i] = !unw_get_reg(&c, reg[i], &value[i]);
		frame(ip, value, known);
	}
}

static _Unwind_Reason_Code one(struct _Unwind_Context *context, void *arg)
{
	static const int reg[5] = {3, 12, 13, 14, 15};
	uint64_t value[5];
	int known[5];

	(void)arg;
	for (int i = 0; i < 5; i++) {
		value[i] = _Unwind_GetGR(context, reg[i]);
		known[i] = value[i] != 0;
	}
	frame(_Unwind_GetIP(context), value, known);
	return _URC_NO_REASON;
}

static void here(void)
{
	if (!strcmp(mode, "gcc"))
		_Unwind_Backtrace(one, NULL);
	else
		from_here();
}
#else
static void walk(struct etch_cursor *c)
{
	static const int reg[5] = {ETCH_RBX, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15};
	uint64_t ip, value[5];
	int known[5];

	do {
		struct etch_cursor copy = *c; /* a copy finds the same, from the same frame or an earlier one */

		etch_get_reg(c, ETCH_RIP, &ip);
		for (int i = 0; i < 5; i++)
			known[i] = !etch_find_reg(next & 1 ? c : &copy, reg[i], &value[i]);
		frame(ip, value, known);
	} while (etch_step(c) == ETCH_UNWIND_OK);
}

/* Makes the whole pages of this program's register table inaccessible; their number. */
static int table_close(void)
{
	const Elf64_Phdr *p = (const void *)getauxval(AT_PHDR);

	for (unsigned long i = getauxval(AT_PHNUM); i--;) {
		uint64_t size, address, at, end;
		const struct etch_unwind *u, *r;
		const uint64_t *word = (const void *)p[i].p_vaddr;

		if (p[i].p_type != PT_LOAD || (p[i].p_flags & (PF_R | PF_W)) != PF_R)
			continue;
		for (at = 0; at + sizeof(*u) <= p[i].p_filesz; at += 8) {
			u = (const void *)((const char *)word + at);
			size = p[i].p_filesz - at;
			if (!etch_unwind_header_valid(u, size) || !(r = etch_registers_behind(u, size)))
				continue;
			address = ((uint64_t)(uintptr_t)r + 4095) & ~4095ul;
			end = ((uint64_t)(uintptr_t)r + r->bytes) & ~4095ul;
			return address < end && !mprotect((void *)address, end - address, PROT_NONE) ? (int)((end - address) / 4096) : 0;
		}
	}
	return 0;
}

static void closed(void)
{
	int pages = table_close(), frames, steps = 0, status;
	struct etch_cursor c;
	void *ips[128];
	uint64_t value;
	pid_t child;

	frames = etch_backtrace(ips, 128);
	etch_cursor_init(&c, NULL);
	while (etch_step(&c) == ETCH_UNWIND_OK)
		steps++;
	printf("%d pages, %d frames, %d steps, ", pages, frames, steps);
	fflush(stdout);
	child = fork();
	if (!child)
		_exit(etch_find_reg(&c, ETCH_RBX, &value) == ETCH_UNWIND_OK);
	waitpid(child, &status, 0);
	printf("signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	exit(0);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	struct etch_cursor c;

	(void)sig, (void)info;
	etch_cursor_init(&c, !strcmp(mode, "signal") ? context : NULL);
	walk(&c);
}

static void here(void)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	struct etch_cursor c;

	if (!strcmp(mode, "closed"))
		closed();
	if (!strcmp(mode, "cursor")) {
		etch_cursor_init(&c, NULL);
		walk(&c);
	} else { /* from the handler's own frame through the signal frame, or from its ucontext_t */
		sigaction(SIGUSR1, &sa, NULL);
		raise(SIGUSR1);
	}
}
#endif

static __attribute__((noinline)) void level(int n)
{
	uint64_t marks[5], a = sink + (uint64_t)n, b = sink * 3, c = sink ^ 5, d = sink + 7;

	if (!n) {
		here();
		return;
	}
	for (int i = 0; i < 5; i++)
		marks[i] = MARK(n, i);
	marked(n - 1, level, marks);
	sink += a * b + c * d; /* which are in registers that `marked` has to keep */
}

int main(int argc, char **argv)
{
	mode = argc > 1 ? argv[1] : "";
#ifndef DROP_IN
	etch_unwind_prepare(); /* libc, through which a signal's frame leads */
#endif
	level(DEPTH);
	printf("%d right %d wrong %d unknown\n", right, wrong, unknown);
	return 0;
}
