/* SPDX-License-Identifier: MIT */
/* Reads counters of the kernel and the processor for a command by perf_event_open(2), with wait4(2) as a fallback. */
#include "stat/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { TASK_CLOCK, MIGRATIONS, SWITCHES, FAULTS, HARDWARE, ELAPSED };

/*
 * The events of one group are on the processor's counters at the same time, so that they can be compared even if there
 * are too few counters for all events. Groups of four and two events fit the counters of current x86-64 processors.
 */
static const struct event {
	const char *key, *title, *unit;
	enum kind kind;
	unsigned group;
	uint32_t type;
	uint64_t config;
} events[] = {
	{"task-clock", "task clock", "ms", TASK_CLOCK, 0, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
	{"cpu-migrations", "CPU migrations", NULL, MIGRATIONS, 0, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
	{"context-switches", "context switches", NULL, SWITCHES, 0, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"page-faults", "page faults", NULL, FAULTS, 0, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
	{"cycles", "CPU cycles", NULL, HARDWARE, 1, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", "instructions", NULL, HARDWARE, 1, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
	{"cache-references", "cache references", NULL, HARDWARE, 2, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
	{"cache-misses", "cache misses", NULL, HARDWARE, 2, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
	{"branches", "branches", NULL, HARDWARE, 1, PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-misses", "branch misses", NULL, HARDWARE, 1, PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
	{"elapsed", "time elapsed", "ms", ELAPSED, 0, 0, 0},
};
#define EVENTS (sizeof(events) / sizeof(events[0]))
_Static_assert(EVENTS <= ROWS_MAX, "a row for every event");

static int event_open(const struct event *ev, bool user_only, pid_t pid, int leader)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = ev->type;
	attr.config = ev->config;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.inherit = 1;
	/* The other events of a group run when the leader does. */
	attr.disabled = attr.enable_on_exec = leader < 0;
	attr.exclude_kernel = user_only;
	return (int)syscall(SYS_perf_event_open, &attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static void missing_set(struct row *r, int error)
{
	const char *why;
	int level = 0;
	FILE *f;

	switch (error) {
	case EACCES:
		why = "not allowed";
		f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
		if (f && fscanf(f, "%d", &level) == 1 && level > 1) {
			snprintf(r->missing, sizeof(r->missing), "not allowed (perf_event_paranoid is %d)", level);
			why = NULL;
		}
		if (f)
			fclose(f);
		break;
	case EPERM: /* a system call filter, as in containers */ why = "not allowed by a seccomp filter"; break;
	case ENOSYS: why = "not supported by this kernel"; break;
	case ENOENT:
	case ENODEV:
	case ENXIO:
	case EOPNOTSUPP:
	case EINVAL: why = "not supported by this machine"; break;
	default: why = strerror(error);
	}
	if (why)
		snprintf(r->missing, sizeof(r->missing), "%s", why);
}

/*
 * Plans a software event. Software events count the kernel's work: restricted to user mode, there would be no context
 * switches to count. If they are not permitted, wait4() gives the same numbers for the command and the children that it
 * waited for.
 */
static void software_plan(const struct event *ev, struct row *r)
{
	int fd = event_open(ev, false, 0, -1);

	if (fd >= 0) {
		close(fd);
		r->source = SOURCE_PERF;
	} else if (ev->kind != MIGRATIONS) {
		r->source = SOURCE_RUSAGE;
	} else {
		missing_set(r, errno);
	}
}

/* Plans a hardware event. Returns its descriptor, which is the leader for the other events of the group, or -1. */
static int hardware_plan(const struct event *ev, struct row *r, int leader)
{
	int fd = event_open(ev, false, 0, leader), error;

	if (fd < 0 && (errno == EACCES || errno == EPERM)) {
		r->user_only = true;
		fd = event_open(ev, true, 0, leader);
	}
	if (fd >= 0 || leader < 0)
		goto out;
	/* The group may be too large for this processor: try the event alone. */
	fd = event_open(ev, r->user_only, 0, -1);
	if (fd >= 0)
		r->group = 0;
out:
	error = errno;
	if (fd >= 0) {
		r->source = SOURCE_PERF;
	} else {
		r->user_only = false;
		r->group = 0;
		missing_set(r, error);
	}
	return fd;
}

size_t counters_plan(struct row *rows)
{
	int leader[3] = {-1, -1, -1}, fds[EVENTS];
	size_t i;

	for (i = 0; i < EVENTS; i++) {
		const struct event *ev = &events[i];
		struct row *r = &rows[i];

		memset(r, 0, sizeof(*r));
		r->key = ev->key;
		r->title = ev->title;
		r->unit = ev->unit;
		r->group = ev->group;
		fds[i] = -1;
		if (ev->kind == ELAPSED)
			r->source = SOURCE_CLOCK;
		else if (ev->kind != HARDWARE)
			software_plan(ev, r);
		else
			fds[i] = hardware_plan(ev, r, leader[ev->group]);
		if (r->group && leader[r->group] < 0)
			leader[r->group] = fds[i];
	}
	for (i = 0; i < EVENTS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return EVENTS;
}

void counters_open(struct counters *c, const struct row *rows, size_t count, pid_t pid)
{
	int leader[3] = {-1, -1, -1};
	size_t i;

	for (i = 0; i < ROWS_MAX; i++)
		c->fd[i] = -1;
	for (i = 0; i < count; i++) {
		unsigned group = rows[i].group;

		if (rows[i].source != SOURCE_PERF)
			continue;
		c->fd[i] = event_open(&events[i], rows[i].user_only, pid, group ? leader[group] : -1);
		if (group && leader[group] < 0)
			leader[group] = c->fd[i];
	}
}

/*
 * Reads a counter. An event that shared the processor's counters was counted only for a part of the time, so its value
 * is scaled up to the whole run. An event that was never on a counter has no value.
 */
static void perf_read(int fd, const struct event *ev, size_t i, struct reading *out)
{
	struct {
		uint64_t value, enabled, running;
	} got;

	if (fd < 0 || read(fd, &got, sizeof(got)) != sizeof(got) || !got.running)
		return;
	out->have[i] = true;
	out->share[i] = got.running < got.enabled ? (double)got.running / (double)got.enabled : 1;
	if (ev->kind == TASK_CLOCK)
		out->value[i] = (double)got.value / 1e6;
	else
		out->value[i] = (double)(uint64_t)((double)got.value / out->share[i] + 0.5);
}

static double milliseconds(struct timeval t) { return 1e3 * (double)t.tv_sec + 1e-3 * (double)t.tv_usec; }

void counters_read(struct counters *c, const struct row *rows, size_t count, const struct rusage *usage, double elapsed,
                   struct reading *out)
{
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < count; i++) {
		if (rows[i].source == SOURCE_PERF) {
			perf_read(c->fd[i], &events[i], i, out);
			continue;
		}
		out->have[i] = rows[i].source != SOURCE_NONE;
		out->share[i] = 1;
		if (events[i].kind == ELAPSED)
			out->value[i] = elapsed;
		else if (events[i].kind == TASK_CLOCK)
			out->value[i] = milliseconds(usage->ru_utime) + milliseconds(usage->ru_stime);
		else if (events[i].kind == SWITCHES)
			out->value[i] = (double)(usage->ru_nvcsw + usage->ru_nivcsw);
		else if (events[i].kind == FAULTS)
			out->value[i] = (double)(usage->ru_minflt + usage->ru_majflt);
	}
	counters_close(c);
}

void counters_close(struct counters *c)
{
	size_t i;

	for (i = 0; i < ROWS_MAX; i++) {
		if (c->fd[i] >= 0)
			close(c->fd[i]);
		c->fd[i] = -1;
	}
}
