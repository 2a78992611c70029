/* SPDX-License-Identifier: MIT */
/*
 * etch/pv.h: calls through a struct of function pointers that cost as much as a direct call, or nothing.
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
 * The names come from Linux's paravirt_ops. An ops object is an etched object (etch/imv.h): what that header says
 * about sets, threads, signals, arming and read-only pages applies; etch_set, etch_sync, etch_release, etch_seal and
 * batches work on ops objects too. Any ETCHED struct that contains function pointers is an ops object: the tool finds
 * the calls without help, and DEFINE_PV_OPS and pv_call only name them.
 *
 * WHAT A CALL SITE BECOMES, while its slot holds
 *     a function within 2 GiB      a direct call (or jump, for a tail call)
 *     pv_nop                       one nop
 *     pv_ident_32, pv_ident_64     one mov from the first argument to the result
 *     a PV_NATIVE function         its instruction, if it is a single one that fits
 *     a function that compiled to "return;", "return 0;", "return 5;"
 *     or "return argument;"        the same: such a function is recognized by its code
 *     anything else, or null       the indirect call, as compiled
 * A call runs, as a whole, either the function that its slot held before a set or the one after it. After a set has
 * returned, threads may still be inside the old function, and a thread that had loaded its address into a register
 * may still enter it.
 *
 * ALIGNMENT. A site inside one aligned 8-byte word is changed by one store; any other is changed with its page, which
 * takes longer. With gcc this header aligns every indirect call and tail jump of a file that includes it (see
 * ETCH_PV_NO_ALIGN below); for clang pass
 *     -mllvm -x86-align-branch-boundary=8 -mllvm -x86-align-branch=indirect+call
 *
 * LENGTH. A call of fewer than 5 bytes is too short for a direct call, and stays indirect. gcc 15 and later write
 * such calls unless -fno-gcse -fno-move-loop-invariants are given; gcc 16 also needs
 * -fno-speculatively-call-stored-functions.
 */
#ifndef ETCH_PV_H
#define ETCH_PV_H

/*
 * For gcc, assembler macros replace `call` and `jmp`. They assemble their operands
 * unchanged, and put nops before an indirect call or jump that would cross the end of an
 * aligned 8-byte word; a bundle of the assembler, which knows the length, does the alignment.
 * Direct calls and jumps are not padded, nor is an instruction with a prefix of its own
 * (notrack jmp: the jump tables of a switch).
 *
 *  - Include this header before any function: gcc -O0 writes functions and
 *    top-level assembly in source order.
 *  - A label that inline assembly puts before an indirect call is the address of
 *    the nops. If that or code size matters, or the assembler is not GNU as, define
 *    ETCH_PV_NO_ALIGN before the first #include of this header.
 *  - With -flto top-level assembly is part of the first partition only: link with
 *    -flto-partition=one. With clang -flto, pass the options above to the linker:
 *    -Wl,-mllvm,-x86-align-branch-boundary=8,-mllvm,-x86-align-branch=indirect+call
 *    The object step sees no code in such a file; the link step does all the work.
 *  - With -masm=intel calls through a register are not aligned.
 *  - As of binutils 2.44 inline assembly cannot put a pseudo-prefix ({disp32}) before a call or jmp: "pseudo prefix
 *    without instruction". Write its bytes, or define ETCH_PV_NO_ALIGN.
 */
#if defined(__GNUC__) && !defined(__clang__) && !defined(ETCH_PV_NO_ALIGN)
/* The macro removes itself for the one line that assembles the instruction, and a second macro defines it anew after
 * that line. Neither of two simpler ways works: as of binutils 2.44, a pseudo-prefix such as {load} no longer keeps a
 * macro from expanding itself, and a mnemonic with a suffix (jmpq) takes no direct target. The alignment is exact for
 * the usual six bytes, so that one long nop is assembled instead of up to five. */
#define ETCH_PV_ALIGN_(instruction)                           \
	".macro etch_define_" instruction "_\n\t"                 \
	".macro " instruction " etch_t:vararg\n\t"                \
	".irpc etch_c,\\etch_t\n\t"                               \
	".ifc \\etch_c,*\n\t"                                     \
	".p2align 3,,5\n\t"                                       \
	".bundle_align_mode 3\n\t"                                \
	".endif\n\t"                                              \
	".ifc \\etch_c,[\n\t"                                     \
	".p2align 3,,5\n\t"                                       \
	".bundle_align_mode 3\n\t"                                \
	".endif\n\t"                                              \
	".exitm\n\t"                                              \
	".endr\n\t"                                               \
	".purgem " instruction "\n\t" instruction " \\etch_t\n\t" \
	".bundle_align_mode 0\n\t"                                \
	"etch_define_" instruction "_\n\t"                        \
	".endm\n\t"                                               \
	".endm\n\t"                                               \
	"etch_define_" instruction "_\n\t"
