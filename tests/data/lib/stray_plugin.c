/* SPDX-License-Identifier: MIT */
/* Reads of the program's cells in another module. */
#include <etch/imv.h>

#include "stray.h"

ETCH_DECLARE(one);
extern struct cells one;

uint32_t plugin_value(unsigned i)
{
	switch (i) {
#define READ(k) \
	case k: return *(volatile uint32_t *)&one.field[k].value;
		EACH(READ)
	default: return 0;
	}
}
