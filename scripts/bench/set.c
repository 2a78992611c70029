/* SPDX-License-Identifier: MIT */
/*
 * set: how long imv_set takes for 1, 64 and 4,096 sites and for a batch of 100
 * variables, and a store that gives up a page with as many sites, beside its floors
 * and a peer, all in one loop. With BEFORE: with a libetch that gives nothing up.
 *
 *     set SIBLINGS ROUNDS        prints: operation, ticks
 *
 * SIBLINGS 0 or 1: a thread on another CPU that executes the sites all the time.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "repeat.h"

#include <etch/imv.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

DEFINE_IMV(int, one) = 0;
DEFINE_IMV(int, some) = 0;
DEFINE_IMV(int, many) = 0;
DEFINE_IMV(int, crossing) = 0;
/* 100 variables: 64 + 32 + 4 */
#define DEFINE(n) DEFINE_IMV(int, n) = 0;
#define BATCH(M) REPEAT64(M, a) REPEAT16(M, b) REPEAT16(M, c) REPEAT4(M, d)
BATCH(DEFINE)

/* Plainly stored to: each time their page is given up. */
ETCHED int guarded = 0, guarded_64 = 0;

#define SITES(name) __attribute__((noinline, aligned(64), section("text_" #name))) static unsigned name(void)
#define ADD_SOME(n) sum += (unsigned)imv_read(some);
#define ADD_MANY(n) sum += (unsigned)imv_read(many);
#define ADD(n) sum += (unsigned)imv_read(n);
SITES(sites_1) { return (unsigned)imv_read(one); }
/* A plain read of 6 bytes that begins 3 bytes before the end of a word: where other threads run, its page is swapped. */
SITES(sites_crossing)
{
	__asm__ __volatile__(".p2align 3\n\t.skip 5, 0x90");
	return (unsigned)_imv_read(crossing);
}
SITES(sites_64) { unsigned sum = 0; REPEAT64(ADD_SOME, x) return sum; }
SITES(sites_4096) { unsigned sum = 0; REPEAT4096(ADD_MANY, x) return sum; }
SITES(sites_batch) { unsigned sum = 0; BATCH(ADD) return sum; }

#define ADD_GUARDED(n) sum += (unsigned)*(volatile int *)&guarded_64;
SITES(sites_guarded) { return (unsigned)*(volatile int *)&guarded; }
SITES(sites_guarded_64) { unsigned sum = 0; REPEAT64(ADD_GUARDED, x) return sum; }

#define RANGE(name) extern char start_##name[] __asm__("__start_text_" #name), stop_##name[] __asm__("__stop_text_" #name);
/* The value in memory, by an instruction that is no site. */
#define READ(name) (*(volatile int *)ETCH_ADDR(name##__imv))

RANGE(sites_1) RANGE(sites_64) RANGE(sites_4096) RANGE(sites_batch)

static volatile int stop;
static volatile uint64_t ticks __attribute__((aligned(64))); /* the sibling's progress */

static void *sibling(void *arg)
{
	unsigned sum = 0;

	bench_pin(*(int *)arg);
	while (!stop) {
		sum += sites_1() + sites_crossing() + sites_64();
		ticks++;
		sum += sites_batch();
		ticks++;
		sum += sites_4096();
		ticks++;
		sum += sites_guarded() + sites_guarded_64();
		ticks++;
	}
	__asm__ __volatile__("" : : "r"(sum));
	return NULL;
}

/* Does the sibling run at this moment, and not wait for a CPU that others use? */
static int sibling_runs(void)
{
	uint64_t before = ticks;
	double end = bench_seconds() + 100e-6;

	do
		if (ticks != before)
			return 1;
	while (bench_seconds() < end);
	return 0;
}

/* A private page like the ones that imv.h makes, for the floor of its protection. */
static char *data_page, *scratch;

