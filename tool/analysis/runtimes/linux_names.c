/* SPDX-License-Identifier: MIT */
/* Functions of Linux that are known by name; tools/objtool lists them too. */
#include "analysis/runtimes/linux_kernel.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Lists are sorted by strcmp(). */

/* Global functions declared __noreturn: in both releases, in one. */
static const char *const noreturn[] = {
	"__module_put_and_kthread_exit",
	"__reiserfs_panic",
	"__stack_chk_fail",
	"__ubsan_handle_builtin_unreachable",
	"cpu_bringup_and_idle",
	"cpu_startup_entry",
	"do_exit",
	"do_group_exit",
	"do_task_dead",
	"ex_handler_msr_mce",
	"kthread_complete_and_exit",
	"kthread_exit",
	"kunit_try_catch_throw",
	"machine_real_restart",
	"make_task_dead",
	"panic",
	"rewind_stack_and_make_dead",
	"sev_es_terminate",
	"snp_abort",
	"stop_this_cpu",
	"usercopy_abort",
	"xen_start_kernel",
};
static const char *const noreturn_6_1[] = {
	"__invalid_creds",
	"fortify_panic",
	"lbug_with_loc",
};
static const char *const noreturn_6_12[] = {
	"__fortify_panic",
	"__ia32_sys_exit",
	"__ia32_sys_exit_group",
	"__kunit_abort",
	"__tdx_hypercall_failed",
	"__x64_sys_exit",
	"__x64_sys_exit_group",
	"arch_cpu_idle_dead",
	"bch2_trans_in_restart_error",
	"bch2_trans_restart_error",
	"bch2_trans_unlocked_error",
	"hlt_play_dead",
	"hv_ghcb_terminate",
	"mpt_halt_firmware",
	"nmi_panic_self_stop",
	"panic_smp_self_stop",
	"rest_init",
	"rust_begin_unwind",
	"rust_helper_BUG",
	"start_kernel",
	"x86_64_start_kernel",
	"x86_64_start_reservations",
	"xen_cpu_bringup_again",
};

/* What may be called while access to user memory is enabled: what compilers' instrumentation calls, and copies from and
 * to user memory. */
