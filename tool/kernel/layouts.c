/* SPDX-License-Identifier: MIT */
/*
 * The layouts of the kernel's tables, each with the header that has it. Which versions
 * have it is what those headers' history says; distributions carry changes back, so that
 * entries are asked first (tables.c).
 */
#include "kernel/layouts.h"

#define V(major, minor) KERNEL_VERSION_OF(major, minor)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* struct exception_table_entry: arch/x86/include/asm/extable.h */
static const struct kernel_layout ex[] = {
	{"5.16 and later", V(5, 16), 0, 12, 3,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_TO, 4, 0, KREF_REL32}, {KF_DATA, 8, 4, 0}}},
	{"4.6 to 5.15", V(4, 6), V(5, 16), 12, 3,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_TO, 4, 0, KREF_REL32}, {KF_HANDLER, 8, 0, KREF_REL32}}},
};

/* struct alt_instr: arch/x86/include/asm/alternative.h; packed */
static const struct kernel_layout alt[] = {
	{"6.3 and later", V(6, 3), 0, 14, 6,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_TO, 4, 0, KREF_REL32}, {KF_FEATURE, 8, 2, 0}, {KF_FLAGS, 10, 2, 0},
	  {KF_LENGTH, 12, 1, 0}, {KF_NEW_LENGTH, 13, 1, 0}}},
	{"5.13 to 6.2", V(5, 13), V(6, 3), 12, 5,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_TO, 4, 0, KREF_REL32}, {KF_FEATURE, 8, 2, 0}, {KF_LENGTH, 10, 1, 0},
	  {KF_NEW_LENGTH, 11, 1, 0}}},
	{"4.1 to 5.12", V(4, 1), V(5, 13), 13, 6,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_TO, 4, 0, KREF_REL32}, {KF_FEATURE, 8, 2, 0}, {KF_LENGTH, 10, 1, 0},
	  {KF_NEW_LENGTH, 11, 1, 0}, {KF_PADDING, 12, 1, 0}}},
};

/* struct paravirt_patch_site: arch/x86/include/asm/paravirt_types.h, to 6.7. The macros
 * align to 8 bytes. */
static const struct kernel_layout paravirt[] = {
	{NULL, 0, V(6, 8), 16, 3, {{KF_INSN, 0, 0, KREF_ABS64}, {KF_SLOT, 8, 1, 0}, {KF_LENGTH, 9, 1, 0}}},
};

/* struct jump_entry: include/linux/jump_label.h; relative since 4.20 */
static const struct kernel_layout jump[] = {
	{NULL, V(4, 20), 0, 16, 3,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_TO, 4, 0, KREF_REL32}, {KF_KEY, 8, 0, KREF_REL64}}},
};

/* struct static_call_site: include/linux/static_call_types.h */
static const struct kernel_layout static_call[] = {
	{NULL, V(5, 10), 0, 8, 2, {{KF_INSN, 0, 0, KREF_REL32}, {KF_KEY, 4, 0, KREF_REL32}}},
};

/* s32: LOCK_PREFIX_HERE of asm/alternative.h; what tools/objtool/check.c makes */
static const struct kernel_layout near[] = {
	{NULL, 0, 0, 4, 1, {{KF_INSN, 0, 0, KREF_REL32}}},
};

/* unsigned long: include/linux/ftrace.h, scripts/recordmcount.h */
static const struct kernel_layout far[] = {
	{NULL, 0, 0, 8, 1, {{KF_INSN, 0, 0, KREF_ABS64}}},
};

/* struct bug_entry: include/asm-generic/bug.h; with GENERIC_BUG_RELATIVE_POINTERS, which
 * x86-64 has always. The last one is that without DEBUG_BUGVERBOSE. */
static const struct kernel_layout bug[] = {
	{"6.19 and later", V(6, 19), 0, 16, 5,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_FORMAT, 4, 0, KREF_REL32}, {KF_FILE, 8, 0, KREF_REL32}, {KF_LINE, 12, 2, 0},
	  {KF_FLAGS, 14, 2, 0}}},
	{"before 6.19", 0, V(6, 19), 12, 4,
	 {{KF_INSN, 0, 0, KREF_REL32}, {KF_FILE, 4, 0, KREF_REL32}, {KF_LINE, 8, 2, 0}, {KF_FLAGS, 10, 2, 0}}},
	{"without file and line", 0, 0, 8, 2, {{KF_INSN, 0, 0, KREF_REL32}, {KF_FLAGS, 4, 2, 0}}},
};

#define LAYOUTS(a) COUNT(a), a

const struct kernel_table_kind kernel_table_kinds[] = {
	{"__ex_table", "__start___ex_table", "__stop___ex_table", KT_EX, false, LAYOUTS(ex)},
	{".altinstructions", "__alt_instructions", "__alt_instructions_end", KT_ALT, false, LAYOUTS(alt)},
	{".parainstructions", "__parainstructions", "__parainstructions_end", KT_PARAVIRT, false, LAYOUTS(paravirt)},
	{"__jump_table", "__start___jump_table", "__stop___jump_table", KT_JUMP, true, LAYOUTS(jump)},
	{".static_call_sites", "__start_static_call_sites", "__stop_static_call_sites", KT_STATIC_CALL, true,
	 LAYOUTS(static_call)},
	{".smp_locks", "__smp_locks", "__smp_locks_end", KT_SITES, false, LAYOUTS(near)},
	{".retpoline_sites", "__retpoline_sites", "__retpoline_sites_end", KT_SITES, false, LAYOUTS(near)},
	{".return_sites", "__return_sites", "__return_sites_end", KT_SITES, false, LAYOUTS(near)},
	{".call_sites", "__call_sites", "__call_sites_end", KT_SITES, false, LAYOUTS(near)},
	{".cfi_sites", "__cfi_sites", "__cfi_sites_end", KT_SITES, false, LAYOUTS(near)},
	{".ibt_endbr_seal", "__ibt_endbr_seal", "__ibt_endbr_seal_end", KT_SITES, false, LAYOUTS(near)},
	{"__mcount_loc", "__start_mcount_loc", "__stop_mcount_loc", KT_SITES, true, LAYOUTS(far)},
	{"__bug_table", "__start___bug_table", "__stop___bug_table", KT_BUG, false, LAYOUTS(bug)},
};

const size_t kernel_table_kind_count = COUNT(kernel_table_kinds);
