/* SPDX-License-Identifier: MIT */
/* Enforces the bounds on memory and CPU time of bounds.h with RLIMIT_DATA and a timer. */
#include "support/bounds.h"
#include "support/ending.h"
#include "support/exit_code.h"
#include "support/plain.h"
#include "support/error.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define BOUNDED_SIZE_MAX ((uint64_t)1 << 56) /* a larger size counts as this one; its bounds are never reached */

static struct {
	bool worker, known;    /* known: memory_allowed has been set */
	uint64_t size;         /* bytes read for the current input */
	uint64_t memory;       /* bytes that the process used before the current input */
	rlim_t memory_allowed; /* RLIMIT_DATA that the process was started with */
	char text[512];        /* the message of time_exceeded() */
	size_t length;
	bool memory_ends;
	char file[320]; /* "FILE: " */
} bounds;

void bounds_worker(void) { bounds.worker = true; }

/* This is a signal handler: it makes only async-signal-safe calls. Output that the command has not flushed is lost. */
static void time_exceeded(int signal)
{
	(void)signal;
	ending_undo();
	if (bounds.worker)
		_exit(BOUNDS_STATUS);
	if (write(STDERR_FILENO, bounds.text, bounds.length) < 0)
		_exit(EXIT_UNUSABLE); /* as with the message */
	_exit(EXIT_UNUSABLE);
}

/* This function must not allocate. */
_Noreturn void bounds_exhausted(void)
{
	struct iovec line[3] = {
		{(void *)"etch: ", 6}, {bounds.file, strlen(bounds.file)}, {(void *)NO_MEMORY "\n", sizeof(NO_MEMORY)}};

	ending_undo();
	if (bounds.worker)
		_exit(BOUNDS_STATUS_MEMORY);
	if (writev(STDERR_FILENO, line, 3) < 0)
		_exit(EXIT_UNUSABLE); /* as with the message */
	_exit(EXIT_UNUSABLE);
}

void bounds_refused(uint64_t size)
{
	/* A request that exceeds the file's whole bound comes from a size that the file claims; it does not mean that
	 * memory is short. */
	if (bounds.memory_ends && size <= BOUNDS_MEMORY + bounds.size * BOUNDS_MEMORY_A_BYTE)
		bounds_exhausted();
}

void bounds_memory_ends(void) { bounds.memory_ends = true; }

struct factors {
	double time, memory;
};

static double factor(const char *text, char **end)
{
	double f = strtod(text, end);

	return f > 0 && f < 1e6 ? f : 1;
}

/* Parses ETCH_BOUNDS. Returns false if it disables the bounds. */
static bool factors_read(struct factors *f)
{
	const char *set = getenv("ETCH_BOUNDS");
	char *end;

	f->time = f->memory = 1;
	if (!set)
		return true;
	f->time = f->memory = factor(set, &end);
	if (*end == ',')
		f->memory = factor(end + 1, &end);
	return strcmp(set, "none");
}

/* Returns the bytes of private writable memory, which is what RLIMIT_DATA limits: the sixth field of /proc/self/statm
 * has them in pages. */
static uint64_t memory_used(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	uint64_t pages = 0;

	if (f && fscanf(f, "%*u %*u %*u %*u %*u %" SCNu64, &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Sets no bound in a build with a sanitizer, whose own memory would count; sanitizers have limits of their own. */
static void memory_bound(double times)
{
#if !defined(BOUNDS_SANITIZED)
	double most = (double)bounds.memory + times * (BOUNDS_MEMORY + (double)bounds.size * BOUNDS_MEMORY_A_BYTE);
	struct rlimit limit;

	if (getrlimit(RLIMIT_DATA, &limit))
		return;
	if (!bounds.known)
		bounds.memory_allowed = limit.rlim_cur;
	bounds.known = true;
	limit.rlim_cur = most < (double)bounds.memory_allowed ? (rlim_t)most : bounds.memory_allowed;
	setrlimit(RLIMIT_DATA, &limit);
#else
	(void)times;
#endif
}

static void time_bound(double times)
{
	double seconds = times * (BOUNDS_SECONDS + (double)bounds.size / 1e6 * BOUNDS_SECONDS_A_MB);
	struct itimerval timer = {
		.it_value = {.tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)(seconds * 1e6) % 1000000 + 1}};
	struct sigaction act = {.sa_handler = time_exceeded};
	int n;

	n = snprintf(bounds.text, sizeof(bounds.text),
	             "etch: %sexceeds the CPU time limit of %.3g s for %" PRIu64 " bytes (ETCH_BOUNDS=none: no limit)\n",
	             bounds.file, seconds, bounds.size);
	bounds.length = n < 0 ? 0 : strlen(bounds.text);
	sigaction(SIGPROF, &act, NULL);
	setitimer(ITIMER_PROF, &timer, NULL);
}

static void clock_stop(void)
{
	static const struct itimerval off;

	setitimer(ITIMER_PROF, &off, NULL);
}

void bounds_begin(void)
{
	bounds.size = 0;
	bounds.file[0] = 0;
	bounds.memory = memory_used();
	clock_stop();
}

void bounds_add(const char *path, uint64_t size)
{
	struct factors f;

	snprintf(bounds.file, sizeof(bounds.file), "%.300s: ", path);
	plain(bounds.file);
	bounds.size = size < BOUNDED_SIZE_MAX - bounds.size ? bounds.size + size : BOUNDED_SIZE_MAX;
	if (!factors_read(&f))
		return;
	memory_bound(f.memory);
	time_bound(f.time);
}

void bounds_end(void)
{
	bounds.memory_ends = false;
	clock_stop();
}
