/* SPDX-License-Identifier: MIT */
/*
 * lib/interfaces: the ways in which programs have hung or crashed in a backtrace.
 *
 *     zoo storm WALK WHAT COUNT   a thread does WHAT, in a loop, and a timer sends it COUNT signals or more, at up to
 *                                 50 kHz; the handler walks its stack. Each walk must come to the thread's loop.
 *     zoo dl-lock WALK            a thread holds a lock and walks; another holds the dynamic linker's lock and wants
 *                                 that lock (libunwind#580)
 *
 * WALK: backtrace, gcc, unw_backtrace, unw_step. The plugin that is loaded is argv[0]-plugin.so.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define MAX      128
#define INTERVAL 20000 /* nanoseconds between signals, while the thread runs */

/* ---- walks ------------------------------------------------------------------------ */

struct trace {
	void *ips[MAX];
	int count;
};

static int (*walk)(struct trace *t);

static int walk_backtrace(struct trace *t)
{
	t->count = backtrace(t->ips, MAX);
	return 1;
}

static int walk_unw_backtrace(struct trace *t)
{
	t->count = unw_backtrace(t->ips, MAX);
	return 1;
}

static _Unwind_Reason_Code note(struct _Unwind_Context *c, void *arg)
{
	struct trace *t = (struct trace *)arg;

	if (t->count < MAX && _Unwind_GetIP(c))
		t->ips[t->count++] = (void *)_Unwind_GetIP(c);
	return _URC_NO_REASON;
}

static int walk_gcc(struct trace *t)
{
	t->count = 0;
	return _Unwind_Backtrace(note, t) == _URC_END_OF_STACK;
}

static int walk_unw_step(struct trace *t)
{
	unw_context_t u;
	unw_cursor_t c;
	unw_word_t ip;
	int ret;

	unw_getcontext(&u);
	unw_init_local(&c, &u);
	t->count = 0;
	do {
		unw_get_reg(&c, UNW_REG_IP, &ip);
		t->ips[t->count++] = (void *)ip;
	} while ((ret = unw_step(&c)) > 0 && t->count < MAX);
	return ret == 0;
}

static bool walk_choose(const char *name)
{
	walk = !strcmp(name, "backtrace")       ? walk_backtrace
	       : !strcmp(name, "gcc")           ? walk_gcc
	       : !strcmp(name, "unw_backtrace") ? walk_unw_backtrace
	       : !strcmp(name, "unw_step")      ? walk_unw_step
	                                        : nullptr;
	return walk;
}

/* ---- what the thread does ---------------------------------------------------------------- */

static std::string plugin;
static std::atomic<bool> stop;

__attribute__((noinline)) static void do_dlopen()
{
	void *h = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
	int (*f)(int (*)(int), int) = h ? (int (*)(int (*)(int), int))dlsym(h, "plugin_call") : nullptr;

	if (!f || f([](int n) { return n + 1; }, 3) < 3)
		abort();
	dlclose(h);
}

template <int N> __attribute__((noinline)) static void thrower(int v)
{
	std::string s("on the way");

	if constexpr (N == 0)
		throw v;
	else
		thrower<N - 1>(v + (int)s.size());
}

__attribute__((noinline)) static void do_throw()
{
	try {
		thrower<6>(1);
	} catch (int) {
	}
}

__attribute__((noinline)) static void do_malloc()
{
	for (size_t i = 1; i < 100; i++)
		free(malloc(i * 8));
}

__attribute__((noinline)) static void do_fork()
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct trace t;

		walk(&t);
		_exit(t.count > 2 ? 0 : 1);
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	if (status)
		abort();
}

__attribute__((noinline)) static void do_thread()
{
	pthread_t t;

	if (!pthread_create(&t, nullptr, [](void *) -> void * {
		    struct trace t;

		    walk(&t);
		    return nullptr;
	    }, nullptr))
		pthread_join(t, nullptr);
}

__attribute__((noinline)) static void do_format()
{
	char text[512];

	snprintf(text, sizeof(text), "%d %s %ld %x", 15, "text", 12345L, 100);
}

static void (*work)();
static std::atomic<pid_t> worker_id;
extern const char __start_worker_text[], __stop_worker_text[];

