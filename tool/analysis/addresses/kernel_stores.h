/* SPDX-License-Identifier: MIT */
/*
 * Tells where the kernel stores through an address that a program passes to it. If the page there is read-only, such a
 * store causes no fault that a handler could see: the system call returns EFAULT. So memory to which the kernel may
 * store is never made read-only.
 */
#ifndef ANALYSIS_ADDRESSES_KERNEL_STORES_H
#define ANALYSIS_ADDRESSES_KERNEL_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_STORE_ELSEWHERE 0x80u

/* A system call, or a C library function, that lets the kernel store to the program's memory. */
struct kernel_store {
	const char *name;
	int16_t number;    /* number of the system call with the same arguments; -1 if there is none */
	uint8_t arguments; /* bit k, counted from 0: the kernel may store to where argument k points */
	/* Bit k: argument k points to structures, such as an iovec, with further addresses through which the kernel stores.
	 * KERNEL_STORE_ELSEWHERE: it also takes such addresses from memory to which no argument points. */
	uint8_t vectors;
};

/* Looks up a function of another module by name. Returns null if a call of it never makes the kernel store to the
 * program's memory. */
const struct kernel_store *kernel_store_named(const char *name);
/* Looks up a system call by number; any value is allowed. Returns null if it never makes the kernel store to the
 * program's memory. */
const struct kernel_store *kernel_store_numbered(int64_t number);
/* Is it syscall(2), whose first argument is the number of the system call? k may be null. */
bool kernel_store_is_any(const struct kernel_store *k);

#endif
