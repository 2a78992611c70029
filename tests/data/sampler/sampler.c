/* SPDX-License-Identifier: MIT */
/*
 * sampler.c: for LD_PRELOAD into any program: where do walks of its stack end?
 *
 * A timer interrupts each process of the program a thousand times a second; the handler
 * walks from the interrupted instruction with libetch and counts how the walk ended and
 * at which frame. Of every SAMPLER_COMPARE-th sample (16), and of the first walk that
 * ends somewhere, libunwind walks the same stack, and it is counted where the two differ. Of
 * each that stops it does, too, and it is counted how far it comes.
 *
 * SAMPLER_ONLY=signals leaves out the walks, and SAMPLER_ONLY=nothing the signals too: what a
 * program does differently then it does because of them, and of no walk.
 *
 * SAMPLER_DIR=DIR turns it on. All counts are in a file DIR/PID.TICKS that is mapped
 * shared, so that a process may end in any way; tests/scripts/samples.py reads it. What
 * fork(2) makes has a file of its own, and so has what exec(2) runs.
 *
 * The handler runs on a thread stopped anywhere: no malloc, no lock that it waits for, no
 * libc but _dl_find_object(3), system calls and functions of bytes. A walk needs an array for
 * its frames; there are WALKS of them, and a sample that finds none free is counted as lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <etch/unwind.h>

#include "sampler.h"

struct report *report;
enum only only;

static const char *directory;
static struct walk walk[WALKS];

static void count(ucontext_t *context)
{
	int n, status = 0, i = 0;
	unsigned long serial;
	struct walk *w;

	while (i < WALKS && __atomic_exchange_n(&walk[i].taken, 1, __ATOMIC_ACQUIRE))
		i++;
	if (i == WALKS) {
		COUNT(lost, 1);
		return;
	}
	w = &walk[i];
	n = etch_backtrace_from(context, w->ours, FRAMES, &status);
	serial = COUNT(samples, 1);
	COUNT(frames, (uint64_t)n);
	if ((uint64_t)n > report->deepest)
		report->deepest = (uint64_t)n;
	walk_count(context, w, n, status, serial);
	__atomic_store_n(&w->taken, 0, __ATOMIC_RELEASE);
	ran_since(); /* what a walk of a deep stack takes is not the program's time */
}

static void sample(int sig, siginfo_t *info, void *context)
{
	int saved = errno, waits = idle();

	(void)sig, (void)info;
	if (waits)
		COUNT(idle, 1);
	else if (!only)
		count(context);
	timer_again(waits);
	errno = saved;
}

/* A report of this process, in place of what was there. */
static int report_begin(void)
{
	char name[300];
	struct timespec t;
	void *to;
	int fd;

	clock_gettime(CLOCK_MONOTONIC, &t);
	snprintf(name, sizeof(name), "%s/%d.%lld%09ld", directory, (int)getpid(), (long long)t.tv_sec, t.tv_nsec);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	if (ftruncate(fd, sizeof(*report))) {
		close(fd);
		return -1;
	}
	to = mmap(report, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | (report ? MAP_FIXED : 0), fd, 0);
	close(fd);
	if (to == MAP_FAILED)
		return -1;
	report = to;
	report->pid = (uint64_t)getpid();
	report->size = sizeof(*report);
	if (readlink("/proc/self/exe", report->program, sizeof(report->program) - 1) < 0)
		report->program[0] = 0;
	__atomic_store_n(&report->magic, MAGIC, __ATOMIC_RELEASE);
	return 0;
}

static void child(void)
{
	for (int i = 0; i < WALKS; i++)
		walk[i].taken = 0;
	if (report_begin()) {
		/* Count into memory that nobody reads. */
		mmap(report, sizeof(*report), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		return;
	}
	timers_begin();
}

__attribute__((constructor)) static void start(void)
{
	const char *what = getenv("SAMPLER_ONLY");
	struct sigaction a;

	directory = getenv("SAMPLER_DIR");
	if (!directory || report_begin())
		return;
	if (what)
		only = strcmp(what, "signals") ? NOTHING : SIGNALS;
	libunwind_begin();
	if (!only && getenv("SAMPLER_PREPARE"))
		etch_unwind_prepare();
	memset(&a, 0, sizeof(a));
	a.sa_sigaction = sample;
	/* On a signal stack where there is one: some programs' others are small. */
	a.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	sigaction(SIGPROF, &a, NULL);
	sampling = 1;
	pthread_atfork(NULL, NULL, child);
	timers_begin();
}

__attribute__((destructor)) static void finish(void)
{
	if (report)
		report->finished = 1;
}