static void pair(const void *start, const void *stop_, int prot)
{
	uintptr_t a = (uintptr_t)start & ~(uintptr_t)4095, b = ((uintptr_t)stop_ + 4095) & ~(uintptr_t)4095;

	if (mprotect((void *)a, b - a, prot | PROT_READ | PROT_WRITE) || mprotect((void *)a, b - a, prot | PROT_READ))
		perror("mprotect"), exit(2);
}

static void barrier(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
		perror("membarrier"), exit(2);
}

/* What s-keys, static-keys and Multiverse do for each site (no barrier). */
static void peer(unsigned sites)
{
	unsigned i;

	for (i = 0; i < sites; i++) {
		volatile int *at = (volatile int *)(scratch + 16 * i);

		if (mprotect((char *)((uintptr_t)at & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
			perror("mprotect"), exit(2);
		*at = (int)i;
		if (mprotect((char *)((uintptr_t)at & ~(uintptr_t)4095), 4096, PROT_READ | PROT_EXEC))
			perror("mprotect"), exit(2);
	}
}

static int value;
static int plain_variable;

#define CHANGE(n) IMV_CHANGE(n, &value),
#define SET(n) error |= imv_set(n, value);
#define CHECK_1 (sites_1() == (unsigned)value)
#define CHECK_CROSSING (sites_crossing() == (unsigned)value)
#define CHECK_64 (sites_64() == 64 * (unsigned)value)
#define CHECK_4096 (sites_4096() == 4096 * (unsigned)value)
#define CHECK_BATCH (sites_batch() == 100 * (unsigned)value)

static struct etch_change changes[100];

static const char *const names[] = {
	"floor: membarrier SYNC_CORE", "floor: mprotect pair, text of 1", "floor: mprotect pair, text of 64",
	"floor: mprotect pair, text of 4096", "floor: mprotect pair, text of batch", "floor: mprotect pair, data",
	"plain store", "imv_set 1 site", "imv_set 64 sites", "imv_set 4096 sites", "batch of 100",
	"100 single sets", "imv_set, same value", "peer: 1 site", "peer: 64 sites", "peer: 4096 sites",
	"imv_set 1 site across a word", "floor: a store that faults, mprotect in its handler",
#ifndef BEFORE
	"stray store, 1 site", "stray store, 64 sites", "etch_sync after it, 1 site", "etch_sync after it, 64 sites",
#endif
};
#define COUNT (sizeof names / sizeof *names)

static struct sigaction handler_before;

static void open_page(int signal)
{
	(void)signal;
	if (mprotect(data_page, 4096, PROT_READ | PROT_WRITE))
		_exit(2);
}

/* A handler of this program's own, for one store. */
static void handler_install(void)
{
	struct sigaction own = {.sa_handler = open_page};

	sigfillset(&own.sa_mask);
	if (mprotect(data_page, 4096, PROT_READ) || sigaction(SIGSEGV, &own, &handler_before))
		perror("sigaction"), exit(2);
}

/* What is not measured: a stray store is to an armed page, and etch_sync arms a page that was given up. */
static int before(unsigned op)
{
	int error = 0;

	if (op == 17)
		handler_install();
	else if (op == 18)
		error = etch_sync(&guarded, sizeof guarded);
	else if (op == 19)
		error = etch_sync(&guarded_64, sizeof guarded_64);
	else if (op == 20)
		*(volatile int *)ETCH_ADDR(guarded) = value;
	else if (op == 21)
		*(volatile int *)ETCH_ADDR(guarded_64) = value;
	return error;
}

static uint64_t run(unsigned op)
{
	int error = before(op), ok = 1;
	volatile int *stray = op == 18 ? ETCH_ADDR(guarded) : ETCH_ADDR(guarded_64);
	uint64_t t = bench_tsc(), e;

	switch (op) {
	case 0: barrier(); break;
	case 1: pair(start_sites_1, stop_sites_1, PROT_EXEC); break;
	case 2: pair(start_sites_64, stop_sites_64, PROT_EXEC); break;
	case 3: pair(start_sites_4096, stop_sites_4096, PROT_EXEC); break;
	case 4: pair(start_sites_batch, stop_sites_batch, PROT_EXEC); break;
	case 5: pair(data_page, data_page + 1, 0); break;
	case 6: *(volatile int *)&plain_variable = value; break;
	case 7: error = imv_set(one, value); break;
	case 8: error = imv_set(some, value); break;
	case 9: error = imv_set(many, value); break;
	case 10: error = etch_set_batch(changes, 100); break;
	case 11: BATCH(SET) break;
	case 12: error = imv_set(one, READ(one)); break;
	case 13: peer(1); break;
	case 14: peer(64); break;
	case 15: peer(4096); break;
	case 16: error = imv_set(crossing, value); break;
	case 17: *(volatile char *)data_page = 1; break;
	case 18: case 19: *stray = value; break;
	case 20: error = etch_sync(&guarded, sizeof guarded); break;
	case 21: error = etch_sync(&guarded_64, sizeof guarded_64); break;
	}
	e = bench_tsc();
	if (op == 17 && sigaction(SIGSEGV, &handler_before, NULL))
		perror("sigaction"), exit(2);
	if (op == 7)
		ok = CHECK_1;
	else if (op == 8)
		ok = CHECK_64;
	else if (op == 16)
		ok = CHECK_CROSSING;
	else if (op == 9)
		ok = CHECK_4096;
	else if (op == 10 || op == 11)
		ok = CHECK_BATCH;
	else if (op == 18 || op == 20)
		ok = sites_guarded() == (unsigned)value;
	else if (op == 19 || op == 21)
		ok = sites_guarded_64() == 64 * (unsigned)value;
	if (error || !ok) {
		fprintf(stderr, "set: %s: %s\n", names[op], error ? etch_strerror(error) : "a site is stale");
		exit(1);
	}
	return e - t;
}

int main(int argc, char **argv)
{
	const struct etch_change list[] = { BATCH(CHANGE) };
	struct etch_info info = {.size = sizeof info};
	int siblings = argc > 1 ? atoi(argv[1]) : 0, cpu = bench_cpu(1);
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 100, round, i, order[COUNT];
	uint64_t rnd = 2463534242u;
	pthread_t thread;

	memcpy(changes, list, sizeof changes);
#ifndef BEFORE
	etch_stray(ETCH_STRAY_EAGER, 0); /* whatever is set or given up often is armed again at once */
#endif
	etch_info(&info);
	printf("# sites\t%lu\tarmed\t%lu\tloads\t%lu\tticks_per_ns\t%.6f\n", info.sites, info.armed, info.loads,
	       bench_ticks_per_ns());
	data_page = bench_memory(3 * 4096);
	data_page += 4096;
	scratch = bench_memory(16 * 4096 + 4096);
	mprotect(data_page, 4096, PROT_READ);
	mprotect(scratch, 16 * 4096 + 4096, PROT_READ | PROT_EXEC);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)) {
		perror("membarrier");
		return 2;
	}
	if (siblings) {
		if (cpu < 0) {
			fprintf(stderr, "set: one sibling needs two CPUs\n");
			return 2;
		}
		pthread_create(&thread, NULL, sibling, &cpu);
		while (!sibling_runs())
			;
	}
	bench_pin(bench_cpu(0));
	for (i = 0; i < COUNT; i++)
		order[i] = i;
	for (round = 0; round < rounds + 3; round++) {
		for (i = COUNT - 1; i > 0; i--) {
			unsigned j = (unsigned)(bench_random(&rnd) % (i + 1)), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		for (i = 0; i < COUNT; i++) {
			uint64_t t;
			int kept;

			while (siblings && !sibling_runs())
				sched_yield();
			value++; /* every set changes something */
			t = run(order[i]);
			kept = !siblings || sibling_runs(); /* else it was preempted meanwhile: no sample */
			if (round >= 3 && kept)
				printf("%s\t%llu\n", names[order[i]], (unsigned long long)t);
		}
	}
	stop = 1;
	if (siblings)
		pthread_join(thread, NULL);
	return etch_verify(NULL, NULL) != 0;
}
