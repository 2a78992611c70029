/* SPDX-License-Identifier: MIT */
/* The table of functions on the terminal (writers.h). */
#include "profile/stop_lines.h"
#include "profile/writers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "support/plural.h"

struct ranked {
	uint64_t self, total;
	uint32_t function;
	uint32_t seen; /* the last call that has been counted for `total`: once a stack */
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

			if (r->seen == i || (uint32_t)p->calls.list[at].a)
				continue; /* or a thread's name, or a stop */
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
	if (strlen(name) > 78) {
		char cut[80];

		snprintf(cut, sizeof(cut), "%.75s...", name);
		text_clean(out, cut);
	} else {
		text_clean(out, name);
	}
	if (*binary && name[0] != '[') {
		fprintf(out, "%s  ", color ? "\033[2m" : "");
		text_clean(out, binary);
		fputs(color ? "\033[0m" : "", out);
	}
	putc('\n', out);
}

/* Why there is no sample at all. A command with less than three periods may well have none. */
static void none_put(const struct profile *p, FILE *out)
{
	double user = 1e-6 * (double)p->user_time, kernel = 1e-6 * (double)p->kernel_time,
		   period = 1e-6 * (double)p->period;

	if (p->bare)
		fprintf(out, "0 samples: %" PRIu64 " came without registers, which this kernel does not give\n", p->bare);
	else if (p->unit == UNIT_WAIT)
		fputs("0 samples: no thread waited\n", out);
	else if (!p->timed)
		fputs("0 samples: the process did not run outside the kernel meanwhile (where does it wait? --off-cpu)\n", out);
	else if (user >= 3 * period)
		fprintf(out,
		        "0 samples: the command ran for %.1f ms outside the kernel, of which this kernel has reported nothing "
		        "(virtual machines without a timer for perf_event_open, programs with more rights than their user)\n",
		        user);
	else
		fprintf(out,
		        "0 samples: the command ran for %.1f ms outside the kernel, and one is taken every %g ms: "
		        "run it for longer%s (%.1f ms in the kernel are not sampled)\n",
		        user, period, p->period > 100000 ? ", or use a higher -F" : "", kernel);
}

/* What the profile lacks, and why. */
static void lacks_put(const struct profile *p, FILE *out)
{
	uint64_t walks = 0, whole = p->stops[STOP_END];

	for (int i = 0; i < STOP_COUNT; i++)
		walks += p->stops[i];
	if (!walks && !p->lost) {
		none_put(p, out);
		return;
	}
	fprintf(out, "%" PRIu64 " sample%s", walks, plural(walks));
	if (walks)
		fprintf(out, ", %.2f%% with a complete stack", 100 * (double)whole / (double)walks);
	fprintf(out, "; %" PRIu64 " lost", p->lost);
	if (p->lost)
		fputs(" (etch did not read them in time: use a lower -F or a smaller --stack)", out);
	if (p->throttled)
		fprintf(out, "; %" PRIu64 " time%s the kernel paused sampling (kernel.perf_cpu_time_max_percent)", p->throttled,
		        plural(p->throttled));
	putc('\n', out);
	stop_lines_put(p, false, out);
	if (p->guessed)
		fprintf(out, "%" PRIu64 " stack%s found by frame pointers in part: a guess\n", p->guessed,
		        p->guessed == 1 ? " is" : "s are");
	if (p->assumed)
		fprintf(out,
		        "%" PRIu64
		        " stack%s a call to an address where no code is: its caller is assumed from the word at rsp\n",
		        p->assumed, p->assumed == 1 ? " has" : "s have");
}

bool write_top(const struct profile *p, size_t most, bool color, FILE *out)
{
	struct ranked *list = calloc(p->functions.count + 1, sizeof(*list));
	uint64_t *self, *total;
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
	lacks_put(p, out);
	free(list);
	free(self);
	free(total);
	return true;
}
