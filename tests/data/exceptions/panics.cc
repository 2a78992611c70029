// SPDX-License-Identifier: MIT
/* panics.cc: the C++ side of panics.rs. */
struct Empty {
	int *n;
	~Empty() { ++*n; }
};

extern "C" void cxx_throw(int n) { throw n; }

extern "C" void cxx_call(void (*fn)(int), int n)
{
	static int count;
	Empty e{&count};

	fn(n);
}

extern "C" int cxx_catch(void (*fn)(int), int n)
{
	try {
		cxx_call(fn, n);
	} catch (int i) {
		return i;
	}
	return -1;
}
