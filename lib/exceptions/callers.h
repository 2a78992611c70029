/* SPDX-License-Identifier: MIT */
/*
 * callers.h: whose exceptions reach this library (callers.c).
 */
#ifndef ETCH_LIB_EXCEPTIONS_CALLERS_H
#define ETCH_LIB_EXCEPTIONS_CALLERS_H

#include <stddef.h>

/*
 * Writes to `out`, which has room for `size` bytes, the names of the loaded files whose calls of _Unwind_RaiseException
 * come here, separated by commas and ended by a null byte; names that do not fit are left out whole. Returns how many
 * such files there are. Takes the dynamic linker's lock: not for a signal handler.
 */
unsigned callers_list(char *out, size_t size);

#endif
