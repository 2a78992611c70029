/* SPDX-License-Identifier: MIT */
/*
 * Checks every input. A single one is checked in this process; several are checked in worker processes, which send
 * their reports as JSON.
 */
#include "check/check_run.h"
#include "report/report_json.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/workers.h"

#include <stdlib.h>
#include <string.h>

/* ---- one input ------------------------------------------------------------------------ */

/*
 * Removes the findings whose severity is below run->keep, and counts them in `dropped`. The order changes, but findings
 * are sorted later.
 */
static void findings_keep(struct findings *l, const struct check_run *run, size_t *dropped)
{
	size_t i = 0;

	while (i < l->count) {
		const struct catalogue_entry *e = catalogue_find(l->list[i].id);

		if (e && e->severity >= run->keep) {
			i++;
			continue;
		}
		if (e)
			dropped[severity_decide(run->policy, e, l->list[i].compiler)]++;
		finding_free(&l->list[i]);
		l->list[i] = l->list[--l->count];
	}
}

static int report_fill(const struct check_run *run, const struct input *in, struct report *r, struct error *e)
{
	struct check_options options = run->options;
	struct elf_file f = {0};
	struct subject s = {0};
	uint8_t *bytes;
	size_t size;
	int err;

	options.jobs = run->inputs->count == 1 ? run->jobs : 1;
	if (input_read(in, &bytes, &size, e))
		return -1;
	err = elf_open_bytes(&f, in->path, bytes, size, e) || check_file(&f, &options, &s, e) || check_origin(&s, e) ||
	              (!run->each && check_fold(&s, e))
	          ? -1
	          : 0;
	if (!err) {
		findings_keep(&s.found, run, r->dropped);
		r->linked = !elf_is_object(&f);
		r->functions = s.frames.functions;
		r->insns = s.frames.insns;
		report_make(r, &f, &s.found);
	}
	subject_free(&s);
	elf_close(&f);
	return err;
}

/* Sets path and member of a report to those of its input. */
static void name_set(struct report *r, const struct input *in)
{
	free(r->path);
	free(r->member);
	r->path = mem_string(in->path);
	r->member = in->member ? mem_string(in->member) : NULL;
}

/* Replaces a report by one without findings that states why the input could not be checked. */
static void report_fail(struct report *r, const char *why)
{
	report_free(r);
	r->error = mem_string(why);
}

/* Checks one input. After a failure, the report states the error. */
static void input_check(const struct check_run *run, size_t input, struct report *r)
{
	const struct input *in = &run->inputs->list[input];
	struct error e = {.text = ""};

	if (report_fill(run, in, r, &e))
		report_fail(r, e.text);
	name_set(r, in);
}

/* ---- several inputs, in processes ----------------------------------------------------------- */

/*
 * The inputs that are to be checked. If several inputs are the same file (hard links, members of thin archives), it is
 * checked once.
 */
struct check_queue {
	const struct check_run *run;
	struct report *reports; /* indexed by input */
	size_t *next;           /* for each input: the next input that is the same file; 0: none */
	size_t *list, count;    /* the inputs that the workers check */
};

/* Runs in the worker: checks an input and makes the answer. */
static void queue_work(void *ctx, size_t i, char **answer, size_t *size)
{
	const struct check_queue *q = ctx;
	struct report r = {0};
	struct json_object *o;

	input_check(q->run, q->list[i], &r);
	o = report_to_json(&r, EXCHANGE_EXACT);
	report_free(&r);
	*answer = mem_string(json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, size));
	json_object_put(o);
}

/* Runs in the parent: takes the answer for an input, also for all other inputs that are the same file. */
static bool queue_done(void *ctx, size_t i, const char *answer, size_t size, const char *why)
{
	const struct check_queue *q = ctx;
	struct json_object *o = NULL;
	struct error e;
	size_t input;

	if (answer) {
		struct json_tokener *t = json_tokener_new();

		o = size <= INT32_MAX ? json_tokener_parse_ex(t, answer, (int)size) : NULL;
		json_tokener_free(t);
	}
	input = q->list[i];
	do {
		struct report *r = &q->reports[input];

		if (!answer)
			report_fail(r, why);
		else if (report_from_json(r, o, &e))
			report_fail(r, e.text);
		name_set(r, &q->run->inputs->list[input]);
		input = q->next[input];
	} while (input);
	json_object_put(o);
	return true;
}

static bool queue_run(const struct check_run *run, struct report *reports)
{
	size_t n = run->inputs->count, *first = inputs_first(run->inputs), i;
	struct check_queue queue = {.run = run,
	                            .reports = reports,
	                            .next = mem_zero(n, sizeof(*queue.next)),
	                            .list = mem_alloc(n, sizeof(*queue.list))};
	struct workers_run workers = {
		.jobs = run->jobs, .what = "check", .work = queue_work, .done = queue_done, .ctx = &queue};
	bool good;

	for (i = 0; i < n; i++) {
		if (first[i] == i) {
			queue.list[queue.count++] = i;
		} else {
			queue.next[i] = queue.next[first[i]];
			queue.next[first[i]] = i;
		}
	}
	workers.count = queue.count;
	good = workers_run(&workers);
	free(first);
	free(queue.next);
	free(queue.list);
	return good;
}

bool check_run(const struct check_run *run, struct report *reports)
{
	bool good = true;

	/* A single file is checked in this process, since a crash could not cost the results of others. */
	if (run->inputs->count == 1)
		input_check(run, 0, &reports[0]);
	else
		good = queue_run(run, reports);
	progress_end();
	return good;
}
