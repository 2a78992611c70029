// SPDX-License-Identifier: MIT
#include "rewrite_cxx.h"

int other(int x);
int other(int x)
{
	Canvas<int> c{};

	return c.draw(x) + edges(x);
}
