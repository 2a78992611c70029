/* SPDX-License-Identifier: MIT */
/* What standard output is. */
#ifndef SUPPORT_TERMINAL_H
#define SUPPORT_TERMINAL_H

#include <stdbool.h>

/* Is standard output a terminal that shows colours, and is NO_COLOR unset or empty (no-color.org)? */
bool terminal_has_colours(void);

#endif
