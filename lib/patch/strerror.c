/* SPDX-License-Identifier: MIT */
/* strerror.c: etch_strerror. */
#include "patch/internal.h"

ETCH_API const char *etch_strerror(int error)
{
	switch (error) {
	case ETCH_OK: return "no error";
	case ETCH_EINVAL: return "null pointer, size 0, or a range past the end of its object";
	case ETCH_ENOTETCHED: return "no etched object of a loaded module holds this address";
	case ETCH_EBUSY: return "a site, or a page to be swapped, holds a breakpoint (of a debugger or uprobe)";
	case ETCH_ECODE: return "a site holds bytes that neither etch nor the compiler put there";
	case ETCH_EPERM: return "the system refuses to change the protection of text or data";
	case ETCH_ENOSYNC: return "membarrier cannot synchronize the other threads";
	case ETCH_ENOMEM: return "out of memory for the work list, or out of mappings";
	case ETCH_EFORMAT:
		return "a table of a loaded module is malformed, of another version, or needs what is not linked";
	case ETCH_ETHREADS: return "a sealed site can only be changed while the process has one thread";
	default: return "unknown etch error";
	}
}
