/* SPDX-License-Identifier: MIT */
#include <etch/extable.h>
#include <etch/copy.h>

#include "parts/use.h"

int main(void)
{
	char to[8] = "", from[8] = "1234567";

	CHECK(!etch_fault_init());
	CHECK(!etch_copy_from(to, from, sizeof(to)) && !strcmp(to, from));
	CHECK(etch_copy_from(to, (const void *)8, sizeof(to)) == sizeof(to));
	return 0;
}
