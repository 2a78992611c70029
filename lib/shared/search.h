/* SPDX-License-Identifier: MIT */
/* Binary search in sorted lists, for the tool and the library. It is a macro: the condition stands in the code, so
 * that nothing is called. */
#ifndef SHARED_SEARCH_H
#define SHARED_SEARCH_H

#include <stddef.h>

/* The index of the first of `count` elements for which in_front is false; `count` if there is none. in_front is an
 * expression of the index `i`, true for a prefix of the list and false for the rest. */
#define SEARCH(count, i, in_front) SEARCH_IN(0, count, i, in_front)

/* The index of the first element from `from` up to `to`, without `to`, for which in_front is false; `to` if there is
 * none. */
#define SEARCH_IN(from, to, i, in_front)                        \
	__extension__({                                             \
		size_t search_lo = (from), search_hi = (to);            \
		while (search_lo < search_hi) {                         \
			size_t i = search_lo + (search_hi - search_lo) / 2; \
			if (in_front)                                       \
				search_lo = i + 1;                              \
			else                                                \
				search_hi = i;                                  \
		}                                                       \
		search_lo;                                              \
	})

#endif
