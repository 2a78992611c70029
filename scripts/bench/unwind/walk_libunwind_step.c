/* SPDX-License-Identifier: MIT */
/* libunwind's cursor: what profilers and allocators use that need more than addresses. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "walk.h"

void walk_prepare(void)
{
}

__attribute__((noinline)) int walk(void **ips, int max)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unw_word_t ip;
	int n = 0;

	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	while (n < max && unw_step(&cursor) > 0) {
		unw_get_reg(&cursor, UNW_REG_IP, &ip);
		ips[n++] = (void *)ip;
	}
	return n;
}
