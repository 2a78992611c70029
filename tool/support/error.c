/* SPDX-License-Identifier: MIT */
/* Errors as values (error.h). */
#include "support/error.h"
#include "support/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *e, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(e->text, sizeof(e->text), format, ap);
	va_end(ap);
	/* A hostile file may put control characters into a name. */
	plain(e->text);
	return -1;
}

int error_memory(struct error *e) { return error_set(e, NO_MEMORY); }

bool error_is_memory(const struct error *e) { return !strncmp(e->text, NO_MEMORY, strlen(NO_MEMORY)); }
