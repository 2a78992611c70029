/* SPDX-License-Identifier: MIT */
/*
 * file_places.h: which file is mapped at a place (file_places.c). Async-signal-safe and thread-safe.
 *
 * After a module has been unloaded, another may be loaded at the same address. So each file at each place has a number.
 * What is remembered about code or data is remembered with that number, and is true as long as place_is() confirms the
 * number.
 */
#ifndef ETCH_LIB_EXCEPTIONS_FILE_PLACES_H
#define ETCH_LIB_EXCEPTIONS_FILE_PLACES_H

#include "unwind/unwind_internal.h"

/* The number of this file at its place; 0 if it has no build-id in its first page, or the list is full. */
uint32_t place_number(const struct prepare_image *im);

/* Is the file with this number, which is not 0, the one that is mapped at the address? The caller knows that the
 * module stays loaded during the call. */
bool place_is(uint32_t number, uint64_t at);

#endif
