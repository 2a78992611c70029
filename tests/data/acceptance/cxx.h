// SPDX-License-Identifier: MIT
/* Inline functions and templates with sites: COMDAT in each file that uses them. */
#include <etch/imv.h>

struct settings {
	int width;
	long height;
	bool on;
};
extern settings setup;
DECLARE_IMV(int, depth);

inline int inline_width(int n) { return setup.on ? setup.width * n : imv_read(depth); }

template <typename T> __attribute__((noinline)) T scaled(T n)
{
	return n * static_cast<T>(setup.height) + static_cast<T>(imv_read(depth));
}

struct shape {
	virtual ~shape() {}
	virtual long area() { return setup.width * setup.height; }
};

long second(int n);
