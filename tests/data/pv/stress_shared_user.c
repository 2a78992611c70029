/* SPDX-License-Identifier: MIT */
/* A library that calls and sets through another one's table. */
#include "pv/stress_shared.h"

CALLERS(user)
