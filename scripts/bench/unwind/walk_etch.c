/* SPDX-License-Identifier: MIT */
/* etch: etch_backtrace, or with -DREUSE the variant that keeps the previous walk. */
#include <etch/unwind.h>
#include <stddef.h>

#include "walk.h"

#ifdef REUSE
static struct etch_walk previous;
#endif

void walk_prepare(void)
{
	etch_unwind_prepare();
}

__attribute__((noinline)) int walk(void **ips, int max)
{
#ifdef REUSE
	return etch_backtrace_reuse(&previous, NULL, ips, max, NULL);
#else
	return etch_backtrace(ips, max);
#endif
}
