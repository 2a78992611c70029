/* SPDX-License-Identifier: MIT */
/* Runs a command and reads its samples meanwhile (session.h). */
#include "profile/session.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "profile/command_file.h"
#include "stat/run.h"
#include "support/progress.h"

/* Between two looks at the buffers: the smallest has room for ten samples of a processor. */
#define LOOK_NS 10000000L

struct recording {
	struct perf_session perf;
	struct profile *profile;
};

static void look(void *context)
{
	struct recording *r = context;

	perf_read(&r->perf, false, profile_take, r->profile);
	if (r->profile->sample_count)
		progress_note("profile", r->profile->sample_count, r->profile->sample_count, "samples");
}

/* Takes the last records. */
static void recording_end(struct recording *r)
{
	struct timespec t;

	perf_stop(&r->perf);
	perf_read(&r->perf, true, profile_take, r->profile);
	perf_close(&r->perf);
	progress_end();
	clock_gettime(CLOCK_MONOTONIC, &t);
	profile_end(r->profile, (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

static int command_run(const struct session_options *o, struct recording *r, struct session_end *end, struct error *e)
{
	struct run_options how = {
		.cpu = -1, .out = o->to_stderr ? STDERR_FILENO : -1, .input_keep = true, .tick_ns = LOOK_NS};
	struct run_end ended = {0};
	struct run run;
	struct error sampling;
	int err;

	if (run_start(&run, o->command, &how, e))
		return -1;
	if (perf_open(&r->perf, run.pid, &o->perf, &sampling)) {
		run_drop(&run);
		*e = sampling;
		perf_close(&r->perf);
		return -1;
	}
	err = run_go(&run, &ended, look, r, e);
	recording_end(r);
	r->profile->timed = !err;
	r->profile->user_time = timeval_ns(&ended.usage.ru_utime);
	r->profile->kernel_time = timeval_ns(&ended.usage.ru_stime);
	end->status = run_exit_status(ended.status);
	end->signal = WIFSIGNALED(ended.status) ? WTERMSIG(ended.status) : 0;
	return err;
}

static int process_watch(const struct session_options *o, struct recording *r, struct error *e)
{
	struct timespec begun, t, pause = {0, LOOK_NS};

	if (perf_open(&r->perf, o->pid, &o->perf, e) ||
	    !process_read(&r->profile->processes, o->pid, &r->profile->binaries, e)) {
		perf_close(&r->perf);
		return -1;
	}
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		nanosleep(&pause, NULL);
		look(r);
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while (!runs_stopped() && !kill(o->pid, 0) &&
	         (!(o->seconds > 0) ||
	          (double)(t.tv_sec - begun.tv_sec) + 1e-9 * (double)(t.tv_nsec - begun.tv_nsec) < o->seconds));
	recording_end(r);
	return 0;
}

int session_run(const struct session_options *o, struct profile *p, struct session_end *end, struct error *e)
{
	struct recording r = {.profile = p};
	struct session_options how = *o;
	int err;

	how.perf.whole_process = !o->command;
	p->period = 1000000000u / o->perf.hz;
	p->stack = o->perf.stack;
	p->frame_pointers = o->frame_pointers;
	p->unit = o->perf.off_cpu ? UNIT_WAIT : UNIT_TIME;
	runs_begin();
	err = o->command ? command_run(&how, &r, end, e) : process_watch(&how, &r, e);
	end->stopped = runs_stopped();
	runs_end();
	return err;
}

int session_command_check(const char *name, struct error *e)
{
	char path[PATH_MAX];

	if (command_check(name, e))
		return -1;
	/* The kernel ends sampling where a program takes rights that its user does not have. */
	switch (command_path(name, path) ? command_rights(path) : RIGHTS_NONE) {
	case RIGHTS_SET_ID:
		return error_set(
			e, "a set-user-ID or set-group-ID program cannot be sampled: the kernel ends sampling at its exec");
	case RIGHTS_CAPABILITIES:
		return error_set(e, "a program with file capabilities cannot be sampled: the kernel ends sampling at its exec");
	default: return 0; /* exec will say what else is wrong */
	}
}
