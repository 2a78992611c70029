/* SPDX-License-Identifier: MIT */
/*
 * Prints the table of `etch heap` (heap_top.h). A function's bytes are those that it has allocated itself; what C++'s
 * operator new and functions in namespace std allocate counts for the function that calls them.
 */
#include "heap/heap_top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/writers.h"
#include "report/text.h"
#include "support/strings.h"

#define STACKS_SHOWN 3
#define FRAMES_SHOWN 10
#define NAME_MOST    70

struct ranked {
	struct heap_sum sum[MEASURE_COUNT];
	enum heap_measure by;
	size_t index; /* index of a function, a sample or a process */
};

static int rank_order(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	for (int i = 0; i < MEASURE_COUNT; i++) { /* first by the measure, then by the others */
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
	static const char *const names[] = {"malloc", "calloc", "realloc"}; /* these are inlined in the dynamic linker */

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

/* Returns the call to which a sample is attributed. */
static uint32_t allocating_call(const struct profile *p, uint32_t innermost)
{
	for (uint32_t at = innermost; at && !stack_is_marker(key_kind(&p->calls.list[at]));
	     at = key_caller(&p->calls.list[at]))
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

/* Prints a sum rounded for people, and exactly: "1.3 MB (1340216 bytes)". */
static void sum_bytes_put(uint64_t bytes, FILE *out)
{
	if (bytes >= 1000) {
		text_bytes(out, bytes, 0);
		fprintf(out, " (%" PRIu64 " bytes)", bytes);
	} else {
		fprintf(out, "%" PRIu64 " byte%s", bytes, plural(bytes));
	}
}

static void function_put(const struct profile *p, uint32_t function, FILE *out)
{
	const char *name = p->names.list[function_name(p, function)];
	const char *binary = p->names.list[function_binary(p, function)];

	text_clean_cut(out, name, NAME_MOST);
	if (*binary && name[0] != '[') {
		fputs("  ", out);
		text_clean(out, binary);
	}
}

/* Prints the columns of numbers; that of the measure is bold. */
static void sums_put(const struct heap_sum *sum, enum heap_measure measure, bool color, FILE *out)
{
	static const enum heap_measure order[] = {MEASURE_LEAKED, MEASURE_PEAK, MEASURE_TOTAL};

	for (int k = 0; k < MEASURE_COUNT; k++) {
		bool bold = color && order[k] == measure;

		fputs(bold ? "\033[1m" : "", out);
		text_bytes(out, sum[order[k]].bytes, 5);
		fputs(bold ? "\033[0m  " : "  ", out);
	}
	fprintf(out, "%9" PRIu64 "  ", sum[MEASURE_TOTAL].count);
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
		sums_put(list[i].sum, h->measure, color, out);
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
		if (key_kind(&p->calls.list[at]) == STACK_THREAD)
			continue;
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

#define PROCESSES_SHOWN 10

/* Prints the processes, each with its own sums, the one with the most bytes first. */
static void processes_put(const struct heap_profile *h, struct ranked *list, FILE *out)
{
	const struct profile *p = h->profile;
	struct heap_sum rest[MEASURE_COUNT] = {{0}};

	for (size_t i = 0; i < h->each_count; i++) {
		list[i] = (struct ranked){.index = i, .by = h->measure};
		memcpy(list[i].sum, h->each[i].sum, sizeof(list[i].sum));
	}
	qsort(list, h->each_count, sizeof(*list), rank_order);
	fprintf(out, "  leaked      peak     total      calls  process\n");
	for (size_t i = 0; i < h->each_count; i++) {
		const struct process_image *image = &p->processes.images[h->each[list[i].index].image];

		if (i >= PROCESSES_SHOWN) {
			sums_add(rest, list[i].sum);
			continue;
		}
		sums_put(list[i].sum, h->measure, false, out);
		text_clean(out, image->name);
		fprintf(out, " (%ld)\n", (long)image->pid);
	}
	if (h->each_count > PROCESSES_SHOWN) {
		sums_put(rest, h->measure, false, out);
		fprintf(out, "%zu other processes\n", h->each_count - PROCESSES_SHOWN);
	}
	putc('\n', out);
}

bool heap_top(const struct heap_profile *h, size_t most, bool color, FILE *out)
{
	const struct profile *p = h->profile;
	size_t count = p->functions.count > p->sample_count ? p->functions.count : p->sample_count;
	size_t capacity = count > h->each_count ? count : h->each_count;
	struct ranked *list = malloc((capacity + 1) * sizeof(*list));

	if (!list)
		return false;
	if (p->sample_count) {
		functions_put(h, list, most, color, out);
		stacks_put(h, list, out);
		if (h->each_count > 1)
			processes_put(h, list, out);
	}
	free(list);
	return true;
}

/* ---- what is missing ---------------------------------------------------------------------- */

/* Prints the reasons why there was no space. */
static void shortage_put(uint32_t short_of, FILE *out)
{
	static const struct {
		enum heap_short of;
		const char *text;
	} known[] = {
		{HEAP_SHORT_DISK, "the disk of the recording was full (see --directory)"},
		{HEAP_SHORT_MEMORY, "the recorder had no memory, or the process's limits left little (RLIMIT_AS, RLIMIT_DATA)"},
		{HEAP_SHORT_DESCRIPTOR, "no descriptor was free to make the recording longer"},
		{HEAP_SHORT_NUMBERS, "the recording had reached its limit of size (RLIMIT_FSIZE)"},
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

/* Prints which stacks and frames of counted allocations are missing. */
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

/* Prints names that are separated by newlines, in parentheses. */
static void names_put(const char *list, FILE *out)
{
	const char *sep = " (";

	for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
		char name[HEAP_UNSEEN_NAMES];

		end = at + strcspn(at, "\n");
		snprintf(name, sizeof(name), "%.*s", (int)(end - at), at);
		fputs(sep, out);
		text_clean(out, name);
		sep = ", ";
	}
	fputs(*sep == ',' ? ")" : "", out);
}

/* Prints a number of things, after the separator, which is "; " from then on. */
static void count_put(const char **sep, uint64_t n, const char *one, const char *more, FILE *out)
{
	fprintf(out, "%s%" PRIu64 " %s", *sep, n, n == 1 ? one : more);
	*sep = "; ";
}

/* Prints in one line whose allocations were not seen. It prints nothing if all were seen. */
static void unseen_put(const struct heap_profile *h, FILE *out)
{
	const char *sep = "not seen: the allocations of ";

	if (h->unrecorded) {
		count_put(&sep, h->unrecorded, "program", "programs", out);
		fputs(" without the recorder, as static or set-user-ID ones", out);
		names_put(h->unrecorded_names, out);
	}
	if (h->own_malloc)
		count_put(&sep, h->own_malloc, "process that has a malloc of its own",
		          "processes that have a malloc of their own", out);
	if (h->unseen_deep)
		count_put(&sep, h->unseen_deep, "library loaded with RTLD_DEEPBIND", "libraries loaded with RTLD_DEEPBIND",
		          out);
	if (h->unseen_spaces)
		count_put(&sep, h->unseen_spaces, "namespace of dlmopen(3)", "namespaces of dlmopen(3)", out);
	if (h->unseen_deep || h->unseen_spaces)
		names_put(h->unseen_names, out);
	if (h->unseen_calls)
		count_put(
			&sep, h->unseen_calls,
			"call of dlopen(3) with RTLD_DEEPBIND, or of dlmopen(3), shortly before a process ended: of what it loaded",
			"calls of dlopen(3) with RTLD_DEEPBIND, or of dlmopen(3), shortly before a process ended: of what they "
			"loaded",
			out);
	if (*sep == ';')
		putc('\n', out);
}

void heap_missing(const struct heap_profile *h, FILE *out)
{
	ended_put(h, out);
	if (h->lost_thread) {
		fprintf(out,
		        "%" PRIu64 " allocation%s not recorded: there was no space for what the recorder keeps for a thread",
		        h->lost_thread, h->lost_thread == 1 ? " is" : "s are");
		shortage_put(h->short_of, out);
	}
	if (h->lost_block) {
		fprintf(out, "%" PRIu64 " allocation%s as leaked, since what became of %s could not be followed", h->lost_block,
		        h->lost_block == 1 ? " counts" : "s count", h->lost_block == 1 ? "it" : "them");
		shortage_put(h->short_of, out);
	}
	if (h->lost_handler)
		fprintf(out, "%" PRIu64 " call%s lost: made by a signal handler that interrupted the recorder\n",
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

/* Prints how many of the stacks are complete. It is a share of all stacks only if all were seen. */
static void complete_put(const struct heap_profile *h, uint64_t complete, uint64_t stacks, FILE *out)
{
	bool all_seen = !heap_profile_has_unseen(h) && !h->lost_children && !h->lost_files;
	double share = 100 * (double)complete / (double)stacks;

	if (complete < stacks && share > 99.99)
		share = 99.99;
	if (complete == stacks && !all_seen)
		fputs("each stack that was seen is complete; ", out);
	else
		fprintf(out, "%.2f%% %s; ", share,
		        all_seen ? "with a complete stack" : "of what was seen has a complete stack");
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
		complete_put(h, p->stops[STOP_END], stacks, out);
	if (h->processes != 1)
		fprintf(out, "%" PRIu64 " processes, whose peaks are added up; ", h->processes);
	fprintf(out, "the recorder took ");
	text_bytes(out, h->memory, 0);
	fprintf(out, " of memory and ");
	text_bytes(out, h->file, 0);
	fprintf(out, " of files%s\n", h->processes > 1 ? " at most in any process" : "");
	if (p->frame_pointers)
		fputs("in code made at run time, stacks are found by frame pointers, which is a guess\n", out);
	stacks_missing(h, out);
}
