/* SPDX-License-Identifier: MIT */
/* Demangles names (demangle.h). */
#include "support/demangle.h"
#include "support/memory.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool enabled;

/* The text that libiberty has printed for one name so far. */
struct output {
	char *text;
	size_t size;
	jmp_buf too_long;
};

/* A demangler can only be stopped by longjmp() out of its callback. Both demanglers work on the stack, so at most the
 * copy of one identifier in Punycode (Rust RFC 2603) leaks. */
static void output_add(const char *text, size_t size, void *opaque)
{
	struct output *o = opaque;

	if (size >= DEMANGLED_MOST - o->size)
		longjmp(o->too_long, 1);
	memcpy(o->text + o->size, text, size);
	o->size += size;
}

static bool is_mangled(const char *name) { return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R'); }

static bool output_name(const char *name, enum demangled form, struct output *o)
{
	int options = form == DEMANGLED_FULL ? DMGL_PARAMS | DMGL_ANSI : 0;

	if (rust_demangle_callback(name, options, output_add, o))
		return true;
	o->size = 0;
	return cplus_demangle_v3_callback(name, options, output_add, o);
}

/* Everything that depends on the arguments is computed in output_name(): longjmp() could clobber a variable that is set
 * here before setjmp() and read after it. */
bool demangle(const char *name, enum demangled form, char *out)
{
	struct output o = {.text = out};

	if (!is_mangled(name) || setjmp(o.too_long))
		return false;
	if (!output_name(name, form, &o))
		return false;
	out[o.size] = 0;
	return o.size != 0;
}

void demangle_set(bool on) { enabled = on; }

/* Is the byte one of a name, including the suffixes of clones as in "_Z4workv.cold"? */
static bool in_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' ||
	       c == '$';
}

char *demangled_text(const char *text)
{
	char *result, *name, *shown;
	size_t size;
	bool any = false;
	FILE *out;

	if (!enabled || !(strstr(text, "_Z") || strstr(text, "_R")))
		return NULL;
	out = mem_stream(&result, &size);
	name = mem_alloc(strlen(text) + 1, 1);
	shown = mem_alloc(DEMANGLED_MOST, 1);
	while (*text) {
		size_t n = 0;

		while (in_name(text[n]))
			n++;
		memcpy(name, text, n);
		name[n] = 0;
		if (n && demangle(name, DEMANGLED_FULL, shown)) {
			fputs(shown, out);
			any = true;
		} else {
			fwrite(text, 1, n ? n : 1, out);
		}
		text += n ? n : 1;
	}
	mem_stream_close(out, &result);
	if (!any) {
		free(result);
		result = NULL;
	}
	free(name);
	free(shown);
	return result;
}
