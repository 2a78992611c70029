/* SPDX-License-Identifier: MIT */
/*
 * ops.cc: etch::ops (etch/pv.hpp). Prints what calls through each kind of variable return, before and after sets; then
 * calls in three threads while the function changes, and counts results that no function gives, or that are too old.
 */
#include <etch/pv.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../threads.h"

struct codec {
	long (*decode)(long);
	void (*flush)();
	int (*print)(const char *, ...);
	unsigned long seldom; /* no function: read as an immediate */
};

static int flushed;
static long twice(long x) { return 2 * x; }
static long square(long x) { return x * x; }
static void flush() { flushed++; }

namespace files
{
inline etch::ops<codec> shared{{pv_ident_64, pv_nop, std::printf, 5}};
struct holder {
	static etch::ops<codec> member;
	template <long N> static inline etch::ops<codec> per{{twice, pv_nop, std::printf, N}};
};
etch::ops<codec> holder::member{{square, flush, std::printf, 7}};
} // namespace files
static etch::ops<codec> own[2] = {{{twice, flush, std::printf, 1}}, {{square, pv_nop, std::printf, 2}}};
static etch::ops<codec> turns{{pv_nop, pv_nop, std::printf, 0}};

[[gnu::noinline]] static long sum(long x)
{
	static etch::ops<codec> local{{pv_ident_64, pv_nop, std::printf, 3}};

	if (x < 0)
		local.store(&codec::decode, twice);
	local->flush();
	files::shared->flush();
	files::holder::member->flush();
	own[0]->flush();
	return local->decode(x) + 10 * files::shared->decode(x) + 100 * files::holder::member->decode(x) +
	       1000 * files::holder::per<9>->decode(x) + 10000 * own[1]->decode(x) +
	       100000 * static_cast<long>(files::shared->seldom);
}

template <long N> static long turn(long) { return N; }
[[gnu::noinline]] static long turn_now() { return turns->decode(0); }

static long threads(long rounds)
{
	static constexpr long (*const way[])(long) = {turn<1>, turn<2>};
	std::atomic<long> wrong{0}, must{0};
	std::atomic<bool> stop{false};
	std::vector<std::thread> readers;

	turns.store(&codec::decode, way[0]);
	for (int i = 0; i < 3; i++)
		readers.emplace_back([&] {
			thread_begun();
			do {
				const long before = must, now = turn_now(), after = must;

				wrong += (now != 1 && now != 2) || (before && before == after && now != before && before == must);
			} while (!stop);
		});
	threads_wait(3);
	for (long i = 0; i < rounds; i++) {
		must = 0;
		turns.store(&codec::decode, way[i & 1]);
		must = 1 + (i & 1);
		wrong += turn_now() != 1 + (i & 1);
	}
	stop = true;
	for (auto &r : readers)
		r.join();
	return wrong;
}

int main(int argc, char **argv)
{
	struct etch_info info;
	etch::ops<codec> stack{{twice, pv_nop, std::printf, 0}};
	long now = sum(3);

	std::printf("start: %ld %d\n", now, flushed);
	files::shared.store(&codec::decode, square);
	files::shared.store(&codec::flush, flush);
	if (const std::error_code error = files::holder::member.set({pv_ident_64, pv_nop, std::printf, 8}))
		return error.value();
	own[1].store(&codec::decode, pv_ident_64);
	files::shared.store(&codec::seldom, 6);
	stack.store(&codec::decode, square);
	now = sum(3);
	std::printf("set: %ld %d %lu %ld\n", now, flushed, files::holder::member->seldom, (*stack).decode(4));
	own[0]->print("printed %d\n", 1);
	std::printf("threads: %ld wrong\n", threads(argc > 1 ? std::atol(argv[1]) : 100));
	info.size = sizeof(info);
	etch_info(&info);
	std::fprintf(stderr, "%lu %lu %lu %lu %lu %lu\n", info.objects, info.armed_objects, info.calls, info.calls_direct,
	             info.calls_inline, info.armed);
	return etch_verify(nullptr, nullptr) != 0;
}
