/* SPDX-License-Identifier: MIT */
/*
 * Markers (etch/mark.h), as C and as C++: what is called, with which arguments, and what is evaluated; libraries that
 * come and go, fork and signals; and threads that run markers at all places (ETCH_BRANCH_PACKED) while others
 * attach and detach. marks [PLUGIN [ROUNDS]]
 */
#include <dlfcn.h>
#include <etch/mark.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
struct point {
	int x;
};
static int evaluated;
static NOINLINE int touch(int v)
{
	evaluated++;
	return v;
}

static NOINLINE void work(int fd, const char *url, struct point *p)
{
	char text[4] = "abc";
	short small = -7;
	unsigned char byte = 200;
	float half = 0.5f;

	ETCH_MARK(none);
	ETCH_MARK(request, fd, url);
	ETCH_MARK(request_done, touch(fd), p, text, small, byte, half, 1ul << 40, p->x > 3);
	p->x++;
}

static void print(void *data, const struct etch_mark *mark, ...)
{
	va_list ap;
	unsigned i;

	va_start(ap, mark);
	printf("  %s %s(%s)", (const char *)data, etch_mark_name(mark), etch_mark_args(mark));
	for (i = 0; i < mark->count; i++)
		switch (mark->type[i]) {
		case ETCH_MARK_STRING: printf(" '%s'", va_arg(ap, const char *)); break;
		case ETCH_MARK_POINTER: printf(" x=%d", va_arg(ap, struct point *)->x); break;
		case ETCH_MARK_DOUBLE: printf(" %g", va_arg(ap, double)); break;
		case ETCH_MARK_I64:
		case ETCH_MARK_U64: printf(" %ld", va_arg(ap, long)); break;
		default: printf(" %d", va_arg(ap, int)); break;
		}
	printf("\n");
	va_end(ap);
}
static void on_request(void *data, const struct etch_mark *mark, int fd, const char *url)
{
	printf("  %s %s %d %s\n", (const char *)data, etch_mark_name(mark), fd, url);
}

static void see(void *arg, const struct etch_mark *mark, int on)
{
	(void)mark;
	((long *)arg)[!!on]++;
}

static void state(const char *what)
{
	long off_on[2] = {0, 0}, n = etch_mark_each(see, off_on);
	struct etch_info i;

	i.size = sizeof(i);
	etch_info(&i);
	printf("%s: on %ld of %ld (%d), evaluated %d\n", what, off_on[1], n,
	       (long)i.marks == n && (long)i.marks_on == off_on[1], evaluated);
}

static void calls(void)
{
	struct point p = {1};

	work(1, "/off", &p);
	state("off");
	printf("attach %ld\n", etch_mark_attach("request", on_request, (void *)"A"));
	work(2, "/one", &p);
	printf("attach %ld\n", etch_mark_attach("*", print, (void *)"B"));
	printf("attach %ld\n", etch_mark_attach("re?uest*", print, (void *)"C"));
	state("three");
	work(3, "/three", &p);
	printf("attach %ld\n", etch_mark_attach("nothing*here", print, (void *)"D"));
	printf("detach %ld\n", etch_mark_detach("*", print, (void *)"B"));
	work(4, "/two", &p);
	printf("detach %ld\n", etch_mark_detach("*", print, (void *)"B"));
	printf("detach %ld\n", etch_mark_detach("request", on_request, (void *)"A"));
	printf("detach %ld\n", etch_mark_detach("re?uest*", print, (void *)"C"));
	printf("detach %ld\n", etch_mark_detach("nothing*here", print, (void *)"D"));
	work(5, "/off", &p);
	state("off again");
	printf("errors %ld %ld\n", etch_mark_attach(0, print, 0), etch_mark_detach("x", print, 0));
}

/* ---- libraries, fork, signals ------------------------------------------------------- */

static long sum;
static void add(void *data, const struct etch_mark *mark, long v)
{
	(void)mark;
	__atomic_add_fetch((long *)data, v, __ATOMIC_RELAXED);
}
static NOINLINE void step(long v) { ETCH_MARK(step, v); }
static void on_signal(int number)
{
	(void)number;
	step(1000);
}

static void plugins(const char *path)
{
	void (*plugin_work)(long) = 0;
	long (*attach)(long *) = 0, (*detach)(long *) = 0, theirs = 0;
	void *h;
	int i;

	printf("attach %ld\n", etch_mark_attach("st?p", add, &sum));
	for (i = 0; i < 3; i++) {
		h = dlopen(path, RTLD_NOW);
		if (!h) {
			printf("%s\n", dlerror());
			return;
		}
		*(void **)&plugin_work = dlsym(h, "plugin_work");
		*(void **)&attach = dlsym(h, "plugin_attach");
		*(void **)&detach = dlsym(h, "plugin_detach");
		plugin_work(1);
		printf("their attach %ld\n", attach(&theirs));
		plugin_work(10);
		step(100);
		printf("their detach %ld\n", detach(&theirs));
		plugin_work(1000);
		printf("sum %ld, theirs %ld\n", sum, theirs);
		dlclose(h);
		step(1);
	}
	etch_mark_detach("st?p", add, &sum);
	step(5);
	printf("sum %ld\n", sum);
}

