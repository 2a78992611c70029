/* SPDX-License-Identifier: MIT */
/*
 * Names of C++ and Rust functions as people write them: "_Z4workRKSs" is "work(std::string const&)". Demangled by
 * libiberty (C++: Itanium C++ ABI 5.1; Rust: RFC 2603, and the older form).
 *
 * A mangled name comes from an untrusted file and may stand for gigabytes of text: what is longer than
 * DEMANGLED_MOST stays mangled.
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

/* Demangles one name into out[DEMANGLED_MOST]. False: it is not mangled, or too long. */
bool demangle(const char *name, enum demangled form, char *out);

/* Whether demangled_text() demangles; initially it does not. For the whole process. */
void demangle_set(bool on);
/* The text with each mangled name in it demangled; release with free(). Null: there is none, or demangling is off. */
char *demangled_text(const char *text);

#endif
