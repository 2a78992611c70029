/* SPDX-License-Identifier: MIT */
/* The ending of a noun after a number. */
#ifndef SUPPORT_PLURAL_H
#define SUPPORT_PLURAL_H

#include <stdint.h>

static inline const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

#endif
