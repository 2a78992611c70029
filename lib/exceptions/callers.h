/* SPDX-License-Identifier: MIT */
/*
 * callers.h: finds out whose exceptions reach this library (callers.c).
 */
#ifndef ETCH_LIB_EXCEPTIONS_CALLERS_H
#define ETCH_LIB_EXCEPTIONS_CALLERS_H

#include <stddef.h>

/*
 * Writes to `out`, which holds `size` bytes, the names of the loaded files whose calls of _Unwind_RaiseException come
 * here, separated by commas and terminated by a null byte; a name that does not fit is left out. Returns the number
 * of such files. Takes the dynamic linker's lock, so it is not for a signal handler.
 */
unsigned callers_list(char *out, size_t size);

#endif
