/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD into any program: samples it by SIGPROF and compares libetch's walk
 * from the interrupted instruction with glibc's backtrace(3). At exit writes counts to
 * the file SAMPLER_OUT, and what differed:
 *
 *     samples N same N blind N short N wrong N end N other N reuse N
 *
 * blind: glibc ended at the interrupted frame itself, and libetch did not.
 * short: right as far as it goes, and says that it did not reach the end.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/unwind.h>

#define MOST 2000

static void *ours[MOST], *again[MOST], *theirs[MOST + 8];
static struct etch_walk walk;
static volatile long samples, same, blind, cut, wrong, ended, other, reused, busy;
static int out = -1;

static void sample(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	void *rip = (void *)u->uc_mcontext.gregs[REG_RIP];
	int n, m, k, at = 0, i, status = 0, gave_up;

	(void)sig, (void)info;
	if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) /* another thread's */
		return;
	k = backtrace(theirs, MOST + 8);
	while (at < k && theirs[at] != rip)
		at++;
	n = etch_backtrace_from(u, ours, MOST, &status);
	m = etch_backtrace_reuse(&walk, u, again, MOST, &status);
	samples++;
	reused += n == m && !memcmp(ours, again, (size_t)n * sizeof(*ours));
	ended += status == ETCH_UNWIND_END;
	gave_up = status != ETCH_UNWIND_END && status != ETCH_UNWIND_LIMIT;
	other += gave_up;
	for (i = 0; i < n && at + i < k && ours[i] == theirs[at + i];)
		i++;
	if (i == n && at + i == k) {
		same++;
	} else if (at + 1 >= k && n > 1 && status == ETCH_UNWIND_END) {
		blind++;
	} else if (i == n && gave_up) {
		cut++;
	} else if (++wrong <= 5 && out >= 0) {
		dprintf(out, "differ at %d of %d and %d: %s\n", i, n, k - at, etch_unwind_strerror(status));
		backtrace_symbols_fd(ours, n < i + 2 ? n : i + 2, out);
		dprintf(out, "expected\n");
		backtrace_symbols_fd(theirs + at, (k - at) < i + 2 ? k - at : i + 2, out);
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

/* Counts from here on: for a program that has loaded all that it will. */
void sampler_restart(void)
{
	samples = same = blind = cut = wrong = ended = other = reused = 0;
}

__attribute__((constructor)) static void start(void)
{
	struct itimerval t = { { 0, 1000 }, { 0, 1000 } };
	const char *path = getenv("SAMPLER_OUT");
	struct sigaction a;

	if (!path)
		return;
	out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	backtrace(theirs, 1); /* which loads libgcc */
	if (getenv("SAMPLER_PREPARE"))
		etch_unwind_prepare();
	memset(&a, 0, sizeof(a));
	a.sa_sigaction = sample;
	a.sa_flags = SA_SIGINFO | SA_RESTART;
	sigaction(SIGPROF, &a, NULL);
	setitimer(ITIMER_PROF, &t, NULL);
}

__attribute__((destructor)) static void end(void)
{
	struct itimerval t;

	memset(&t, 0, sizeof(t));
	setitimer(ITIMER_PROF, &t, NULL);
	if (out >= 0)
		dprintf(out, "samples %ld same %ld blind %ld short %ld wrong %ld end %ld other %ld reuse %ld\n", samples, same,
		        blind, cut, wrong, ended, other, reused);
}
