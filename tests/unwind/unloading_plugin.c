/* SPDX-License-Identifier: MIT */
/* unloading_plugin.c: for unloading.c. */
int call(int (*back)(void));

int call(int (*back)(void))
{
	volatile char room[40];

	room[0] = 0;
	return back() + room[0];
}
