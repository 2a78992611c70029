/* SPDX-License-Identifier: MIT */
/*
 * A sampling profiler that profiles its own walks: preloaded into a program
 * (LD_PRELOAD), it walks the stack from a SIGPROF handler and keeps how long that took.
 * At the end it writes "# ticks_per_ns x" and a line of ticks and frames per sample to
 * the file that BENCH_SAMPLES names. One walker each: -DETCH, -DREUSE, -DLIBUNWIND, or
 * glibc's backtrace(3).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/time.h>

#if defined(ETCH) || defined(REUSE)
#include <etch/unwind.h>
#elif defined(LIBUNWIND)
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#include "../bench.h"

#define SAMPLES (1u << 16)
#define FRAMES  256

static struct { uint32_t ticks, frames; } sample[SAMPLES];
static unsigned samples;
static void *ips[FRAMES];

static void handler(int sig, siginfo_t *info, void *context)
{
	uint64_t start = bench_tsc();
	int n;

	(void)sig;
	(void)info;
	(void)context;
#if defined(REUSE)
	static struct etch_walk previous;

	n = etch_backtrace_reuse(&previous, context, ips, FRAMES, NULL);
#elif defined(ETCH)
	n = etch_backtrace_from(context, ips, FRAMES, NULL);
#elif defined(LIBUNWIND)
	n = unw_backtrace(ips, FRAMES);
#else
	n = backtrace(ips, FRAMES);
#endif
	if (samples < SAMPLES && n > 0) {
		sample[samples].ticks = (uint32_t)(bench_tsc() - start);
		sample[samples++].frames = (uint32_t)n;
	}
}

#if defined(ETCH) || defined(REUSE)
/* What is loaded later needs a table too. */
void *dlopen(const char *file, int mode)
{
	void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	void *handle = next(file, mode);

	etch_unwind_prepare();
	return handle;
}
#endif

__attribute__((constructor)) static void sampler_start(void)
{
	struct itimerval t = {{0, 1000}, {0, 1000}};
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};

	if (!getenv("BENCH_SAMPLES"))
		return;
#if defined(ETCH) || defined(REUSE)
	etch_unwind_prepare();
#elif !defined(LIBUNWIND)
	backtrace(ips, 1); /* the first call loads libgcc_s */
#endif
	sigaction(SIGPROF, &a, NULL);
	setitimer(ITIMER_PROF, &t, NULL);
}

__attribute__((destructor)) static void sampler_end(void)
{
	struct itimerval off = {{0, 0}, {0, 0}};
	const char *path = getenv("BENCH_SAMPLES");
	FILE *f;
	unsigned i;

	setitimer(ITIMER_PROF, &off, NULL);
	if (!path || !samples || !(f = fopen(path, "w")))
		return;
	fprintf(f, "# ticks_per_ns\t%.4f\n", bench_ticks_per_ns());
	for (i = 0; i < samples; i++)
		fprintf(f, "%u\t%u\n", sample[i].ticks, sample[i].frames);
	fclose(f);
}
