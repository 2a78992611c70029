/* SPDX-License-Identifier: MIT */
/* Plain compares of immediate values with memory. */
#include <etch/imv.h>

#include "parts/use.h"

DEFINE_IMV(int, v) = 3;
DEFINE_IMV(int, w) = 7;

int main(void)
{
	int is = v__imv == 7;

	CHECK(!is && !imv_set(v, 7));
	is = v__imv == 7;
	CHECK(is && imv_read(v) == 7);
	CHECK(w__imv == 7);
	return 0;
}
