/* SPDX-License-Identifier: MIT */
/*
 * sampler_timers.c: when a process is interrupted, and when it has not run since.
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "sampler.h"

#define RAN         100000  /* nanoseconds of CPU time since the sample before */
#define PERIOD      1000000 /* nanoseconds */
#define PERIOD_MOST 64000000
#define WAITS       16 /* signals in a row: fewer may mean that others had the CPU */

static uint64_t last_ran;

/* How much the process has run since this was asked last, in nanoseconds. */
uint64_t ran_since(void)
{
	struct timespec t;
	uint64_t now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	return now - __atomic_exchange_n(&last_ran, now, __ATOMIC_RELAXED);
}

/*
 * Has the process hardly run since the last signal? One that waits shows the same stack
 * a thousand times a second.
 */
int idle(void)
{
	uint64_t ran = ran_since();

	return ran < RAN || ran > (uint64_t)1 << 62;
}

/* Timers of this process: of its time on CPUs, and of all time. */
static timer_t timer[2];
static int timers; /* a bit each: 0 is a timer, too */

static long period = PERIOD; /* between two samples; longer while the process waits */
static int waited;

static void wake(void)
{
	struct itimerspec once = { .it_value = { 0, period } };

	if (timers & 2)
		timer_settime(timer[1], 0, &once, NULL);
}

/*
 * Timers of timer_create(2) are not inherited, nor kept by exec(2): a process that has
 * no handler is never signalled. One counts the process's time on CPUs and finds the
 * thread that runs; it fires on the kernel's ticks, 100 to 1,000 a second. The other
 * one is exact, and meets system calls (timer_again()).
 */
void timers_begin(void)
{
	static const clockid_t clocks[2] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_MONOTONIC };
	struct itimerspec each = { { 0, PERIOD }, { 0, PERIOD } };
	struct sigevent e;

	timers = 0;
	last_ran = 0;
	if (only == NOTHING)
		return;
	memset(&e, 0, sizeof(e));
	e.sigev_notify = SIGEV_SIGNAL;
	e.sigev_signo = SIGPROF;
	for (int i = 0; i < 2; i++)
		if (!timer_create(clocks[i], &e, &timer[i])) {
			timers |= 1 << i;
			if (!i)
				timer_settime(timer[i], 0, &each, NULL);
		}
	period = PERIOD;
	wake();
}

/*
 * The timer of all time fires once, and again that long after the sample is done: where a walk and a
 * signal take longer than a period the program goes on, and one that waits is woken seldom.
 */
void timer_again(int waits)
{
	if (!waits) {
		waited = 0;
		period = PERIOD;
	} else if (++waited > WAITS) {
		period = period < PERIOD_MOST / 2 ? 2 * period : PERIOD_MOST;
	}
	wake();
}

/* No signal from here on, nor one that waits already. */
void timers_end(void)
{
	struct sigaction a = { .sa_handler = SIG_IGN };

	for (int i = 0; i < 2; i++)
		if (timers & 1 << i)
			timer_delete(timer[i]);
	timers = 0;
	libc_sigaction(SIGPROF, &a, NULL);
}
