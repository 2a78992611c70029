/* SPDX-License-Identifier: MIT */
/*
 * walks_modules.c: walks while modules come and go, and in children: for walks.c.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "walks.h"
#include "../threads.h"

typedef int call_fn(int depth, void (*f)(void));

static call_fn *plugin_call(void *h)
{
	call_fn *f = (call_fn *)dlsym(h, "plugin_call");

	must(f);
	return f;
}

/*
 * walks modules HOW A.so B.so: two files of the same layout, whose functions have
 * frames of different sizes. HOW: tables are their own (own) or made (made).
 */
void case_modules(void)
{
	int made = !strcmp(arguments[0], "made"), again = 0;
	void *last = NULL;

	bottom = with_check;
	name = "plugin";
	for (int i = 0; i < 20; i++) {
		void *h = dlopen(arguments[1 + i % 2], RTLD_NOW);
		call_fn *f;

		if (!h)
			fail("%s", dlerror());
		f = plugin_call(h);
		if (made && i < 3)
			must(etch_unwind_prepare() == 0);
		again += (void *)f == last;
		last = (void *)f;
		/* Known since an earlier round, or found again. */
		if (made && i >= 3) {
			void *ips[MOST];

			must(etch_unwind_prepare() == 0);
			must(etch_backtrace(ips, MOST) > 0);
		}
		f(12, with_check);
		etch_walk_reset(&previous);
		must(!dlclose(h));
	}
	/* Otherwise this has shown nothing. */
	if (again < 10)
		fail("only %d times at the same address", again);
}

/* A walk, and a signal's, out of the dynamic linker's lazy resolver. */
void case_lazy(void)
{
	handle(SIGUSR1, on_signal, SA_NODEFER);
	handle(SIGUSR2, on_signal, SA_NODEFER);
	for (int i = 0; i < 4; i++) {
		void *h = dlopen(arguments[0], RTLD_LAZY);
		int (*call)(void);
		void (**hook)(void);

		if (!h)
			fail("%s", dlerror());
		must(etch_unwind_prepare() == 0);
		call = (int (*)(void))dlsym(h, "lazy_call");
		hook = dlsym(h, "hook");
		must(call && hook);
		name = "lazy";
		*hook = i % 2 ? raise_it : with_check;
		handled = 0;
		must(call() == 7);
		must(i % 2 == 0 || handled == 2);
		must(!dlclose(h));
	}
}

static volatile int stop;
static const char *plugins[2];

static void *loader(void *arg)
{
	threads_wait(3);
	for (int i = 0; i < 200; i++) {
		void *h = dlopen(plugins[i % 2], RTLD_NOW);

		if (!h)
			fail("%s", dlerror());
		must(etch_unwind_prepare() == 0);
		plugin_call(h)(5, with_check);
		etch_walk_reset(&previous);
		must(!dlclose(h));
	}
	stop = 1;
	return arg;
}

static void *walker(void *arg)
{
	void *ips[MOST];

	thread_begun();
	do {
		places();
		must(etch_backtrace(ips, MOST) > 1);
	} while (!stop);
	return arg;
}

/* Threads that walk while another one loads and unloads. */
void case_threads(void)
{
	pthread_t t[4];

	bottom = with_check;
	plugins[0] = arguments[0];
	plugins[1] = arguments[1];
	for (int i = 0; i < 4; i++)
		must(!pthread_create(&t[i], NULL, i ? walker : loader, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

/* A child of fork prepares, too. */
void case_fork(void)
{
	int status;
	pid_t pid;

	bottom = with_check;
	for (int i = 0; i < 20; i++) {
		fflush(stdout);
		pid = fork();
		if (!pid) {
			must(etch_unwind_prepare() == 0);
			places();
			_exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && status == 0);
	}
}
