/* SPDX-License-Identifier: MIT */
/* The search of sorted lists. */
#ifndef ELF_SEARCH_H
#define ELF_SEARCH_H

#include <stddef.h>

/*
 * The number of the first of `count` elements that is not in front of what is sought; `count` where all
 * are. in_front: an expression, of element `i`, that is true of some first ones and of no others.
 */
#define SEARCH(count, i, in_front) __extension__({ \
	size_t search_lo = 0, search_hi = (count); \
	while (search_lo < search_hi) { \
		size_t i = search_lo + (search_hi - search_lo) / 2; \
		if (in_front) \
			search_lo = i + 1; \
		else \
			search_hi = i; \
	} \
	search_lo; \
})

#endif
