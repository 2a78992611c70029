/* SPDX-License-Identifier: MIT */
/*
 * Where the kernel stores through an address that a program passes to it. On a read-only page such a store is no fault
 * that a handler could see: the system call returns EFAULT. So memory that may be stored to in this way is never
 * protected.
 */
#ifndef ANALYSIS_ADDRESSES_KERNEL_STORES_H
#define ANALYSIS_ADDRESSES_KERNEL_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function of the C library or a system call that lets the kernel store to the program's memory. */
struct kernel_store {
	const char *name;
	int16_t number;    /* number of the system call that takes the same arguments; -1 if there is none */
	uint8_t arguments; /* bit k, from 0: the kernel may store where argument k points to */
	bool in_memory; /* the kernel also stores through addresses that the program has put into memory, as in an iovec */
};

/* Looks up a function of another module by name. Returns null if the kernel does not store for it. */
const struct kernel_store *kernel_store_named(const char *name);
/* Looks up a system call by number, which may be any number. */
const struct kernel_store *kernel_store_numbered(int64_t number);
/* Is it syscall(2), whose first argument is the number of a system call? */
bool kernel_store_is_any(const struct kernel_store *k);

#endif
