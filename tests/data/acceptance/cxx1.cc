// SPDX-License-Identifier: MIT
#include "cxx.h"

#include <cstdio>
#include <stdexcept>

ETCHED settings setup = {4, 5, true};
DEFINE_IMV(int, depth) = 24;

static long thrower(int n)
{
	if (setup.width > 100)
		throw std::runtime_error("wide");
	return n;
}

int main()
{
	shape s;
	int bad = 0;

	for (int i = 0; i < 5; i++) {
		long caught = 0;

		try {
			caught = thrower(i);
		} catch (const std::exception &) {
			caught = -setup.height;
		}
		std::printf("%d: %d %ld %d %ld %ld\n", i, inline_width(i), scaled(7L), scaled(3), second(i) + s.area(), caught);
		bad += etch_set(&setup.width, i * 40) != 0;
		bad += etch_set(&setup.height, i * 1000000000L) != 0;
		bad += etch_set(&setup.on, i % 2) != 0;
		bad += imv_set(depth, 8 * i) != 0;
	}
	std::printf("%d sets failed, %ld sites differ\n", bad, etch_verify(nullptr, nullptr));
	return bad != 0;
}
