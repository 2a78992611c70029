/* SPDX-License-Identifier: MIT */
/* glibc's backtrace(3). */
#include <execinfo.h>

#include "walk.h"

void walk_prepare(void)
{
	void *ip;

	backtrace(&ip, 1); /* the first call loads libgcc_s */
}

__attribute__((noinline)) int walk(void **ips, int max)
{
	return backtrace(ips, max);
}
