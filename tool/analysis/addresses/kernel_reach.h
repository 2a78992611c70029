/* SPDX-License-Identifier: MIT */
/*
 * By which registers at a call the kernel may store to memory: those of calls of the C library and of system calls
 * (kernel_stores.h), and of functions of the file that pass their arguments on to such.
 */
#ifndef ANALYSIS_ADDRESSES_KERNEL_REACH_H
#define ANALYSIS_ADDRESSES_KERNEL_REACH_H

#include "analysis/addresses/function.h"
#include "analysis/addresses/imports.h"

/* What the kernel may do at a call. */
struct kernel_access {
	uint16_t registers; /* it may store where these point to */
	bool in_memory;     /* and by addresses that the program has put into memory */
};

#define KERNEL_REACH_FINAL UINT8_MAX

/* The answers for the functions of a file. Not thread-safe. */
struct kernel_reach {
	const struct imports *imports;
	struct func_list *list;
	uint8_t *known; /* per function: 0 not computed, 1 + depth while it is being computed, KERNEL_REACH_FINAL */
	struct kernel_access *functions;
	unsigned depth;      /* of the recursion over calls */
	unsigned unfinished; /* the lowest depth of a function being computed that the current one has asked for */
	size_t walks_left;   /* over functions, before the rest counts as unknown */
	bool *loaded_known;  /* per function: is `loaded` computed? */
	struct kernel_access *loaded;
};

/* kernel_reach_free() when done. Refers to *imports and *l. */
void kernel_reach_init(struct kernel_reach *r, const struct imports *imports, struct func_list *l);
void kernel_reach_free(struct kernel_reach *r);

/* A constant that a register holds; not known: any value. */
struct known_value {
	bool known;
	int64_t value;
};
/* The function that an instruction stands in. */
struct kernel_caller {
	const struct func *fn;
	const struct func_code *code;
};
/*
 * What the kernel may do at a call, a jump out of the function, or a system call. `bytes`: of the instruction. Where a
 * call or jump is through a register, it may lead to each function of another module whose address is loaded anywhere
 * in the function: compilers load it once for all turns of a loop. `number`, `first`: what is in INSN_SYSCALL_NUMBER
 * and INSN_FIRST_ARGUMENT before it; they may say which system call it is. `follow`: also through functions of the
 * file. r: may be null.
 */
struct kernel_access kernel_reach_at(struct kernel_reach *r, struct kernel_caller from, const struct insn *in,
                                     const uint8_t *bytes, struct known_value number, struct known_value first,
                                     bool follow);
/* Does a function contain a call at which the kernel stores by addresses in memory? */
bool kernel_reach_in_memory(struct kernel_reach *r, const struct func *fn, const struct func_code *code);

#endif
