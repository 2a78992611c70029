/* SPDX-License-Identifier: MIT */
/* lib/interfaces: what zoo.cc loads and unloads. */
int plugin_call(int (*f)(int), int n);

int plugin_call(int (*f)(int), int n)
{
	volatile int capacity[8] = {n};

	return n ? plugin_call(f, n - 1) + 1 + capacity[1] : f(capacity[0]);
}
