/* SPDX-License-Identifier: MIT */
/*
 * The table of `etch heap` (heap_top.h). A function's bytes are those that it has allocated itself: C++'s operator new
 * and what is in namespace std count for the function that calls them.
 */
#include "heap/heap_top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/stop_lines.h"
#include "profile/writers.h"
#include "report/text.h"
#include "support/plural.h"

#define STACKS_SHOWN 3
#define FRAMES_SHOWN 10
#define NAME_MOST    70

struct ranked {
	struct heap_sum sum[MEASURE_COUNT];
	enum heap_measure by;
	size_t index; /* function, or sample */
};

static int rank_order(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	for (int i = 0; i < MEASURE_COUNT; i++) { /* the measure, then the others */
		int m = ((int)x->by + i) % MEASURE_COUNT;

		if (x->sum[m].bytes != y->sum[m].bytes)
			return x->sum[m].bytes < y->sum[m].bytes ? 1 : -1;
	}
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Does this function allocate for its callers? */
static bool is_allocator(const char *name)
{
	static const char *const begins[] = {"operator new", "std::", "__gnu_cxx::"};
	static const char *const names[] = {"malloc", "calloc", "realloc"}; /* inlined in the dynamic linker */

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return true;
	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
		if (!strncmp(name, begins[i], strlen(begins[i])))
			return true;
	return false;
}

static const char *call_name(const struct profile *p, uint32_t call)
{
	return p->names.list[function_name(p, (uint32_t)p->calls.list[call].b)];
}

/* The call that a sample is attributed to. */
static uint32_t allocating_call(const struct profile *p, uint32_t innermost)
{
	for (uint32_t at = innermost; at && !(uint32_t)p->calls.list[at].a; at = key_caller(&p->calls.list[at]))
		if (!is_allocator(call_name(p, at)))
			return at;
	return innermost;
}

static void sums_add(struct heap_sum *to, const struct heap_sum *from)
{
	for (int m = 0; m < MEASURE_COUNT; m++) {
		to[m].bytes += from[m].bytes;
		to[m].count += from[m].count;
	}
}

/* A number of bytes, right-aligned in `columns` and a unit of two. */
static void bytes_put(uint64_t bytes, int columns, FILE *out)
{
	static const char *const units[] = {"B ", "KB", "MB", "GB", "TB"};
	double n = (double)bytes;
	int i = 0;

	for (; n >= 999.95 && i < 4; i++)
		n /= 1000;
	/* In a column all units have two letters. */
	fprintf(out, "%*.*f %.*s", columns, i ? 1 : 0, n, i || columns ? 2 : 1, units[i]);
}

/* A sum for people, and exactly: "1.3 MB (1340216 bytes)". */
static void sum_bytes_put(uint64_t bytes, FILE *out)
{
	if (bytes >= 1000) {
		bytes_put(bytes, 0, out);
		fprintf(out, " (%" PRIu64 " bytes)", bytes);
	} else {
		fprintf(out, "%" PRIu64 " byte%s", bytes, plural(bytes));
	}
}

static void name_put(const char *name, FILE *out)
{
	char cut[NAME_MOST + 8];

	if (strlen(name) <= NAME_MOST) {
		text_clean(out, name);
		return;
	}
	snprintf(cut, sizeof(cut), "%.*s...", NAME_MOST - 3, name);
	text_clean(out, cut);
}

static void function_put(const struct profile *p, uint32_t function, FILE *out)
{
	const char *name = p->names.list[function_name(p, function)];
	const char *binary = p->names.list[function_binary(p, function)];

	name_put(name, out);
	if (*binary && name[0] != '[') {
		fputs("  ", out);
		text_clean(out, binary);
	}
}

static void functions_put(const struct heap_profile *h, struct ranked *list, size_t most, bool color, FILE *out)
{
	const struct profile *p = h->profile;

	for (size_t i = 0; i < p->functions.count; i++)
		list[i] = (struct ranked){.index = i, .by = h->measure};
	for (size_t i = 0; i < p->sample_count; i++) {
		uint32_t call = allocating_call(p, p->call_of[p->samples[i].node]);

		sums_add(list[p->calls.list[call].b].sum, heap_values(h, i));
	}
	qsort(list, p->functions.count, sizeof(*list), rank_order);
	fprintf(out, "  leaked      peak     total      calls  function\n");
	for (size_t i = 0; i < p->functions.count && i < most && list[i].sum[MEASURE_TOTAL].count; i++) {
		static const enum heap_measure order[] = {MEASURE_LEAKED, MEASURE_PEAK, MEASURE_TOTAL};

		for (int k = 0; k < MEASURE_COUNT; k++) {
			bool bold = color && order[k] == h->measure;

			fputs(bold ? "\033[1m" : "", out);
			bytes_put(list[i].sum[order[k]].bytes, 5, out);
			fputs(bold ? "\033[0m  " : "  ", out);
		}
		fprintf(out, "%9" PRIu64 "  ", list[i].sum[MEASURE_TOTAL].count);
		function_put(p, (uint32_t)list[i].index, out);
		putc('\n', out);
	}
}

static void stack_put(const struct heap_profile *h, const struct ranked *r, FILE *out)
{
	static const char *const what[] = {
		[MEASURE_LEAKED] = "leaked", [MEASURE_PEAK] = "live at the peak", [MEASURE_TOTAL] = "allocated in all"};
	const struct profile *p = h->profile;
	const struct heap_sum *s = &r->sum[h->measure];
	int shown = 0;

	putc('\n', out);
	sum_bytes_put(s->bytes, out);
	fprintf(out, " in %" PRIu64 " block%s %s by\n", s->count, plural(s->count), what[h->measure]);
	for (uint32_t at = p->call_of[p->samples[r->index].node]; at; at = key_caller(&p->calls.list[at])) {
		if (shown++ == FRAMES_SHOWN) {
			fprintf(out, "    ...\n");
			break;
		}
		fputs("    ", out);
		function_put(p, (uint32_t)p->calls.list[at].b, out);
		putc('\n', out);
	}
}

static void stacks_put(const struct heap_profile *h, struct ranked *list, FILE *out)
{
	for (size_t i = 0; i < h->profile->sample_count; i++) {
		list[i] = (struct ranked){.index = i, .by = h->measure};
		sums_add(list[i].sum, heap_values(h, i));
	}
	qsort(list, h->profile->sample_count, sizeof(*list), rank_order);
	for (size_t i = 0; i < STACKS_SHOWN && i < h->profile->sample_count && list[i].sum[h->measure].bytes; i++)
		stack_put(h, &list[i], out);
	putc('\n', out);
}

bool heap_top(const struct heap_profile *h, size_t most, bool color, FILE *out)
{
	const struct profile *p = h->profile;
	size_t count = p->functions.count > p->sample_count ? p->functions.count : p->sample_count;
	struct ranked *list = malloc((count + 1) * sizeof(*list));

	if (!list)
		return false;
	if (p->sample_count) {
		functions_put(h, list, most, color, out);
		stacks_put(h, list, out);
	}
	free(list);
	return true;
}

/* ---- what is missing ---------------------------------------------------------------------- */

/* Prints the reasons for which there was no room. */
static void shortage_put(uint32_t short_of, FILE *out)
{
	static const struct {
		enum heap_short of;
		const char *text;
	} known[] = {
		{HEAP_SHORT_DISK, "the disk of the recording was full (see --directory)"},
		{HEAP_SHORT_MEMORY, "the recorder had no memory, or the process's limits left little (RLIMIT_AS, RLIMIT_DATA)"},
		{HEAP_SHORT_DESCRIPTOR, "no descriptor was free to make the recording longer"},
		{HEAP_SHORT_NUMBERS, "the recording had no more room (RLIMIT_FSIZE)"},
	};
	bool first = true;

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (!(short_of & known[i].of))
			continue;
		fprintf(out, "%s %s", first ? ":" : ";", known[i].text);
		first = false;
	}
	putc('\n', out);
}

