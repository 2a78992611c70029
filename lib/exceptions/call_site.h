/* SPDX-License-Identifier: MIT */
/*
 * call_site.h: what a personality routine answers for a return address, as far as the language's tables alone decide it
 * (call_site.c). Async-signal-safe.
 */
#ifndef ETCH_LIB_EXCEPTIONS_CALL_SITE_H
#define ETCH_LIB_EXCEPTIONS_CALL_SITE_H

#include <stdint.h>

enum call_site {
	SITE_NONE,          /* no landing pad: it continues in both phases */
	SITE_CLEANUP,       /* it continues in the first phase, and lands in the second with 0 in rdx */
	SITE_TYPES,         /* only handlers for types: as SITE_NONE where none matches */
	SITE_TYPES_CLEANUP, /* ... and a cleanup: as SITE_CLEANUP where none matches */
	SITE_ASK,           /* only the personality routine knows */
};

/* Whose tables they are. */
enum language {
	LANGUAGE_UNKNOWN,
	LANGUAGE_CXX,  /* __gxx_personality_v0 */
	LANGUAGE_C,    /* __gcc_personality_v0: attribute cleanup */
	LANGUAGE_RUST, /* rust_eh_personality */
};

/*
 * The call that ends before `ip`. lsda: the table (gcc/except.cc, output_function_exception_table), 0: none; start: the
 * function's; end: of the module, beyond which nothing is read. *landing: its landing pad.
 */
enum call_site call_site_read(enum language language, uint64_t lsda, uint64_t start, uint64_t ip, uint64_t end,
                              uint64_t *landing);

#endif
