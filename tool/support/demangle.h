/* SPDX-License-Identifier: MIT */
/*
 * Names of C++ and Rust functions as people write them: "_Z4workRKSs" is "work(std::string const&)". libiberty
 * demangles them (C++: Itanium C++ ABI 5.1; Rust: RFC 2603, and the older form).
 *
 * A mangled name comes from an untrusted file and may stand for gigabytes of text: a name whose demangled form is
 * longer than DEMANGLED_MOST stays mangled.
 */
#ifndef SUPPORT_DEMANGLE_H
#define SUPPORT_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

#define DEMANGLED_MOST 4096 /* bytes, with the null */

enum demangled {
	DEMANGLED_FULL, /* with parameters: "work(int)" */
	DEMANGLED_NAME, /* without: "work" */
};

/* Demangles one name into out[DEMANGLED_MOST]. Returns false if it is not mangled, or if the result is too long. */
bool demangle(const char *name, enum demangled form, char *out);

/* Sets whether demangled_text() demangles, for the whole process; initially it does not. */
void demangle_set(bool on);
/* Returns the text with each mangled name in it demangled; release it with free(). Returns null if the text has no
 * mangled name, or if demangling is off. */
char *demangled_text(const char *text);

#endif
