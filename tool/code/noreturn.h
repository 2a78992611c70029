/* SPDX-License-Identifier: MIT */
/* Functions of the C and C++ runtimes that do not return, by name. */
#ifndef CODE_NORETURN_H
#define CODE_NORETURN_H

#include <stdbool.h>

bool noreturn_known(const char *name);

#endif
