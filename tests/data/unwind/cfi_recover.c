/* SPDX-License-Identifier: MIT */
/*
 * lib/unwind/recover.c: single-steps through calls that are bound lazily. The dynamic linker's
 * resolver realigns its frame and keeps the CFA in rbx, so that a walk from anything
 * that it calls needs rbx of that frame. At every instruction, a walk from the trap's
 * context must reach main. What .eh_frame does not describe is counted apart: glibc 2.41's __memmove_chk ends in padding
 * that is executed and has no FDE.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include <etch/unwind.h>

static unsigned long steps, whole, bare, by_status[16];
static uint64_t first_bad;
static int deepest;
/* libgcc's lookup of an FDE by address, unwind-dw2-fde.h. */
extern const void *_Unwind_Find_FDE(void *pc, void *bases[3]);
static void *bases[3];
extern const char __start_main_text[], __stop_main_text[];

static void trap(int sig, siginfo_t *info, void *context)
{
	struct etch_cursor c;
	uint64_t ip = 0;
	int status, frames = 0, found = 0;

	(void)sig;
	(void)info;
	steps++;
	etch_cursor_init(&c, context);
	do {
		etch_get_reg(&c, ETCH_RIP, &ip);
		found |= ip - (uint64_t)__start_main_text < (uint64_t)(__stop_main_text - __start_main_text);
		frames++;
	} while ((status = etch_step(&c)) == ETCH_UNWIND_OK);
	by_status[-status & 15]++;
	whole += found;
	if (!found && frames == 1 && !_Unwind_Find_FDE((void *)ip, bases))
		bare++;
	else if (!found && !first_bad)
		first_bad = ip;
	if (frames > deepest)
		deepest = frames;
}

static inline void flag_set(void)
{
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" ::: "cc", "memory");
}

static inline void flag_clear(void)
{
	__asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" ::: "cc", "memory");
}

__attribute__((section("main_text"))) int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
	volatile double x = argc;
	char text[64];

	(void)argv;
	if (etch_unwind_prepare() < 0)
		return 2;
	sigaction(SIGTRAP, &sa, NULL);
	if (!_Unwind_Find_FDE((void *)&main, bases)) /* bound before the steps, too */
		return 3;
	flag_set();
	x = pow(x + 1, 0.5) + fmod(x, 3);
	snprintf(text, sizeof(text), "%g %ld", x, (long)time(NULL));
	x += strtol(text, NULL, 10) + atof(text);
	flag_clear();
	printf("steps %lu whole %lu bare %lu deepest %d first %llx\n", steps, whole, bare, deepest, (unsigned long long)first_bad);
	for (unsigned i = 0; i < 16; i++)
		if (by_status[i])
			printf("status %u: %lu\n", i, by_status[i]);
	return 0;
}
