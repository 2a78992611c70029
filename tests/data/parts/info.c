/* SPDX-License-Identifier: MIT */
#include <etch/branch.h>

#include "parts/use.h"

DEFINE_IMV(int, v) = 3;

int main(int argc, char **argv)
{
	struct etch_info info = {.size = sizeof(info)};
	unsigned long armed = is_asked(argc, argv, "immediate");

	CHECK(!imv_set(v, 4) && imv_read(v) == 4 && !etch_verify(NULL, NULL) && !etch_info(&info));
	CHECK(info.modules == 1 && info.sites == armed && info.armed == armed);
	return 0;
}
