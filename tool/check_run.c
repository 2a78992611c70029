/* SPDX-License-Identifier: MIT */
#include "check_run.h"
#include "report/exchange.h"
#include "report/progress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

static bool result_failed(const struct check_run *run, size_t input, struct checked *c, const char *why)
{
	const struct input *in = &run->inputs->list[input];

	*c = (struct checked){0};
	c->report.path = strdup(in->path);
	c->report.member = in->member ? strdup(in->member) : NULL;
	c->report.error = strdup(why);
	return c->report.path && c->report.error;
}

/* ---- a worker --------------------------------------------------------------------------- */

static bool write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		size -= (size_t)n;
	}
	return true;
}

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

/* Numbers of inputs come in; sizes and reports go out. Ends where the parent does. */
static void worker_main(const struct check_run *run, int fd)
{
	uint64_t input, size;

	while (recv(fd, &input, sizeof(input), MSG_WAITALL) == sizeof(input)) {
		struct json_object *o;
		struct checked c;
		const char *text;
		size_t length;

		if (!input_check(run, input, &c))
			_exit(3);
		o = checked_to_json(&c);
		text = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, &length);
		size = length;
		if (!text || !write_all(fd, &size, sizeof(size)) || !write_all(fd, text, length))
			_exit(3);
		json_object_put(o);
		report_free(&c.report);
	}
	_exit(0);
}

/* ---- the parent ------------------------------------------------------------------------- */

struct worker {
	pid_t pid;  /* 0: none */
	int fd;
	bool busy;
	size_t input;
	char *bytes; /* what has come of the answer: its size, and itself */
	size_t got, room;
};

struct parent {
	const struct check_run *run;
	struct worker *workers;
	size_t worker_count;
	struct checked *results; /* by input, of those that have not been told yet */
	bool *ready;
	size_t next;   /* input to be given away */
	size_t told;   /* inputs that have been told */
	size_t finished;
};

static bool worker_start(struct parent *p, struct worker *w)
{
	pid_t parent = getpid();
	size_t i;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return false;
	w->pid = fork();
	if (!w->pid) {
		/* Not to outlive the parent, nor to hold the others' ends open. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(3);
		for (i = 0; i < p->worker_count; i++)
			if (p->workers[i].pid && &p->workers[i] != w)
				close(p->workers[i].fd);
		close(fds[0]);
		progress_off();
		worker_main(p->run, fds[1]);
	}
	close(fds[1]);
	if (w->pid < 0) {
		w->pid = 0;
		close(fds[0]);
		return false;
	}
	w->fd = fds[0];
	return true;
}

static int worker_end(struct worker *w)
{
	int status = 0;

	if (!w->pid)
		return 0;
	close(w->fd);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	w->busy = false;
	return status;
}

static void result_put(struct parent *p, size_t input, const struct checked *c)
{
	p->results[input] = *c;
	p->ready[input] = true;
	p->finished++;
	progress_note("check", p->finished, p->run->inputs->count, "files");
}

/* The worker is gone, and with it the file that it was at. */
static bool worker_lost(struct parent *p, struct worker *w)
{
	size_t input = w->input;
	int status = worker_end(w);
	struct checked c;
	char why[120];

	if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));

		snprintf(why, sizeof(why), "etch was ended by signal %d (SIG%s) while it looked at it", WTERMSIG(status),
		         name ? name : "?");
	} else {
		snprintf(why, sizeof(why), "etch ended with status %d while it looked at it", WEXITSTATUS(status));
	}
	if (!result_failed(p->run, input, &c, why))
		return false;
	result_put(p, input, &c);
	return true;
}

/* Is the answer complete? -1: it is no answer. */
static int answer_take(struct parent *p, struct worker *w)
{
	struct json_tokener *t;
	struct json_object *o;
	struct checked c;
	struct error e;
	uint64_t size;
	int err;

	if (w->got < sizeof(size))
		return 0;
	memcpy(&size, w->bytes, sizeof(size));
	if (w->got - sizeof(size) < size)
		return 0;
	t = json_tokener_new();
	o = t && size <= INT32_MAX ? json_tokener_parse_ex(t, w->bytes + sizeof(size), (int)size) : NULL;
	err = checked_from_json(&c, o, &e);
	json_object_put(o);
	json_tokener_free(t);
	if (err) {
		report_free(&c.report);
		if (!result_failed(p->run, w->input, &c, e.text))
			return -1;
	}
	result_put(p, w->input, &c);
	w->busy = false;
	w->got = 0;
	return 1;
}

