/* SPDX-License-Identifier: MIT */
/* The profile of Linux kernel objects: what their special sections say of their code. */
#ifndef ANALYSIS_RUNTIMES_LINUX_KERNEL_H
#define ANALYSIS_RUNTIMES_LINUX_KERNEL_H

#include "analysis/facts/notes.h"

/* Layouts are those of Linux 6.1 (arch/x86/include/asm, include/linux/objtool.h, tools/objtool/arch/x86). */
extern const struct profile linux_profile;

/* May a function be called while access to user memory is enabled? */
bool linux_access_safe(const char *name);
/* Is a global function of this name noreturn? */
bool linux_noreturn(const char *name);

#endif
