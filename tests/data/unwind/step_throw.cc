// SPDX-License-Identifier: MIT
// C++ frames for tests/analysis/test_unwind_zoo.py: exceptions through frames with and without
// cleanups, rethrown, nested, thrown by libstdc++ itself; landing pads, virtual calls.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile int alive;

struct guard {
	int n;
	NOINLINE explicit guard(int k) : n(k) { alive = alive + 1; }
	NOINLINE ~guard() { alive = alive - 1; }
};

struct base {
	virtual ~base() {}
	virtual int run(int n) = 0;
};

struct thrower : base {
	NOINLINE int run(int n) override
	{
		guard g(n);
		if (n % 3 == 0)
			throw std::runtime_error("three " + std::to_string(n));
		if (n % 3 == 1)
			throw n;
		return n + alive;
	}
};

NOINLINE static int middle(base &b, int n)
{
	guard g(n);
	std::string s(static_cast<size_t>(n), 'x');
	std::vector<int> v(static_cast<size_t>(n) + 1, n);

	return b.run(n) + static_cast<int>(s.size()) + v.at(static_cast<size_t>(n));
}

NOINLINE static int outer(base &b, int n)
{
	try {
		guard g(n);
		return middle(b, n);
	} catch (int k) {
		try {
			return std::vector<int>(3).at(static_cast<size_t>(k) + 7);
		} catch (const std::out_of_range &) {
			return k;
		}
	} catch (...) {
		guard g(1);
		throw;
	}
}

int main()
{
	std::unique_ptr<base> b(new thrower);
	int sum = 0;

	for (int i = 0; i < 6; i++) {
		try {
			sum += outer(*b, i);
		} catch (const std::exception &e) {
			sum += static_cast<int>(std::string(e.what()).size());
		}
	}
	try {
		sum += std::stoi("12") + std::stoi("nothing");
	} catch (const std::invalid_argument &) {
		sum++;
	}
	std::printf("%d %d\n", sum, alive);
	return 0;
}
