/* SPDX-License-Identifier: MIT */
/*
 * The stack at every instruction of some work, by the trap flag: backtrace(3) of this program's first library beside
 * glibc's own, both called by the handler.
 *
 * Prints the number of instructions, how many stacks were the same, and the first others.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define FRAMES 64

typedef int backtrace_fn(void **ips, int max);

static backtrace_fn *stock;
static volatile long steps, same;
static struct {
	void *ip;
	int ours, stock;
} others[8];
static volatile unsigned other_count;

static void on_step(int sig, siginfo_t *info, void *context)
{
	void *ours[FRAMES], *theirs[FRAMES];
	int n = backtrace(ours, FRAMES), m = stock(theirs, FRAMES);

	(void)sig, (void)info;
	steps++;
	/* The first frame is here, at two calls. */
	if (n == m && n > 2 && !memcmp(ours + 1, theirs + 1, (size_t)(n - 1) * sizeof(*ours))) {
		same++;
	} else if (other_count < 8) {
		others[other_count].ip = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
		others[other_count].ours = n;
		others[other_count++].stock = m;
	}
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static __attribute__((noinline)) void work(int depth)
{
	char *list[24], text[64];

	if (depth) {
		work(depth - 1);
		return;
	}
	for (int i = 0; i < 24; i++) {
		snprintf(text, sizeof(text), "%d %.3f %s", i * 7 % 24, i / 3.0, depth ? "deep" : "flat");
		list[i] = strdup(text);
	}
	qsort(list, 24, sizeof(*list), compare);
	for (int i = 0; i < 24; i++)
		free(list[i]);
}

#define PUSHED(change) "pushfq\n\t.cfi_adjust_cfa_offset 8\n\t" change "\n\tpopfq\n\t.cfi_adjust_cfa_offset -8"

static void trap_set(int on)
{
	if (on)
		__asm__ volatile(PUSHED("orq $0x100, (%%rsp)") : : : "memory", "cc");
	else
		__asm__ volatile(PUSHED("andq $~0x100, (%%rsp)") : : : "memory", "cc");
}

int main(void)
{
	struct sigaction a = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	void *libc = dlopen("libc.so.6", RTLD_NOW), *ips[FRAMES];

	stock = libc ? (backtrace_fn *)dlsym(libc, "backtrace") : NULL;
	if (!stock || stock == backtrace || stock(ips, FRAMES) < 2)
		return 2;
	sigaction(SIGTRAP, &a, NULL);
	trap_set(1);
	for (int i = 0; i < 2; i++)
		work(3);
	trap_set(0);
	printf("%ld steps, %ld the same\n", steps, same);
	for (unsigned i = 0; i < other_count; i++)
		printf("at %p: %d frames, glibc has %d\n", others[i].ip, others[i].ours, others[i].stock);
	return 0;
}
