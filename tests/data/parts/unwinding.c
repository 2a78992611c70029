/* SPDX-License-Identifier: MIT */
#include <etch/unwind.h>

#include "parts/use.h"

static NOINLINE int depth(void)
{
	void *ips[64];
	int n = etch_backtrace(ips, 64);

	return n;
}

int main(int argc, char **argv)
{
	int n = depth();

	CHECK(!is_asked(argc, argv, "immediate") || n >= 2);
	return 0;
}
