/* SPDX-License-Identifier: MIT */
/* Runs the checks on every input, in worker processes if there are several inputs, and gives out the results in order.
 */
#include "check/check_run.h"
#include "report/exchange.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/workers.h"

#include <stdlib.h>
#include <string.h>

/* ---- one input ------------------------------------------------------------------------ */

/* Removes findings below run->keep and counts them in `dropped`. Does not keep the order: findings are sorted later. */
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
			dropped[l->list[i].compiler && e->severity > run->compiler ? run->compiler : e->severity]++;
		finding_free(&l->list[i]);
		l->list[i] = l->list[--l->count];
	}
}

static int report_fill(const struct check_run *run, const struct input *in, struct checked *c, struct error *e)
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
		findings_keep(&s.found, run, c->dropped);
		c->report.linked = !elf_is_object(&f);
		c->report.functions = s.frames.functions;
		c->report.insns = s.frames.insns;
		report_make(&c->report, &f, &s.found);
	}
	subject_free(&s);
	elf_close(&f);
	return err;
}

/* Names the report of an input. */
static void name_set(struct checked *c, const struct input *in)
{
	free(c->report.path);
	free(c->report.member);
	c->report.path = mem_string(in->path);
	c->report.member = in->member ? mem_string(in->member) : NULL;
}

/* Checks one input. A failure becomes a report with an error. */
static void input_check(const struct check_run *run, size_t input, struct checked *c)
{
	const struct input *in = &run->inputs->list[input];
	struct error e = {.text = ""};

	*c = (struct checked){0};
	if (report_fill(run, in, c, &e)) {
		report_free(&c->report);
		*c = (struct checked){.report = {.error = mem_string(e.text)}};
	}
	name_set(c, in);
}

/* ---- results across processes, as JSON ----------------------------------------------------- */

static struct json_object *checked_to_json(const struct checked *c)
{
	struct json_object *o = report_to_json(&c->report, EXCHANGE_EXACT), *dropped = json_object_new_array();
	int i;

	for (i = 0; i < SEVERITIES; i++)
		json_object_array_add(dropped, json_object_new_uint64(c->dropped[i]));
	json_object_object_add(o, "dropped", dropped);
	return o;
}

static int checked_from_json(struct checked *c, struct json_object *o, struct error *e)
{
	struct json_object *dropped;
	int i;

	memset(c, 0, sizeof(*c));
	if (report_from_json(&c->report, o, e))
		return -1;
	if (json_object_object_get_ex(o, "dropped", &dropped))
		for (i = 0; i < SEVERITIES; i++)
			c->dropped[i] = json_object_get_uint64(json_object_array_get_idx(dropped, (size_t)i));
	return 0;
}

static void work(void *ctx, size_t input, char **answer, size_t *size)
{
	struct json_object *o;
	const char *text;
	struct checked c;

	input_check(ctx, input, &c);
	o = checked_to_json(&c);
	report_free(&c.report);
	text = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, size);
	*answer = mem_string(text);
	json_object_put(o);
}

/* ---- in the order of the inputs ------------------------------------------------------------ */

/* A worker's result, kept for later inputs that are the same file. */
struct answer {
	char *text, *why; /* the result, or why there is none; both null: not known yet */
	size_t size;
};

/* The state of a run. A file that is several inputs (hard links, members of thin archives) is checked once. */
struct check_queue {
	const struct check_run *run;
	size_t *first;       /* by input: the first input that is the same file */
	bool *again;         /* by input: later inputs are the same file */
	size_t *list, count; /* the inputs that are checked */
	struct answer *kept; /* by input, if `again` */
	size_t given_out;    /* number of inputs whose results have been given out */
};

static void result_failed(const struct check_run *run, size_t input, struct checked *c, const char *why)
{
	*c = (struct checked){.report = {.error = mem_string(why)}};
	name_set(c, &run->inputs->list[input]);
}

static bool result_give(const struct check_run *run, size_t input, const char *answer, size_t size, const char *why)
{
	struct json_tokener *t;
	struct json_object *o;
	struct checked c;
	struct error e;
	bool on;

	if (!answer) {
		result_failed(run, input, &c, why);
	} else {
		t = json_tokener_new();
		o = size <= INT32_MAX ? json_tokener_parse_ex(t, answer, (int)size) : NULL;
		if (checked_from_json(&c, o, &e)) {
			report_free(&c.report);
			result_failed(run, input, &c, e.text);
		} else {
			name_set(&c, &run->inputs->list[input]); /* the result may be of another input that is the same file */
		}
		json_object_put(o);
		json_tokener_free(t);
	}
	on = run->done(run->ctx, input, &c);
	report_free(&c.report);
	return on;
}

/* Gives out the results of the inputs before `end`, which are files that were checked before. */
static bool results_repeat(struct check_queue *c, size_t end)
{
	bool on = true;

	for (; c->given_out < end && on; c->given_out++) {
		const struct answer *a = &c->kept[c->first[c->given_out]];

		on = result_give(c->run, c->given_out, a->text, a->size, a->why);
	}
	return on;
}

static void answer_keep(struct answer *a, const char *answer, size_t size, const char *why)
{
	a->text = answer ? mem_copy(answer, size + 1) : NULL;
	a->why = answer ? NULL : mem_string(why);
	a->size = size;
}

static void queue_work(void *ctx, size_t i, char **answer, size_t *size)
{
	const struct check_queue *c = ctx;

	work((void *)c->run, c->list[i], answer, size);
}

static bool queue_done(void *ctx, size_t i, const char *answer, size_t size, const char *why)
{
	struct check_queue *c = ctx;
	size_t input = c->list[i];

	if (!results_repeat(c, input))
		return false;
	if (c->again[input])
		answer_keep(&c->kept[input], answer, size, why);
	c->given_out++;
	return result_give(c->run, input, answer, size, why);
}

static void queue_open(struct check_queue *c)
{
	size_t n = c->run->inputs->count, i;

	c->first = inputs_first(c->run->inputs);
	c->again = mem_zero(n, sizeof(*c->again));
	c->list = mem_alloc(n, sizeof(*c->list));
	c->kept = mem_zero(n, sizeof(*c->kept));
	for (i = 0; i < n; i++)
		if (c->first[i] == i)
			c->list[c->count++] = i;
		else
			c->again[c->first[i]] = true;
}

static void queue_close(struct check_queue *c)
{
	size_t i;

	for (i = 0; i < c->run->inputs->count; i++) {
		free(c->kept[i].text);
		free(c->kept[i].why);
	}
	free(c->first);
	free(c->again);
	free(c->list);
	free(c->kept);
}

bool check_run(const struct check_run *run)
{
	struct check_queue queue = {.run = run};
	struct workers_run workers = {
		.jobs = run->jobs, .what = "check", .work = queue_work, .done = queue_done, .ctx = &queue};
	struct checked c;
	bool good;

	/* A single file is checked in this process: a crash could not cost another file its result. */
	if (run->inputs->count == 1) {
		input_check(run, 0, &c);
		good = run->done(run->ctx, 0, &c);
		report_free(&c.report);
	} else {
		queue_open(&queue);
		workers.count = queue.count;
		good = workers_run(&workers) && results_repeat(&queue, run->inputs->count);
		queue_close(&queue);
	}
	progress_end();
	return good;
}
