/* SPDX-License-Identifier: MIT */
/*
 * How code that GHC generates (for Haskell, and for the Cmm of its run-time system) uses the C stack. Its own frames
 * are on a separate stack; it makes no calls, and returns by jumps. Relative to the C stack all of it is one function:
 * rsp has the value that StgRun has set, except around calls of C.
 */
#ifndef ARCH_X86_GHC_CODE_H
#define ARCH_X86_GHC_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/orc.h>

/*
 * StgRun(code, registers) is called as a C function, saves the callee-saved registers, allocates stack space, and
 * jumps to `code` with `registers` in r13, GHC's BaseReg (GHC: rts/StgCRun.c, MachRegs.h).
 */
#define GHC_RUN_CODE      7u    /* rdi */
#define GHC_RUN_REGISTERS 6u    /* rsi */
#define GHC_BASE          13u   /* r13 */
#define GHC_RESERVED      16384 /* bytes above rsp that the code may use: RESERVED_C_STACK_BYTES, rts/Constants.h */

/*
 * Sets *out to the unwind rule of code that a GHC release has compiled, while rsp still has the value that StgRun gave
 * it. Returns false if the rule of the release is not known. The CFA is rsp + RESERVED_C_STACK_BYTES +
 * STG_RUN_STACK_FRAME_SIZE (48: six saved registers, of which rbp is the second) + 8. This holds for the run-time
 * systems 7.4 to 9.8: 7.4 is the first in which StgRun aligns the stack as C does, and later releases align it to 64
 * bytes and store the old rsp in memory.
 */
bool ghc_convention(unsigned major, unsigned minor, struct etch_rule *out);

/* Does an info table seem to precede `at` (address addr), so that GHC code may start there? The `before` bytes before
 * `at` are readable. The last word of an info table holds the type of the closure or frame, and a reference to the SRT,
 * its static reference table (StgInfoTable, rts/storage/InfoTables.h). */
#define GHC_TABLE_LEAST 16u /* bytes of a table that has only layout and type */
#define GHC_TABLE_MOST  48u
bool ghc_is_entry(const uint8_t *at, uint64_t addr, size_t before);

#endif
