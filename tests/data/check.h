/* SPDX-License-Identifier: MIT */
/* What must hold in a test program: else it says what does not, and ends. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                        \
	do {                                                                               \
		if (!(cond)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

#define CHECK_EQ(got, want)                                                                                    \
	do {                                                                                                   \
		long got_ = (long)(got), want_ = (long)(want);                                                 \
		if (got_ != want_) {                                                                           \
			fprintf(stderr, "%s:%d: %s is %ld, not %ld\n", __FILE__, __LINE__, #got, got_, want_); \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

#endif
