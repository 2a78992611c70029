/* SPDX-License-Identifier: MIT */
/*
 * swap: how long a set takes whose sites are in aligned 8-byte words (one store each) and one whose
 * sites cross them (their pages are swapped): 1 site, and 4,096 over 16 pages; beside what both cost
 * in system calls, and a page written through /proc/self/mem. All in one loop.
 *
 *     swap SIBLINGS ROUNDS        prints: operation, ticks
 *
 * SIBLINGS 0: a second thread sleeps, so that the process has two; 1: it executes the sites on another
 * CPU all the time.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <etch/imv.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ETCHED int one_in, one_across, many_in, many_across;

/* `n` loads of a variable, 16 bytes each, `skip` bytes after a word; the sum of all values. */
#define SITES(name, variable, n, skip)                                                              \
	__attribute__((noinline, aligned(4096), section("text_" #name))) static unsigned name(void)      \
	{                                                                                                \
		unsigned sum = 0, v;                                                                         \
		__asm__ __volatile__(".balign 16\n\t.rept " #n "\n\t.skip " #skip ", 0x90\n\tmovl %2, %1\n\t" \
		                     "addl %1, %0\n\t.balign 16\n\t.endr"                                    \
		                     : "+r"(sum), "=&a"(v) : "m"(variable));                                 \
		return sum;                                                                                  \
	}
SITES(read_one_in, one_in, 1, 0)
SITES(read_one_across, one_across, 1, 5)
SITES(read_many_in, many_in, 4096, 0)
SITES(read_many_across, many_across, 4096, 5)

static volatile int stop, running;
static volatile uint64_t ticks __attribute__((aligned(64)));
static char *scratch; /* text that nobody executes */
static int memory;    /* /proc/self/mem */
static int value;

static void *sibling(void *arg)
{
	unsigned sum = 0;

	bench_pin(*(int *)arg);
	while (!stop) {
		if (!running) {
			usleep(1000);
			continue;
		}
		sum += read_one_in() + read_one_across() + read_many_in() + read_many_across();
		ticks++;
	}
	__asm__ __volatile__("" : : "r"(sum));
	return NULL;
}

/* Does it run now? */
static int sibling_runs(void)
{
	uint64_t before = ticks, t = bench_tsc();

	while (ticks == before)
		if (bench_tsc() - t > 200000)
			return 0;
	return 1;
}

static int barrier(void) { return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0); }

/* A page of this program's file, moved over another: what a swap of one page is made of. */
static int move_page(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, 4096);

	close(fd);
	return p == MAP_FAILED || mprotect(p, 4096, PROT_READ | PROT_EXEC) ||
	       mremap(p, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, scratch) != scratch;
}

static const char *const names[] = {
	"floor: membarrier SYNC_CORE", "floor: mprotect pair of one page", "floor: mmap, mprotect, mremap of one page",
	"/proc/self/mem, 8 bytes, and membarrier", "1 site, in a word: a store", "1 site, across: a swap",
	"4,096 sites, in words: stores", "4,096 sites, across: a swap of 16 pages",
};
#define COUNT (sizeof names / sizeof *names)

static uint64_t run(unsigned op)
{
	unsigned got = (unsigned)value, want = got;
	int error = 0;
	uint64_t t = bench_tsc(), bytes = (uint64_t)value;

	switch (op) {
	case 0: error = barrier(); break;
	case 1:
		error = mprotect(scratch, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) ||
		        mprotect(scratch, 4096, PROT_READ | PROT_EXEC);
		break;
	case 2: error = move_page(); break;
	case 3: error = pwrite(memory, &bytes, 8, (off_t)(uintptr_t)scratch) != 8 || barrier(); break;
	case 4: error = etch_set(&one_in, value); break;
	case 5: error = etch_set(&one_across, value); break;
	case 6: error = etch_set(&many_in, value); break;
	case 7: error = etch_set(&many_across, value); break;
	}
	t = bench_tsc() - t;
	switch (op) {
	case 4: got = read_one_in(); break;
	case 5: got = read_one_across(); break;
	case 6: got = read_many_in(); break;
	case 7: got = read_many_across(); break;
	}
	want *= op >= 6 ? 4096 : 1;
	if (error || got != want) {
		fprintf(stderr, "swap: %s: %s\n", names[op], error ? "an error" : "a site is stale");
		exit(1);
	}
	return t;
}

int main(int argc, char **argv)
{
	struct etch_info info = {.size = sizeof info};
	int siblings = argc > 1 ? atoi(argv[1]) : 0, cpu = bench_cpu(1);
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 100;
	uint64_t rnd = 2463534242u;
	pthread_t thread;

	etch_sync(&one_in, sizeof one_in), etch_sync(&one_across, sizeof one_across);
	etch_sync(&many_in, sizeof many_in), etch_sync(&many_across, sizeof many_across);
	etch_info(&info);
	printf("# sites\t%lu\tarmed\t%lu\tloads\t%lu\tby_swap\t%lu\tticks_per_ns\t%.6f\n", info.sites, info.armed, info.loads,
	       info.by_swap, bench_ticks_per_ns());
	scratch = bench_memory(2 * 4096);
	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (cpu < 0 || memory < 0 || mprotect(scratch, 4096, PROT_READ | PROT_EXEC) ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)) {
		fprintf(stderr, "swap: needs two CPUs, /proc/self/mem and membarrier\n");
		return 2;
	}
	running = siblings;
	pthread_create(&thread, NULL, sibling, &cpu);
	bench_pin(bench_cpu(0));
	for (unsigned round = 0; round < rounds + 3; round++)
		for (unsigned i = 0; i < COUNT; i++) {
			unsigned op = (unsigned)(bench_random(&rnd) % COUNT);
			uint64_t t;

			while (siblings && !sibling_runs())
				sched_yield();
			value++;
			t = run(op);
			/* Else it was preempted meanwhile: no sample. */
			if (round >= 3 && (!siblings || sibling_runs()))
				printf("%s\t%llu\n", names[op], (unsigned long long)t);
		}
	stop = 1;
	pthread_join(thread, NULL);
	return etch_verify(NULL, NULL) != 0;
}
