/* SPDX-License-Identifier: MIT */
/* Names the kernel's functions, by /proc/kallsyms. */
#ifndef PROFILE_KALLSYMS_H
#define PROFILE_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kallsyms_name {
	uint64_t address;
	uint64_t start;  /* start of the function; 0: not known */
	char *name;      /* malloc'd; null: not known */
	char module[60]; /* "[kernel]", or a module's name in brackets */
};

/* The kernel's table, as text. Reading it takes some 50 ms of the kernel's time. */
struct kallsyms {
	char *text; /* null: not read */
	size_t size;
};

/* Reads the table unless that has been done. Returns false if out of memory. */
bool kallsyms_read(struct kallsyms *k);
/*
 * Names the addresses of a list, which is sorted by address. If the system hides the addresses of symbols
 * (kernel.kptr_restrict), no name is known. Returns false if out of memory.
 */
bool kallsyms_find(const struct kallsyms *k, struct kallsyms_name *list, size_t count);
void kallsyms_free(struct kallsyms_name *list, size_t count);

#endif
