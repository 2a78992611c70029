/* SPDX-License-Identifier: MIT */
/*
 * etch/pv.h: calls through a struct of function pointers that cost what a direct
 * call costs, or nothing.
 *
 *     #include <etch/pv.h>
 *
 *     PV_NATIVE(native_set_pte, "mov %rsi,(%rdi)");
 *     DEFINE_PV_OPS(struct mmu_ops, mmu) = {
 *             .pte_val = pv_ident_64, .flush = pv_nop, .set_pte = native_set_pte };
 *
 *     v = mmu.pte_val(pte);                // or pv_call(mmu, pte_val, pte)
 *     pv_set(mmu.flush, shadow_flush);     // every site, while all threads run
 *
 *     cc -c app.c && etch rewrite app.o
 *     cc app.o -letch -o app && etch rewrite app
 *
 * The names come from Linux's paravirt_ops. An ops object is an etched object
 * (etch/imv.h): everything said there about sets, threads, signals, arming and
 * read-only pages holds here; etch_set, etch_sync, etch_release, etch_seal and
 * batches work on ops too. Any ETCHED struct with function pointers in it is one:
 * the tool finds the calls by themselves, DEFINE_PV_OPS and pv_call only name them.
 *
 * WHAT A CALL SITE BECOMES, while its slot holds
 *     a function within 2 GiB      a direct call (or jump, where it is a tail call)
 *     pv_nop                       one nop
 *     pv_ident_32, pv_ident_64     one mov from the first argument to the result
 *     a PV_NATIVE function         its instruction, where it is one and fits
 *     a function that the compiler made out of "return;", "return 0;", "return 5;"
 *     or "return argument;"        the same: it is recognized by its code
 *     anything else, or null       the indirect call, as compiled
 * A call runs the function that its slot held before a set or the one after it,
 * whole. When a set has returned, threads may still be inside the old function, and one
 * that had loaded its address into a register may still enter it.
 *
 * PLACES. A site can be changed while threads run if it lies inside one aligned
 * 8-byte word. With gcc this header sees to that for every indirect call of a file
 * that includes it (see ETCH_PV_NO_ALIGN below); for clang say
 *     -mllvm -x86-align-branch-boundary=8 -mllvm -x86-align-branch=indirect+call
 * All other sites keep their indirect call, or take part in an etch_seal.
 */
#ifndef ETCH_PV_H
#define ETCH_PV_H

/*
 * gcc hands its assembler a macro in place of `call`, which puts up to five bytes of
 * padding before an indirect call so that it lies within one word. Define
 * ETCH_PV_NO_ALIGN before the first #include of an etch header where a file's own
 * assembly must not be touched by that, with -masm=intel, or where size matters more.
 * With -flto it reaches the first partition only.
 */
#if defined(__GNUC__) && !defined(__clang__) && !defined(ETCH_PV_NO_ALIGN)
__asm__(".ifndef etch_call_aligned_\n\t"
        ".set etch_call_aligned_, 1\n\t"
        ".macro call etch_target:vararg\n\t"
        ".irpc etch_c, \"\\etch_target\"\n\t"
        ".ifc \\etch_c, *\n\t.p2align 3,,5\n\t.endif\n\t"
        ".exitm\n\t"
        ".endr\n\t"
        "callq \\etch_target\n\t"
        ".endm\n\t"
        ".endif");
#endif

#include <etch/imv.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An ops object: DEFINE_PV_OPS(struct ops, name) = { ... };  static before it is fine. */
#define DEFINE_PV_OPS(type, name) ETCHED __typeof__(type) name
/* For use in other files of the module; in other modules, which link to the one that
 * defines it. */
#define DECLARE_PV_OPS(type, name) \
	ETCH_DECLARE(name);        \
	extern __typeof__(type) name

/* Calls a function of an ops object; the same as (ops).field(arguments). */
#define pv_call(ops, field, ...) ((ops).field(__VA_ARGS__))

/* pv_set(ops.field, function): at all sites, or at none with an etch_error. */
#define pv_set(slot, function) etch_set(&(slot), (function))

/* The bytes of an instruction sequence that may contain semicolons, as a function
 * `name` of external linkage and hidden visibility, and a record in __pv_native.
 * Declare the function yourself, with its type, before use (in C++: extern "C").
 *
 * The sequence is AT&T syntax. It obeys the calling convention (System V psABI 3.2):
 * arguments in %rdi %rsi %rdx %rcx %r8 %r9, result in %rax; it changes no
 * callee-saved register, neither the stack nor its pointer, does not branch, and uses
 * no %rip-relative operand. The tool decodes it and inlines nothing that it could not
 * check: ETCH-P001.
 */
#ifdef __CET__
#define ETCH_PV_ENDBR_ "endbr64\n\t"
#else
#define ETCH_PV_ENDBR_ ""
#endif
#define PV_NATIVE(name, sequence) ETCH_PV_NATIVE_(name, sequence, ".globl " #name "\n\t.hidden " #name "\n\t")
#define ETCH_PV_NATIVE_(name, sequence, binding)                                       \
	__asm__(".pushsection .text." #name ",\"ax\",@progbits\n\t" binding            \
	        ".p2align 4\n\t"                                                       \
	        ".type " #name ", @function\n"                                         \
	        #name ":\n\t"                                                          \
	        ".cfi_startproc\n\t" ETCH_PV_ENDBR_                                    \
	        "771:\n\t" sequence "\n"                                               \
	        "772:\n\tret\n\t"                                                      \
	        ".cfi_endproc\n\t"                                                     \
	        ".size " #name ", . - " #name "\n\t"                                   \
	        ".popsection\n\t"                                                      \
	        ".pushsection " ETCH_SEC_NATIVE ",\"a\",@progbits\n\t"                 \
	        ".balign 4\n\t"                                                        \
	        ".long " #name " - .\n\t.long 771b - .\n\t"                            \
	        ".byte 772b - 771b, 0, 0, 0\n\t"                                       \
	        ".popsection")

/*
 * Functions that do nothing, and that return their first argument: 32 bits (the upper
 * half of the result is zero) or 64. Any function pointer can be initialized with them
 * in C; in C++ too, by a conversion that every compiler does at compile time.
 */
void etch_pv_nop_(void);
unsigned int etch_pv_ident_32_(unsigned int x);
unsigned long etch_pv_ident_64_(unsigned long x);
#ifndef __cplusplus
#define pv_nop      ((void *)etch_pv_nop_)
#define pv_ident_32 ((void *)etch_pv_ident_32_)
#define pv_ident_64 ((void *)etch_pv_ident_64_)
#endif

#ifndef ETCH_NO_MODULE
/* One of each a module. */
ETCH_PV_NATIVE_(etch_pv_nop_, "", ".weak etch_pv_nop_\n\t.hidden etch_pv_nop_\n\t");
ETCH_PV_NATIVE_(etch_pv_ident_32_, "mov %edi, %eax", ".weak etch_pv_ident_32_\n\t.hidden etch_pv_ident_32_\n\t");
ETCH_PV_NATIVE_(etch_pv_ident_64_, "mov %rdi, %rax", ".weak etch_pv_ident_64_\n\t.hidden etch_pv_ident_64_\n\t");
#endif

#ifdef __cplusplus
}
#endif
#endif
