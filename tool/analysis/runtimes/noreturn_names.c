/* SPDX-License-Identifier: MIT */
/* Symbol names of noreturn functions of language runtimes and common libraries. */
#include <stddef.h>

#include "analysis/runtimes/columns.h"

/*
 * Sources: the headers of glibc and libstdc++ (noreturn), the C++ ABI, the runtimes of compilers, glib and OpenSSL.
 * Functions that are only called inside the archives of glibc and libgomp are listed too, since members of these
 * archives are checked.
 */
const char *const noreturn_c[] = {
	"GOMP_PLUGIN_fatal",
	"OPENSSL_die",
	"_Exit",
	"_Unwind_Resume",
	"_ZN10__cxxabiv111__terminateEPFvvE",
	"_ZN9__gnu_cxx26__throw_insufficient_spaceEPKcS1_",
	"_ZNSt10filesystem7__cxx118__detail24__throw_conversion_errorEv",
	"_ZNSt8__format29__failed_to_parse_format_specEv",
	"_ZNSt8__format33__invalid_arg_id_in_format_stringEv",
	"_ZNSt8__format39__conflicting_indexing_in_format_stringEv",
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
	"_ZSt20__throw_format_errorPKc",
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
	"__assert_fail_base",
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
	"__hardcfr_check_fail",
	"__libc_assert_fail",
	"__libc_fatal",
	"__libc_longjmp",
	"__libc_message_impl",
	"__libc_siglongjmp",
	"__libc_start_call_main",
	"__libc_start_main",
	"__longjmp_chk",
	"__morestack_fail",
	"__pthread_unwind",
	"__pthread_unwind_next",
	"__run_exit_handlers",
	"__stack_chk_fail",
	"__stack_chk_fail_local",
	"__syscall_do_cancel",
	"__ubsan_handle_builtin_unreachable",
	"__ubsan_handle_missing_return",
	"_dl_fatal_printf",
	"_dl_reloc_bad_type",
	"_dl_signal_error",
	"_dl_signal_exception",
	"_exit",
	"_longjmp",
	"abort",
	"err",
	"errx",
	"exit",
	"g_assertion_message",
	"g_assertion_message_expr",
	"gomp_fatal",
	"gomp_vfatal",
	"longjmp",
	"pthread_exit",
	"quick_exit",
	"siglongjmp",
	"thrd_exit",
	"verr",
	"verrx",
	NULL,
};

/* Functions after a call of which Go's compiler ends a block (cmd/compile/internal/ssagen). */
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

/* The names that Mono's AOT compiler gives to trampolines for mono_arch_throw_exception() and similar functions
 * (mono/mini/aot-compiler.c). */
const char *const noreturn_mono[] = {
	"plt__jit_icall_mono_arch_rethrow_exception",
	"plt__jit_icall_mono_arch_rethrow_preserve_exception",
	"plt__jit_icall_mono_arch_throw_corlib_exception",
	"plt__jit_icall_mono_arch_throw_exception",
	NULL,
};

/* Source: OCaml's runtime/amd64.S. These functions load rsp from memory and jump elsewhere. */
const char *const noreturn_ocaml[] = {
	"caml_ml_array_bound_error", "caml_raise_exception", "caml_raise_exn", "caml_reraise_exn", NULL,
};
