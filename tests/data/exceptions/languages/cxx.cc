// SPDX-License-Identifier: MIT
/* cxx.cc: the C++ side of the programs in this directory: it throws, is passed through, and catches. */
#include <cstdio>
#include <stdexcept>

static int destructors;

struct Counted {
	~Counted() { destructors++; }
};

extern "C" int cxx_destructors() { return destructors; }

extern "C" void cxx_throw(int n)
{
	Counted c;

	if (n)
		cxx_throw(n - 1);
	else
		throw std::runtime_error("of C++");
}

/* fn(n) under some frames with destructors. */
extern "C" void cxx_call(void (*fn)(int), int n, int depth)
{
	Counted c;

	if (depth)
		cxx_call(fn, n, depth - 1);
	else
		fn(n);
}

/* What comes out of fn(n): 0 nothing, 1 a C++ exception, 2 another language's. */
extern "C" int cxx_catch(void (*fn)(int), int n)
{
	try {
		cxx_call(fn, n, 3);
	} catch (const std::bad_alloc &) {
		return -1;
	} catch (const std::exception &) {
		return 1;
	} catch (...) {
		return 2;
	}
	return 0;
}

/* Rethrows it, whosever it is. */
extern "C" void cxx_rethrow(void (*fn)(int), int n)
{
	try {
		cxx_call(fn, n, 2);
	} catch (const std::logic_error &) {
	} catch (...) {
		Counted c;
		throw;
	}
}
