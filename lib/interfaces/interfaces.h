/* SPDX-License-Identifier: MIT */
/*
 * interfaces.h: what the files of this room share. Each exports functions of another unwinder under that
 * unwinder's names and with its documented contract, all async-signal-safe:
 *
 *     backtrace.c          glibc's backtrace(3), libunwind's unw_backtrace(3)
 *     gcc_context.c        libgcc's _Unwind_Backtrace() and what may be asked of the contexts it hands out
 *     libunwind_cursor.c   libunwind's local cursors
 *     llvm_cursor.c        LLVM's
 *
 * Raising, resuming and forced unwinding are not among them: exceptions stay the runtime's.
 */
#ifndef ETCH_LIB_INTERFACES_INTERFACES_H
#define ETCH_LIB_INTERFACES_INTERFACES_H

#define INTERFACE __attribute__((visibility("default"), noinline))

#endif
