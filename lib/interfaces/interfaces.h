/* SPDX-License-Identifier: MIT */
/*
 * interfaces.h: what the files of this folder share. Each file exports functions of another unwinder under that
 * unwinder's names and with its documented contract, all async-signal-safe:
 *
 *     backtrace.c          glibc's backtrace(3), libunwind's unw_backtrace(3)
 *     gcc_context.c        libgcc's _Unwind_Backtrace() and the functions that read the contexts it hands out
 *     libunwind_cursor.c   libunwind's local cursors
 *     llvm_cursor.c        LLVM's local cursors
 *
 * They do not raise or resume exceptions or force unwinding: exceptions stay with the runtime.
 */
#ifndef ETCH_LIB_INTERFACES_INTERFACES_H
#define ETCH_LIB_INTERFACES_INTERFACES_H

#define INTERFACE __attribute__((visibility("default"), noinline))

#endif
