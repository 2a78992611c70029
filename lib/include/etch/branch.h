/* SPDX-License-Identifier: MIT */
/*
 * etch/branch.h: static branches. A condition on an etched variable is one instruction of five bytes and no load: a
 * nop or a jump.
 *
 *     #include <etch/branch.h>
 *
 *     DEFINE_IMV(int, tracing) = 0;
 *
 *     if (imv_unlikely(tracing))           // a nop while tracing is 0
 *             trace(request);
 *     switch (imv_switch(mode)) {          // a nop in mode 0, one jump in the modes 1 to 7
 *     case 0: ...
 *     case 1: ...
 *     }
 *     imv_set(tracing, 1);                 // every branch, while all threads run
 *
 * The variable is an immediate value or any other etched object (etch/imv.h), and everything that etch/imv.h says of
 * sets, threads, signals and arming holds: a branch follows its variable as a site does. Memory holds the value too.
 *
 * UNPROCESSED PROGRAMS. The compiler emits a jump to code that reads the variable, tests it and branches. This code
 * runs in a program that the tool has not seen, while the object is not armed (because it has facts, or after
 * etch_release), and where text cannot be changed; it costs two jumps, a load and a test. If the object is armed from
 * the start, libetch changes the jumps when it loads the module.
 *
 * VARIABLES OF OTHER MODULES. In position-independent code the branch is static only if the variable is known to be
 * in the same module: static, hidden (DECLARE_IMV_LOCAL), or, in a PIE, with gcc, any. For every other variable the
 * compiler emits a load of its address and the code above, and the branch is never static. The variable may be an
 * integer, a bool, an enumeration or a pointer, of 1, 2, 4 or 8 bytes, but not a bit-field.
 *
 * ALIGNMENT. Each branch is placed inside one aligned 8-byte word, with 0 to 4 bytes of padding (1.25 on average), so
 * that one store changes it. If ETCH_BRANCH_PACKED is defined before the first #include, there is no padding, and
 * libetch changes the branches that cross a word by replacing their page.
 */
#ifndef ETCH_BRANCH_H
#define ETCH_BRANCH_H

#include <etch/branch_format.h>
#include <etch/imv.h>

/* if (imv_true(name)): neither way is expected more than the other. Falls through while the value is 0. */
#define imv_true(name) etch_branch(name##__imv)
/* if (imv_unlikely(name)): falls through while the value is 0; the other way is out of line. */
#define imv_unlikely(name) etch_branch_unlikely(name##__imv)
/* if (imv_likely(name)): falls through while the value is not 0; the other way is out of line. */
#define imv_likely(name) etch_branch_likely(name##__imv)
/* switch (imv_switch(name)): the value, of type long, which the compiler knows as a constant on each way. The code
 * falls through at 0, takes one jump at 1 to 7, and loads any other value. */
#define imv_switch(name) etch_branch_switch(name##__imv)

/* Do what the macros imv_true to imv_switch do, for any etched object, or a field of one. */
#define etch_branch(lvalue)          ETCH_BRANCH_(lvalue, "1", 0, ETCH_WARM_)
#define etch_branch_unlikely(lvalue) etch_unlikely(ETCH_BRANCH_(lvalue, "1", 0, ETCH_COLD_))
#define etch_branch_likely(lvalue)   etch_likely(ETCH_BRANCH_(lvalue, "2", 1, ETCH_COLD_))

/* clang++ before 17 takes every label of a function for a target of every asm goto in it, and rejects an asm goto if
 * a label follows the initialization of a variable. There each branch has a function of its own. */
/* clang-format off */
#if defined(__cplusplus) && defined(__clang__)
#define ETCH_GOTO_OPEN_  ([&]() __attribute__((always_inline)) { return __extension__({
#define ETCH_GOTO_CLOSE_ }); }())
#else
#define ETCH_GOTO_OPEN_  (__extension__({
#define ETCH_GOTO_CLOSE_ }))
#endif
/* clang-format on */

#define ETCH_WARM_
#ifdef __clang__ /* clang has no attribute for labels */
#define ETCH_COLD_
#else
#define ETCH_COLD_ __attribute__((cold));
#endif

#ifdef ETCH_BRANCH_PACKED
#define ETCH_BRANCH_ALIGN_ ".globl " ETCH_PART_OBJECTS_SYMBOL "\n" /* the part that swaps pages */
#else
#define ETCH_BRANCH_ALIGN_ ".p2align 3,,4\n"
#endif

/* The jump that the compiler emits, to label operand `load`. */
#define ETCH_BRANCH_JUMP_(load) ETCH_BRANCH_ALIGN_ "771:\t.byte 0xe9\n\t.long " load " - (. + 4)\n\t"
/*
 * A record of the jump. Its reference to the variable is a lea instruction inside the table, because the compiler's
 * operand for the variable, whatever its form, can only be written as part of an instruction. The opcode of the lea
 * tells whether the operand is %rip-relative.
 */