__attribute__((section("worker_text"), noinline)) static void *worker(void *)
{
	struct trace t;

	worker_id = gettid();
	for (unsigned i = 0; !stop; i++) {
		work();
		if (!(i & 63))
			walk(&t); /* outside of the handler: tables are made */
		__asm__ volatile("" ::: "memory");
	}
	return nullptr;
}

/* ---- signals --------------------------------------------------------------------------------- */

static std::atomic<long> handled, complete, whole;
static struct trace first_bad;

/* Where threads were interrupted whose walks did not find the loop. */
static const size_t PLACES = 256;
static std::atomic<uintptr_t> places[PLACES];

static void place_add(uintptr_t at)
{
	for (auto &p : places) {
		uintptr_t none = 0;

		if (p.compare_exchange_strong(none, at) || none == at)
			return;
	}
}

static void handler(int, siginfo_t *, void *context)
{
	int error = errno, found = 0;
	struct trace t;

	whole += walk(&t);
	for (int i = 0; i < t.count; i++)
		found |= (char *)t.ips[i] - __start_worker_text < __stop_worker_text - __start_worker_text &&
		         (char *)t.ips[i] >= __start_worker_text;
	if (!found)
		place_add((uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
	if (!found && !first_bad.count)
		first_bad = t;
	complete += found;
	handled++;
	errno = error;
}

static int storm(const char *what, long count)
{
	struct sigaction sa = {};
	pthread_t t;
	struct itimerspec each = {{0, INTERVAL}, {0, INTERVAL}};
	struct sigevent event = {};
	timer_t timer;

	work = !strcmp(what, "dlopen") ? do_dlopen : !strcmp(what, "throw") ? do_throw : !strcmp(what, "malloc") ? do_malloc
	       : !strcmp(what, "fork") ? do_fork : !strcmp(what, "thread") ? do_thread : do_format;
	sa.sa_sigaction = handler;
	sa.sa_flags = SA_SIGINFO | SA_RESTART;
	sigaction(SIGUSR1, &sa, nullptr);
	pthread_create(&t, nullptr, worker, nullptr);
	while (!worker_id)
		sched_yield();
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGUSR1;
	event._sigev_un._tid = worker_id;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &each, nullptr);
	while (handled < count)
		usleep(1000);
	timer_delete(timer);
	stop = true;
	pthread_join(t, nullptr);
	printf("%ld handled, %ld whole, %ld without the thread's loop\n", handled.load(), whole.load(), handled - complete);
	for (auto &p : places) {
		Dl_info info = {};

		if (p && dladdr((void *)p.load(), &info))
			printf("lost at %s %lx\n", info.dli_fname, (long)(p - (uintptr_t)info.dli_fbase));
	}
	for (int i = 0; i < first_bad.count; i++) {
		Dl_info info = {};

		dladdr(first_bad.ips[i], &info);
		printf("  %p %s %s+%lx\n", first_bad.ips[i], info.dli_fname, info.dli_sname,
		       (char *)first_bad.ips[i] - (char *)info.dli_saddr);
	}
	return handled >= count && whole == handled && complete == handled ? 0 : 1;
}

/* ---- locks --------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static std::atomic<int> has_lock, has_dl_lock;

static void *holder(void *)
{
	struct trace t;

	pthread_mutex_lock(&lock);
	has_lock = 1;
	while (!has_dl_lock)
		sched_yield();
	usleep(20000); /* the other is waiting for the lock by now */
	for (int i = 0; i < 3; i++)
		walk(&t);
	pthread_mutex_unlock(&lock);
	return nullptr;
}

static int dl_lock()
{
	pthread_t t;

	pthread_create(&t, nullptr, holder, nullptr);
	while (!has_lock)
		sched_yield();
	dl_iterate_phdr([](struct dl_phdr_info *, size_t, void *) {
		has_dl_lock = 1;
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		return 1;
	}, nullptr);
	pthread_join(t, nullptr);
	puts("done");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3 || !walk_choose(argv[2]))
		return 2;
	plugin = std::string(argv[0]) + "-plugin.so";
	if (!strcmp(argv[1], "storm") && argc == 5)
		return storm(argv[3], atol(argv[4]));
	if (!strcmp(argv[1], "dl-lock"))
		return dl_lock();
	return 2;
}
