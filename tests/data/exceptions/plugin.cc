// SPDX-License-Identifier: MIT
/*
 * plugin.cc: a library that is loaded, throws, and goes; VARIANT: frames of other sizes and other tables at the same
 * addresses.
 */
#include <string>

#ifndef VARIANT
#define VARIANT 0
#endif

static volatile int sink;

struct Kept {
	int n;
	~Kept() { sink = sink + n; }
};

extern "C" __attribute__((noinline)) int plugin(int n, int (*fn)(int))
{
	char space[16 + 64 * VARIANT];
#if VARIANT % 2
	Kept k{n};
#endif
	space[n] = 1;
	__asm__ volatile("" : : "r"(space) : "memory");
	try {
		int r = n ? plugin(n - 1, fn) : fn(VARIANT + 5);
		sink = r;
		return r + space[n];
#if VARIANT == 2
	} catch (int i) {
		return i + 1000;
#endif
	} catch (std::string &s) {
		return VARIANT;
	}
}
