/* SPDX-License-Identifier: MIT */
/*
 * next.h: the functions that a program would call without this library, for objects that belong to them: contexts of
 * an exception in flight, and cursors that another unwinder has made (next.c).
 */
#ifndef ETCH_LIB_INTERFACES_NEXT_H
#define ETCH_LIB_INTERFACES_NEXT_H

#include <stdint.h>

/* The indices of the functions in the table; the names are in next.c. */
enum next_function {
	NEXT_GET_IP,
	NEXT_GET_IP_INFO,
	NEXT_GET_CFA,
	NEXT_GET_GR,
	NEXT_SET_GR,
	NEXT_SET_IP,
	NEXT_GET_LSDA,
	NEXT_GET_REGION_START,
	NEXT_GET_DATA_BASE,
	NEXT_GET_TEXT_BASE,
	NEXT_FIND_ENCLOSING,
	NEXT_REGISTER_FRAME,
	NEXT_DEREGISTER_FRAME,
	NEXT_REGISTER_FRAME_INFO,
	NEXT_DEREGISTER_FRAME_INFO,
	NEXT_INIT_LOCAL,
	NEXT_INIT_LOCAL2,
	NEXT_STEP,
	NEXT_GET_REG,
	NEXT_SET_REG,
	NEXT_GET_FPREG,
	NEXT_SET_FPREG,
	NEXT_GET_SAVE_LOC,
	NEXT_GET_PROC_INFO,
	NEXT_GET_PROC_NAME,
	NEXT_IS_SIGNAL_FRAME,
	NEXT_RESUME,
	NEXT_APPLY_REG_STATE,
	NEXT_REG_STATES_ITERATE,
	NEXT_COUNT,
};

typedef void next_fn(void);

/* A function, or null if no other library defines it. The functions are looked up before main, and from then on this
 * is async-signal-safe. */
next_fn *next_function(enum next_function which);

/* Is this the address of an instruction of libunwind itself? Its own walks use its own functions. */
int next_is_libunwind(const void *at);

#define NEXT(which, type) ((type)next_function(which))

#endif
