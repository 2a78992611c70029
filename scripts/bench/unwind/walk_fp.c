/* SPDX-License-Identifier: MIT */
/* The floor: code built with -fno-omit-frame-pointer, one load and one store a frame. */
#include <stdint.h>

#include "walk.h"

struct frame {
	struct frame *next;
	void *ip;
};

void walk_prepare(void)
{
}

__attribute__((noinline)) int walk(void **ips, int max)
{
	struct frame *f = __builtin_frame_address(0);
	int n = 0;

	while (n < max) {
		struct frame *next = f->next;

		ips[n++] = f->ip;
		if (next <= f) /* the chain must go up: the least that any walker checks */
			break;
		f = next;
	}
	return n;
}
