/* SPDX-License-Identifier: MIT */
/* Sorting many things by address. */
#ifndef CODE_SORT_H
#define CODE_SORT_H

#include <stddef.h>

/*
 * As qsort(). Each element begins with a uint64_t, and what `order` asks first is which of these is less. Addresses
 * of one file lie near together: they are sorted by their digits, and only what has the same is compared.
 */
void sort_by_address(void *list, size_t count, size_t size, int (*order)(const void *, const void *));

#endif
