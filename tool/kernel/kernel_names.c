/* SPDX-License-Identifier: MIT */
/* Tables of names from the Linux kernel's headers. */
#include "kernel/kernel_names.h"

const char *kernel_ex_type(unsigned type)
{
	static const char *const names[] = {
		"none",           "default",     "fault",        "uaccess",      "copy",
		"clear-fs",       "fpu-restore", "bpf",          "wrmsr",        "rdmsr",
		"wrmsr-safe",     "rdmsr-safe",  "wrmsr-in-mce", "rdmsr-in-mce", "default-mce-safe",
		"fault-mce-safe", "pop-reg",     "imm-reg",      "fault-sgx",    "ucopy-len",
		"zeropad",        "eretu",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

const char *kernel_feature_word(unsigned word)
{
	/* enum cpuid_leafs of asm/cpufeature.h: the words whose meaning no version has changed */
	static const char *const words[] = {
		[0] = "1:edx",         [1] = "80000001:edx",  [2] = "80860001:edx", [3] = "linux",         [4] = "1:ecx",
		[5] = "c0000001:edx",  [6] = "80000001:ecx",  [7] = "linux",        [8] = "linux",         [9] = "7.0:ebx",
		[10] = "d.1:eax",      [13] = "80000008:ebx", [14] = "6:eax",       [15] = "8000000a:edx", [16] = "7.0:ecx",
		[17] = "80000007:ebx", [18] = "7.0:edx",
	};

	return word < sizeof(words) / sizeof(words[0]) ? words[word] : NULL;
}
