/* SPDX-License-Identifier: MIT */
#include "check_run.h"
#include "report/exchange.h"
#include "report/progress.h"
#include "workers.h"

#include <stdlib.h>
#include <string.h>

/* ---- one input ------------------------------------------------------------------------ */

/* Leaves those out that nobody will see. The order is made later. */
static void findings_keep(struct findings *l, enum severity keep, size_t *dropped)
{
	size_t i = 0;

	while (i < l->count) {
		const struct catalogue_entry *e = catalogue_find(l->list[i].id);

		if (e && e->severity >= keep) {
			i++;
			continue;
		}
		if (e)
			dropped[e->severity]++;
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
	err = elf_open_bytes(&f, in->path, bytes, size, e) || check_file(&f, &options, &s, e) ? -1 : 0;
	if (!err) {
		findings_keep(&s.found, run->keep, c->dropped);
		c->report.functions = s.frames.functions;
		c->report.insns = s.frames.insns;
		err = report_make(&c->report, &f, &s.found, e);
	}
	subject_free(&s);
	elf_close(&f);
	return err;
}

/* A result in any case. False: out of memory. */
static bool input_check(const struct check_run *run, size_t input, struct checked *c)
{
	const struct input *in = &run->inputs->list[input];
	struct error e = {.text = ""};

	*c = (struct checked){0};
	if (report_fill(run, in, c, &e)) {
		report_free(&c->report);
		*c = (struct checked){.report = {.error = strdup(e.text)}};
		if (!c->report.error)
			return false;
	}
	c->report.path = strdup(in->path);
	c->report.member = in->member ? strdup(in->member) : NULL;
	return c->report.path && !!c->report.member == !!in->member;
}

/* ---- by other processes ------------------------------------------------------------------ */

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

static bool work(void *ctx, size_t input, char **answer, size_t *size)
{
	struct json_object *o;
	const char *text;
	struct checked c;

	if (!input_check(ctx, input, &c))
		return false;
	o = checked_to_json(&c);
	report_free(&c.report);
	text = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, size);
	*answer = text ? strdup(text) : NULL;
	json_object_put(o);
	return *answer;
}

static bool result_failed(const struct check_run *run, size_t input, struct checked *c, const char *why)
{
	const struct input *in = &run->inputs->list[input];

	*c = (struct checked){0};
	c->report.path = strdup(in->path);
	c->report.member = in->member ? strdup(in->member) : NULL;
	c->report.error = strdup(why);
	return c->report.path && c->report.error;
}

static bool done(void *ctx, size_t input, const char *answer, size_t size, const char *why)
{
	const struct check_run *run = ctx;
	struct json_tokener *t;
	struct json_object *o;
	struct checked c;
	struct error e;
	bool on = true;

	if (!answer) {
		on = result_failed(run, input, &c, why) && run->done(run->ctx, input, &c);
		report_free(&c.report);
		return on;
	}
	t = json_tokener_new();
	o = t && size <= INT32_MAX ? json_tokener_parse_ex(t, answer, (int)size) : NULL;
	if (checked_from_json(&c, o, &e)) {
		report_free(&c.report);
		on = result_failed(run, input, &c, e.text);
	}
	json_object_put(o);
	json_tokener_free(t);
	on = on && run->done(run->ctx, input, &c);
	report_free(&c.report);
	return on;
}

bool check_run(const struct check_run *run)
{
	struct workers_run workers = {.count = run->inputs->count, .jobs = run->jobs, .what = "check", .work = work,
	                              .done = done, .ctx = (void *)run};
	struct checked c;
	bool good;

	/* A single file is looked at here: there is no other one to protect. */
	if (run->inputs->count == 1) {
		good = input_check(run, 0, &c) && run->done(run->ctx, 0, &c);
		report_free(&c.report);
	} else {
		good = workers_run(&workers);
	}
	progress_end();
	return good;
}
