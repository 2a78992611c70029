/* SPDX-License-Identifier: MIT */
/* Names of the kernel's functions, from /proc/kallsyms. */
#ifndef PROFILE_KALLSYMS_H
#define PROFILE_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kallsyms_name {
	uint64_t address;
	uint64_t start;  /* of the function; 0: not known */
	char *name;      /* malloc'd; null: not known */
	char module[60]; /* "[kernel]", or a module's name in brackets */
};

/*
 * Names the addresses of a list, which is sorted by them. Reads the kernel's table once. Where the system hides the
 * addresses (kernel.kptr_restrict), none is known. False: out of memory.
 */
bool kallsyms_find(struct kallsyms_name *list, size_t count);
void kallsyms_free(struct kallsyms_name *list, size_t count);

#endif
