/* SPDX-License-Identifier: MIT */
/*
 * Stores that nobody foresaw, while all else goes on: no read is stale, none is torn, and nobody dies.
 *
 *     stray SECONDS READERS [PLUGIN]
 *
 * Each cell has a counter of the values that are handed out for it and one of those that have arrived in memory. Who
 * stores, by an instruction or by etch_set, holds the cell's lock, takes the next value, stores it, and then says that
 * it has arrived. Who reads takes the arrived value before and the handed-out value after: what it reads lies in
 * between, and both halves of it are equal. Ends with exit status 1 at the first read of which that is not true.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <etch/imv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stray.h"

/* Two structs, each on pages of its own, the second on two; and scalars that share a page. */
ETCHED struct cells one = {{{0}}};
ETCHED struct {
	char before[4000];
	struct cells cells;
} two = {{0}, {{{0}}}};
DEFINE_IMV(uint32_t, scalar) = 0;
ETCHED_SHARED uint32_t shared = 0;

#define CELLS (2 * IN_STRUCT + 2)

static struct {
	atomic_flag lock;
	atomic_uint handed_out, arrived;
} cell[CELLS];

static atomic_int stop;
static atomic_ulong reads, strays, sets, syncs, forks, vforks, handlers, loads, cancels, errors;

static uint32_t *place(unsigned i)
{
	switch (i) {
#define IN(k)                                     \
	case k: return ETCH_ADDR(one.field[k].value); \
	case IN_STRUCT + k: return ETCH_ADDR(two.cells.field[k].value);
		EACH(IN)
	case 2 * IN_STRUCT: return ETCH_ADDR(scalar__imv);
	default: return ETCH_ADDR(shared);
	}
}

/* Reads of the code, each with sites of its own. */
static __attribute__((noinline)) uint32_t value_of(unsigned i)
{
	switch (i) {
#define READ(k)                                               \
	case k: return *(volatile uint32_t *)&one.field[k].value; \
	case IN_STRUCT + k: return *(volatile uint32_t *)&two.cells.field[k].value;
		EACH(READ)
	case 2 * IN_STRUCT: return imv_read(scalar);
	default: return *(volatile uint32_t *)&shared;
	}
}

static uint32_t pattern(unsigned n) { return (n & 0xffff) * 0x10001u; }

static void wrong(const char *who, unsigned i, unsigned from, uint32_t got, unsigned to)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "%s: cell %u: %#x, not %#x to %#x; memory %#x\n", who, i, got, pattern(from),
	                 pattern(to), *(volatile uint32_t *)place(i));

	(void)!write(2, text, (size_t)n);
	_exit(1);
}

static void check(const char *who, unsigned i, uint32_t (*read)(unsigned))
{
	unsigned from = atomic_load(&cell[i].arrived), to;
	uint32_t got = read(i);

	to = atomic_load(&cell[i].handed_out);
	if (got >> 16 != (got & 0xffff) || (uint16_t)(got - from) > (uint16_t)(to - from))
		wrong(who, i, from, got, to);
}

/* Stores the next value. Returns 0 if somebody else is at it and `wait` is not set. */
static int store(unsigned i, int by_set, int wait)
{
	unsigned n;
	int err = 0;

	while (atomic_flag_test_and_set_explicit(&cell[i].lock, memory_order_acquire)) {
		if (!wait)
			return 0;
		sched_yield();
	}
	n = atomic_fetch_add(&cell[i].handed_out, 1) + 1;
	if (by_set) {
		uint32_t v = pattern(n);

		err = etch_set_bytes(place(i), &v, sizeof(v));
	} else {
		__asm__ __volatile__("movl %1, (%0)" : : "r"(place(i)), "r"(pattern(n)) : "memory");
	}
	if (err) {
		fprintf(stderr, "set: %s\n", etch_strerror(err));
		_exit(1);
	}
	atomic_store(&cell[i].arrived, n);
	atomic_flag_clear_explicit(&cell[i].lock, memory_order_release);
	return 1;
}

static uint32_t next_random(uint32_t *r) { return *r = *r * 1664525u + 1013904223u, *r >> 8; }

static void *reader(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		unsigned i = next_random(&r) % CELLS;

		for (int k = 0; k < 200; k++)
			check("reader", i, value_of);
		atomic_fetch_add_explicit(&reads, 200, memory_order_relaxed);
	}
	return NULL;
}

static void *straying(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		unsigned i = next_random(&r) % CELLS;

		store(i, 0, 1);
		check("storer", i, value_of);
		atomic_fetch_add(&strays, 1);
		if (!(next_random(&r) % 4))
			usleep(next_random(&r) % 500);
	}
	return NULL;
}

static void *setting(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		unsigned i = next_random(&r) % CELLS;

		store(i, 1, 1);
		check("setter", i, value_of);
		atomic_fetch_add(&sets, 1);
	}
	return NULL;
}

static void *syncing(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		int err;

		switch (next_random(&r) % 5) {
		case 0: err = etch_sync(&one, sizeof(one)); break;
		case 1: err = etch_sync(&two, sizeof(two)); break;
		case 2: err = etch_sync_all(); break;
		case 3: err = etch_release(&one, sizeof(one)); break;
		default: err = etch_sync(&shared, sizeof(shared)) | etch_sync(&scalar__imv, sizeof(scalar__imv));
		}
		if (err)
			atomic_fetch_add(&errors, 1);
		atomic_fetch_add(&syncs, 1);
		usleep(next_random(&r) % 300);
	}
	return NULL;
}