#define ETCH_BRANCH_RECORD_(kind, load, target, value)                    \
	".globl " ETCH_PART_BRANCHES_SYMBOL "\n\t"                            \
	".pushsection " ETCH_SEC_BRANCH ",\"aR?\",@progbits\n\t.balign 4\n\t" \
	".byte %c1, " kind "\n"                                               \
	"772:\t{leal " ETCH_BRANCH_VARIABLE_ "\n\t.org 772b + 6\n\t"          \
	".long 771b - ., " load " - ., " target " - .\n\t.short " value ", 0\n\t.popsection\n\t"

#ifdef __pic__
#define ETCH_BRANCH_VARIABLE_         "%0, %%eax|lea eax, %0}"
#define ETCH_BRANCH_OPERANDS_(lvalue) "m"(lvalue), "i"(sizeof(lvalue))
#else
#define ETCH_BRANCH_VARIABLE_         "%c0(%%rip), %%eax|lea eax, %c0[rip]}"
#define ETCH_BRANCH_OPERANDS_(lvalue) "i"(&(lvalue)), "i"(sizeof(lvalue))
#endif

#ifdef __cplusplus
#define ETCH_BRANCH_READ_(lvalue) (const_cast<const volatile __typeof__(lvalue) &>(lvalue))
#else
#define ETCH_BRANCH_READ_(lvalue) (*(const volatile __typeof__(lvalue) *)&(lvalue))
#endif

#define ETCH_BRANCH_(lvalue, kind, otherwise, attribute)                                                        \
	ETCH_GOTO_OPEN_                                                                                             \
	__label__ etch_load_, etch_jump_, etch_done_;                                                               \
	int etch_b_;                                                                                                \
	(void)sizeof(char[ETCH_SCALAR_SIZE_(lvalue) ? 1 : -1]);                                                     \
	__asm__ goto(ETCH_BRANCH_JUMP_("%l[etch_load_]") ETCH_BRANCH_RECORD_(                                       \
					 kind, "%l[etch_load_]", "%l[etch_jump_]", "0")::ETCH_BRANCH_OPERANDS_(lvalue)::etch_load_, \
	             etch_jump_);                                                                                   \
	etch_b_ = (otherwise);                                                                                      \
	goto etch_done_;                                                                                            \
etch_load_:                                                                                                     \
	ETCH_COLD_                                                                                                  \
	etch_b_ = !!ETCH_BRANCH_READ_(lvalue);                                                                      \
	goto etch_done_;                                                                                            \
etch_jump_:                                                                                                     \
	attribute etch_b_ = !(otherwise);                                                                           \
etch_done_:                                                                                                     \
	etch_b_;                                                                                                    \
	ETCH_GOTO_CLOSE_

/* The jump of imv_switch and its records, one for each value. */
#define ETCH_SWITCH_RECORD_(value) ETCH_BRANCH_RECORD_("3", "%l[etch_load_]", "%l[etch_" value "_]", value)
#define ETCH_SWITCH_CASE_(value)       \
	etch_##value##_ : etch_b_ = value; \
	goto etch_done_;
#define etch_branch_switch(lvalue)                                                                               \
	ETCH_GOTO_OPEN_                                                                                              \
	__label__ etch_load_, etch_1_, etch_2_, etch_3_, etch_4_, etch_5_, etch_6_, etch_7_, etch_done_;             \
	long etch_b_;                                                                                                \
	(void)sizeof(char[ETCH_SCALAR_SIZE_(lvalue) ? 1 : -1]);                                                      \
	__asm__ goto(ETCH_BRANCH_JUMP_("%l[etch_load_]") ETCH_BRANCH_RECORD_("3", "%l[etch_load_]", "771b + 5", "0") \
	                 ETCH_SWITCH_RECORD_("1") ETCH_SWITCH_RECORD_("2") ETCH_SWITCH_RECORD_("3")                  \
	                     ETCH_SWITCH_RECORD_("4") ETCH_SWITCH_RECORD_("5") ETCH_SWITCH_RECORD_("6")              \
	                         ETCH_SWITCH_RECORD_("7")::ETCH_BRANCH_OPERANDS_(lvalue)::etch_load_,                \
	             etch_1_, etch_2_, etch_3_, etch_4_, etch_5_, etch_6_, etch_7_);                                 \
	etch_b_ = 0;                                                                                                 \
	goto etch_done_;                                                                                             \
	ETCH_SWITCH_CASE_(1)                                                                                         \
	ETCH_SWITCH_CASE_(2)                                                                                         \
	ETCH_SWITCH_CASE_(3)                                                                                         \
	ETCH_SWITCH_CASE_(4)                                                                                         \
	ETCH_SWITCH_CASE_(5)                                                                                         \
	ETCH_SWITCH_CASE_(6)                                                                                         \
	ETCH_SWITCH_CASE_(7)                                                                                         \
etch_load_:                                                                                                      \
	ETCH_COLD_                                                                                                   \
	etch_b_ = (long)ETCH_BRANCH_READ_(lvalue);                                                                   \
etch_done_:                                                                                                      \
	etch_b_;                                                                                                     \
	ETCH_GOTO_CLOSE_
#endif
