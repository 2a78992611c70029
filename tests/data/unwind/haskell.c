/* SPDX-License-Identifier: MIT */
/* C around haskell.S: starts its code, and is called by it, and starts it again from there. */
#include <stdio.h>

long run(void (*code)(void), void *registers);
void first(void), work_info(void), called_info(void);
void outside(long *sp);

static long stack[64];
static int depth;

__attribute__((noinline)) static long again(long *sp)
{
	long *registers[1] = {sp};

	return depth < 3 ? run(work_info, registers) : 1;
}

void outside(long *sp)
{
	depth++;
	printf("%d %ld\n", depth, again(sp));
	fflush(stdout);
	depth--;
}

int main(int argc, char **argv)
{
	long *registers[1] = {stack + 64};

	(void)argv;
	if (argc > 1)
		called_info();
	printf("%ld\n", run(first, registers));
	return 0;
}
