// SPDX-License-Identifier: MIT
/*
 * throws.cc: what throws cost. throws CASE DEPTH BATCHES COUNT [THREADS]: prints nanoseconds a throw, a line for each batch
 * of COUNT, of the processor's time if THREADS is given. Each frame is of a function of its own.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define NOINLINE __attribute__((noinline))

static thread_local volatile int sink;

struct Counted {
	NOINLINE ~Counted() { sink = sink + 1; }
};

typedef int Frame(int);

/* The innermost frame. */
template <int> NOINLINE int thrower(int n)
{
	sink = n;
	throw std::runtime_error("thrown");
}

template <int I, int Kind> NOINLINE int frame(int n);

template <int I, int Kind> constexpr Frame *next_frame()
{
	if constexpr (I == 0)
		return thrower<Kind>;
	else
		return frame<I - 1, Kind>;
}

enum { PLAIN, DESTRUCTORS, CATCHES, MIXED };

template <int I, int Kind> NOINLINE int frame(int n)
{
	if constexpr (Kind == PLAIN || (Kind == MIXED && I % 3 == 0)) {
		int r = next_frame<I, Kind>()(n) + I;
		sink = r;
		return r;
	} else if constexpr (Kind == DESTRUCTORS || (Kind == MIXED && I % 3 == 1)) {
		Counted c;
		int r = next_frame<I, Kind>()(n) + I;
		sink = r;
		return r;
	} else {
		try {
			int r = next_frame<I, Kind>()(n) + I;
			sink = r;
			return r;
		} catch (const std::bad_alloc &) {
			return I;
		}
	}
}

/* The same by return codes. */
struct Code {
	int error, value;
};
template <int I, int Kind> NOINLINE Code coded(int n)
{
	if constexpr (I < 0) {
		sink = n;
		return {1, 0};
	} else if constexpr (Kind == DESTRUCTORS) {
		Counted c;
		Code r = coded<I - 1, Kind>(n);
		if (r.error)
			return r;
		sink = r.value + I;
		return {0, r.value + I};
	} else {
		Code r = coded<I - 1, Kind>(n);
		if (r.error)
			return r;
		sink = r.value + I;
		return {0, r.value + I};
	}
}

template <int Kind> static Frame *of_depth(int depth)
{
	switch (depth) {
	case 1: return frame<0, Kind>;
	case 5: return frame<4, Kind>;
	case 20: return frame<19, Kind>;
	case 100: return frame<99, Kind>;
	}
	exit(2);
}

template <int Kind> static Code (*code_of_depth(int depth))(int)
{
	switch (depth) {
	case 1: return coded<0, Kind>;
	case 5: return coded<4, Kind>;
	case 20: return coded<19, Kind>;
	case 100: return coded<99, Kind>;
	}
	exit(2);
}

static std::vector<int> numbers(3);
static std::map<int, int> map;

template <class F> static void thrown(F f)
{
	try {
		f();
	} catch (const std::exception &) {
		sink = sink + 1;
	}
}

static void run(const char *name, int depth, long count)
{
	Frame *fn = nullptr;
	Code (*code)(int) = nullptr;

	if (!strcmp(name, "plain"))
		fn = of_depth<PLAIN>(depth);
	else if (!strcmp(name, "destructors"))
		fn = of_depth<DESTRUCTORS>(depth);
	else if (!strcmp(name, "catches"))
		fn = of_depth<CATCHES>(depth);
	else if (!strcmp(name, "mixed"))
		fn = of_depth<MIXED>(depth);
	else if (!strcmp(name, "codes"))
		code = code_of_depth<PLAIN>(depth);
	else if (!strcmp(name, "codes-destructors"))
		code = code_of_depth<DESTRUCTORS>(depth);
	for (long i = 0; i < count; i++) {
		if (fn)
			thrown([=] { sink = fn(1); });
		else if (code)
			sink = code(1).error;
		else if (!strcmp(name, "at"))
			thrown([] { sink = numbers.at(4); });
		else if (!strcmp(name, "map"))
			thrown([] { sink = map.at(4); });
		else if (!strcmp(name, "stoi"))
			thrown([] { sink = std::stoi("x"); });
		else if (!strcmp(name, "filesystem"))
			thrown([] { sink = static_cast<int>(std::filesystem::file_size("/nonexistent")); });
		else if (!strcmp(name, "regex"))
			thrown([] { std::regex r("(["); });
		else
			exit(2);
	}
}

static double now(clockid_t clock)
{
	timespec t;

	clock_gettime(clock, &t);
	return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	int depth = atoi(argv[2]), batches = atoi(argv[3]), threads = argc > 5 ? atoi(argv[5]) : 1;
	long count = atol(argv[4]);

	for (int i = 0; i < batches; i++) {
		clockid_t clock = argc > 5 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
		double start = now(clock);
		if (threads == 1) {
			run(argv[1], depth, count);
		} else {
			std::vector<std::thread> all;
			for (int t = 0; t < threads; t++)
				all.emplace_back(run, argv[1], depth, count);
			for (auto &t : all)
				t.join();
		}
		printf("%.1f\n", (now(clock) - start) / static_cast<double>(count * threads));
	}
}
