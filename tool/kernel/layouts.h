/* SPDX-License-Identifier: MIT */
/* The layouts of the kernel's tables (layouts.c), for kernel_tables.c. */
#ifndef KERNEL_LAYOUTS_H
#define KERNEL_LAYOUTS_H

#include "kernel/kernel_tables.h"

extern const struct kernel_table_kind kernel_table_kinds[];
extern const size_t kernel_table_kind_count;

#endif