/* Stacks and frames of allocations that are counted. */
static void stacks_missing(const struct heap_profile *h, FILE *out)
{
	stop_lines_put(h->profile, true, out);
	if (h->lost_stack) {
		fprintf(out, "%" PRIu64 " allocation%s counted without a stack", h->lost_stack,
		        h->lost_stack == 1 ? " is" : "s are");
		shortage_put(h->short_of, out);
	}
	if (h->lost_module) {
		fprintf(out, "%" PRIu64 " frame%s no name: the file could not be recorded", h->lost_module,
		        h->lost_module == 1 ? " has" : "s have");
		shortage_put(h->short_of, out);
	}
}

static void ended_put(const struct heap_profile *h, FILE *out)
{
	static const char *const reasons[HEAP_ENDED_COUNT] = {
		[HEAP_ENDED_SPACE] =
			"the address space that its limit allows (RLIMIT_AS) was used up, and the recorder gave its "
			"own back",
		[HEAP_ENDED_DATA] =
			"the memory that its limit allows (RLIMIT_DATA) was used up, and the recorder gave its own back",
		[HEAP_ENDED_MEMORY] = "the program got no memory, and the recorder gave its own back",
		[HEAP_ENDED_SANDBOX] = "the program asked for a seccomp filter, which might forbid what the recorder does",
	};

	for (int i = 1; i < HEAP_ENDED_COUNT; i++) {
		if (!h->ended[i].processes)
			continue;
		fputs("recording stopped ", out);
		if (h->ended[i].processes > 1)
			fprintf(out, "in %" PRIu64 " processes ", h->ended[i].processes);
		fprintf(out, "after %" PRIu64 " allocation%s: %s; ", h->ended[i].recorded, h->ended[i].recorded == 1 ? "" : "s",
		        reasons[i]);
		fprintf(out, "%" PRIu64 " later ones are not recorded, and 'leaked' is what was live then\n",
		        h->ended[i].missed);
	}
}

