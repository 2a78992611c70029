/* SPDX-License-Identifier: MIT */
/* Names of numbers in the Linux kernel's tables. */
#ifndef X86_KERNEL_NAMES_H
#define X86_KERNEL_NAMES_H

#include <stddef.h>

/* Types of __ex_table's entries (arch/x86/include/asm/extable_fixup_types.h), of 5.16
 * and later; null for a number that etch does not know. */
const char *kernel_ex_type(unsigned type);

/*
 * Where bits of a word of CPU features come from: a CPUID leaf, as "7.0:ebx", or "linux"
 * for words that the kernel fills itself. Null: unknown, or another one in another version.
 * A feature's number is word * 32 + bit (arch/x86/include/asm/cpufeatures.h).
 */
const char *kernel_feature_word(unsigned word);

#endif
