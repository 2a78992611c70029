/* SPDX-License-Identifier: MIT */
/*
 * start.h: whether exceptions are raised here at all, and the libgcc in the process otherwise (start.c).
 */
#ifndef ETCH_LIB_EXCEPTIONS_START_H
#define ETCH_LIB_EXCEPTIONS_START_H

#include <stddef.h>

#include "exceptions/gcc_abi.h"

/* Who handles the exceptions of this process. */
enum exceptions_mode {
	EXCEPTIONS_UNKNOWN, /* exceptions_start() has not run yet */
	EXCEPTIONS_OFF,     /* libgcc handles all exceptions */
	EXCEPTIONS_ON,
	EXCEPTIONS_ABI,   /* every personality routine is asked */
	EXCEPTIONS_CHECK, /* every personality routine is asked, and everything is compared with libgcc's own walk */
};

extern enum exceptions_mode exceptions_mode;

/* Called where the mode is unknown: a constructor of another library may throw before this library's constructor
 * runs. Sets the mode and exceptions_next. */
void exceptions_start(void);

/* The functions that entry_x86.S jumps to when it hands an exception over, in the order of its entries: libgcc's
 * functions of the same names. */
typedef void next_fn(void);
extern next_fn *exceptions_next[3];

/* libgcc's own functions, for the mode that checks; null if they are not found. */
struct gcc_functions {
	uint64_t (*get_ip)(struct gcc_context *);
	uint64_t (*get_cfa)(struct gcc_context *);
	uint64_t (*get_gr)(struct gcc_context *, int);
	void (*set_gr)(struct gcc_context *, int, uint64_t);
	void (*set_ip)(struct gcc_context *, uint64_t);
	uint64_t (*get_lsda)(struct gcc_context *);
	uint64_t (*get_start)(struct gcc_context *);
	uint64_t (*get_ip_info)(struct gcc_context *, int *);
	int (*backtrace)(int (*)(struct gcc_context *, void *), void *);
};
extern struct gcc_functions exceptions_gcc;

/*
 * callers.c: writes to `out`, which holds `size` bytes, the names of the loaded files whose calls of
 * _Unwind_RaiseException come here, separated by commas and terminated by a null byte; a name that does not fit is
 * left out. Returns the number of such files. Takes the dynamic linker's lock, so it is not for a signal handler.
 */
unsigned callers_list(char *out, size_t size);

/* Writes a line to standard error: "libetch-exceptions: " and the words up to a null pointer. */
void exceptions_say(const char *words, ...) __attribute__((sentinel));

#endif
