/* SPDX-License-Identifier: MIT */
/*
 * call_site.h: what a personality routine answers for a return address, as far as the language's tables alone decide
 * it (call_site.c). Async-signal-safe.
 */
#ifndef ETCH_LIB_EXCEPTIONS_CALL_SITE_H
#define ETCH_LIB_EXCEPTIONS_CALL_SITE_H

#include <stdint.h>

/* What the language's tables say about an exception that comes to a call. */
enum call_site {
	SITE_NONE,    /* no landing pad: the exception continues in both phases */
	SITE_CLEANUP, /* a cleanup: the exception continues in the first phase, and lands in the second with 0 in rdx */
	SITE_TYPES,   /* only handlers for types: if none of them matches, the same as SITE_NONE */
	SITE_TYPES_CLEANUP, /* handlers for types and a cleanup: if no handler matches, the same as SITE_CLEANUP */
	SITE_ASK,           /* only the personality routine knows */
	SITE_DAMAGED,       /* the table is not as a compiler writes it: libgcc handles the exception */
};

/* The language that a table belongs to. */
enum language {
	LANGUAGE_UNKNOWN,
	LANGUAGE_CXX,  /* __gxx_personality_v0 */
	LANGUAGE_C,    /* __gcc_personality_v0: attribute cleanup */
	LANGUAGE_RUST, /* rust_eh_personality */
};

/* A function with its table of handlers (gcc/except.cc, output_function_exception_table). */
struct call_site_table {
	uint64_t at;          /* the table; 0 if there is none */
	uint64_t start, size; /* the function */
	uint64_t end;         /* the end of the module, beyond which nothing is read */
};

/* Reads the entry of the call that ends before `ip`. *landing gets the landing pad. */
enum call_site call_site_read(enum language language, const struct call_site_table *table, uint64_t ip,
                              uint64_t *landing);

#endif
