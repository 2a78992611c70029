/* SPDX-License-Identifier: MIT */
/* Prints the table of functions on the terminal (writers.h). */
#include "profile/runtimes_seen.h"
#include "profile/writers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "support/strings.h"

struct ranked {
	uint64_t self, total;
	uint32_t function;
	uint32_t seen; /* the last call that has been counted for `total`, which counts once for each stack */
};

static int rank_order(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return x->function < y->function ? -1 : 1;
}

/* Is it a node above all functions of a stack: the process, the thread, or the reason why the walk ended? */
static bool is_above_functions(uint32_t kind) { return stack_is_marker(kind) && kind != STACK_WAIT; }

/* Weighs functions: a function that is on a stack twice counts once for its total. */
static void functions_weigh(const struct profile *p, const uint64_t *self, struct ranked *list)
{
	for (size_t i = 0; i < p->functions.count; i++)
		list[i].function = (uint32_t)i;
	for (size_t i = 1; i < p->calls.count; i++) {
		if (!self[i])
			continue;
		list[p->calls.list[i].b].self += self[i];
		for (uint32_t at = (uint32_t)i; at; at = key_caller(&p->calls.list[at])) {
			struct ranked *r = &list[p->calls.list[at].b];

			if (r->seen == i || is_above_functions(key_kind(&p->calls.list[at])))
				continue;
			r->seen = (uint32_t)i;
			r->total += self[i];
		}
	}
}

static void row_put(const struct profile *p, const struct ranked *r, bool color, FILE *out)
{
	double all = p->weight ? (double)p->weight / 100 : 1;
	const char *name = p->names.list[function_name(p, r->function)];
	const char *binary = p->names.list[function_binary(p, r->function)];

	fprintf(out, "%s%6.2f%%%s %6.2f%%  ", color ? "\033[1m" : "", (double)r->self / all, color ? "\033[0m" : "",
	        (double)r->total / all);
	text_clean_cut(out, name, 78);
	if (*binary && name[0] != '[') {
		fprintf(out, "%s  ", color ? "\033[2m" : "");
		text_clean(out, binary);
		fputs(color ? "\033[0m" : "", out);
	}
	putc('\n', out);
}

/* Prints why there is no sample at all. A command that ran for less than three periods may well have none. */
static void none_put(const struct profile *p, FILE *out)
{
	double user = 1e-6 * (double)p->user_time, kernel = 1e-6 * (double)p->kernel_time,
		   period = 1e-6 * (double)p->period, sampled = p->kernel ? user + kernel : user;
	const char *where = p->kernel ? "" : " outside the kernel";

	if (p->bare)
		fprintf(out, "0 samples: %" PRIu64 " could not be used, because this kernel gave no registers with them\n",
		        p->bare);
	else if (p->unit == UNIT_WAIT)
		fputs("0 samples: no thread waited\n", out);
	else if (p->attached || !p->timed)
		fprintf(out, "0 samples: the process did not run%s meanwhile (where does it wait? --off-cpu)\n", where);
	else if (sampled >= 3 * period)
		fprintf(out,
		        "0 samples: the command ran for %.1f ms%s, of which this kernel has reported nothing "
		        "(virtual machines without a timer for perf_event_open, programs with more rights than their user)\n",
		        sampled, where);
	else
		fprintf(out, "0 samples: the command ran for %.1f ms%s, and one is taken every %g ms: run it for longer%s",
		        sampled, where, period, p->period > 100000 ? ", or use a higher -F" : "");
	if (!p->bare && p->unit == UNIT_TIME && !p->attached && p->timed && sampled < 3 * period) {
		if (!p->kernel)
			fprintf(out, " (%.1f ms in the kernel are not sampled)", kernel);
		putc('\n', out);
	}
}

/* Returns a share that is shown as 100.00% only if it is everything. */
static double share_of(double part, double whole)
{
	double share = whole > 0 ? 100 * part / whole : 0;

	return part < whole && share > 99.99 ? 99.99 : share;
}