static const char *const access_safe[] = {
	"__asan_load16_noabort",
	"__asan_load1_noabort",
	"__asan_load2_noabort",
	"__asan_load4_noabort",
	"__asan_load8_noabort",
	"__asan_loadN_noabort",
	"__asan_report_load16_noabort",
	"__asan_report_load1_noabort",
	"__asan_report_load2_noabort",
	"__asan_report_load4_noabort",
	"__asan_report_load8_noabort",
	"__asan_report_load_n_noabort",
	"__asan_report_store16_noabort",
	"__asan_report_store1_noabort",
	"__asan_report_store2_noabort",
	"__asan_report_store4_noabort",
	"__asan_report_store8_noabort",
	"__asan_report_store_n_noabort",
	"__asan_store16_noabort",
	"__asan_store1_noabort",
	"__asan_store2_noabort",
	"__asan_store4_noabort",
	"__asan_store8_noabort",
	"__asan_storeN_noabort",
	"__kasan_check_read",
	"__kasan_check_write",
	"__kcsan_check_access",
	"__kcsan_mb",
	"__kcsan_release",
	"__kcsan_rmb",
	"__kcsan_wmb",
	"__msan_chain_origin",
	"__msan_get_context_state",
	"__msan_instrument_asm_store",
	"__msan_metadata_ptr_for_load_1",
	"__msan_metadata_ptr_for_load_2",
	"__msan_metadata_ptr_for_load_4",
	"__msan_metadata_ptr_for_load_8",
	"__msan_metadata_ptr_for_load_n",
	"__msan_metadata_ptr_for_store_1",
	"__msan_metadata_ptr_for_store_2",
	"__msan_metadata_ptr_for_store_4",
	"__msan_metadata_ptr_for_store_8",
	"__msan_metadata_ptr_for_store_n",
	"__msan_poison_alloca",
	"__msan_warning",
	"__sanitizer_cov_trace_cmp1",
	"__sanitizer_cov_trace_cmp2",
	"__sanitizer_cov_trace_cmp4",
	"__sanitizer_cov_trace_cmp8",
	"__sanitizer_cov_trace_const_cmp1",
	"__sanitizer_cov_trace_const_cmp2",
	"__sanitizer_cov_trace_const_cmp4",
	"__sanitizer_cov_trace_const_cmp8",
	"__sanitizer_cov_trace_pc",
	"__sanitizer_cov_trace_switch",
	"__tsan_atomic16_compare_exchange_strong",
	"__tsan_atomic16_compare_exchange_val",
	"__tsan_atomic16_compare_exchange_weak",
	"__tsan_atomic16_exchange",
	"__tsan_atomic16_fetch_add",
	"__tsan_atomic16_fetch_and",
	"__tsan_atomic16_fetch_nand",
	"__tsan_atomic16_fetch_or",
	"__tsan_atomic16_fetch_sub",
	"__tsan_atomic16_fetch_xor",
	"__tsan_atomic16_load",
	"__tsan_atomic16_store",
	"__tsan_atomic32_compare_exchange_strong",
	"__tsan_atomic32_compare_exchange_val",
	"__tsan_atomic32_compare_exchange_weak",
	"__tsan_atomic32_exchange",
	"__tsan_atomic32_fetch_add",
	"__tsan_atomic32_fetch_and",
	"__tsan_atomic32_fetch_nand",
	"__tsan_atomic32_fetch_or",
	"__tsan_atomic32_fetch_sub",
	"__tsan_atomic32_fetch_xor",
	"__tsan_atomic32_load",
	"__tsan_atomic32_store",
	"__tsan_atomic64_compare_exchange_strong",
	"__tsan_atomic64_compare_exchange_val",
	"__tsan_atomic64_compare_exchange_weak",
	"__tsan_atomic64_exchange",
	"__tsan_atomic64_fetch_add",
	"__tsan_atomic64_fetch_and",
	"__tsan_atomic64_fetch_nand",
	"__tsan_atomic64_fetch_or",
	"__tsan_atomic64_fetch_sub",
	"__tsan_atomic64_fetch_xor",
	"__tsan_atomic64_load",
	"__tsan_atomic64_store",
	"__tsan_atomic8_compare_exchange_strong",
	"__tsan_atomic8_compare_exchange_val",
	"__tsan_atomic8_compare_exchange_weak",
	"__tsan_atomic8_exchange",
	"__tsan_atomic8_fetch_add",
	"__tsan_atomic8_fetch_and",
	"__tsan_atomic8_fetch_nand",
	"__tsan_atomic8_fetch_or",
	"__tsan_atomic8_fetch_sub",
	"__tsan_atomic8_fetch_xor",
	"__tsan_atomic8_load",
	"__tsan_atomic8_store",
	"__tsan_atomic_signal_fence",
	"__tsan_atomic_thread_fence",
	"__tsan_func_entry",
	"__tsan_func_exit",
	"__tsan_read1",
	"__tsan_read16",
	"__tsan_read2",
	"__tsan_read4",
	"__tsan_read8",
	"__tsan_read_range",
	"__tsan_read_write1",
	"__tsan_read_write16",
	"__tsan_read_write2",
	"__tsan_read_write4",
	"__tsan_read_write8",
	"__tsan_unaligned_read16",
	"__tsan_unaligned_write16",
	"__tsan_volatile_read1",
	"__tsan_volatile_read16",
	"__tsan_volatile_read2",
	"__tsan_volatile_read4",
	"__tsan_volatile_read8",
	"__tsan_volatile_write1",
	"__tsan_volatile_write16",
	"__tsan_volatile_write2",
	"__tsan_volatile_write4",
	"__tsan_volatile_write8",
	"__tsan_write1",
	"__tsan_write16",
	"__tsan_write2",
	"__tsan_write4",
	"__tsan_write8",
	"__tsan_write_range",
	"__ubsan_handle_shift_out_of_bounds",
	"__ubsan_handle_type_mismatch",
	"__ubsan_handle_type_mismatch_v1",
	"check_kcov_mode",
	"copy_mc_enhanced_fast_string",
	"copy_mc_fragile",
	"copy_mc_fragile_handle_tail",
	"csum_partial_copy_generic",
	"ftrace_likely_update",
	"kasan_check_range",
	"kasan_report",
	"kcsan_check_scoped_accesses",
	"kcsan_disable_current",
	"kcsan_enable_current_nowarn",
	"kcsan_found_watchpoint",
	"kcsan_setup_watchpoint",
	"kmsan_copy_to_user",
	"kmsan_report",
	"kmsan_unpoison_entry_regs",
	"kmsan_unpoison_memory",
	"ubsan_type_mismatch_common",
	"write_comp_data",
};

