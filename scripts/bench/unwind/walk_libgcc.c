/* SPDX-License-Identifier: MIT */
/* libgcc's _Unwind_Backtrace, which also finds C++'s handlers. */
#include <unwind.h>

#include "walk.h"

struct trace {
	void **ips;
	int n, max;
};

void walk_prepare(void)
{
}

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *arg)
{
	struct trace *t = arg;

	if (t->n == t->max)
		return _URC_END_OF_STACK;
	t->ips[t->n++] = (void *)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

__attribute__((noinline)) int walk(void **ips, int max)
{
	struct trace t = {ips, 0, max};

	_Unwind_Backtrace(add, &t);
	return t.n;
}
