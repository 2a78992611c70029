/* SPDX-License-Identifier: MIT */
/*
 * How long a sample stops a thread: the gaps in which a thread that only reads the time stamp counter is away, longer
 * than 0.5 us and shorter than 100 us (other processes take longer). Other load on the machine makes further gaps, but
 * moves the median little.
 *
 *     gaps SECONDS FRAMES [FLOOR]     frames of 1 KB on the stack; prints: gaps, median us, 90th percentile us
 *
 * FLOOR: what a sample costs that does nothing, 10,000 times a second:
 *     handler   a POSIX timer's signal, whose handler returns at once
 *     event     a perf event (cpu-clock) without a buffer, which stores nothing
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define MOST (1u << 20)

static double ticks_us; /* of the counter */
static float *gap;
static size_t count;

static int order(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void spin(double time)
{
	uint64_t last = __rdtsc(), now, end = last + (uint64_t)(time * 1e6 * ticks_us);

	for (; (now = __rdtsc()) < end; last = now) {
		double us = (double)(now - last) / ticks_us;

		if (us > 0.5 && us < 100 && count < MOST)
			gap[count++] = (float)us;
	}
}

__attribute__((noinline)) static void deep(int frames, double time)
{
	volatile char space[1000];

	memset((void *)space, frames, sizeof(space));
	if (frames)
		deep(frames - 1, time);
	else
		spin(time);
	space[0]++;
}

#define PERIOD 100000 /* ns */

static void nothing(int sig) { (void)sig; }

static int floor_begin(const char *kind)
{
	struct itimerspec every = {{0, PERIOD}, {0, PERIOD}};
	struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
	                                .size = sizeof(event),
	                                .config = PERF_COUNT_SW_CPU_CLOCK,
	                                .sample_period = PERIOD,
	                                .sample_type = PERF_SAMPLE_IP,
	                                .exclude_kernel = 1};
	timer_t timer;

	if (!strcmp(kind, "handler"))
		return signal(SIGUSR1, nothing) == SIG_ERR || timer_create(CLOCK_MONOTONIC, &by_signal, &timer) ||
		       timer_settime(timer, 0, &every, NULL);
	return strcmp(kind, "event") || syscall(SYS_perf_event_open, &event, 0, -1, -1, 0) < 0;
}

int main(int argc, char **argv)
{
	double begun = seconds();
	uint64_t first = __rdtsc();

	if (argc < 3 || argc > 4 || !(gap = calloc(MOST, sizeof(*gap))))
		return 2;
	memset(gap, 1, MOST * sizeof(*gap));
	while (seconds() < begun + 0.1)
		;
	ticks_us = (double)(__rdtsc() - first) / (seconds() - begun) / 1e6;
	if (argc == 4 && floor_begin(argv[3])) {
		perror(argv[3]);
		return 1;
	}
	deep(atoi(argv[2]), atof(argv[1]));
	qsort(gap, count, sizeof(*gap), order);
	printf("%zu %.1f %.1f\n", count, count ? gap[count / 2] : 0, count ? gap[count * 9 / 10] : 0);
	return 0;
}