/* The names of the code whose allocations were not seen. */
static void names_put(const struct heap_profile *h, FILE *out)
{
	char names[sizeof(h->unseen_names)], *save = NULL;
	bool first = true;

	memcpy(names, h->unseen_names, sizeof(names));
	names[sizeof(names) - 1] = 0;
	for (char *name = strtok_r(names, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) {
		fputs(first ? " (" : ", ", out);
		text_clean(out, name);
		first = false;
	}
	fputs(first ? "" : ")", out);
}

static void unseen_put(const struct heap_profile *h, FILE *out)
{
	if (h->own_malloc)
		fprintf(out, "%" PRIu64 " process%s malloc of its own, whose calls cannot be seen\n", h->own_malloc,
		        h->own_malloc == 1 ? " has a" : "es have each a");
	if (h->unseen_deep || h->unseen_spaces) {
		fputs("the allocations of ", out);
		if (h->unseen_deep)
			fprintf(out, "%" PRIu64 " librar%s loaded with RTLD_DEEPBIND", h->unseen_deep,
			        h->unseen_deep == 1 ? "y" : "ies");
		if (h->unseen_deep && h->unseen_spaces)
			fputs(" and of ", out);
		if (h->unseen_spaces)
			fprintf(out, "%" PRIu64 " namespace%s of dlmopen(3)", h->unseen_spaces, h->unseen_spaces == 1 ? "" : "s");
		fputs(" were not seen", out);
		names_put(h, out);
		putc('\n', out);
	}
	if (h->unseen_calls)
		fprintf(out,
		        "%" PRIu64
		        " call%s of dlopen(3) with RTLD_DEEPBIND, or of dlmopen(3), %s made shortly before a process "
		        "ended: what %s loaded may have allocated without being seen\n",
		        h->unseen_calls, h->unseen_calls == 1 ? "" : "s", h->unseen_calls == 1 ? "was" : "were",
		        h->unseen_calls == 1 ? "it" : "they");
}

void heap_missing(const struct heap_profile *h, FILE *out)
{
	ended_put(h, out);
	if (h->lost_thread) {
		fprintf(out, "%" PRIu64 " allocation%s not recorded: what the recorder keeps for a thread had no room",
		        h->lost_thread, h->lost_thread == 1 ? " is" : "s are");
		shortage_put(h->short_of, out);
	}
	if (h->lost_block) {
		fprintf(out, "%" PRIu64 " allocation%s as leaked, since what became of %s could not be followed", h->lost_block,
		        h->lost_block == 1 ? " counts" : "s count", h->lost_block == 1 ? "it" : "them");
		shortage_put(h->short_of, out);
	}
	if (h->lost_handler)
		fprintf(out, "%" PRIu64 " call%s lost: made by a signal handler while the recorder was at work\n",
		        h->lost_handler, plural(h->lost_handler));
	if (h->lost_children) {
		fprintf(out, "%" PRIu64 " process%s not recorded: no file for it could be opened", h->lost_children,
		        h->lost_children == 1 ? " is" : "es are");
		fprintf(out, h->child_error ? ": %s\n" : "\n", strerror(h->child_error));
	}
	if (h->lost_files)
		fprintf(out, "%" PRIu64 " process%s not counted: %s\n", h->lost_files, h->lost_files == 1 ? " is" : "es are",
		        h->lost_file.text);
	unseen_put(h, out);
}

/* ---- the summary ---------------------------------------------------------------------------- */

static void sum_put(const char *what, const struct heap_sum *s, const char *unit, FILE *out)
{
	fprintf(out, "%s ", what);
	sum_bytes_put(s->bytes, out);
	fprintf(out, " in %" PRIu64 " %s%s", s->count, unit, plural(s->count));
}

void heap_summary(const struct heap_profile *h, FILE *out)
{
	const struct heap_sum *s = h->sum;
	const struct profile *p = h->profile;
	uint64_t stacks = h->lost_thread;

	for (int i = 0; i < STOP_COUNT; i++)
		stacks += p->stops[i];
	for (int i = 0; i < HEAP_ENDED_COUNT; i++)
		stacks += h->ended[i].missed;
	sum_put("leaked", &s[MEASURE_LEAKED], "block", out);
	sum_put("; peak", &s[MEASURE_PEAK], "block", out);
	sum_put("; in all", &s[MEASURE_TOTAL], "allocation", out);
	fputs(p->period > 1 ? " (by a sample)\n" : "\n", out);
	if (stacks)
		fprintf(out, "%.2f%% %s; ", 100 * (double)p->stops[STOP_END] / (double)stacks,
		        heap_profile_has_unseen(h) || h->lost_children || h->lost_files
		            ? "of what was seen has a complete stack"
		            : "with a complete stack");
	if (h->processes != 1)
		fprintf(out, "%" PRIu64 " processes, their peaks added; ", h->processes);
	fprintf(out, "the recorder took ");
	bytes_put(h->memory, 0, out);
	fprintf(out, " of memory and ");
	bytes_put(h->file, 0, out);
	fprintf(out, " of files%s\n", h->processes > 1 ? " at most in a process" : "");
	stacks_missing(h, out);
}
