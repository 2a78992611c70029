/* SPDX-License-Identifier: MIT */
/* The tables that etch knows and their layouts, for tables.c. */
#ifndef KERNEL_LAYOUTS_H
#define KERNEL_LAYOUTS_H

#include "kernel/tables.h"

extern const struct kernel_table_kind kernel_table_kinds[];
extern const size_t kernel_table_kind_count;

#endif
