/* SPDX-License-Identifier: MIT */
/*
 * swaps.c: `swaps READS SETS [PLUGIN]`. Sites at every offset in a cache line, and across two pages at
 * each distance, in one page and in six, are executed without a pause by a thread on each CPU, by their
 * signal handlers and by children, while a setter on each CPU sets their variables, which swaps their
 * pages; other threads map and unmap, fork, send signals, load and unload a module with more sites.
 * Ends when there were READS reads and SETS sets; prints how many sweeps were wrong.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <etch/imv.h>

#include "check.h"
#include "lib/plugin_run.h"
#include "lib/swaps.h"

/* Of each setter one page and six pages; one variable of the second is the plugin's as well. */
ETCHED uint32_t page0, page1, pages0, pages1;
ETCHED __attribute__((visibility("default"))) uint32_t shared;
struct progress progress_of_shared;
static struct progress progress[4];

#define SIX PAGE_OF_SITES(1, 1) PAGE_OF_SITES(2, 2) PAGE_OF_SITES(3, 3) PAGE_OF_SITES(4, 4) PAGE_OF_SITES(5, 5) SITES_OF(10)
SWEEP(sweep_page0, page0, SITES_OF(115))
SWEEP(sweep_page1, page1, SITES_OF(115))
SWEEP(sweep_pages0, pages0, SIX)
SWEEP(sweep_pages1, pages1, SIX)
SWEEP(sweep_shared, shared, SITES_OF(115))

static const struct {
	uint32_t *variable;
	struct progress *progress;
	struct range (*sweep)(void);
	unsigned sites, often;
} sets[] = {
	{&page0, &progress[0], sweep_page0, 115, 7},        {&page1, &progress[1], sweep_page1, 115, 6},
	{&pages0, &progress[2], sweep_pages0, 590, 1},      {&pages1, &progress[3], sweep_pages1, 590, 1},
	{&shared, &progress_of_shared, sweep_shared, 115, 1},
};
#define COUNT (sizeof(sets) / sizeof(*sets))

static _Atomic uint64_t reads, done_sets, errors, wrong, forks, signals, loads, maps;
static atomic_int stop;
static pthread_t reader[64];
static long cpus;

static void pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % (unsigned)cpus, &set);
	sched_setaffinity(0, sizeof(set), &set); /* where it is not allowed, the scheduler decides */
}

static uint64_t sweep_all(unsigned *bad)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		*bad += !sweep_ok(sets[i].progress, sets[i].sweep);
		n += sets[i].sites;
	}
	return n;
}

static void handler(int sig)
{
	unsigned bad = 0;

	(void)sig;
	reads += sweep_all(&bad);
	wrong += bad;
	signals++;
}

static void *read_thread(void *arg)
{
	pin((unsigned)(uintptr_t)arg);
	while (!stop) {
		unsigned bad = 0;
		uint64_t n = 0;

		for (unsigned i = 0; i < 64 && !stop; i++)
			n += sweep_all(&bad);
		reads += n;
		wrong += bad;
	}
	return NULL;
}

static void set(unsigned i)
{
	uint32_t n = sets[i].progress->begun + 1;

	sets[i].progress->begun = n;
	if (etch_set(sets[i].variable, n * SPREAD))
		errors++;
	sets[i].progress->done = n;
	wrong += !sweep_ok(sets[i].progress, sets[i].sweep);
	done_sets++;
}

static void *set_thread(void *arg)
{
	unsigned mine = (unsigned)(uintptr_t)arg;

	pin(mine);
	while (!stop)
		for (unsigned i = mine; i < COUNT; i += 2)
			for (unsigned k = 0; k < sets[i].often && !stop; k++)
				set(i);
	return NULL;
}

static void *map_thread(void *arg)
{
	for (unsigned i = 0; !stop; i++) {
		size_t size = 4096 * (1 + i % 16);
		char *p = mmap(arg, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(p != MAP_FAILED);
		*p = 1;
		CHECK(!munmap(p, size));
		maps++;
		if (i % 64 == 0)
			usleep(1000);
	}
	return NULL;
}

static void *signal_thread(void *arg)
{
	while (!stop) {
		uint64_t handled = signals + (uint64_t)cpus;

		for (long i = 0; i < cpus; i++)
			pthread_kill(reader[i], SIGUSR1);
		do /* a slow machine would do nothing else */
			usleep(500);
		while (signals < handled && !stop);
	}
	return arg;
}

static void *load_thread(void *path)
{
	while (!stop) {
		wrong += plugin_run(path, 500);
		reads += 500 * 136;
		loads++;
		usleep(1000);
	}
	return NULL;
}

/* No set is half done in a child, and it goes on from there by itself. */
static int child(void)
{
	unsigned bad = 0;

	errors = wrong = 0;
	sweep_all(&bad);
	bad += etch_verify(NULL, NULL) != 0;
	for (unsigned i = 0; i < COUNT; i++) {
		sets[i].progress->done = sets[i].progress->begun; /* the parent's setter may be between the two */
		set(i);
	}
	sweep_all(&bad);
	return bad || errors || wrong;
}

static void *fork_thread(void *arg)
{
	while (!stop) {
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(child());
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		wrong += status != 0;
		forks++;
		usleep(2000);
	}
	return arg;
}

static unsigned start(pthread_t *t, char *plugin)
{
	unsigned n = 0;

	for (uintptr_t i = 0; i < (uintptr_t)cpus; i++)
		CHECK(!pthread_create(&reader[i], NULL, read_thread, (void *)i));
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[n++], NULL, set_thread, (void *)i));
	CHECK(!pthread_create(&t[n++], NULL, map_thread, NULL));
	CHECK(!pthread_create(&t[n++], NULL, signal_thread, NULL));
	CHECK(!pthread_create(&t[n++], NULL, fork_thread, NULL));
	if (plugin)
		CHECK(!pthread_create(&t[n++], NULL, load_thread, plugin));
	return n;
}

int main(int argc, char **argv)
{
	struct etch_info info = {.size = sizeof(info)};
	char *plugin = argc > 3 ? argv[3] : NULL;
	uint64_t want_reads, want_sets;
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	pthread_t t[8];
	unsigned n;

	if (argc < 3)
		return 2;
	want_reads = strtoull(argv[1], NULL, 0), want_sets = strtoull(argv[2], NULL, 0);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus < 2)
		cpus = 2;
	if (cpus > 8)
		cpus = 8;
	CHECK(!sigaction(SIGUSR1, &act, NULL));
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(!etch_sync_bytes(sets[i].variable, 4));
	etch_info(&info);
	printf("armed %lu of %lu sites, %lu by swap\n", info.armed, info.sites, info.by_swap);
	n = start(t, plugin);
	while (reads < want_reads || done_sets < want_sets || forks < 5 || signals < 5 || (plugin && loads < 5))
		usleep(10000);
	stop = 1;
	while (n)
		CHECK(!pthread_join(t[--n], NULL));
	for (long i = 0; i < cpus; i++)
		CHECK(!pthread_join(reader[i], NULL));
	printf("reads %lu sets %lu errors %lu wrong %lu forks %lu signals %lu loads %lu maps %lu verify %ld\n", reads,
	       done_sets, errors, wrong, forks, signals, loads, maps, etch_verify(NULL, NULL));
	return wrong || errors || etch_verify(NULL, NULL);
}
