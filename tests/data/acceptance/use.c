// SPDX-License-Identifier: MIT
/* Reads and sets the objects of lib.c, from another module. */
#include "lib.h"

#include <stdio.h>

__attribute__((noinline)) static long use_read(void)
{
	return lib_config.level + lib_config.limit * 3 + lib_config.flags[2] + imv_read(lib_verbose) + imv_read(lib_limit);
}

int main(void)
{
	int bad = 0;

	printf("%ld %ld\n", use_read(), lib_read());
	for (int i = 0; i < 4; i++) {
		bad += lib_set(i * 10);
		printf("library set: %ld %ld\n", use_read(), lib_read());
		bad += etch_set(&lib_config.level, -i) || etch_set(&lib_config.limit, 1l << (i * 15)) ||
		       imv_set(lib_verbose, i * i) || imv_set(lib_limit, -i);
		printf("program set: %ld %ld\n", use_read(), lib_read());
	}
	printf("%d sets failed, %ld sites differ\n", bad, etch_verify(NULL, NULL));
	return bad != 0;
}
