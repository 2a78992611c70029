/* SPDX-License-Identifier: MIT */
/*
 * The stack of code that GHC generates (Haskell, and the Cmm of its run-time system). It keeps its own frames on
 * a stack of its own, makes no calls of itself and returns by jumps. On the C stack it is one function: all of it
 * runs with rsp where StgRun has left it, but around calls of C.
 */
#ifndef X86_HASKELL_H
#define X86_HASKELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/orc.h>

/*
 * StgRun(code, registers), entered as a C function, puts away the registers that belong to its caller, makes
 * room on the stack, and jumps to `code` with `registers` in r13, BaseReg (GHC: rts/StgCRun.c, MachRegs.h).
 */
#define HASKELL_RUN_CODE      7u  /* rdi */
#define HASKELL_RUN_REGISTERS 6u  /* rsi */
#define HASKELL_BASE          13u /* r13 */
#define HASKELL_RESERVED      16384 /* bytes that code may use above rsp: RESERVED_C_STACK_BYTES, rts/Constants.h */

/*
 * The rule, where rsp is as StgRun has left it, of a release of GHC. False: not known to be one that has it. It is
 * RESERVED_C_STACK_BYTES + STG_RUN_STACK_FRAME_SIZE (48: six registers, the second of them rbp) + 8, whichever
 * run-time system a program is linked with, of 7.4 (which aligned the stack as C does) to 9.8; later ones align
 * the stack to 64 bytes in StgRun, and say in memory where it was.
 */
bool haskell_convention(unsigned major, unsigned minor, struct etch_rule *out);

/* May code of GHC begin behind `before` bytes of code, which are in front of `at`: is an info table there? Its
 * last word is the type of the closure or frame, and the SRT (StgInfoTable, rts/storage/InfoTables.h). */
#define HASKELL_TABLE_LEAST 16u /* bytes: with nothing but the layout and the type */
#define HASKELL_TABLE_MOST  48u
bool haskell_is_entry(const uint8_t *at, uint64_t addr, size_t before);

#endif