/* Prints in one line what the profile does not show. It prints nothing if the profile shows everything. */
static void unseen_put(const struct profile *p, FILE *out)
{
	uint64_t unseen = profile_unseen(p);
	const char *sep = "not seen: ";

	if (p->kernel_seen) {
		fprintf(out, "%s%.0f ms in the kernel, shown as [kernel]", sep, 1e-6 * (double)p->kernel_seen);
		if (!p->kernel_declined)
			fputs(" (its functions need CAP_PERFMON, or the sysctl kernel.perf_event_paranoid at 1 or less)", out);
		sep = "; ";
	}
	if (unseen) {
		fprintf(
			out,
			"%s%.0f ms of processor time (programs with more rights than their user, or the kernel's timer was late)",
			sep, 1e-6 * (double)unseen);
		sep = "; ";
	}
	if (p->unnamed) {
		fprintf(out, "%sthe functions of %" PRIu64 " sample%s in code made at run time", sep, p->unnamed,
		        p->unnamed == 1 ? "" : "s");
		jit_advice_put(p, out);
		sep = "; ";
	}
	if (p->python_blind) {
		fprintf(out, "%sthe Python functions of %" PRIu64 " sample%s", sep, p->python_blind,
		        p->python_blind == 1 ? "" : "s");
		python_advice_put(p, out);
		sep = "; ";
	}
	if (p->lost)
		fprintf(out, "%s%" PRIu64 " lost sample%s", sep, p->lost, p->lost == 1 ? "" : "s");
	if (p->lost || *sep == ';')
		putc('\n', out);
}

/* A file without symbols is named if at least one in so many samples is in its code. */
#define NAMELESS_LEAST 10

/* The number of the file in whose code without a name a sample is; KEY_NONE if its function has a name. */
static uint32_t nameless_binary(const struct profile *p, uint32_t node)
{
	const struct profile_place *place;
	const char *name;
	uint32_t binary;

	while (node && (key_kind(&p->stacks.list[node]) == STACK_WAIT || key_kind(&p->stacks.list[node]) == BINARY_KERNEL))
		node = key_caller(&p->stacks.list[node]);
	binary = key_kind(&p->stacks.list[node]);
	if (p->address_of[node] == KEY_NONE || binary >= p->binaries.count || p->binaries.list[binary]->kind != BINARY_FILE)
		return KEY_NONE;
	place = &p->places[p->place_first[p->address_of[node]]];
	name = p->names.list[function_name(p, place->function)];
	return name[0] == '[' && strstr(name, "+0x") ? binary : KEY_NONE;
}

/* Says which file should have symbols. */
static void nameless_put(const struct profile *p, FILE *out)
{
	size_t *count = calloc(p->binaries.count + 1, sizeof(*count)), most = 0;

	for (size_t i = 0; count && i < p->sample_count; i++) {
		uint32_t binary = nameless_binary(p, p->samples[i].node);

		if (binary != KEY_NONE && ++count[binary] > count[most])
			most = binary;
	}
	if (count && p->binaries.count && count[most] && count[most] >= p->sample_count / NAMELESS_LEAST) {
		fprintf(out, "%zu sample%s in functions of ", count[most], count[most] == 1 ? " is" : "s are");
		text_clean(out, p->binaries.list[most]->name);
		fputs(" that no symbol names: a debug file would (on Debian, a package whose name ends in -dbgsym or -dbg)\n",
		      out);
	}
	free(count);
}

