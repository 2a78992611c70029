/* SPDX-License-Identifier: MIT */
/* lib/interfaces: allocates from a few dozen stacks, always the same, and keeps some: what allocators' profilers,
 * heaptrack and gperftools record. With "boost": prints a boost::stacktrace. With "crash": backtrace_symbols_fd. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <map>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>
#ifdef BOOST
#include <boost/stacktrace.hpp>
#include <iostream>
#endif

static std::map<std::string, std::vector<char *>> kept;

template <int N> __attribute__((noinline)) void *deep(int v)
{
	volatile char space[N * 24 + 8];
	void *p;

	space[0] = (char)v;
	if constexpr (N == 0)
		p = malloc((size_t)v * 16 + 1000);
	else
		p = deep<N - 1>(v + space[0] % 1);
	kept["depth " + std::to_string(N)].push_back(static_cast<char *>(p));
	return p;
}

static int by_qsort(const void *a, const void *b)
{
	kept["qsort"].push_back(static_cast<char *>(malloc(5000)));
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

static void crashed(int)
{
	void *ips[64];

	backtrace_symbols_fd(ips, backtrace(ips, 64), 1);
	_exit(0);
}

extern "C" __attribute__((noinline)) void end_here(const char *how)
{
#ifdef BOOST
	if (!strcmp(how, "boost"))
		std::cout << boost::stacktrace::stacktrace();
#endif
	if (!strcmp(how, "crash"))
		raise(SIGSEGV);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	int numbers[16];

	signal(SIGSEGV, crashed);
	for (int i = 0; i < 16; i++)
		numbers[i] = i * 7 % 16;
	for (int i = 0; i < 20; i++) {
		deep<12>(i);
		deep<5>(i);
		qsort(numbers, 16, sizeof(int), by_qsort);
		free(kept["qsort"].back());
		kept["qsort"].pop_back();
	}
	end_here(argc > 1 ? argv[1] : "");
	return 0;
}
