/* SPDX-License-Identifier: MIT */
/*
 * values.cc: etch::value (etch/imv.hpp). Prints the values through each kind of variable, before and after sets, then
 * lets threads read while one sets.
 *
 * After a set of `turn` to n has returned, `done` is n: a thread that reads n from `done` must read n or later from
 * `turn`, and twice one value from `turn` never falls.
 */
#include "values.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

static etch::value<char> letter{'a'};
static etch::value<mode> state{mode::on};
static etch::value<int> tracing;
static etch::value<long> turn{0};
static etch::value<int> late{std::atoi("7")};
static std::atomic<long> done{0};
static std::atomic<bool> stop{false};
static std::atomic<long> wrong{0}, reads{0}, begun{0};

[[gnu::noinline]] static int branches()
{
	int sum = 0;

	for (int i = 0; i < 3; i++) {
		if (etch::unlikely(tracing))
			sum += 1;
		if (etch::likely(shared))
			sum += 10;
		if (etch::branch(state))
			sum += 100;
	}
	return sum;
}

[[gnu::noinline]] static void print(const char *name)
{
	static etch::value<unsigned> calls{0};
	const etch::value<int> &by_reference = counters::in_class;
	int sum = 0;

	calls = calls + 1;
	for (int i = 0; i < 3; i++)
		sum += per_type<int> * i;
	std::printf("%s: %u %d %d %d %ld %d %d %d %d %g %d %g %ld %s %c %d %d %d %d %d\n", name, calls.load(),
	            static_cast<int>(shared), sum, per_type<int>.load(), per_type<long>.load(), counters::defined.load(),
	            by_reference.load(), table[1].neighbour, table[0].small.load(), table[0].ratio.load(),
	            table[1].small.load(), table[1].ratio.load(), app::limit.load(), app::label.load(), letter.load(),
	            state == mode::on, late.load(), branches(), other_sum(), tracing ? 1 : 0);
}

static void reader()
{
	long last = 0, count = 0, bad = 0;

	begun++;
	do {
		const long least = done.load(std::memory_order_acquire), now = turn;

		bad += now < least || now < last;
		last = now;
		bad += etch::unlikely(tracing) && least == -1;
		count++;
	} while (!stop.load(std::memory_order_relaxed));
	wrong += bad;
	reads += count;
}

int main(int argc, char **argv)
{
	const long sets = argc > 1 ? std::atol(argv[1]) : 100;
	std::vector<std::thread> threads;
	etch::value<int> on_stack{1};
	auto on_heap = std::make_unique<etch::value<int>>(2);
	struct etch_info info = {};

	print("start");
	other_set(0);
	counters::defined = -1;
	counters::in_class = 1 << 30;
	table[0].small = 5;
	table[1].ratio = -0.25;
	app::limit = -1;
	app::label = "none";
	letter = 'z';
	state = mode::off;
	tracing = 1;
	late = 8;
	print("set");
	on_stack = 10;
	*on_heap = 20;
	std::printf("elsewhere %d %d %d\n", on_stack.load(), on_heap->load(), (tracing = 0) + 1);
	for (int i = 0; i < 3; i++)
		threads.emplace_back(reader);
	while (begun < 3)
		std::this_thread::yield();
	for (long n = 1; n <= sets; n++) {
		if (turn.set(n))
			wrong++;
		done.store(n, std::memory_order_release);
		tracing = static_cast<int>(n & 1);
	}
	stop = true;
	for (auto &t : threads)
		t.join();
	std::printf("threads wrong %ld turn %ld read %d\n", wrong.load(), turn.load(), reads > 0);
	try {
		throw std::system_error(etch::error_code(ETCH_EBUSY), "x");
	} catch (const std::system_error &e) {
		std::printf("%s %d %d\n", e.code().category().name(), e.code().value(),
		            e.code().message() == etch_strerror(ETCH_EBUSY));
	}
	info.size = sizeof(info);
	etch_info(&info);
	std::printf("verify %ld\n", etch_verify(nullptr, nullptr));
	std::fprintf(stderr, "sites %lu armed %lu objects %lu of %lu readonly %lu branches %lu of %lu\n", info.sites,
	             info.armed, info.armed_objects, info.objects, info.readonly_pages, info.branches_static,
	             info.branches);
}