/* Prints what the profile lacks, and why. */
static void lacks_put(const struct profile *p, FILE *out)
{
	uint64_t walks = 0, whole = p->stops[STOP_END], unseen;

	for (int i = 0; i < STOP_COUNT; i++)
		walks += p->stops[i];
	if (!walks && !p->lost) {
		none_put(p, out);
		return;
	}
	unseen = (p->kernel_seen + profile_unseen(p)) / p->period + p->lost;
	fprintf(out, "%" PRIu64 " sample%s", walks, plural(walks));
	if (walks)
		fprintf(out, ", %.2f%% with a complete stack", share_of((double)whole, (double)(walks + unseen)));
	fprintf(out, "; %" PRIu64 " lost", p->lost);
	if (p->lost)
		fputs(" (etch did not read them in time: use a lower -F or a smaller --stack)", out);
	if (p->throttled)
		fprintf(out, "; the kernel paused sampling %" PRIu64 " time%s (kernel.perf_cpu_time_max_percent)", p->throttled,
		        plural(p->throttled));
	putc('\n', out);
	stop_lines_put(p, false, out);
	if (p->guessed)
		fprintf(out, "%" PRIu64 " stack%s found by frame pointers in part, which is a guess\n", p->guessed,
		        p->guessed == 1 ? " is" : "s are");
	if (p->assumed)
		fprintf(out,
		        "%" PRIu64 " stack%s a call to an address without code; its caller is assumed from the word at rsp\n",
		        p->assumed, p->assumed == 1 ? " has" : "s have");
	nameless_put(p, out);
	unseen_put(p, out);
}

/* ---- processes ------------------------------------------------------------------------------ */

#define PROCESSES_SHOWN 10

struct process_row {
	uint64_t weight;
	uint32_t call; /* the process's call */
};

static int process_order(const void *a, const void *b)
{
	const struct process_row *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->call < y->call ? -1 : 1;
}

/* Prints the processes, each with its share, the one with the most first, and in one line those that are not shown. */
static bool processes_put(const struct profile *p, const uint64_t *total, FILE *out)
{
	struct process_row *list = calloc(p->images_seen + 1, sizeof(*list));
	uint64_t rest = 0;
	size_t count = 0;

	if (!list)
		return false;
	for (size_t i = 1; i < p->calls.count && count < p->images_seen; i++)
		if (key_kind(&p->calls.list[i]) == STACK_PROCESS)
			list[count++] = (struct process_row){.weight = total[i], .call = (uint32_t)i};
	qsort(list, count, sizeof(*list), process_order);
	fputs("  share  process\n", out);
	for (size_t i = 0; i < count; i++) {
		if (i >= PROCESSES_SHOWN) {
			rest += list[i].weight;
			continue;
		}
		fprintf(out, "%6.2f%%  ", share_of((double)list[i].weight, (double)p->weight));
		text_clean(out, p->names.list[function_name(p, (uint32_t)p->calls.list[list[i].call].b)]);
		putc('\n', out);
	}
	if (count > PROCESSES_SHOWN)
		fprintf(out, "%6.2f%%  %zu other processes\n", share_of((double)rest, (double)p->weight),
		        count - PROCESSES_SHOWN);
	free(list);
	return true;
}

bool write_top(const struct profile *p, size_t most, bool color, FILE *out)
{
	static const char *const units[] = {[UNIT_TIME] = "samples", [UNIT_WAIT] = "us", [UNIT_BYTES] = "bytes"};
	struct ranked *list = calloc(p->functions.count + 1, sizeof(*list));
	uint64_t *self, *total;
	bool good = true;
	size_t i;

	if (!list || !calls_weigh(p, &self, &total)) {
		free(list);
		return false;
	}
	functions_weigh(p, self, list);
	qsort(list, p->functions.count, sizeof(*list), rank_order);
	if (p->sample_count)
		fprintf(out, "   self   total  function\n");
	for (i = 0; i < p->functions.count && i < most && list[i].self; i++)
		row_put(p, &list[i], color, out);
	if (p->images_seen > 1 && p->sample_count)
		good = processes_put(p, total, out);
	if (p->by_name)
		fprintf(out, "%" PRIu64 " %s in all\n", p->weight / p->period, units[p->unit]);
	else
		lacks_put(p, out);
	free(list);
	free(self);
	free(total);
	return good;
}
