/* SPDX-License-Identifier: MIT */
/*
 * backtrace.c: whole stacks: glibc's backtrace(3) (execinfo.h) and libunwind's unw_backtrace(3).
 *
 * Both store return addresses, beginning with that of this call, and return their number. The outermost one is in
 * _start, or in the function that a thread begins with.
 *
 * RULES OF THIS FILE. Async-signal-safe up to own_tables_after(), which finds out whether it runs in a handler.
 */
#include "interfaces/frame_walk.h"
#include "interfaces/interfaces.h"
#include "interfaces/own_tables.h"

int backtrace(void **ips, int max);
int unw_backtrace(void **ips, int max);

NO_ASAN static inline __attribute__((always_inline)) int frames_store(const uint64_t *frame, void **ips, int max)
{
	struct cursor c;
	int count = 0;

	cursor_here(&c, frame);
	c.without_tables = (int)frame_walk_without_tables();
	cursor_walk(&c, ips, max, &count);
	own_tables_after(&c);
	return count;
}

INTERFACE int backtrace(void **ips, int max) { return frames_store(__builtin_frame_address(0), ips, max); }

INTERFACE int unw_backtrace(void **ips, int max) { return frames_store(__builtin_frame_address(0), ips, max); }
