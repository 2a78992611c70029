/* SPDX-License-Identifier: MIT */
/*
 * unloading.c: walks into a module whose memory goes away. `unloading PLUGIN head`: its first page cannot be read any
 * more, from one walk to the next. `unloading PLUGIN race SECONDS OTHER`: a thread loads and unloads it and the other
 * by turns, walks from a frame in each, and maps its place anew; others walk from addresses inside, and all are
 * interrupted by samples. With libetch-unwind preloaded they walk by libunwind's and glibc's functions too. The
 * plugins: unloading_plugin.c.
 */
#include <dlfcn.h>
#include <execinfo.h>
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
/* At least so many in a race. */
#define LOADS 20
#define WALKS 1000

typedef int call_fn(int (*back)(void));

static const char *plugin, *other;
static uint64_t volatile low, high, inside;
static volatile int stop;
static volatile long walks, samples, loads, wrong, without;

/* libunwind's functions for a cursor of its size; null: there are none. */
static int (*cursor_init)(uint64_t *cursor, ucontext_t *context, int flags), (*cursor_step)(uint64_t *cursor);
#define CURSOR_WORDS        127
#define CURSOR_SIGNAL_FRAME 1

static void place_find(void *address)
{
	Dl_info info;
	struct link_map *map;

	dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP);
	low = (uint64_t)info.dli_fbase;
	high = low + 6 * 4096;
	inside = (uint64_t)address;
}

/* Its frames, or -1: is the walk whole? */
static int walk_here(void)
{
	void *ips[MOST];
	int status, n = etch_backtrace_from(NULL, ips, MOST, &status);

	return status == ETCH_UNWIND_END ? n : -status * 1000 - n;
}

/* As walk_here(), by the preloaded function, which needs no table. */
static int backtrace_here(void)
{
	void *ips[MOST];

	return backtrace(ips, MOST);
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
	int whole = *(int *)arg, found;

	while (!stop) {
		void *handle = dlopen(loads & 1 ? other : plugin, RTLD_NOW), *p;
		call_fn *call = (call_fn *)dlsym(handle, "call");

		/* What is known of the file that was there before does not hold for this one. */
		found = call(walk_here);
		if (found != whole && found == -ETCH_UNWIND_NOTABLE * 1000 - 2)
			without++;
		else if (found != whole)
			wrong++;
		if (cursor_init && call(backtrace_here) != whole)
			wrong++;
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
	uint64_t cursor[CURSOR_WORDS];
	ucontext_t u;
	void *ips[MOST];
	int status, n = MOST;

	memset(&u, 0, sizeof(u));
	while (!stop) {
		for (int i = 0; i < 64; i++)
			stack[i] = inside + (uint64_t)i;
		u.uc_mcontext.gregs[REG_RIP] = (greg_t)inside;
		u.uc_mcontext.gregs[REG_RSP] = (greg_t)stack;
		u.uc_mcontext.gregs[REG_RBP] = (greg_t)&stack[8];
		etch_backtrace_from(&u, ips, MOST, &status);
		if (cursor_init && !cursor_init(cursor, &u, CURSOR_SIGNAL_FRAME))
			for (n = MOST; n && cursor_step(cursor) > 0; n--)
				;
		walks++;
	}
	return arg;
}

static void *whole_walk(void *call)
{
	static int whole;

	whole = ((call_fn *)call)(walk_here);
	return &whole;
}

static int race(double seconds, void *handle)
{
	struct sigaction sa = {.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval often = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, left = {0, 0};
	pthread_t threads[3], first;
	void *whole;

	/* From a thread's start, as all the loader's are. */
	pthread_create(&first, NULL, whole_walk, dlsym(handle, "call"));
	pthread_join(first, &whole);
	dlclose(handle);
	sigaction(SIGPROF, &sa, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, i ? walk_in : load, whole);
	/* However busy the machine is, each has run for some time. */
	while (nanosleep(&t, &left) || loads < LOADS || walks < WALKS || !samples) {
		t = left.tv_sec || left.tv_nsec ? left : (struct timespec){0, 1000000};
		left = (struct timespec){0, 0};
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_PROF, &off, NULL);
	printf("%ld loads, %ld walks, %ld samples; %d frames: %ld wrong, %ld without a table\n", loads, walks, samples,
	       *(int *)whole, wrong, without);
	return 0;
}

int main(int argc, char **argv)
{
	void *handle;
	call_fn *call;

	if (argc < 3)
		return 2;
	plugin = argv[1];
	other = argc > 4 ? argv[4] : plugin;
	*(void **)&cursor_init = dlsym(RTLD_DEFAULT, "_ULx86_64_init_local2");
	*(void **)&cursor_step = dlsym(RTLD_DEFAULT, "_ULx86_64_step");
	etch_unwind_prepare();
	handle = dlopen(plugin, RTLD_NOW);
	call = (call_fn *)dlsym(handle, "call");
	place_find((void *)call);
	etch_unwind_prepare();
	if (!strcmp(argv[2], "head"))
		return head(call);
	return race(atof(argv[3]), handle);
}
