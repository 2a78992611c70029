/* SPDX-License-Identifier: MIT */
/* Call sites in templates and inline functions, which the linker merges. */
#include <etch/pv.h>

struct shape_ops {
	int (*area)(int);
	int (*edge)(int);
	void (*drawn)();
};
extern shape_ops shape;

template <class T> struct Canvas {
	T last;
	__attribute__((noinline)) T draw(T x)
	{
		last = shape.area((int)x) + 1;
		shape.drawn();
		return last;
	}
};

__attribute__((noinline)) inline int edges(int x) { return shape.edge(x) + 1; }