static void processes(void)
{
	int status;
	pid_t child;

	sum = 0;
	etch_mark_attach("step", add, &sum);
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	fflush(stdout);
	child = fork();
	if (!child) {
		step(1);
		status = sum == 1001 && !etch_mark_detach("step", add, &sum);
		step(1);
		_exit(status && sum == 1001 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	step(2);
	printf("parent %ld, child %d\n", sum, status);
	etch_mark_detach("step", add, &sum);
}

/* A callback that detaches itself, and one that comes to a marker. */
static long inner;
static void once(void *data, const struct etch_mark *mark, long v)
{
	(void)mark;
	*(long *)data += v;
	etch_mark_detach("step", once, data);
	ETCH_MARK(inner, v);
}
static void nested(void)
{
	long seen = 0;

	etch_mark_attach("inner", add, &inner);
	etch_mark_attach("step", once, &seen);
	step(3);
	step(4);
	etch_mark_detach("inner", add, &inner);
	printf("once %ld inner %ld\n", seen, inner);
}

/* ---- threads ---------------------------------------------------------------------------- */

#define SITE(n, pad)                              \
	static NOINLINE unsigned site_##n(unsigned v) \
	{                                             \
		__asm__ volatile(".skip " #pad ", 0x90"); \
		ETCH_MARK(hot, v, v * 3u, n);             \
		ETCH_MARK(hot_too, v, v * 3u, n);         \
		return v + 1;                             \
	}
SITE(0, 8)
SITE(1, 1)
SITE(2, 2)
SITE(3, 3)
SITE(4, 4)
SITE(5, 5)
SITE(6, 6)
SITE(7, 7)
SITE(8, 59)
SITE(9, 60)
SITE(10, 61)
SITE(11, 62)
static unsigned (*const sites[])(unsigned) = {site_0, site_1, site_2, site_3, site_4,  site_5,
                                              site_6, site_7, site_8, site_9, site_10, site_11};
#define SITES (sizeof(sites) / sizeof(sites[0]))

#define ALIVE 0x5ca1ab1eul
struct watcher {
	unsigned long alive, calls, wrong, inside;
};
/* What a marker calls after its detach finds its data dead. */
static void hot(void *data, const struct etch_mark *mark, unsigned v, unsigned w, int n)
{
	struct watcher *x = (struct watcher *)data;

	__atomic_add_fetch(&x->inside, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&x->calls, 1, __ATOMIC_RELAXED);
	if (x->alive != ALIVE || w != v * 3u || n < 0 || n >= (int)SITES || strncmp(etch_mark_name(mark), "hot", 3))
		__atomic_add_fetch(&x->wrong, 1, __ATOMIC_RELAXED);
	if (!(v & 255))
		sched_yield();
	__atomic_sub_fetch(&x->inside, 1, __ATOMIC_RELAXED);
}

static volatile int stop;
static volatile unsigned long executed[2], wrong_results;
static void *runner(void *arg)
{
	volatile unsigned long *n = (volatile unsigned long *)arg;
	unsigned v = 0;

	while (!stop)
		for (unsigned i = 0; i < SITES; i++) {
			unsigned was = v;

			v = sites[i](v);
			if (v != was + 1)
				wrong_results = wrong_results + 1;
			*n = *n + 1;
		}
	return 0;
}

/* Two threads attach and detach; a thread comes and goes, with a reader of its own. */
static unsigned long wrong, called;
static void *brief(void *arg)
{
	site_3(1);
	return arg;
}
static void *switcher(void *arg)
{
	int rounds = *(int *)arg, i;

	for (i = 0; i < rounds; i++) {
		struct watcher *x = (struct watcher *)calloc(1, sizeof(*x));
		const char *patterns[] = {"hot", "hot*", "h?t_too"}, *pattern = patterns[i % 3];
		pthread_t t;

		x->alive = ALIVE;
		if (etch_mark_attach(pattern, hot, x) < (long)SITES)
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
		if (i % 16 == 0 && !pthread_create(&t, 0, brief, 0))
			pthread_join(t, 0);
		if (i % 4 == 0)
			sched_yield();
		if (etch_mark_detach(pattern, hot, x))
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&wrong, x->wrong + __atomic_load_n(&x->inside, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
		__atomic_add_fetch(&called, x->calls, __ATOMIC_RELAXED);
		memset(x, 0x77, sizeof(*x));
		free(x);
	}
	return 0;
}

static void threads(int rounds)
{
	pthread_t t[4];
	int i;

	for (i = 0; i < 2; i++)
		pthread_create(&t[i], 0, runner, (void *)&executed[i]);
	while (!executed[0] || !executed[1])
		sched_yield();
	for (i = 2; i < 4; i++)
		pthread_create(&t[i], 0, switcher, &rounds);
	for (i = 2; i < 4; i++)
		pthread_join(t[i], 0);
	stop = 1;
	for (i = 0; i < 2; i++)
		pthread_join(t[i], 0);
	fprintf(stderr, "%lu rounds of markers, %lu calls\n", executed[0] + executed[1], called);
	printf("wrong %lu, %lu\n", wrong, wrong_results);
	state("at last");
}

int main(int argc, char **argv)
{
	calls();
	nested();
	if (argc > 1 && *argv[1])
		plugins(argv[1]);
	processes();
	if (argc > 2)
		threads(atoi(argv[2]));
	return 0;
}
