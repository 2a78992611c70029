/* SPDX-License-Identifier: MIT */
/*
 * unloading.c: walks into a module whose memory goes away. `unloading PLUGIN head`: its first page cannot be read any
 * more, from one walk to the next. `unloading PLUGIN race SECONDS`: a thread loads and unloads it and maps its place
 * anew, others walk from addresses inside, and all are interrupted by samples. The plugin: unloading_plugin.c.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/unwind.h>

#define MOST 64

typedef int call_fn(int (*back)(void));

static const char *plugin;
static uint64_t volatile low, high, inside;
static volatile int stop;
static volatile long walks, samples, loads;

static void place_find(void *address)
{
	Dl_info info;
	struct link_map *map;

	dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP);
	low = (uint64_t)info.dli_fbase;
	high = low + 4 * 4096;
	inside = (uint64_t)address;
}

/* Its frames, or -1: is the walk whole? */
static int walk_here(void)
{
	void *ips[MOST];
	int status, n = etch_backtrace_from(NULL, ips, MOST, &status);

	return status == ETCH_UNWIND_END ? n : -status * 1000 - n;
}

static int head(call_fn *call)
{
	int whole = call(walk_here), without, again;

	mprotect((void *)low, 4096, PROT_NONE);
	without = call(walk_here);
	mprotect((void *)low, 4096, PROT_READ);
	again = call(walk_here);
	printf("%d %d %d\n", whole, without, again);
	return 0;
}

static void on_sample(int sig, siginfo_t *info, void *context)
{
	static __thread struct etch_walk walk;
	void *ips[MOST];
	int status;

	(void)sig, (void)info;
	etch_backtrace_from(context, ips, MOST, &status);
	etch_backtrace_reuse(&walk, context, ips, MOST, &status);
	etch_backtrace(ips, MOST);
	samples++;
}

static void *load(void *arg)
{
	while (!stop) {
		void *handle = dlopen(plugin, RTLD_NOW), *p;
		call_fn *call = (call_fn *)dlsym(handle, "call");

		call(walk_here);
		place_find((void *)call);
		dlclose(handle);
		/* What is mapped now may be anywhere, often there. */
		p = mmap((void *)low, high - low, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p != MAP_FAILED)
			munmap(p, high - low);
		loads++;
	}
	return arg;
}

static void *walk_in(void *arg)
{
	uint64_t stack[64];
	ucontext_t u;
	void *ips[MOST];
	int status;

	memset(&u, 0, sizeof(u));
	while (!stop) {
		for (int i = 0; i < 64; i++)
			stack[i] = inside + (uint64_t)i;
		u.uc_mcontext.gregs[REG_RIP] = (greg_t)inside;
		u.uc_mcontext.gregs[REG_RSP] = (greg_t)stack;
		u.uc_mcontext.gregs[REG_RBP] = (greg_t)&stack[8];
		etch_backtrace_from(&u, ips, MOST, &status);
		walks++;
	}
	return arg;
}

static void race(double seconds)
{
	struct sigaction sa = {.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval often = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, left;
	pthread_t threads[3];

	sigaction(SIGPROF, &sa, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, i ? walk_in : load, NULL);
	while (nanosleep(&t, &left))
		t = left;
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_PROF, &off, NULL);
	printf("%ld loads, %ld walks, %ld samples\n", loads, walks, samples);
}

int main(int argc, char **argv)
{
	void *handle;
	call_fn *call;

	if (argc < 3)
		return 2;
	plugin = argv[1];
	etch_unwind_prepare();
	handle = dlopen(plugin, RTLD_NOW);
	call = (call_fn *)dlsym(handle, "call");
	place_find((void *)call);
	etch_unwind_prepare();
	if (!strcmp(argv[2], "head"))
		return head(call);
	dlclose(handle);
	race(atof(argv[3]));
	return 0;
}
