/* SPDX-License-Identifier: MIT */
/* Runs one or two commands alternately and collects the values of each run (measure.h). */
#include "stat/measure.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/progress.h"
#include "stat/counters.h"

struct progress {
	const struct measurement *m;
	size_t done, all;
};

static void tick(void *context)
{
	const struct progress *p = context;

	if (p->m->progress)
		progress_note("stat", p->done, p->all, "runs");
}

static int take(struct measurement *m, size_t side, const struct reading *got, struct error *e)
{
	size_t i;

	for (i = 0; i < m->row_count; i++) {
		struct side *to = &m->rows[i].side[side];

		if (!got->have[i])
			continue;
		if (!samples_add(&to->samples, got->value[i]))
			return error_set(e, NO_MEMORY);
		if (to->samples.count == 1 || got->share[i] < to->share)
			to->share = got->share[i];
	}
	return 0;
}

static void ending_record(struct endings *to, int status)
{
	to->runs++;
	if (WIFSIGNALED(status))
		to->signals[WTERMSIG(status) & 127]++;
	else
		to->exits[WEXITSTATUS(status)]++;
	to->failed += status != 0;
}

/* A simulated command that was killed leaves no counts; that does not stop the measurement. */
static int simulated_read(struct measurement *m, const struct run *r, const struct run_end *end, struct reading *got,
                          struct error *e)
{
	if (!simulation_read(&m->simulation, r->pid, got, e))
		return 0;
	return WIFSIGNALED(end->status) ? 0 : -1;
}

/* Runs a command once. */
static int command_once(struct measurement *m, char **command, struct progress *p, struct reading *got, int *status,
                        struct error *e)
{
	char **argv = m->simulate ? simulation_command(&m->simulation, command) : command;
	struct counters counters;
	struct run_end end;
	struct run r;
	int err;

	if (!argv)
		return error_set(e, NO_MEMORY);
	err = run_start(&r, argv, &m->run, e);
	if (!err) {
		counters_open(&counters, m->rows, m->row_count, r.pid);
		err = run_go(&r, &end, tick, p, e);
		if (err)
			counters_close(&counters);
		else if (m->simulate)
			err = simulated_read(m, &r, &end, got, e);
		else
			counters_read(&counters, m->rows, m->row_count, &end.usage, end.elapsed, got);
		*status = end.status;
	}
	if (m->simulate)
		free(argv);
	m->stopped = runs_stopped();
	return err;
}

/* Makes a run for each size of work. If the first one fails or is stopped, the second is not made. */
static int both_sizes(struct measurement *m, size_t side, struct progress *p, struct reading *out, int *status,
                      struct error *e)
{
	struct reading got[2];
	int err = 0;

	*status = 0;
	memset(got, 0, sizeof(got));
	for (size_t i = 0; i < 2 && !err && !m->stopped && !*status; i++) {
		char **command = work_command(m->command[side], m->work.text[i]);

		err = command_once(m, command, p, &got[i], status, e);
		free(command);
	}
	work_unit(&m->work, got, out);
	return err;
}

static int one_run(struct measurement *m, size_t side, bool keep, struct progress *p, struct error *e)
{
	struct reading got;
	int status, err;

	err = m->work.text[0] ? both_sizes(m, side, p, &got, &status, e)
	                      : command_once(m, m->command[side], p, &got, &status, e);
	if (err)
		return err;
	/* A run that was cut short is kept if there is no other. With sizes of work it is not kept, since there is no
	 * difference. */
	if (m->stopped ? m->end[side].runs || m->work.text[0] : !keep)
		return 0;
	m->end[side].cut_short = m->stopped;
	ending_record(&m->end[side], status);
	return take(m, side, &got, e);
}

static int all_runs(struct measurement *m, const char **about, struct error *e)
{
	struct progress p = {m, 0, m->side_count * (m->runs + m->warmup)};
	size_t round, side;

	for (round = 0; round < m->runs + m->warmup; round++)
		for (side = 0; side < m->side_count; side++, p.done++) {
			m->stopped = runs_stopped();
			if (m->stopped)
				return 0;
			tick(&p);
			*about = m->command[side][0];
			if (one_run(m, side, round >= m->warmup, &p, e))
				return -1;
		}
	return 0;
}

int measure(struct measurement *m, const char **about, struct error *e)
{
	int err;

	*about = NULL;
	m->row_count = m->simulate ? simulation_plan(m->rows) : counters_plan(m->rows);
	if (m->simulate && simulation_begin(&m->simulation, m->only, m->files, e))
		return -1;
	runs_begin();
	if (!runs_share_input() && m->side_count * (m->runs + m->warmup) > 1)
		m->run.input_keep = false;
	err = all_runs(m, about, e);
	m->stopped = runs_stopped();
	progress_end();
	if (m->simulate)
		simulation_end(&m->simulation);
	runs_end();
	return err;
}

void measurement_free(struct measurement *m)
{
	size_t i, j;

	free(m->work.copy);
	for (i = 0; i < ROWS_MAX; i++)
		for (j = 0; j < SIDES_MAX; j++)
			samples_free(&m->rows[i].side[j].samples);
}
