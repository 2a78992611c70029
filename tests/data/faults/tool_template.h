/* SPDX-License-Identifier: MIT */
/* A function template in two files: its entries are in a COMDAT group with it. */
#include <etch/extable.h>

template <class T> __attribute__((noinline)) long template_read(const T *p)
{
	long err = 0;
	T v;

	__asm__ __volatile__("1: mov %2, %1\n2:\n\t" ETCH_EX_EFAULT("1b", "2b", "%0") : "+r"(err), "=r"(v) : "m"(*p));
	return err ? err : static_cast<long>(v);
}
