/* SPDX-License-Identifier: MIT */
/* The ORC arrays of object files (object_orc.h), as a linker has joined them. */
#ifndef TABLE_LINKED_ORC_H
#define TABLE_LINKED_ORC_H

#include "elf/file.h"
#include "support/error.h"

/*
 * Sorts, in f's own bytes, every .orc_unwind_ip and .orc_unwind that the linker has concatenated from object files.
 * Entries of discarded code are moved to the end as UNDEFINED. *rows is the number of rows. Returns 0, or -1 and a
 * message.
 */
int linked_orc_sort(struct elf_file *f, size_t *rows, struct error *e);

#endif
