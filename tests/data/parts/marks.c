/* SPDX-License-Identifier: MIT */
#include <etch/mark.h>

#include "parts/use.h"

static int seen;

static void on_step(void *data, const struct etch_mark *mark, int i)
{
	(void)data;
	(void)mark;
	seen += i;
}

static NOINLINE void step(int i) { ETCH_MARK(step, i); }

int main(void)
{
	step(1);
	CHECK(seen == 0 && etch_mark_attach("step", on_step, NULL) == 1);
	step(20);
	CHECK(seen == 20 && etch_mark_detach("step", on_step, NULL) == 0);
	step(300);
	CHECK(seen == 20);
	return 0;
}
