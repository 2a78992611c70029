// SPDX-License-Identifier: MIT
// Functions with frames of many kinds and with landing pads, for tests/analysis/test_cfi_objects.py:
// the object file's rows and call sites must be the linked file's.
#include <cstddef>
#include <stdexcept>
#include <string>

extern "C" int outside(int);
extern "C" void use(void *);

struct guard {
	int v;
	explicit guard(int x) : v(x) {}
	~guard();
};

guard::~guard() { outside(v); }

// Landing pads; the handlers are cold, in a part and an LSDA of their own.
int catches(int x)
{
	guard g(x);
	try {
		outside(x);
		std::string s(static_cast<size_t>(x), 'a');
		return outside(x + 1) + static_cast<int>(s.size());
	} catch (std::runtime_error &e) {
		return outside(e.what()[0]);
	} catch (...) {
		throw;
	}
}

// A template: in a COMDAT group, with its .gcc_except_table and FDE.
template <class T> T pair_of(T x)
{
	guard a(1), b(2);
	return static_cast<T>(outside(static_cast<int>(x)) + outside(a.v + b.v));
}
template int pair_of<int>(int);
template long pair_of<long>(long);

static __attribute__((noinline)) int local(int x)
{
	guard g(x);
	return outside(x) + 1;
}

// Frame pointer and alloca.
int grows(int n)
{
	char *p = static_cast<char *>(__builtin_alloca(static_cast<size_t>(n)));
	use(p);
	return outside(p[0]) + local(n);
}

// Realigned: gcc keeps the CFA in a register, then in memory.
int aligned(int n)
{
	alignas(64) char buf[256];
	char *p = static_cast<char *>(__builtin_alloca(static_cast<size_t>(n)));
	use(buf);
	use(p);
	return outside(buf[3]);
}

// Many registers, a large frame, and a way out in the middle.
int large(int a, int b, int c, int d, int e, int f, int g, int h)
{
	char buf[70000];
	if (a < b)
		return c;
	use(buf);
	int x = outside(a) * outside(b), y = outside(c) * outside(d);
	return x + y + outside(e) + outside(f) + outside(g) + outside(h) + buf[5];
}

__attribute__((cold)) void fails(int x) { throw std::logic_error(std::string(static_cast<size_t>(x), 'x')); }
