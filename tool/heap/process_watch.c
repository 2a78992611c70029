/* SPDX-License-Identifier: MIT */
/* Lists the programs that a command has executed (process_watch.h). */
#include "heap/process_watch.h"

#include <string.h>

#include "support/memory.h"
#include "support/sort.h"

struct record_comm {
	struct perf_event_header header;
	uint32_t pid, tid;
	char name[];
};

static void record_take(void *watch, const struct perf_event_header *h)
{
	const struct record_comm *r = (const void *)h;
	struct process_watch *w = watch;
	struct executed *e;

	if (h->type != PERF_RECORD_COMM || !(h->misc & PERF_RECORD_MISC_COMM_EXEC))
		return;
	mem_reserve(&w->list, &w->capacity, w->count, sizeof(*w->list));
	e = &w->list[w->count++];
	*e = (struct executed){.pid = (pid_t)r->pid};
	strncpy(e->name, r->name, sizeof(e->name) - 1);
}

void process_watch_begin(struct process_watch *w, pid_t pid)
{
	const struct perf_options o = {.children = true};
	struct error e;

	*w = (struct process_watch){0};
	w->on = !perf_open(&w->perf, pid, &o, &e);
	if (!w->on)
		perf_close(&w->perf);
}

void process_watch_read(struct process_watch *w, bool last)
{
	if (w->on)
		perf_read(&w->perf, last, record_take, w);
}

void process_watch_recorded(struct process_watch *w, pid_t pid, const char *name)
{
	for (size_t i = 0; i < w->count; i++) {
		struct executed *e = &w->list[i];

		if (e->pid == pid && !e->recorded && (!name || !strncmp(e->name, name, sizeof(e->name) - 1))) {
			e->recorded = true;
			if (name)
				return;
		}
	}
}

void process_watch_end(struct process_watch *w)
{
	if (w->on)
		perf_close(&w->perf);
	free(w->list);
	*w = (struct process_watch){0};
}
