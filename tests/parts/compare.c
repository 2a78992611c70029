/* SPDX-License-Identifier: MIT */
/* A plain compare of an immediate value with memory. */
#include <etch/imv.h>

#include "parts/use.h"

DEFINE_IMV(int, v) = 3;

int main(void)
{
	int is = v__imv == 7;

	CHECK(!is && !imv_set(v, 7));
	is = v__imv == 7;
	CHECK(is && imv_read(v) == 7);
	return 0;
}
