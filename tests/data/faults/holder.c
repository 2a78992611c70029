/* SPDX-License-Identifier: MIT */
/* A shared object with libetch.a inside: both handlers, that of faults and that of stray
 * stores (an armed object installs it), in both orders. */
#include <stdint.h>

#include <etch/copy.h>
#include <etch/extable.h>
#include <etch/imv.h>

ETCHED int holder_value = 4;

#ifdef FAULT_FIRST
__attribute__((constructor(101))) static void early(void) { etch_fault_init(); }
#endif

int holder_run(const void *nothing);
int holder_run(const void *nothing)
{
	uint64_t v;
	int err = etch_fault_init();

	if (err)
		return err;
	return etch_set(&holder_value, holder_value + 1) ? 1 : etch_probe_read_64(&v, nothing);
}
