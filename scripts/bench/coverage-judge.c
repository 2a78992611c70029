/* SPDX-License-Identifier: MIT */
/*
 * The judge of coverage_judge.py, linked into the program: counts which instructions read the marked objects by memory.
 * Once all is armed, their pages may not be accessed: each access faults, is counted by its instruction, and is executed
 * alone with the page open. Accesses of other threads meanwhile are missed. JUDGE_OBJECTS: X(name, size) for each.
 */
#define _GNU_SOURCE
#include <etch/imv.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define X(name, size) extern char name[];
JUDGE_OBJECTS
#undef X
#define X(name, size) {name, size},
static const struct {
	char *at;
	size_t size;
} objects[] = {JUDGE_OBJECTS};
#define COUNT (sizeof(objects) / sizeof(objects[0]))
#define SEEN  4096
#define FROM(i) ((uint64_t)objects[i].at & ~4095ul)
#define TO(i)   (((uint64_t)objects[i].at + objects[i].size + 4095) & ~4095ul)

static struct {
	uint64_t rip, reads, writes;
} seen[SEEN];
static __thread uint64_t open_page;
static volatile int judging;
static const char *go, *done, *result; /* nginx makes an environment of its own */

static int is_object(uint64_t at)
{
	for (size_t i = 0; i < COUNT; i++)
		if (at - (uint64_t)objects[i].at < objects[i].size)
			return 1;
	return 0;
}

static int is_page(uint64_t at)
{
	for (size_t i = 0; i < COUNT; i++)
		if (at >= FROM(i) && at < TO(i))
			return 1;
	return 0;
}

static void protect(int prot)
{
	for (size_t i = 0; i < COUNT; i++)
		mprotect((void *)FROM(i), TO(i) - FROM(i), prot);
}

static void count(uint64_t rip, int write)
{
	for (uint64_t n = 0, i = rip % SEEN; n < SEEN; n++, i = (i + 1) % SEEN) {
		uint64_t none = 0;

		if (seen[i].rip == rip || __atomic_compare_exchange_n(&seen[i].rip, &none, rip, 0, 5, 5) || none == rip) {
			__atomic_fetch_add(write ? &seen[i].writes : &seen[i].reads, 1, 5);
			return;
		}
	}
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t at = (uint64_t)info->si_addr;

	if (!is_page(at)) {
		signal(sig, SIG_DFL);
		return;
	}
	if (judging && is_object(at))
		count((uint64_t)r[REG_RIP], !!(r[REG_ERR] & 2));
	open_page = at & ~4095ul;
	mprotect((void *)open_page, 4096, PROT_READ | PROT_WRITE);
	r[REG_EFL] |= 0x100; /* the trap flag */
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100l;
	if (judging)
		mprotect((void *)open_page, 4096, PROT_NONE);
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};

	sigaction(sig, &a, 0);
}

static void *judge(void *path)
{
	struct etch_info i = {.size = sizeof(i)};
	int err = 0, fd = open(path, O_RDONLY);
	char c, text[200];

	if (fd < 0 || read(fd, &c, 1) != 1)
		return 0;
	close(fd);
	for (size_t k = 0; k < COUNT; k++)
		err |= etch_sync_bytes(objects[k].at, objects[k].size);
	etch_info(&i);
	snprintf(text, sizeof(text), "armed %d %lu %lu %lu %p\n", err, i.sites, i.armed, i.unfit, (void *)&judging);
	handle(SIGSEGV, on_fault);
	handle(SIGTRAP, on_step);
	judging = 1;
	protect(PROT_NONE);
	fd = open(done, O_WRONLY);
	dprintf(2, "%s", text);
	dprintf(fd, "%s", text);
	close(fd);
	return 0;
}

static char *copy(const char *s) { return s ? strdup(s) : 0; }

static void __attribute__((constructor(60000))) judge_start(void)
{
	pthread_t t;

	/* redis writes over its environment. */
	go = copy(getenv("ETCH_ARM"));
	done = copy(getenv("ETCH_DONE"));
	result = copy(getenv("ETCH_JUDGED"));
	signal(SIGPIPE, SIG_IGN); /* whoever waits for the answer may have gone */
	if (go && done && result)
		pthread_create(&t, 0, judge, (void *)go);
}

static void __attribute__((destructor)) judge_end(void)
{
	FILE *f;

	if (!judging)
		return;
	judging = 0;
	protect(PROT_READ | PROT_WRITE);
	f = fopen(result, "w");
	for (int i = 0; f && i < SEEN; i++)
		if (seen[i].rip)
			fprintf(f, "%lx %lu %lu\n", seen[i].rip - (uint64_t)&judging, seen[i].reads, seen[i].writes);
	if (f) {
		fprintf(f, "end 0 0\n");
		fclose(f);
	}
}
