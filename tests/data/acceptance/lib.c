// SPDX-License-Identifier: MIT
#include "lib.h"

ETCHED struct lib_config lib_config = {1, 2, {3, 4, 5, 6}};
DEFINE_IMV(int, lib_verbose) = 10;
EXPORT_IMV_SYMBOL(lib_verbose);
DEFINE_IMV(long, lib_limit) = 1l << 40;
EXPORT_IMV_SYMBOL(lib_limit);

long lib_read(void)
{
	return lib_config.level + lib_config.limit * 3 + lib_config.flags[2] + imv_read(lib_verbose) + imv_read(lib_limit);
}

int lib_set(int n)
{
	return etch_set(&lib_config.level, n) || etch_set(&lib_config.flags[2], n + 1) ||
	       imv_set(lib_verbose, n + 2) || imv_set(lib_limit, n + 3);
}
