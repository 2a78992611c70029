// SPDX-License-Identifier: MIT
/*
 * edges.cc: throws at odd times and places: destructors of objects with static and thread storage, atexit(), a
 * constructor of a library (the argument: edges_library.cc), after fork(), in and out of signal handlers, on a small
 * alternative stack, and from under 100,000 frames. Each line says what happened; the test compares them with libgcc's.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile int sink, gone;

struct Counted {
	~Counted() { gone = gone + 1; }
};

NOINLINE static int noted(int n)
{
	Counted c;

	if (!n)
		throw std::runtime_error("bottom");
	int r = noted(n - 1) + 1;
	sink = r;
	return r;
}

NOINLINE static int plain(int n)
{
	if (!n)
		throw 5L;
	int r = plain(n - 1) + 1;
	sink = r;
	return r;
}

/* How many destructors were executed before the handler. */
static int destructors(int n)
{
	gone = 0;
	try {
		noted(n);
	} catch (std::exception &) {
		return gone;
	}
	return -1;
}

static void say(const char *name, int n)
{
	printf("%s: %d\n", name, n);
	fflush(stdout);
}

struct AtEnd {
	const char *name;
	~AtEnd() { say(name, destructors(7)); }
};

static AtEnd global{"static object"};
static thread_local AtEnd local{"thread_local object"};

static void deep()
{
	for (int n : {100000, 30000})
		say("deep", destructors(n));
	try {
		plain(100000);
	} catch (long n) {
		say("deep, plain", static_cast<int>(n));
	}
}

static void forks()
{
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			say("child", destructors(11));
			_exit(3);
		}
		waitpid(child, &status, 0);
		say("status", WEXITSTATUS(status));
	}
}

static void catches(int) { say("handler", destructors(9)); }
static void throws(int) { throw 3; }

/* By a pointer: C++ knows kill() not to throw. */
static int (*volatile send)(pid_t, int) = kill;

static void signals()
{
	static char stack[16384] __attribute__((aligned(64)));
	stack_t s{};
	struct sigaction a {
	};

	s.ss_sp = stack;
	s.ss_size = sizeof(stack);
	sigaltstack(&s, nullptr);
	a.sa_handler = catches;
	a.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &a, nullptr);
	for (int i = 0; i < 3; i++)
		raise(SIGUSR1);
	a.sa_flags = SA_NODEFER;
	a.sa_handler = throws;
	sigaction(SIGUSR2, &a, nullptr);
	for (int i = 0; i < 3; i++)
		try {
			send(getpid(), SIGUSR2);
		} catch (int n) {
			say("out of a handler", n);
		}
	struct Raiser {
		~Raiser() { raise(SIGUSR1); }
	};
	for (int i = 0; i < 2; i++)
		try {
			Raiser r;
			throw 9;
		} catch (int n) {
			say("in flight", n);
		}
}

static void library(const char *file)
{
	void *handle = dlopen(file, RTLD_NOW);
	int (*fn)(int) = handle ? reinterpret_cast<int (*)(int)>(dlsym(handle, "twenty")) : nullptr;

	say("loaded", fn ? fn(3) : -1);
	if (handle)
		dlclose(handle);
}

int main(int argc, char **argv)
{
	atexit([] { say("atexit", destructors(5)); });
	say(local.name, 0);
	std::thread([] { say(local.name, 1); }).join();
	deep();
	forks();
	signals();
	for (int i = 0; i < 4; i++)
		library(argv[argc - 1]);
	return 0;
}
