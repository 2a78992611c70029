/* SPDX-License-Identifier: MIT */
/* A library that comes and goes: it has markers of its own, and attaches to the program's. */
#include <etch/mark.h>

void plugin_work(long v);
long plugin_attach(long *sum), plugin_detach(long *sum);

static void on_step(void *data, const struct etch_mark *mark, long v)
{
	(void)mark;
	__atomic_add_fetch((long *)data, v, __ATOMIC_RELAXED);
}

void plugin_work(long v)
{
	ETCH_MARK(step, v);
	ETCH_MARK(plugin_only, v, "text");
}
long plugin_attach(long *sum) { return etch_mark_attach("step", on_step, sum); }
long plugin_detach(long *sum) { return etch_mark_detach("step", on_step, sum); }
