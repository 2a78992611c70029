/* SPDX-License-Identifier: MIT */
/* A plugin of walks.c. Compiled with different FRAMEs it is a file of the same layout
 * with other rows: the immediate operands have the same size. */
int plugin_call(int depth, void (*f)(void));

__attribute__((noinline)) int plugin_call(int depth, void (*f)(void))
{
	char local[FRAME];
	int r = 0;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	if (depth)
		r = plugin_call(depth - 1, f);
	else
		f();
	__asm__ __volatile__("" : : : "memory");
	return r + 1;
}
