/* SPDX-License-Identifier: MIT */
/*
 * Corrupt stacks: for walks.c.
 */
#include "walks.h"

static int statuses[16];

static void try_context(const ucontext_t *u, struct etch_walk *w)
{
	void *ips[MOST];
	int n, status = 99;

	n = etch_backtrace_from(u, ips, MOST, &status);
	status = etch_unwind_reason(status);
	must(n >= 1 && n <= MOST && status != ETCH_UNWIND_OK && status <= 1 && status >= ETCH_UNWIND_LIMIT);
	statuses[8 + status]++;
	n = etch_backtrace_reuse(w, u, ips, MOST, &status);
	must(n >= 1 && status != 99);
}

void case_corrupt(void)
{
	long page = 4096, rounds = atol(arguments[0]);
	/* Two pages to read, between two that are not. */
	char *p = mmap(NULL, 4 * (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *words = (uint64_t *)(void *)(p + page), here = (uint64_t)words;
	static struct etch_walk w;
	ucontext_t u;

	must(p != MAP_FAILED && !mprotect(p + page, 2 * (size_t)page, PROT_READ | PROT_WRITE));
	must(!getcontext(&u));
	for (long i = 0; i < rounds; i++) {
		if (i % 64 == 0)
			for (int k = 0; k < 1024; k++)
				switch (rnd() % 8) {
				case 0: words[k] = rnd(); break;
				case 1: words[k] = rnd() % 64; break;
				case 2:
				case 3: words[k] = here + rnd() % (2 * (uint64_t)page + 64) - 32; break;
				case 4: words[k] = (here + rnd() % (2 * (uint64_t)page)) & ~7ul; break;
				default: words[k] = code_address();
				}
		for (int r = 0; r < 17; r++)
			switch (rnd() % 6) {
			case 0: u.uc_mcontext.gregs[r] = (greg_t)rnd(); break;
			case 1: u.uc_mcontext.gregs[r] = (greg_t)(rnd() % 5000 - 100); break;
			default: u.uc_mcontext.gregs[r] = (greg_t)(here + rnd() % (2 * (uint64_t)page + 64) - 32);
			}
		if (rnd() % 8)
			u.uc_mcontext.gregs[REG_RSP] = (greg_t)((here + rnd() % (2 * (uint64_t)page)) & (rnd() % 4 ? ~7ul : ~0ul));
		if (rnd() % 16)
			u.uc_mcontext.gregs[REG_RIP] = (greg_t)code_address();
		try_context(&u, &w);
	}
	/* Registers at the edges of what an address can be. */
	for (int i = 0; i < 200; i++) {
		static const uint64_t edges[] = { 0, 1, 7, 8, 4095, 4096, 1ul << 47, (1ul << 47) - 8, (1ul << 56) - 8, 1ul << 56,
		                                  1ul << 63, (1ul << 63) - 1, ~0ul, ~0ul - 7, ~0ul - 4095, ~0ul << 47 };

		for (int r = 0; r < 16; r++)
			u.uc_mcontext.gregs[r] = (greg_t)edges[rnd() % 16];
		u.uc_mcontext.gregs[REG_RIP] = (greg_t)(i % 2 ? code_address() : edges[rnd() % 16]);
		try_context(&u, &w);
	}
	for (int i = 2; i <= 9; i++)
		printf("%d: %d\n", i - 8, statuses[i]);
}

/* Frames that overwrite their own stack: the walk ends, and the program goes on. */
static NOINLINE int smash(int n)
{
	static struct etch_walk walk;
	uint64_t local[8], kept[64];
	void *ips[MOST];
	int r = 0, status;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	if (n)
		return smash(n - 1) + 1;
	for (int i = 0; i < 2000; i++) {
		uint64_t *at = (uint64_t *)__builtin_frame_address(0) + 1;

		for (int k = 0; k < 64; k++)
			kept[k] = at[k];
		for (int k = 0; k < 64; k++)
			if (rnd() % 4 == 0)
				at[k] = rnd() % 2 ? rnd() : (uint64_t)&local + rnd() % 4096;
		r += etch_backtrace_from(NULL, ips, MOST, &status);
		r += etch_backtrace_reuse(&walk, NULL, ips, MOST, &status);
		for (int k = 0; k < 64; k++)
			at[k] = kept[k];
	}
	BARRIER;
	return r;
}

/* Frames whose CFA is what rsp points to: on another stack each time, if that is so. */
__asm__(".text\n"
        "circle:\t.cfi_startproc\n\t"
        "mov\t(%rdi), %rsp\n\t"
        ".cfi_escape 0x0f, 3, 0x77, 0, 6\n" /* def_cfa_expression: breg7 0, deref */
        "in_circle:\tnop\n\t"
        "nop\n\t"
        "ret\n\t"
        ".cfi_endproc\n");
extern const char in_circle[] __attribute__((visibility("hidden")));

/* A frame that is its own caller: the walk ends, and stays ended. */
static void check_circle(void)
{
	uint64_t stack[2] = { (uint64_t)in_circle + 1, (uint64_t)&stack[1] };
	static ucontext_t u;
	struct etch_cursor c;
	int steps = 0;

	u.uc_mcontext.gregs[REG_RIP] = (greg_t)in_circle;
	u.uc_mcontext.gregs[REG_RSP] = (greg_t)&stack[1];
	must(!etch_cursor_init(&c, &u));
	while (!etch_step(&c))
		must(++steps < 1000);
	must(steps > 10);
	for (int i = 0; i < 3; i++)
		must(etch_step(&c) == ETCH_UNWIND_LIMIT);
}

void case_smash(void)
{
	must(smash(20));
	check_circle();
}
