/* SPDX-License-Identifier: MIT */
/*
 * lib/interfaces: what libgcc does with its own contexts stays as it is: exceptions caught by type, rethrown,
 * nested, through destructors and noexcept, forced unwinding by pthread_cancel(3) and pthread_exit(3), C's
 * cleanups, and backtraces taken from destructors while an exception is in flight.
 */
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <unwind.h>

static int destroyed, walked;

struct Note {
	const char *what;
	explicit Note(const char *w) : what(w) {}
	~Note()
	{
		void *ips[64];

		walked += backtrace(ips, 64) > 3;
		destroyed++;
	}
};

template <int N> __attribute__((noinline)) int deep(int v)
{
	Note n("deep");

	if constexpr (N == 0) {
		if (v == 1)
			throw std::runtime_error("one");
		if (v == 2)
			throw v;
		if (v == 3)
			throw std::string("three");
		return v;
	} else {
		return deep<N - 1>(v) + 1;
	}
}

static void by_type(int v)
{
	try {
		deep<12>(v);
	} catch (const std::runtime_error &e) {
		printf("runtime_error %s\n", e.what());
	} catch (int i) {
		printf("int %d\n", i);
	} catch (...) {
		printf("something else\n");
		try {
			throw;
		} catch (const std::string &s) {
			printf("string %s\n", s.c_str());
		}
	}
}

static void nested()
{
	try {
		try {
			deep<3>(1);
		} catch (...) {
			std::throw_with_nested(std::logic_error("outer"));
		}
	} catch (const std::exception &e) {
		printf("%s", e.what());
		try {
			std::rethrow_if_nested(e);
		} catch (const std::exception &inner) {
			printf(" from %s\n", inner.what());
		}
	}
}

static void *canceled(void *)
{
	Note n("canceled");

	for (;;)
		pause();
}

static void *exited(void *arg)
{
	Note n("exited");

	try {
		pthread_exit(arg);
	} catch (...) {
		printf("forced unwinding seen\n");
		throw;
	}
}

static _Unwind_Reason_Code count(struct _Unwind_Context *c, void *arg)
{
	++*static_cast<int *>(arg);
	if (*static_cast<int *>(arg) == 3)
		throw 7; /* through _Unwind_Backtrace */
	return _Unwind_GetIP(c) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void thrown_from_callback()
{
	int frames = 0;

	try {
		_Unwind_Backtrace(count, &frames);
	} catch (int i) {
		printf("thrown from a callback: %d after %d frames\n", i, frames);
	}
}

static void *many(void *arg)
{
	long caught = 0;

	for (int i = 0; i < 2000; i++)
		try {
			deep<5>(2);
		} catch (int) {
			caught++;
		}
	*static_cast<long *>(arg) = caught;
	return nullptr;
}

int main()
{
	pthread_t t[4];
	long caught[4];
	void *result;

	for (int v = 0; v < 4; v++)
		by_type(v);
	nested();
	pthread_create(t, nullptr, canceled, nullptr);
	pthread_cancel(t[0]);
	pthread_join(t[0], &result);
	printf("canceled %d\n", result == PTHREAD_CANCELED);
	pthread_create(t, nullptr, exited, caught);
	pthread_join(t[0], &result);
	printf("exited %d\n", result == caught);
	thrown_from_callback();
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], nullptr, many, &caught[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], nullptr);
	printf("%ld %ld %ld %ld caught, %d destroyed, %d walked\n", caught[0], caught[1], caught[2], caught[3], destroyed > 0,
	       walked > 0);
	std::set_terminate([] {
		printf("terminated\n");
		exit(0);
	});
	[]() noexcept { deep<2>(1); }();
}
