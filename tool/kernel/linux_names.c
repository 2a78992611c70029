/* SPDX-License-Identifier: MIT */
/*
 * Lists the functions of Linux that have special properties and are known by name; the kernel's tools/objtool has the
 * same lists.
 */
#include "kernel/linux_kernel.h"
#include "support/memory.h"
#include "support/strings.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each list is sorted by strcmp(). */

/* Global functions that are declared __noreturn. The first list applies to all releases, the others to some. */
static const char *const noreturn[] = {
	"__module_put_and_kthread_exit",
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
	"stop_this_cpu",
	"usercopy_abort",
	"xen_start_kernel",
};
static const char *const noreturn_6_1[] = {
	"__invalid_creds",
	"fortify_panic",
	"lbug_with_loc",
};
static const char *const noreturn_to_6_12[] = {
	"__reiserfs_panic",
	"snp_abort",
};
static const char *const noreturn_6_12[] = {
	"bch2_trans_unlocked_error",
};
static const char *const noreturn_since_6_12[] = {
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
static const char *const noreturn_7_2[] = {
	"acpi_processor_ffh_play_dead",
	"bch2_trans_unlocked_or_in_restart_error",
	"mwait_play_dead",
	"native_play_dead",
	"vpanic",
};

/* Functions that may be called while access to user memory is enabled: those of compilers' instrumentation, and
 * copies from and to user memory. */
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
	"stackleak_track_stack",
};
static const char *const access_safe_since_6_12[] = {
	"__stack_chk_fail",     "__ubsan_handle_load_invalid_value",
	"copy_to_nontemporal",  "kmsan_disable_current",
	"kmsan_enable_current", "rep_movs_alternative",
	"rep_stos_alternative",
};
static const char *const access_safe_7_2[] = {
	"__sanitizer_cov_stack_depth",
};

static int name_order(const void *key, const void *item) { return strcmp(key, *(const char *const *)item); }

/*
 * A list of names, and the releases that have it. A set of bits, indexed by letters and length, quickly rejects most
 * names that are not in the list.
 */
#define BITS 1024u
struct names {
	const char *const *list;
	size_t count;
	unsigned releases;
	uint64_t bits[BITS / 64];
};

/* The bit of each release, in the order of linux_release.c. */
enum { R_6_1 = 1, R_6_12 = 2, R_7_2 = 4, R_ALL = 7 };
#define NAMES(list, releases)                                 \
	{                                                         \
		list, sizeof(list) / sizeof(*(list)), releases, { 0 } \
	}
static struct names noreturns[] = {
	NAMES(noreturn, R_ALL),
	NAMES(noreturn_6_1, R_6_1),
	NAMES(noreturn_to_6_12, R_6_1 | R_6_12),
	NAMES(noreturn_6_12, R_6_12),
	NAMES(noreturn_since_6_12, R_6_12 | R_7_2),
	NAMES(noreturn_7_2, R_7_2),
};
static struct names access_safes[] = {
	NAMES(access_safe, R_ALL),       NAMES(access_safe_6_1, R_6_1),
	NAMES(access_safe_6_12, R_6_12), NAMES(access_safe_since_6_12, R_6_12 | R_7_2),
	NAMES(access_safe_7_2, R_7_2),
};
#define COUNT(lists) (sizeof(lists) / sizeof((lists)[0]))
static struct names from_file; /* set by linux_noreturns_read(); used in place of all of `noreturns` */
static pthread_once_t lists_once = PTHREAD_ONCE_INIT;

static unsigned bit_of(const char *name)
{
	size_t n = strlen(name);

	return n ? ((uint8_t)name[n - 1] * 31u + (uint8_t)name[n / 2] * 7u + (unsigned)n) % BITS : 0;
}

static void bits_make(struct names *l)
{
	size_t k;

	for (k = 0; k < l->count; k++)
		l->bits[bit_of(l->list[k]) / 64] |= (uint64_t)1 << bit_of(l->list[k]) % 64;
}

static void lists_make(void)
{
	size_t i;

	for (i = 0; i < COUNT(noreturns); i++)
		bits_make(&noreturns[i]);
	for (i = 0; i < COUNT(access_safes); i++)
		bits_make(&access_safes[i]);
}

/* True if a list that one of the releases has contains the name. */
static bool is_listed(const char *name, const struct names *lists, size_t count, unsigned releases)
{
	unsigned bit = bit_of(name);
	size_t i;

	for (i = 0; i < count; i++)
		if ((lists[i].releases & releases) && (lists[i].bits[bit / 64] >> bit % 64 & 1) &&
		    bsearch(name, lists[i].list, lists[i].count, sizeof(*lists[i].list), name_order))
			return true;
	return false;
}

bool linux_noreturn(const struct profile *p, const char *name)
{
	unsigned listed = ((const struct linux_release *)p)->listed;

	pthread_once(&lists_once, lists_make);
	return from_file.count ? is_listed(name, &from_file, 1, listed)
	                       : is_listed(name, noreturns, COUNT(noreturns), listed);
}

bool linux_access_safe(const struct linux_release *release, const char *name)
{
	pthread_once(&lists_once, lists_make);
	return is_listed(name, access_safes, COUNT(access_safes), release->listed);
}

bool linux_profiler(const struct linux_release *release, const char *name)
{
	if (!strncmp(name, "__sanitizer_cov_", 16))
		return true;
	return !release->profilers_are_kcov &&
	       (!strncmp(name, "__tsan_func_", 12) || !strcmp(name, "__tsan_atomic_signal_fence"));
}

bool linux_section_noinstr(const struct linux_release *release, const char *name)
{
	return !strcmp(name, ".noinstr.text") || !strcmp(name, ".entry.text") || !strncmp(name, ".text..__x86.", 13) ||
	       (release->cpuidle_is_noinstr && !strcmp(name, ".cpuidle.text"));
}

/* ---- the list of the kernel's source ----------------------------------------------------- */

/* If a line starts with NORETURN(name), ends the name with a NUL and returns it; otherwise returns null. */
static char *name_in(char *line)
{
	static const char macro[] = "NORETURN(";
	char *end;

	if (strncmp(line, macro, sizeof(macro) - 1))
		return NULL;
	line += sizeof(macro) - 1;
	end = strchr(line, ')');
	if (!end || end == line)
		return NULL;
	*end = '\0';
	return line;
}

bool linux_noreturns_read(const char *path)
{
	struct names l = {.releases = R_ALL};
	const char **names = NULL; /* the strings are never freed, since they are used until the process ends */
	size_t capacity = 0, size = 0;
	char *line = NULL, *name;
	FILE *in = fopen(path, "re");

	while (in && getline(&line, &size, in) >= 0) {
		name = name_in(line);
		if (!name)
			continue;
		mem_reserve(&names, &capacity, l.count, sizeof(*names));
		names[l.count++] = mem_string(name);
	}
	free(line);
	if (in)
		fclose(in);
	if (!l.count)
		return false;
	qsort(names, l.count, sizeof(*names), string_order);
	l.list = names;
	bits_make(&l);
	from_file = l;
	return true;
}
