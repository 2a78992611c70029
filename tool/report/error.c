/* SPDX-License-Identifier: MIT */
#include "report/error.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(struct error *e, const char *format, ...)
{
	va_list ap;
	char *p;

	va_start(ap, format);
	vsnprintf(e->text, sizeof(e->text), format, ap);
	va_end(ap);
	/* A hostile file may put control characters into a name. */
	for (p = e->text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return -1;
}
