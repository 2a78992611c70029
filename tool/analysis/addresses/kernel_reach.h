/* SPDX-License-Identifier: MIT */
/*
 * Finds the registers at a call through which the kernel may store to memory. Such calls are system calls, calls of C
 * library functions that make them (kernel_stores.h), and calls of functions of the file that pass their arguments on
 * to such calls.
 */
#ifndef ANALYSIS_ADDRESSES_KERNEL_REACH_H
#define ANALYSIS_ADDRESSES_KERNEL_REACH_H

#include "analysis/addresses/function.h"
#include "analysis/addresses/imports.h"

/* What the kernel may do when a call is made. */
struct kernel_access {
	/* Masks of registers: it may store to the memory that `registers` point to, and take addresses to which it stores
	 * from the memory that `vectors` point to, as from an iovec. A system call of an unknown number has no `vectors`.
	 */
	uint16_t registers, vectors;
	bool in_memory; /* it may also store through addresses that the program has written to memory */
};

/* kernel_reach.known of a function whose result is computed. */
#define KERNEL_REACH_FINAL UINT8_MAX

/* The results for the functions of a file. Not thread-safe. */
struct kernel_reach {
	const struct imports *imports;
	struct func_list *list;
	/* Per function: 0 if not computed; 1 + depth while it is being computed; KERNEL_REACH_FINAL if computed. */
	uint8_t *known;
	/* Per function: what the kernel may do when it is called. */
	struct kernel_access *functions;
	unsigned depth;      /* current depth of the recursion over calls */
	unsigned unfinished; /* lowest depth of a function whose unfinished result the current function has used */
	size_t walks_left;   /* how many more times a function may be followed, before functions count as unknown */
	bool *loaded_known;  /* per function: is its element of `loaded` computed? */
	/* Per function: what the kernel may do in functions of other modules whose addresses it loads. */
	struct kernel_access *loaded;
};

/* Prepares *r, which then refers to *imports and *l. kernel_reach_free() frees it. */
void kernel_reach_init(struct kernel_reach *r, const struct imports *imports, struct func_list *l);
void kernel_reach_free(struct kernel_reach *r);

/* The constant that a register holds, if that is known. */
struct known_value {
	bool known;
	int64_t value;
};
/* The function that contains a call. */
struct kernel_caller {
	const struct func *fn;
	const struct func_code *code;
};
/*
 * Returns what the kernel may do at a call, a jump out of the function, or a system call. `bytes` are the bytes of the
 * instruction. If it is a call or jump through a register, it may lead to any function of another module whose address
 * the function loads: compilers load such an address once for all iterations of a loop. `number` and `first` are the
 * values of INSN_SYSCALL_NUMBER and INSN_FIRST_ARGUMENT before the instruction; they may tell which system call it is.
 * With `follow`, called functions of the file are looked into as well. r may be null.
 */
struct kernel_access kernel_reach_at(struct kernel_reach *r, struct kernel_caller from, const struct insn *in,
                                     const uint8_t *bytes, struct known_value number, struct known_value first,
                                     bool follow);
/* Does a function contain a call at which the kernel may store through addresses that are in memory? */
bool kernel_reach_in_memory(struct kernel_reach *r, const struct func *fn, const struct func_code *code);

#endif
