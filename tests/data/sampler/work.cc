// SPDX-License-Identifier: MIT
// Work for sampler.c to interrupt: threads, exceptions, a handler on a signal stack, a
// child of fork(2), a coroutine. Prints one line.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned long sink;

static unsigned long deep(int n, unsigned long x)
{
	if (n)
		return deep(n - 1, x * 31 + 7) + 1;
	if (x % 50 == 0)
		throw std::runtime_error("every now and then");
	return x;
}

static unsigned long work(int rounds)
{
	std::map<std::string, unsigned long> m;
	unsigned long caught = 0;

	for (int i = 0; i < rounds; i++) {
		try {
			m[std::to_string(i % 999)] += deep(i % 20, (unsigned long)i);
		} catch (const std::exception &) {
			caught++;
		}
	}
	return caught + m.size();
}

static void on_signal(int)
{
	sink += work(200000);
}

static ucontext_t main_context, other_context;

static void coroutine()
{
	sink += work(200000);
	swapcontext(&other_context, &main_context);
}

int main()
{
	static char signal_stack[1 << 18], other_stack[1 << 18];
	stack_t ss = {};
	struct sigaction a = {};
	std::vector<std::thread> threads;
	unsigned long sums[3] = {}, own;
	int status = 0;
	pid_t child;

	ss.ss_sp = signal_stack;
	ss.ss_size = sizeof(signal_stack);
	sigaltstack(&ss, nullptr);
	a.sa_handler = on_signal;
	a.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &a, nullptr);
	raise(SIGUSR1);
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = other_stack;
	other_context.uc_stack.ss_size = sizeof(other_stack);
	makecontext(&other_context, coroutine, 0);
	swapcontext(&main_context, &other_context);
	child = fork();
	if (!child)
		_exit(work(600000) % 7 == 99);
	waitpid(child, &status, 0);
	for (auto &s : sums)
		threads.emplace_back([&s] { s = work(600000); });
	own = work(600000);
	for (auto &t : threads)
		t.join();
	printf("%lu %lu %lu %lu %d\n", own, sums[0], sums[1], sums[2], status);
	return 0;
}
