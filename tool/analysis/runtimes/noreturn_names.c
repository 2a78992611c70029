/* SPDX-License-Identifier: MIT */
/* Functions of language runtimes and common libraries that do not return, by symbol name. */
#include <stddef.h>

#include "analysis/runtimes/columns.h"

/* The headers of glibc and libstdc++ (noreturn), the C++ ABI, the compilers' runtimes, glib and OpenSSL. */
const char *const noreturn_c[] = {
	"OPENSSL_die",
	"_Exit",
	"_Unwind_Resume",
	"_ZSt10unexpectedv",
	"_ZSt16__throw_bad_castv",
	"_ZSt17__throw_bad_allocv",
	"_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
	"_ZSt18__throw_bad_typeidv",
	"_ZSt19__throw_ios_failurePKc",
	"_ZSt19__throw_ios_failurePKci",
	"_ZSt19__throw_logic_errorPKc",
	"_ZSt19__throw_range_errorPKc",
	"_ZSt19__throw_regex_errorNSt15regex_constants10error_typeE",
	"_ZSt20__throw_domain_errorPKc",
	"_ZSt20__throw_future_errori",
	"_ZSt20__throw_length_errorPKc",
	"_ZSt20__throw_out_of_rangePKc",
	"_ZSt20__throw_system_errori",
	"_ZSt21__glibcxx_assert_failPKciS0_S0_",
	"_ZSt21__throw_bad_exceptionv",
	"_ZSt21__throw_runtime_errorPKc",
	"_ZSt22__throw_overflow_errorPKc",
	"_ZSt23__throw_underflow_errorPKc",
	"_ZSt24__throw_invalid_argumentPKc",
	"_ZSt24__throw_out_of_range_fmtPKcz",
	"_ZSt25__throw_bad_function_callv",
	"_ZSt28__throw_bad_array_new_lengthv",
	"_ZSt9terminatev",
	"__assert",
	"__assert_fail",
	"__assert_perror_fail",
	"__chk_fail",
	"__cxa_bad_cast",
	"__cxa_bad_typeid",
	"__cxa_call_unexpected",
	"__cxa_deleted_virtual",
	"__cxa_pure_virtual",
	"__cxa_rethrow",
	"__cxa_throw",
	"__cxa_throw_bad_array_new_length",
	"__fortify_fail",
	"__libc_fatal",
	"__libc_start_call_main",
	"__libc_start_main",
	"__longjmp_chk",
	"__stack_chk_fail",
	"__stack_chk_fail_local",
	"__ubsan_handle_builtin_unreachable",
	"__ubsan_handle_missing_return",
	"_dl_fatal_printf",
	"_exit",
	"_longjmp",
	"abort",
	"err",
	"errx",
	"exit",
	"g_assertion_message",
	"g_assertion_message_expr",
	"longjmp",
	"pthread_exit",
	"quick_exit",
	"siglongjmp",
	"thrd_exit",
	"verr",
	"verrx",
	NULL,
};

/* Functions after whose call Go's compiler ends a block (cmd/compile/internal/ssagen). */
const char *const noreturn_go[] = {
	"runtime.block",
	"runtime.gopanic",
	"runtime.panicmakeslicecap",
	"runtime.panicmakeslicelen",
	"runtime.panicunsafeslicelen",
	"runtime.panicunsafeslicenilptr",
	"runtime.panicunsafestringlen",
	"runtime.panicunsafestringnilptr",
	"runtime.panicwrap",
	"runtime.throw",
	"runtime.throwinit",
	NULL,
};

/* The names that Mono's AOT compiler gives to trampolines of mono_arch_throw_exception() and similar
 * (mono/mini/aot-compiler.c). */
const char *const noreturn_mono[] = {
	"plt__jit_icall_mono_arch_rethrow_exception",
	"plt__jit_icall_mono_arch_rethrow_preserve_exception",
	"plt__jit_icall_mono_arch_throw_corlib_exception",
	"plt__jit_icall_mono_arch_throw_exception",
	NULL,
};

/* OCaml's runtime/amd64.S, where they load rsp from memory and leave. */
const char *const noreturn_ocaml[] = {
	"caml_ml_array_bound_error", "caml_raise_exception", "caml_raise_exn", "caml_reraise_exn", NULL,
};