/* In the child of a fork: nobody else is there; in that of a vfork: all others of the parent are. */
static void child(int shared_memory)
{
	for (unsigned i = 0; i < CELLS; i++) {
		if (store(i, 0, shared_memory))
			check("child", i, value_of);
		if (!shared_memory && store(i, 1, 0))
			check("child that sets", i, value_of);
	}
}

static void *forking(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		int by_vfork = next_random(&r) % 3 == 0, status = 0;
		pid_t pid = by_vfork ? vfork() : fork();

		if (!pid) {
			/* It may wait for a lock of the parent, which exits when a check fails. */
			if (by_vfork && !prctl(PR_SET_PDEATHSIG, SIGKILL))
				store(next_random(&r) % CELLS, 0, 1);
			else if (!by_vfork)
				alarm(60), child(0);
			_exit(0);
		}
		if (pid < 0)
			continue;
		if (waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "child: status %#x\n", status);
			_exit(1);
		}
		atomic_fetch_add(by_vfork ? &vforks : &forks, 1);
		usleep(500);
	}
	return NULL;
}

/* A handler reads, stores and sets, whatever it has interrupted. */
static void on_signal(int sig)
{
	static __thread uint32_t r = 7;
	unsigned i = next_random(&r) % CELLS;
	int e = errno;

	(void)sig;
	check("handler", i, value_of);
	store(i, next_random(&r) & 1, 0);
	atomic_fetch_add(&handlers, 1);
	errno = e;
}

static pthread_t thread[64];
static unsigned thread_count;

static void *signaling(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		pthread_kill(thread[next_random(&r) % thread_count], SIGUSR1);
		usleep(300);
	}
	return NULL;
}

/* Threads that set are cancelled at any instruction. */
static void *cancelled(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;
	int v;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &v);
	for (;;) {
		uint32_t same = 0;

		/* To no cell: the others' counters are not to be left half done. */
		etch_set_bytes(ETCH_ADDR(two.before[next_random(&r) % 4000]), &same, 1);
	}
}

static void *cancelling(void *arg)
{
	while (!atomic_load(&stop)) {
		pthread_t t;

		if (pthread_create(&t, NULL, cancelled, arg))
			continue;
		usleep(200);
		pthread_cancel(t);
		pthread_join(t, NULL);
		atomic_fetch_add(&cancels, 1);
	}
	return NULL;
}

static const char *plugin;

static void *loading(void *arg)
{
	uint32_t r = (uint32_t)(uintptr_t)arg;

	while (plugin && !atomic_load(&stop)) {
		void *h = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
		uint32_t (*read)(unsigned) = h ? (uint32_t(*)(unsigned))dlsym(h, "plugin_value") : NULL;

		if (!read) {
			fprintf(stderr, "%s\n", dlerror());
			_exit(1);
		}
		for (int k = 0; k < 2000; k++)
			check("plug-in", next_random(&r) % IN_STRUCT, read);
		dlclose(h);
		atomic_fetch_add(&loads, 1);
		usleep(1000);
	}
	return NULL;
}

static void start(void *(*run)(void *), unsigned seed)
{
	if (pthread_create(&thread[thread_count], NULL, run, (void *)(uintptr_t)seed))
		abort();
	thread_count++;
}

int main(int argc, char **argv)
{
	unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 3, readers = argc > 2 ? (unsigned)atoi(argv[2]) : 2;
	struct etch_state state = {.size = sizeof(state)};
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	unsigned waits;

	plugin = argc > 3 ? argv[3] : NULL;
	alarm(seconds * 10 + 120); /* a deadlock ends it */
	etch_stray(ETCH_STRAY_EAGER, 0);
	/* From here on every page with something armed is guarded. Before, `scalar` is armed because it is proven that
	 * nothing but libetch stores to it, and this program is about to break that promise of ETCH_ADDR. */
	if (etch_sync_all())
		return 1;
	sigaction(SIGUSR1, &act, NULL);
	for (unsigned i = 0; i < readers; i++)
		start(reader, i + 1);
	start(straying, 100);
	start(straying, 101);
	start(setting, 200);
	start(syncing, 300);
	start(forking, 400);
	start(loading, 500);
	start(cancelling, 600);
	waits = thread_count;
	start(signaling, 700);
	sleep(seconds);
	atomic_store(&stop, 1);
	pthread_join(thread[waits], NULL); /* no signal to a thread that has ended */
	for (unsigned i = 0; i < waits; i++)
		pthread_join(thread[i], NULL);
	etch_state(&one, sizeof(one), &state);
	printf("reads %lu strays %lu sets %lu syncs %lu forks %lu vforks %lu handlers %lu loads %lu cancels %lu errors %lu "
	       "given up %lu verify %ld\n",
	       reads, strays, sets, syncs, forks, vforks, handlers, loads, cancels, errors, state.given_up,
	       etch_verify(NULL, NULL));
	return 0;
}
