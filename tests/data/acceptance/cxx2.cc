// SPDX-License-Identifier: MIT
#include "cxx.h"

long second(int n) { return inline_width(n + 1) + scaled(static_cast<long>(n)) + scaled(n); }
