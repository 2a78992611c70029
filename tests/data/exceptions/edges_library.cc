// SPDX-License-Identifier: MIT
/* edges_library.cc: a library whose constructor and destructor throw and catch. */
#include <cstdio>
#include <stdexcept>

static int down(int n)
{
	if (!n)
		throw std::logic_error("bottom");
	int r = down(n - 1) + 1;
	__asm__ volatile("" : "+r"(r));
	return r;
}

static void say(const char *name)
{
	try {
		down(6);
	} catch (std::exception &e) {
		printf("%s: %s\n", name, e.what());
		fflush(stdout);
	}
}

struct Object {
	Object() { say("constructor"); }
	~Object() { say("destructor"); }
};

static Object object;

extern "C" int twenty(int n)
{
	try {
		return down(n);
	} catch (std::logic_error &) {
		return 20 + n;
	}
}
