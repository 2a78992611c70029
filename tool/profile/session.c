/* SPDX-License-Identifier: MIT */
/* Runs a command and reads its samples meanwhile (session.h). */
#include "profile/session.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/run.h"
#include "support/progress.h"

#define PYTHON_VARIABLE "PYTHONPERFSUPPORT"

/* The time between two reads of the buffers: the smallest buffer holds ten samples of a processor. */
#define LOOK_NS 10000000L
/* If a command runs for longer than this, etch reads the kernel's table of symbols meanwhile. */
#define KALLSYMS_AFTER_NS 150000000u

struct recording {
	struct perf_session perf;
	struct profile *profile;
};

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void look(void *context)
{
	struct recording *r = context;

	perf_read(&r->perf, false, profile_take, r->profile);
	/* Read it now, while etch has nothing else to do, and not when the command has ended and its user waits. */
	if (r->profile->kernel && clock_ns() - r->profile->begun > KALLSYMS_AFTER_NS &&
	    !kallsyms_read(&r->profile->kallsyms))
		r->profile->no_memory = true;
	if (r->profile->sample_count)
		progress_note("profile", r->profile->sample_count, r->profile->sample_count, "samples");
}

/* Takes the last records. `pid` is the process to which time in the kernel is attributed if it was not sampled. */
static void recording_end(struct recording *r, pid_t pid)
{
	struct profile *p = r->profile;

	perf_stop(&r->perf);
	perf_read(&r->perf, true, profile_take, p);
	perf_close(&r->perf);
	progress_end();
	if (p->timed && !p->kernel && p->unit == UNIT_TIME)
		profile_kernel_time(p, p->kernel_time, pid, clock_ns());
	profile_end(p, clock_ns());
	p->duration = clock_ns() - p->begun;
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

static int sampling_open(struct recording *r, pid_t pid, const struct session_options *o, struct error *e)
{
	int err = perf_open(&r->perf, pid, &o->perf, e);

	r->profile->kernel = r->perf.kernel;
	r->profile->kernel_declined = !o->perf.kernel;
	r->profile->stack = r->perf.stack;
	r->profile->begun = clock_ns();
	return err;
}

static int command_run(const struct session_options *o, struct recording *r, struct session_end *end, struct error *e)
{
	struct run_options how = {
		.cpu = -1, .out = o->to_stderr ? STDERR_FILENO : -1, .input_keep = true, .tick_ns = LOOK_NS};
	struct run_end ended = {0};
	struct run run;
	struct error sampling;
	int err;

	/* With this variable Python 3.12 and later names its functions (python_stubs.h). A value that the user has set,
	 * perhaps 0, is kept.
	 */
	r->profile->python_asked = !getenv(PYTHON_VARIABLE) && !setenv(PYTHON_VARIABLE, "1", 0);
	if (run_start(&run, o->command, &how, e))
		return -1;
	if (sampling_open(r, run.pid, o, &sampling)) {
		run_drop(&run);
		*e = sampling;
		perf_close(&r->perf);
		return -1;
	}
	err = run_go(&run, &ended, look, r, e);
	r->profile->timed = !err && o->perf.children;
	r->profile->user_time = timeval_ns(&ended.usage.ru_utime);
	r->profile->kernel_time = timeval_ns(&ended.usage.ru_stime);
	recording_end(r, run.pid);
	end->status = run_exit_status(ended.status);
	end->signal = WIFSIGNALED(ended.status) ? WTERMSIG(ended.status) : 0;
	return err;
}

/* Reads the processor time that a process has used. Returns false if it is gone. */
static bool process_time(pid_t pid, uint64_t *user, uint64_t *kernel)
{
	unsigned long long ticks[2];
	char path[64], text[1024];
	const char *fields;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	f = fopen(path, "re");
	n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	fields = strrchr(text, ')'); /* the fields after the name, from the third on (proc(5)) */
	if (!fields || sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &ticks[0], &ticks[1]) != 2)
		return false;
	*user = ticks[0] * 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	*kernel = ticks[1] * 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	return true;
}

static int process_watch(const struct session_options *o, struct recording *r, struct error *e)
{
	uint64_t begun, user, kernel, user_before = 0, kernel_before = 0;
	struct timespec pause = {0, LOOK_NS};
	struct profile *p = r->profile;
	bool timed;

	if (sampling_open(r, o->pid, o, e) || !process_read(&p->processes, o->pid, &p->binaries, e)) {
		perf_close(&r->perf);
		return -1;
	}
	begun = clock_ns();
	timed = process_time(o->pid, &user_before, &kernel_before);
	do {
		nanosleep(&pause, NULL);
		look(r);
		if (timed && process_time(o->pid, &user, &kernel)) {
			p->user_time = user - user_before;
			p->kernel_time = kernel - kernel_before;
		}
	} while (!runs_stopped() && !kill(o->pid, 0) &&
	         (!(o->seconds > 0) || 1e-9 * (double)(clock_ns() - begun) < o->seconds));
	p->timed = timed;
	recording_end(r, o->pid);
	return 0;
}

int session_run(const struct session_options *o, struct profile *p, struct session_end *end, struct error *e)
{
	struct recording r = {.profile = p};
	struct session_options how = *o;
	int err;

	how.perf.whole_process = !o->command;
	p->period = 1000000000u / o->perf.hz;
	p->frame_pointers = o->frame_pointers;
	p->unit = o->perf.off_cpu ? UNIT_WAIT : UNIT_TIME;
	p->wall = o->perf.off_cpu && o->perf.on_cpu;
	p->measure = p->unit == UNIT_WAIT ? "time in which threads wait" : "processor time";
	if (p->wall)
		p->measure = "clock time, running and waiting";
	if (o->perf.on_cpu)
		snprintf(p->rate, sizeof(p->rate), "%u samples a second", o->perf.hz);
	p->started = time(NULL);
	p->by_thread = o->by_thread;
	p->attached = !o->command;
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
	/* The kernel ends sampling when a program gains rights that its user does not have. */
	switch (command_path(name, path) ? command_rights(path) : RIGHTS_NONE) {
	case RIGHTS_SET_ID:
		return error_set(
			e, "a set-user-ID or set-group-ID program cannot be sampled: the kernel ends sampling at its exec");
	case RIGHTS_CAPABILITIES:
		return error_set(e, "a program with file capabilities cannot be sampled: the kernel ends sampling at its exec");
	default: return 0; /* exec will report anything else that is wrong */
	}
}