/* False: out of memory. */
static bool worker_hear(struct parent *p, struct worker *w)
{
	ssize_t n;

	if (w->room - w->got < 4096) {
		size_t room = 2 * w->room + 65536;
		char *grown = realloc(w->bytes, room);

		if (!grown)
			return false;
		w->bytes = grown;
		w->room = room;
	}
	n = read(w->fd, w->bytes + w->got, w->room - w->got);
	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0)
		return worker_lost(p, w);
	w->got += (size_t)n;
	return answer_take(p, w) >= 0;
}

/* The next input for who has none; without a process for it, here. */
static bool worker_feed(struct parent *p, struct worker *w)
{
	uint64_t input = p->next;
	struct checked c;

	if (w->busy || p->next == p->run->inputs->count)
		return true;
	w->input = p->next++;
	w->got = 0;
	w->busy = true;
	if (w->pid && write_all(w->fd, &input, sizeof(input)))
		return true;
	/* None yet, or it has gone since its last file, which it cannot be blamed for. */
	worker_end(w);
	w->busy = worker_start(p, w);
	if (w->busy) {
		write_all(w->fd, &input, sizeof(input));
		return true;
	}
	if (!input_check(p->run, w->input, &c))
		return false;
	result_put(p, w->input, &c);
	return true;
}

static bool results_tell(struct parent *p)
{
	while (p->told < p->run->inputs->count && p->ready[p->told]) {
		struct checked *c = &p->results[p->told];
		bool on = p->run->done(p->run->ctx, p->told, c);

		report_free(&c->report);
		p->ready[p->told++] = false;
		if (!on)
			return false;
	}
	return true;
}

/* Waits until one of those at work has something to say. */
static bool workers_hear(struct parent *p, struct pollfd *fds)
{
	bool any = false;
	size_t i;

	for (i = 0; i < p->worker_count; i++) {
		fds[i] = (struct pollfd){.fd = p->workers[i].busy ? p->workers[i].fd : -1, .events = POLLIN};
		any |= p->workers[i].busy;
	}
	if (!any || (poll(fds, p->worker_count, -1) < 0 && errno == EINTR))
		return true;
	for (i = 0; i < p->worker_count; i++)
		if (p->workers[i].busy && fds[i].revents && !worker_hear(p, &p->workers[i]))
			return false;
	return true;
}

static bool run_parallel(const struct check_run *run)
{
	size_t count = run->inputs->count, i, workers = (size_t)run->jobs < count ? (size_t)run->jobs : count;
	struct parent p = {.run = run, .worker_count = workers};
	struct pollfd *fds = calloc(workers + 1, sizeof(*fds));
	bool good;

	p.workers = calloc(workers + 1, sizeof(*p.workers));
	p.results = calloc(count + 1, sizeof(*p.results));
	p.ready = calloc(count + 1, sizeof(*p.ready));
	good = fds && p.workers && p.results && p.ready;
	while (good && p.told < count) {
		for (i = 0; i < workers && good; i++)
			good = worker_feed(&p, &p.workers[i]);
		good = good && results_tell(&p) && (p.told == count || workers_hear(&p, fds)) && results_tell(&p);
	}
	for (i = 0; p.workers && i < workers; i++) {
		if (!good && p.workers[i].pid)
			kill(p.workers[i].pid, SIGKILL);
		worker_end(&p.workers[i]);
		free(p.workers[i].bytes);
	}
	for (i = p.told; p.ready && p.results && i < count; i++)
		if (p.ready[i])
			report_free(&p.results[i].report);
	free(p.workers);
	free(p.results);
	free(p.ready);
	free(fds);
	return good;
}

bool check_run(const struct check_run *run)
{
	struct checked c;
	bool good = true;

	/* A single file is looked at here: there is no other one to protect. */
	if (run->inputs->count == 1) {
		good = input_check(run, 0, &c) && run->done(run->ctx, 0, &c);
		report_free(&c.report);
	} else if (run->inputs->count) {
		good = run_parallel(run);
	}
	progress_end();
	return good;
}