__asm__(".ifndef .Letch_aligned\n\t"
        ".set .Letch_aligned, 1\n\t" ETCH_PV_ALIGN_("call") ETCH_PV_ALIGN_("jmp") ".endif");
#undef ETCH_PV_ALIGN_
#endif

#include <etch/imv.h>

__asm__(".globl " ETCH_PART_OBJECTS_SYMBOL); /* the part for calls, which libetch's core does not handle */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * DEFINE_PV_OPS(struct ops, name) = { ... }; defines an ops object. `static` before it,
 * namespaces, static members of classes and of functions, and const members are allowed; a type
 * that contains a comma needs a typedef. To export an ops object from a library compiled with
 * -fvisibility=hidden, write __attribute__((visibility("default"))) before it.
 * Not for static members of templates and inline variables: gcc 12 ignores the section attribute
 * there (clang does not).
 */
#define DEFINE_PV_OPS(type, name) ETCHED __typeof__(type) name
/*
 * DECLARE_PV_OPS(struct ops, name);        for use in other files and modules
 * DECLARE_PV_OPS_LOCAL(struct ops, name);  for use in other files of the same module,
 *                                          if it is not exported: -fPIC code then needs
 *                                          no GOT, and the link step can bake
 * In C++ use both outside of namespaces.
 */
#define DECLARE_PV_OPS(type, name) \
	ETCH_DECLARE(name);            \
	extern __typeof__(type) name
#define DECLARE_PV_OPS_LOCAL(type, name) \
	ETCH_DECLARE(name);                  \
	extern __typeof__(type) name __attribute__((visibility("hidden")))

/* pv_call(ops, field, arguments...): (ops).field(arguments...), with 0 to 16 arguments. */
#define pv_call(...)                                                                ETCH_PV_PICK_(__VA_ARGS__, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, 0, 0, 0)(__VA_ARGS__)
#define ETCH_PV_PICK_(o, f, a, b, c, d, e, g, h, i, j, k, l, m, n, p, q, r, N, ...) ETCH_PV_CALL_##N##_
#define ETCH_PV_CALL_0_(ops, field)                                                 ((ops).field())
#define ETCH_PV_CALL_N_(ops, field, ...)                                            ((ops).field(__VA_ARGS__))

/*
 * pv_call_inline(ops, field, function, expression, arguments...): does what pv_call does, with the case of one
 * function compiled in place: while ops.field is `function`, the expression is evaluated at the cost of one nop.
 *
 *     #define pte_val(pte)   pv_call_inline(mmu, pte_val, pv_ident_64, (pte), (pte))
 *     #define set_pte(p, v)  pv_call_inline(mmu, set_pte, native_set_pte, (void)(*(p) = (v)), (p), (v))
 *     #define flush()        pv_call_inline(mmu, flush, pv_nop, (void)0)
 *
 * The expression must have the effect of the function and the type of the call. It is meant for calls so frequent
 * that argument moves and the call-clobbered registers matter. The compiler emits one jump of seven bytes, inside one
 * aligned word, to the indirect call, and an entry of __pv_inline; in an unprocessed file that jump is taken. In
 * position-independent code the ops object and the function must be static, hidden, or defined in the file (otherwise
 * the compiler reports an asm operand that does not match). clang++ -O0 accepts functions only, not pv_nop and
 * pv_ident.
 */
