// SPDX-License-Identifier: MIT
#include "rewrite_cxx.h"

#include <cstdio>
#include <stdexcept>

static int area(int x)
{
	if (x < 0)
		throw std::range_error("negative");
	return x * x;
}
static int edge(int x) { return x; }
static void drawn() {}
DEFINE_PV_OPS(shape_ops, shape) = {area, edge, drawn};

int other(int x);
int main()
{
	Canvas<int> c{};
	Canvas<long> d{};
	int caught = 0;

	try {
		c.draw(-1);
	} catch (const std::exception &) {
		caught = 1;
	}
	std::printf("%d %ld %d %d %d\n", c.draw(3), d.draw(4), edges(5), other(6), caught);
}
