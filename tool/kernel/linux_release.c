/* SPDX-License-Identifier: MIT */
/* The releases of Linux whose objects etch can read. Each is described by its differences from the previous one. */
#include "kernel/linux_kernel.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Register numbers of arch/x86/include/asm/orc_types.h. */
static const uint8_t registers_4_14[LINUX_ORC_REGISTERS] = {[ETCH_ORC_PREV_SP] = 1, [ETCH_ORC_DX] = 2,
                                                            [ETCH_ORC_DI] = 3,      [ETCH_ORC_BP] = 4,
                                                            [ETCH_ORC_SP] = 5,      [ETCH_ORC_R10] = 6,
                                                            [ETCH_ORC_R13] = 7,     [ETCH_ORC_BP_IND] = 8,
                                                            [ETCH_ORC_SP_IND] = 9,  [ETCH_ORC_AX] = LINUX_ORC_NONE};
static const uint8_t registers_7_2[LINUX_ORC_REGISTERS] = {
	[ETCH_ORC_PREV_SP] = 8, [ETCH_ORC_DX] = 2,  [ETCH_ORC_DI] = 5,      [ETCH_ORC_BP] = 4,     [ETCH_ORC_SP] = 3,
	[ETCH_ORC_R10] = 6,     [ETCH_ORC_R13] = 7, [ETCH_ORC_BP_IND] = 10, [ETCH_ORC_SP_IND] = 9, [ETCH_ORC_AX] = 1};

static void since_6_1(struct linux_release *r)
{
	r->profile = (struct profile){.name = "linux",
	                              .no_red_zone = true,
	                              .functions_only = true,
	                              .switches_stack = true,
	                              .traps_continue = true,
	                              .noreturn = linux_noreturn,
	                              .read = linux_read};
	r->alternative_size = 12;
	r->alternative_length = 10;
	r->hints = linux_hints_6_1;
	r->hint_count = LINUX_HINTS_6_1;
	r->hints_end = true;
	r->registers = registers_4_14;
	r->label_tables = ".rodata..c_jump_table";
	r->option_prefix = "";
	r->tail_fentry = "Tail call to __fentry__ !?!?";
	r->nops_fentry = true;
	r->entries_by_hints = true;
}

static void since_6_12(struct linux_release *r)
{
	r->alternative_size = 14;
	r->alternative_length = 12;
	r->hints = linux_hints_6_4;
	r->hint_count = LINUX_HINTS_6_4;
	r->hints_end = false;
	r->typed_rows = true;
	r->label_tables = ".data.rel.ro.c_jump_table";
	r->option_prefix = "MITIGATION_";
	r->tail_fentry = "tail call to __fentry__ !?!?";
	r->missing_noreturn = "%.120s() is missing a __noreturn annotation";
	r->nops_fentry = false;
	r->newer_validation = true;
	r->cpuidle_is_noinstr = true;
	r->trampolines_uninstrumented = true;
	r->entries_by_hints = false;
	r->leaving = LEAVING_IN_FUNCTIONS_IS_PASSED;
}

static void since_7_2(struct linux_release *r)
{
	r->registers = registers_7_2;
	r->annotations = true;
	r->position_thunks = true;
	r->profilers_are_kcov = true;
	r->missing_noreturn = "%.120s() missing __noreturn in .c/.h or NORETURN() in noreturns.h";
	r->groups_ignored = true;
	r->keeps_unsized = true;
	r->falls_count = true;
	r->ends_named = true;
	r->replaced_sites = true;
	r->newer_code_lists = true;
	r->addresses_by_lea = true;
	r->leaving = LEAVING_ENDS;
	r->unret_follows_all = true;
	r->links_by_option = true;
	r->ops_counted = true;
	r->cfi_grows = true;
	r->reach_counts_alone = true;
	r->skips_embedded_calls = true;
	r->prefixes_by_entries = true;
	r->backs_up_failures = true;
	r->backtraces_have_code = true;
	r->errors_are_fatal = true;
}

static const struct {
	const char *name;
	unsigned number;
	void (*since)(struct linux_release *r);
} table[] = {
	{"6.1", LINUX_NUMBER(6, 1), since_6_1},
	{"6.12", LINUX_NUMBER(6, 12), since_6_12},
	{"7.2", LINUX_NUMBER(7, 2), since_7_2},
};
#define RELEASES (sizeof(table) / sizeof(table[0]))

static struct linux_release releases[RELEASES];
static pthread_once_t releases_once = PTHREAD_ONCE_INIT;

static void releases_make(void)
{
	size_t i;

	for (i = 0; i < RELEASES; i++) {
		if (i)
			releases[i] = releases[i - 1];
		table[i].since(&releases[i]);
		releases[i].name = table[i].name;
		releases[i].number = table[i].number;
		releases[i].listed = 1u << i;
	}
}

/* Returns the number of a version (LINUX_NUMBER), or 0 if the text is not a version. */
static unsigned number_of(const char *version)
{
	char *end;
	unsigned long major = strtoul(version, &end, 10), minor;

	if (!isdigit((unsigned char)*version) || *end != '.' || !isdigit((unsigned char)end[1]))
		return 0;
	minor = strtoul(end + 1, &end, 10);
	return major < 256 && minor < 256 ? LINUX_NUMBER((unsigned)major, (unsigned)minor) : 0;
}

const struct linux_release *linux_release_find(const char *version, int *known)
{
	unsigned number = version && *version ? number_of(version) : table[0].number;
	size_t i;

	pthread_once(&releases_once, releases_make);
	*known = 1;
	for (i = 0; i < RELEASES; i++)
		if (releases[i].number == number)
			return &releases[i];
	*known = number > releases[RELEASES - 1].number ? 0 : -1;
	return *known ? NULL : &releases[RELEASES - 1];
}

void linux_release_names(char *out, size_t size)
{
	size_t i, n = strlen(out);

	for (i = 0; i < RELEASES && n < size; i++) {
		const char *before = i + 1 < RELEASES ? ", " : " and ";

		n += (size_t)snprintf(out + n, size - n, "%s%s", i ? before : "", table[i].name);
	}
}
