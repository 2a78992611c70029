/* SPDX-License-Identifier: MIT */
/* Sorts long lists of addresses, and lists by address. */
#ifndef SUPPORT_SORT_H
#define SUPPORT_SORT_H

#include <stddef.h>
#include <stdint.h>

/*
 * As qsort(). Each element begins with a uint64_t, which `order` compares first. The addresses of
 * one file are close together: they are radix-sorted by their digits, and `order` is called only
 * for equal addresses.
 */
void sort_by_address(void *list, size_t count, size_t size, int (*order)(const void *, const void *));
/* The same for lists that may well be sorted already. */
void sort_by_address_if_needed(void *list, size_t count, size_t size, int (*order)(const void *, const void *));

/* Sorts words; addresses of one file by their digits. */
void sort_words(uint64_t *list, size_t count);

#endif