static const char *const access_safe_6_1[] = {
	"clear_user_erms",
	"clear_user_original",
	"clear_user_rep_good",
};
static const char *const access_safe_6_12[] = {
	"__stack_chk_fail",     "__ubsan_handle_load_invalid_value",
	"copy_to_nontemporal",  "kmsan_disable_current",
	"kmsan_enable_current", "rep_movs_alternative",
	"rep_stos_alternative", "stackleak_track_stack",
};

static int name_order(const void *key, const void *item) { return strcmp(key, *(const char *const *)item); }

/* A list of names, and bits by letters and length, which reject most other names. */
#define BITS 1024u
struct names {
	const char *const *list;
	size_t count;
	uint64_t bits[BITS / 64];
};

#define NAMES(list)                                 \
	{                                               \
		list, sizeof(list) / sizeof(*(list)), { 0 } \
	}
enum { NORETURN, NORETURN_6_1, NORETURN_6_12, SAFE, SAFE_6_1, SAFE_6_12, LISTS };
static struct names lists[LISTS] = {
	[NORETURN] = NAMES(noreturn), [NORETURN_6_1] = NAMES(noreturn_6_1), [NORETURN_6_12] = NAMES(noreturn_6_12),
	[SAFE] = NAMES(access_safe),  [SAFE_6_1] = NAMES(access_safe_6_1),  [SAFE_6_12] = NAMES(access_safe_6_12),
};
static pthread_once_t lists_once = PTHREAD_ONCE_INIT;

static unsigned bit_of(const char *name)
{
	size_t n = strlen(name);

	return n ? ((uint8_t)name[n - 1] * 31u + (uint8_t)name[n / 2] * 7u + (unsigned)n) % BITS : 0;
}

static void lists_make(void)
{
	size_t i, k;

	for (i = 0; i < LISTS; i++)
		for (k = 0; k < lists[i].count; k++)
			lists[i].bits[bit_of(lists[i].list[k]) / 64] |= (uint64_t)1 << bit_of(lists[i].list[k]) % 64;
}

/* Is a name in either of two lists? */
static bool is_listed(const char *name, unsigned first, unsigned second)
{
	unsigned bit = bit_of(name), i;

	pthread_once(&lists_once, lists_make);
	for (i = first; i < LISTS; i = i == first ? second : LISTS)
		if ((lists[i].bits[bit / 64] >> bit % 64 & 1) &&
		    bsearch(name, lists[i].list, lists[i].count, sizeof(*lists[i].list), name_order))
			return true;
	return false;
}

bool linux_6_1_noreturn(const char *name) { return is_listed(name, NORETURN, NORETURN_6_1); }
bool linux_6_12_noreturn(const char *name) { return is_listed(name, NORETURN, NORETURN_6_12); }

bool linux_6_1_access_safe(const char *name) { return is_listed(name, SAFE, SAFE_6_1); }
bool linux_6_12_access_safe(const char *name) { return is_listed(name, SAFE, SAFE_6_12); }
