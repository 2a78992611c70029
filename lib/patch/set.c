/* SPDX-License-Identifier: MIT */
/* set.c: the sets of any object, whose sites may be anything: with them comes all that changes sites. */
#include "patch/parts.h"

PART_NEEDS(ETCH_PART_OBJECTS_SYMBOL);

ETCH_API int etch_set_batch(const struct etch_change *changes, size_t count) { return set_batch(changes, count); }

ETCH_API int etch_set_bytes(void *object, const void *value, size_t size)
{
	return etch_imv_set_bytes(object, value, size);
}
