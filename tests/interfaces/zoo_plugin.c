/* SPDX-License-Identifier: MIT */
/* lib/interfaces: what zoo.cc loads and unloads. */
int plugin_call(int (*f)(int), int n);

int plugin_call(int (*f)(int), int n)
{
	volatile int room[8] = {n};

	return n ? plugin_call(f, n - 1) + 1 + room[1] : f(room[0]);
}
