/* SPDX-License-Identifier: MIT */
/* The profile of Linux kernel objects: what their special sections say of their code. */
#ifndef ANALYSIS_RUNTIMES_LINUX_KERNEL_H
#define ANALYSIS_RUNTIMES_LINUX_KERNEL_H

#include "analysis/facts/notes.h"

/* A release: its layouts (arch/x86/include/asm, include/linux/objtool_types.h, tools/objtool/arch/x86) and names. */
struct linux_release {
	const char *name; /* "6.1": what KERNELVERSION begins with */
	const struct profile *profile;
	const char *option_prefix; /* of CONFIG_RETPOLINE and CONFIG_RETHUNK, as warnings name them */
	const char *tail_fentry;   /* warning about a jump to __fentry__ */
	bool nops_fentry;          /* calls of __fentry__ become nops, asked for or not */
	bool typed_rows;           /* .orc_unwind: each row has a type, 0 is UNDEFINED; since 6.4 */
	/* --stackval: one warning of a function, alternatives judged together, copies of all registers followed; weak
	 * functions can be noreturn */
	bool newer_validation;
	/* May a function be called while access to user memory is enabled? */
	bool (*access_safe)(const char *name);
};

/* The first is for objects of which nothing says where they are from. */
#define LINUX_RELEASES 2u
extern const struct linux_release linux_releases[LINUX_RELEASES];

/* linux_names.c: is a global function of this name noreturn; may it be called while access is enabled? */
bool linux_6_1_noreturn(const char *name);
bool linux_6_12_noreturn(const char *name);
bool linux_6_1_access_safe(const char *name);
bool linux_6_12_access_safe(const char *name);

#endif
