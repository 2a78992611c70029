/* SPDX-License-Identifier: MIT */
/*
 * Finds the registers at a call through which the kernel may store to memory: at calls of the C library, at system
 * calls (kernel_stores.h), and at calls of functions of the file that pass their arguments on to such calls.
 */
#ifndef ANALYSIS_ADDRESSES_KERNEL_REACH_H
#define ANALYSIS_ADDRESSES_KERNEL_REACH_H

#include "analysis/addresses/function.h"
#include "analysis/addresses/imports.h"

/* What the kernel may do at a call. */
struct kernel_access {
	uint16_t registers; /* it may store where these point to */
	bool in_memory;     /* it may also store through addresses that the program has put into memory */
};

#define KERNEL_REACH_FINAL UINT8_MAX

/* The answers for the functions of a file. Not thread-safe. */
struct kernel_reach {
	const struct imports *imports;
	struct func_list *list;
	uint8_t *known; /* per function: 0 not computed, 1 + depth while being computed, KERNEL_REACH_FINAL */
	struct kernel_access *functions;
	unsigned depth;      /* of the recursion over calls */
	unsigned unfinished; /* the lowest depth of a function being computed whose result the current one has used */
	size_t walks_left;   /* walks over functions that are left, before the other functions count as unknown */
	bool *loaded_known;  /* per function: is `loaded` computed? */
	struct kernel_access *loaded;
};

/* The struct refers to *imports and *l. kernel_reach_free() frees it. */
void kernel_reach_init(struct kernel_reach *r, const struct imports *imports, struct func_list *l);
void kernel_reach_free(struct kernel_reach *r);

/* The constant that a register holds, if it is known. */
struct known_value {
	bool known;
	int64_t value;
};
/* The function that contains an instruction. */
struct kernel_caller {
	const struct func *fn;
	const struct func_code *code;
};
/*
 * Returns what the kernel may do at a call, a jump out of the function, or a system call. `bytes` are those of the
 * instruction. A call or jump through a register may lead to each function of another module whose address is loaded
 * anywhere in the function: compilers load it once for all iterations of a loop. `number` and `first` are what
 * INSN_SYSCALL_NUMBER and INSN_FIRST_ARGUMENT hold before the instruction; they may say which system call it is.
 * `follow` asks to look into functions of the file as well. r may be null.
 */
struct kernel_access kernel_reach_at(struct kernel_reach *r, struct kernel_caller from, const struct insn *in,
                                     const uint8_t *bytes, struct known_value number, struct known_value first,
                                     bool follow);
/* Does a function contain a call at which the kernel stores through addresses in memory? */
bool kernel_reach_in_memory(struct kernel_reach *r, const struct func *fn, const struct func_code *code);

#endif
