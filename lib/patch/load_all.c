/* SPDX-License-Identifier: MIT */
/* load_all.c: the entry points for modules that do not name the parts of libetch that they need: modules compiled
 * with earlier headers, and Rust's. */
#include "patch/parts.h"

PART_NEEDS(ETCH_PART_OBJECTS_SYMBOL);
PART_NEEDS(ETCH_PART_BRANCHES_SYMBOL);

ETCH_API void etch_module_load_v2(const struct etch_module *desc, const struct etch_bounds *bounds, unsigned count)
{
	etch_module_load_v3(desc, bounds, count);
}

ETCH_API void etch_module_load_v1(const struct etch_module *desc, const void *imv_start, const void *imv_stop,
                                  const void *obj_start, const void *obj_stop, const void *etched_start,
                                  const void *etched_stop, const void *scalar_start, const void *scalar_stop)
{
	module_load(&(struct module_arguments){.desc = desc,
	                                       .imv = bounds_of(imv_start, imv_stop),
	                                       .obj = bounds_of(obj_start, obj_stop),
	                                       .etched = bounds_of(etched_start, etched_stop),
	                                       .scalar = bounds_of(scalar_start, scalar_stop)});
}
