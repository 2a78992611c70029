/* SPDX-License-Identifier: MIT */
/* Functions of language runtimes and common libraries that do not return, by symbol name. */
#ifndef ANALYSIS_FACTS_NORETURN_NAMES_H
#define ANALYSIS_FACTS_NORETURN_NAMES_H

#include <stdbool.h>

/* Is `name` that of such a function? Thread-safe. */
bool noreturn_known(const char *name);

#endif
