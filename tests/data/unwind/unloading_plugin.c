/* SPDX-License-Identifier: MIT */
/* unloading_plugin.c: for unloading.c. FRAME: two plugins that differ in it alone have the same headers. */
#ifndef FRAME
#define FRAME 400
#endif

int call(int (*back)(void));

int call(int (*back)(void))
{
	volatile char capacity[FRAME];

	capacity[0] = 0;
	return back() + capacity[0];
}