#ifdef __clang__
#define ETCH_PV_COLD_
#else
#define ETCH_PV_COLD_ __attribute__((cold));
#endif
#define pv_call_inline(ops, field, function, expression, ...)                                               \
	(__extension__({                                                                                        \
		__label__ etch_call_, etch_done_;                                                                   \
		int etch_i_;                                                                                        \
		__asm__ goto(".p2align 3,,6\n"                                                                      \
		             "771:\t.byte 0x3e, 0x2e, 0xe9\n\t.long %l[etch_call_] - (. + 4)\n\t"                   \
		             ".pushsection " ETCH_SEC_INLINE ",\"aR?\",@progbits\n\t.balign 4\n\t"                  \
		             ".long 771b - .\n\t.long %c0 - .\n\t.long %c1 - .\n\t.popsection" ::"i"(&(ops).field), \
		             "i"((__typeof__((ops).field))(function))::etch_call_);                                 \
		etch_i_ = 1;                                                                                        \
		goto etch_done_;                                                                                    \
etch_call_:                                                                                                 \
		ETCH_PV_COLD_                                                                                       \
		etch_i_ = 0;                                                                                        \
etch_done_:                                                                                                 \
		__builtin_expect(etch_i_, 1);                                                                       \
	})                                                                                                      \
	     ? (expression)                                                                                     \
	     : pv_call(ops, field, ##__VA_ARGS__))

/* pv_set(ops.field, function): sets the pointer and all its sites. Returns 0, or an etch_error, and then nothing has
 * changed. */
#define pv_set(slot, function) etch_set(&(slot), (function))

/*
 * PV_NATIVE(name, "instructions"): defines a function of these instructions, with external linkage
 * and hidden visibility, that may be inlined at the sites that call it. At file scope, in one file;
 * declare it, with its type, before use (C++: extern "C").
 *
 * AT&T syntax (Intel's with gcc -masm=intel). The macro adds the ret. The sequence obeys the
 * calling convention (System V psABI 3.2): arguments in %rdi %rsi %rdx %rcx %r8 %r9, result in
 * %rax; it changes no callee-saved register, neither the stack nor %rsp, has no branch and no
 * %rip-relative operand. The tool decodes it and does not inline a sequence that it cannot check
 * (ETCH-P001), nor one longer than 15 bytes or than the site: such a function is called.
 */
#define PV_NATIVE(name, sequence)                                        \
	__asm__(".globl " #name "\n\t.hidden " #name "\n\t" ETCH_PV_NATIVE_( \
		#name, sequence, ".text." #name ",\"ax\",@progbits", ETCH_SEC_NATIVE ",\"a\",@progbits"))
#if defined(__CET__) && (__CET__ & 1)
#define ETCH_PV_ENDBR_ "endbr64\n\t"
#else
#define ETCH_PV_ENDBR_ ""
#endif
/* A length above 255 is written as 255. A true comparison is -1 in the assembler. */
#define ETCH_PV_NATIVE_(name, sequence, text, native)                  \
	".pushsection " text "\n\t"                                        \
	".p2align 4\n\t"                                                   \
	".type " name ", @function\n" name ":\n\t"                         \
	".cfi_startproc\n\t" ETCH_PV_ENDBR_ "771:\n\t" sequence "\n"       \
	"772:\n\tret\n\t"                                                  \
	".cfi_endproc\n\t"                                                 \
	".size " name ", . - " name "\n\t"                                 \
	".popsection\n\t"                                                  \
	".pushsection " native "\n\t"                                      \
	".balign 4\n\t"                                                    \
	".long " name " - .\n\t.long 771b - .\n\t"                         \
	".byte ((772b - 771b) | ((772b - 771b) > 255)) & 255, 0, 0, 0\n\t" \
	".popsection"

/*
 * pv_nop, pv_ident_32, pv_ident_64: functions that do nothing, or return their first argument: 32
 * bits (the upper half of the result is zero) or 64. They convert to every type of function
 * pointer; a pv_nop whose type has a result returns an undefined value. ISO C has no such type, so
 * with -Wpedantic, in C, write `__extension__` before the DEFINE_PV_OPS that uses them. In C++
 * initializing with them is static, at every level of optimization; g++ makes one function per
 * function type.
 */
#ifndef __cplusplus
#define pv_nop      (__extension__(void *) etch_pv_nop_)
#define pv_ident_32 (__extension__(void *) etch_pv_ident_32_)
#define pv_ident_64 (__extension__(void *) etch_pv_ident_64_)

extern void etch_pv_nop_(void) __attribute__((visibility("hidden")));
extern unsigned int etch_pv_ident_32_(unsigned int x) __attribute__((visibility("hidden")));
extern unsigned long etch_pv_ident_64_(unsigned long x) __attribute__((visibility("hidden")));
#endif

#if !defined(ETCH_NO_MODULE) && (!defined(__cplusplus) || defined(__clang__))
/* COMDAT: one of each per module. With -flto, several files may end up in one assembly file. */
#define ETCH_PV_COMMON_(name, sequence)                                                                \
	__asm__(".ifndef " name "\n\t.weak " name "\n\t.hidden " name                                      \
	        "\n\t" ETCH_PV_NATIVE_(name, sequence, ".text." name ",\"axG\",@progbits," name ",comdat", \
	                               ETCH_SEC_NATIVE ",\"aG\",@progbits," name ",comdat") "\n\t.endif")
ETCH_PV_COMMON_("etch_pv_nop_", "");
ETCH_PV_COMMON_("etch_pv_ident_32_", ".byte 0x89, 0xf8");       /* mov %edi,%eax */
ETCH_PV_COMMON_("etch_pv_ident_64_", ".byte 0x48, 0x89, 0xf8"); /* mov %rdi,%rax */
#undef ETCH_PV_COMMON_
#endif

#ifdef __cplusplus
}

extern "C++" {
#ifdef __clang__
/* With clang, a declaration for each function type refers to the symbol of one of the functions above. */
#define ETCH_PV_BODY_(function, code) __asm__(function)
#define ETCH_PV_NAKED_
#else
/* gcc cannot name a template's function in assembly. A naked function consists of its assembly alone, which etch
 * recognizes by its bytes, provided that gcc is told not to add anything: at -O0 gcc saves the registers of a
 * variadic function. */
#define ETCH_PV_BODY_(function, code) \
	{                                 \
		__asm__(code);                \
	}
#define ETCH_PV_NAKED_                                            \
	__attribute__((naked, optimize("O1"), no_instrument_function, \
	               patchable_function_entry(0, 0) ETCH_PV_NAKED_11_ ETCH_PV_NAKED_12_))
#if __GNUC__ >= 11
#define ETCH_PV_NAKED_11_ , no_stack_protector, no_profile_instrument_function
#else
#define ETCH_PV_NAKED_11_
#endif
#if __GNUC__ >= 12
#define ETCH_PV_NAKED_12_ , no_sanitize_coverage
#else
#define ETCH_PV_NAKED_12_
#endif
#endif
/* A conversion to one kind of function pointer. The function is hidden: it certainly belongs to this module. */
#define ETCH_PV_TO_(kind, function, code, except, ...)                                  \
	template <class R, class... A> struct __attribute__((visibility("hidden"))) kind {  \
		ETCH_PV_NAKED_ static R call(__VA_ARGS__) except ETCH_PV_BODY_(function, code); \
	};                                                                                  \
	template <class R, class... A> using kind##_pointer = R (*)(__VA_ARGS__) except;    \
	template <class R, class... A> constexpr operator kind##_pointer<R, A...>() const { return kind<R, A...>::call; }
#ifdef __cpp_noexcept_function_type
#define ETCH_PV_TO_NOEXCEPT_(function, code)           \
	ETCH_PV_TO_(quiet, function, code, noexcept, A...) \
	ETCH_PV_TO_(quiet_variadic, function, code, noexcept, A..., ...)
#else
#define ETCH_PV_TO_NOEXCEPT_(function, code)
#endif
#define ETCH_PV_FUNCTION_(name, code)                   \
	struct name {                                       \
		ETCH_PV_TO_(plain, #name, code, , A...)         \
		ETCH_PV_TO_(variadic, #name, code, , A..., ...) \
		ETCH_PV_TO_NOEXCEPT_(#name, code)               \
	}
ETCH_PV_FUNCTION_(etch_pv_nop_, "ret");
ETCH_PV_FUNCTION_(etch_pv_ident_32_, ".byte 0x89, 0xf8\n\tret");
ETCH_PV_FUNCTION_(etch_pv_ident_64_, ".byte 0x48, 0x89, 0xf8\n\tret");
#undef ETCH_PV_FUNCTION_
#undef ETCH_PV_TO_NOEXCEPT_
#undef ETCH_PV_TO_
#undef ETCH_PV_BODY_
#undef ETCH_PV_NAKED_
#ifndef __clang__
#undef ETCH_PV_NAKED_11_
#undef ETCH_PV_NAKED_12_
#endif
}
#define pv_nop      (etch_pv_nop_())
#define pv_ident_32 (etch_pv_ident_32_())
#define pv_ident_64 (etch_pv_ident_64_())
#endif
#endif
