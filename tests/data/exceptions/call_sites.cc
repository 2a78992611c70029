// SPDX-License-Identifier: MIT
/* call_sites.cc: functions with handlers, cleanups and exception specifications of each kind, for call_sites.c. */
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

typedef void Then();

static volatile int count;

struct Counted {
	~Counted() { count = count - 1; }
};

#define NOINLINE __attribute__((noinline))

NOINLINE static void cleanups(Then *then)
{
	Counted a;
	then();
	Counted b;
	then();
	{
		Counted c;
		then();
	}
}

NOINLINE static void catches(Then *then)
{
	try {
		cleanups(then);
	} catch (int n) {
		count = n;
	} catch (const std::runtime_error &e) {
		puts(e.what());
	}
}

NOINLINE static void catches_all(Then *then)
{
	Counted a;
	try {
		Counted b;
		catches(then);
		then();
	} catch (const std::logic_error &e) {
		puts(e.what());
	} catch (...) {
		throw;
	}
}

NOINLINE static void nested(Then *then)
{
	try {
		try {
			Counted a;
			catches_all(then);
		} catch (const char *s) {
			puts(s);
		} catch (std::string &s) {
			Counted b;
			then();
			puts(s.c_str());
		}
		then();
	} catch (long n) {
		count = static_cast<int>(n);
	}
	then();
}

NOINLINE static void must_not_throw(Then *then) noexcept
{
	Counted a;
	nested(then);
}

#if __cplusplus < 201703L
NOINLINE static void specified(Then *then) throw(int, std::exception)
{
	Counted a;
	must_not_throw(then);
}
#else
#define specified must_not_throw
#endif

extern "C" void functions_enter(Then *then)
{
	try {
		specified(then);
	} catch (std::exception &e) {
		puts(e.what());
	}
}

/* The _Unwind_Exception of exceptions, which are kept. */
template <class T> static void *exception_of(const T &value)
{
	static std::exception_ptr kept;
	unsigned long at = 0;

	try {
		throw value;
	} catch (T &thrown) {
		kept = std::current_exception();
		at = reinterpret_cast<unsigned long>(&thrown) - 32;
	}
	return reinterpret_cast<void *>(at);
}

extern "C" unsigned exceptions_make(void **out)
{
	out[0] = exception_of(7);
	out[1] = exception_of(std::out_of_range("out of range"));
	out[2] = exception_of(static_cast<const char *>("text"));
	out[3] = exception_of(Counted());
	return 4;
}

extern "C" void on_terminate(Then *then) { std::set_terminate(then); }
