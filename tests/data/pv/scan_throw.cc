// SPDX-License-Identifier: MIT
// Calls through an ops object in templates, and around exceptions: with -fPIC the
// object's address is kept in a register that landing pads find it in.
#include <etch/imv.h>

struct table {
	long (*one)(long);
	void (*none)();
};
ETCHED table ops = {nullptr, nullptr};
struct failure {
	long code;
};
struct guard {
	long x;
	~guard() { ops.one(x); }
};

template <class T> long sum(T n) // COMDAT
{
	long s = 0;

	for (T i = 0; i < n; i++)
		s += ops.one(i);
	if (ops.none)
		ops.none();
	return s;
}
template long sum<int>(int);
template long sum<short>(short);

long caught(long x)
{
	try {
		ops.none();
		if (ops.one(x) > 3)
			throw failure{x};
		return ops.one(1);
	} catch (failure &f) {
		ops.none();
		return ops.one(f.code);
	} catch (...) {
		return ops.one(3);
	}
}

long guarded(long x)
{
	guard a{x}, b{x + 1};

	ops.none();
	return ops.one(x);
}
