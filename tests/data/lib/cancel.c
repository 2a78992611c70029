/* SPDX-License-Identifier: MIT */
/* Threads that are canceled, asynchronously, in the middle of a call of libetch; the others go on. */
#include <dlfcn.h>
#include <errno.h>
#include <etch/imv.h>
#include <etch/pv.h>
#include <etch/unwind.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

DEFINE_IMV(int, value) = 1;
ETCHED struct { long a, b; int many[100]; } cfg = {1, 2, {3}};
struct ops { void (*f)(void); };
static void one(void) {}
static void two(void) {}
DEFINE_PV_OPS(struct ops, ops) = {one};
static struct etch_module nobody;
static const char *what;
static volatile int ready;

static void call(unsigned n)
{
	static const int many[2][100] = {{1}, {2}};

	if (!strcmp(what, "set"))
		imv_set(value, n);
	else if (!strcmp(what, "batch"))
		etch_set_bytes(cfg.many, many[n & 1], sizeof(cfg.many));
	else if (!strcmp(what, "sync"))
		n & 1 ? etch_release(&cfg, sizeof(cfg)) : etch_sync(&cfg, sizeof(cfg));
	else if (!strcmp(what, "pv"))
		pv_set(ops.f, n & 1 ? one : two);
	else if (!strcmp(what, "info"))
		etch_info(&(struct etch_info){.size = sizeof(struct etch_info)});
	else if (!strcmp(what, "unload"))
		etch_module_unload_v1(&nobody); /* as a destructor does: by the lock that goes first */
}

static void *caller(void *arg)
{
	unsigned n = 0;

	(void)arg;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	ready = 1;
	for (;;)
		call(n++);
}

/* Does the thread end as one that was canceled, and can others still do all? */
static void round_of(unsigned n)
{
	struct timespec pause = {0, n * 7919 % 40000};
	pthread_t t;
	void *end;

	ready = 0;
	if (pthread_create(&t, NULL, caller, NULL))
		exit(3);
	while (!ready)
		sched_yield();
	nanosleep(&pause, NULL);
	pthread_cancel(t);
	pthread_join(t, &end);
	if (end != PTHREAD_CANCELED || imv_set(value, n) || imv_read(value) != (int)n || etch_verify(NULL, NULL))
		exit(4);
	(ops.f)();
}

/* The state is the caller's before, between and after. */
static void states(void)
{
	static const int all[] = {PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DISABLE};
	int was;

	for (int i = 0; i < 4; i++) {
		int type = i < 2 ? PTHREAD_CANCEL_DEFERRED : PTHREAD_CANCEL_ASYNCHRONOUS;

		pthread_setcanceltype(type, NULL);
		pthread_setcancelstate(all[i & 1], NULL);
		imv_set(value, 100 + i);
		etch_set_bytes(&cfg.b, &cfg.a, sizeof(cfg.b));
		etch_unwind_prepare();
		etch_set_bytes((void *)states, &cfg.a, 8); /* an error */
		if (fork() == 0) {
			pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
			_exit(was != all[i & 1] || imv_set(value, 7));
		}
		if (wait(&was) < 0 || was)
			exit(5);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
		if (was != all[i & 1])
			exit(6);
		pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &was);
		if (was != type)
			exit(6);
	}
}

/* What waits acts after the call, and not before its end. */
static void *late(void *arg)
{
	pthread_setcanceltype(arg ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	imv_set(value, 4711); /* disabled by the caller: it is not enabled on the way */
	ready = 1;
	if (!arg) {
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		/* Reads a sidecar: open(2) is a cancellation point, under the lock of all who prepare. */
		etch_unwind_prepare();
		ready = 2;
		pthread_testcancel();
	} else {
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	}
	ready = 3;
	return NULL;
}

static void waits(void)
{
	for (long async = 0; async < 2; async++) {
		pthread_t t;
		void *end;

		ready = 0;
		if (pthread_create(&t, NULL, late, (void *)async) || pthread_join(t, &end))
			exit(7);
		if (end != PTHREAD_CANCELED || ready != (async ? 1 : 2) || imv_read(value) != 4711)
			exit(8);
		etch_unwind_prepare();
	}
}

int main(int argc, char **argv)
{
	alarm(30);
	what = argc > 1 ? argv[1] : "set";
	if (!strcmp(what, "states"))
		states();
	else if (!strcmp(what, "waits"))
		waits();
	else
		for (unsigned n = 1; n <= 120; n++)
			round_of(n);
	puts("done");
	return 0;
}
