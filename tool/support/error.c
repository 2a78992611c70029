/* SPDX-License-Identifier: MIT */
/* Errors as values (error.h). */
#include "support/error.h"
#include "support/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_setv(struct error *e, const char *format, va_list args)
{
	vsnprintf(e->text, sizeof(e->text), format, args);
	/* A hostile file may put control characters into a name. */
	plain(e->text);
	return -1;
}

int error_set(struct error *e, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error_setv(e, format, args);
	va_end(args);
	return -1;
}
