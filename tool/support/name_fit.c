/* SPDX-License-Identifier: MIT */
/* Names as users type them (name_fit.h). */
#include "support/name_fit.h"

#include <stdbool.h>
#include <string.h>

#include "support/demangle.h"

/* Does the name end in "::" and then `inner`? */
static bool is_inner(const char *name, const char *inner)
{
	size_t n = strlen(name), k = strlen(inner);

	return n > k + 2 && !strcmp(name + n - k, inner) && !strncmp(name + n - k - 2, "::", 2);
}

enum fit name_fit(const char *symbol, const char *text)
{
	char full[DEMANGLED_MOST], name[DEMANGLED_MOST] = "";

	if (!demangle(symbol, DEMANGLED_FULL, full))
		return strstr(symbol, text) ? FIT_PART : FIT_NONE;
	if (!strcmp(full, text))
		return FIT_FULL;
	if (demangle(symbol, DEMANGLED_NAME, name) && !strcmp(name, text))
		return FIT_NAME;
	if (is_inner(name, text) || is_inner(full, text))
		return FIT_INNER;
	return strstr(full, text) ? FIT_PART : FIT_NONE;
}
