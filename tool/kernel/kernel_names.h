/* SPDX-License-Identifier: MIT */
/* Names for numbers in the Linux kernel's tables. */
#ifndef KERNEL_KERNEL_NAMES_H
#define KERNEL_KERNEL_NAMES_H

#include <stddef.h>

/* Returns the name of a type of __ex_table entries (arch/x86/include/asm/extable_fixup_types.h) in 5.16 and later, or
 * null if the type is unknown. */
const char *kernel_ex_type(unsigned type);

/*
 * Returns the source of a word of CPU feature bits: a CPUID leaf such as "7.0:ebx", or "linux" for words that the
 * kernel defines; null if it is unknown or differs between kernel versions. A feature's number is word * 32 + bit
 * (arch/x86/include/asm/cpufeatures.h).
 */
const char *kernel_feature_word(unsigned word);

#endif
