/* SPDX-License-Identifier: MIT */
#include "workers.h"

#include "elf/bounds.h"
#include "jobserver.h"
#include "report/progress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- signals ---------------------------------------------------------------------------- */

/* What ends this program while others work for it. */
static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXFSZ};
#define ENDING (sizeof(ending) / sizeof(*ending))

struct signals {
	sigset_t all, before;
	struct sigaction action[ENDING]; /* as they were */
};

static void signals_catch(struct signals *s, void (*handler)(int))
{
	struct sigaction caught = {.sa_handler = handler};
	size_t i;

	sigemptyset(&s->all);
	for (i = 0; i < ENDING; i++)
		sigaddset(&s->all, ending[i]);
	caught.sa_mask = s->all;
	for (i = 0; i < ENDING; i++)
		/* One that whoever started this program ignores (nohup) stays so. */
		if (!sigaction(ending[i], NULL, &s->action[i]) && s->action[i].sa_handler == SIG_DFL)
			sigaction(ending[i], &caught, NULL);
}

static void signals_back(const struct signals *s)
{
	size_t i;

	for (i = 0; i < ENDING; i++)
		sigaction(ending[i], &s->action[i], NULL);
}

/* What the handler reads must not change under it. */
static void signals_hold(struct signals *s)
{
	sigprocmask(SIG_BLOCK, &s->all, &s->before);
}

static void signals_release(const struct signals *s)
{
	sigprocmask(SIG_SETMASK, &s->before, NULL);
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

/* Numbers of inputs come in; sizes and answers go out. Ends where the parent does. */
static void worker_main(const struct workers_run *run, int fd)
{
	uint64_t input, size;
	ssize_t n;

	bounds_worker();
	while ((n = recv(fd, &input, sizeof(input), MSG_WAITALL)) == sizeof(input) || (n < 0 && errno == EINTR)) {
		size_t length;
		char *answer;

		if (n < 0)
			continue;
		bounds_begin();
		bounds_memory_ends();
		if (!run->work(run->ctx, input, &answer, &length))
			_exit(3);
		size = length;
		if (!write_all(fd, &size, sizeof(size)) || !write_all(fd, answer, length))
			_exit(3);
		free(answer);
	}
	_exit(0);
}

/* ---- the parent ------------------------------------------------------------------------- */

struct worker {
	pid_t pid;   /* 0: none */
	int fd;
	bool busy;
	bool token;  /* it runs on a token of make's: */
	char byte;
	size_t input;
	char *bytes; /* what has come of the answer: its size, and itself */
	size_t got, room;
};

/* An answer that has not been told yet. */
struct answer {
	char *bytes; /* null: the process ended, */
	char *why;   /* ... so */
	size_t size;
	bool ready;
};

struct parent {
	const struct workers_run *run;
	struct jobserver jobserver;
	struct signals signals;
	struct worker *workers;
	size_t worker_count;
	struct answer *answers; /* by input */
	size_t next;   /* input to be given away */
	size_t told;   /* inputs that have been told */
	size_t finished;
};

/*
 * The parent, gone with those whom it holds: they end by SIGTERM, which lets one that is at
 * its output take its temporary file away first. Tokens go back to make, which would have
 * that many jobs less to give otherwise.
 */
static struct parent *parent_of_all;

static void parent_ends(int sig)
{
	struct parent *p = parent_of_all;
	int error = errno;
	size_t i;

	for (i = 0; i < p->worker_count; i++)
		if (p->workers[i].pid) {
			kill(p->workers[i].pid, SIGTERM);
			kill(p->workers[i].pid, SIGCONT); /* one that is stopped would not hear */
		}
	for (i = 0; i < p->worker_count; i++) {
		while (p->workers[i].pid && waitpid(p->workers[i].pid, NULL, 0) < 0 && errno == EINTR)
			;
		if (p->workers[i].token)
			jobserver_give(&p->jobserver, p->workers[i].byte);
	}
	signal(sig, SIG_DFL);
	raise(sig); /* when this handler returns */
	errno = error;
}

static void worker_begin(struct parent *p, const struct worker *w, pid_t parent)
{
	sigset_t term;
	size_t i;

	for (i = 0; i < p->worker_count; i++)
		if (p->workers[i].pid && &p->workers[i] != w)
			close(p->workers[i].fd); /* not to hold the others' ends open */
	signals_back(&p->signals);
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	signals_release(&p->signals);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	/* Not to outlive the parent, however that ends. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(3);
	progress_off();
}

static bool worker_start(struct parent *p, struct worker *w)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	fflush(NULL); /* what is unwritten is the parent's, should the worker end by exit() */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return false;
	signals_hold(&p->signals);
	pid = fork();
	if (!pid) {
		worker_begin(p, w, parent);
		close(fds[0]);
		worker_main(p->run, fds[1]);
	}
	w->pid = pid > 0 ? pid : 0;
	signals_release(&p->signals);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return false;
	}
	w->fd = fds[0];
	return true;
}

static int worker_end(struct parent *p, struct worker *w)
{
	int status = 0;

	if (!w->pid)
		return 0;
	shutdown(w->fd, SHUT_RDWR); /* its end, whatever process has the descriptor too */
	close(w->fd);
	signals_hold(&p->signals);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	signals_release(&p->signals);
	w->busy = false;
	return status;
}

/* An idle worker gives its token back: others may need it more. */
static void token_give(struct parent *p, struct worker *w)
{
	if (!w->token)
		return;
	signals_hold(&p->signals);
	jobserver_give(&p->jobserver, w->byte);
	w->token = false;
	signals_release(&p->signals);
}

/* The first worker runs on what make gave this program itself. */
static bool token_take(struct parent *p, struct worker *w)
{
	if (w == p->workers || !jobserver_is(&p->jobserver) || w->token)
		return true;
	signals_hold(&p->signals);
	w->token = jobserver_take(&p->jobserver, &w->byte);
	signals_release(&p->signals);
	return w->token;
}

static void answer_put(struct parent *p, size_t input, struct answer a)
{
	a.ready = true;
	p->answers[input] = a;
	p->finished++;
	progress_note(p->run->what, p->finished, p->run->count, "files");
}

/* The worker is gone, and with it the input that it was at. */
static bool worker_lost(struct parent *p, struct worker *w)
{
	size_t input = w->input;
	int status = worker_end(p, w), n;
	struct answer a = {0};

	if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));

		n = asprintf(&a.why, "etch was ended by signal %d (SIG%s) while it looked at it", WTERMSIG(status),
		             name ? name : "?");
	} else if (WEXITSTATUS(status) == BOUNDS_STATUS) {
		n = asprintf(&a.why, "takes more CPU time than a file of its size may (ETCH_BOUNDS=none: no limit)");
	} else if (WEXITSTATUS(status) == BOUNDS_STATUS_MEMORY) {
		n = asprintf(&a.why, "out of memory");
	} else {
		n = asprintf(&a.why, "etch ended with status %d while it looked at it", WEXITSTATUS(status));
	}
	if (n < 0)
		return false;
	answer_put(p, input, a);
	return true;
}

/* The answer, once it is complete. False: out of memory. */
static bool answer_take(struct parent *p, struct worker *w)
{
	struct answer a = {0};
	uint64_t size;

	if (w->got < sizeof(size))
		return true;
	memcpy(&size, w->bytes, sizeof(size));
	if (w->got - sizeof(size) < size)
		return true;
	a.size = size;
	a.bytes = malloc(size + 1);
	if (!a.bytes)
		return false;
	memcpy(a.bytes, w->bytes + sizeof(size), size);
	a.bytes[size] = 0;
	answer_put(p, w->input, a);
	w->busy = false;
	w->got = 0;
	return true;
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
	return answer_take(p, w);
}

static bool work_here(struct parent *p, size_t input)
{
	struct answer a = {0};

	if (!p->run->work(p->run->ctx, input, &a.bytes, &a.size))
		return false;
	answer_put(p, input, a);
	return true;
}

/* The next input for who has none; without a process for it, here. */
static bool worker_feed(struct parent *p, struct worker *w)
{
	uint64_t input = p->next;

	if (w->busy)
		return true;
	if (p->next == p->run->count || !token_take(p, w)) {
		token_give(p, w);
		return true;
	}
	w->input = p->next++;
	w->got = 0;
	w->busy = true;
	if (w->pid && write_all(w->fd, &input, sizeof(input)))
		return true;
	/* None yet, or it has gone since its last input, which it cannot be blamed for. */
	worker_end(p, w);
	w->busy = worker_start(p, w) && write_all(w->fd, &input, sizeof(input));
	if (w->busy)
		return true;
	worker_end(p, w);
	return work_here(p, w->input);
}

static bool answers_tell(struct parent *p)
{
	while (p->told < p->run->count && p->answers[p->told].ready) {
		struct answer *a = &p->answers[p->told];
		bool on = p->run->done(p->run->ctx, p->told++, a->bytes, a->size, a->why);

		free(a->bytes);
		free(a->why);
		*a = (struct answer){0};
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
	if (!any)
		return true;
	if (poll(fds, p->worker_count, -1) < 0)
		return errno == EINTR;
	for (i = 0; i < p->worker_count; i++)
		if (p->workers[i].busy && fds[i].revents && !worker_hear(p, &p->workers[i]))
			return false;
	return true;
}

static void workers_close(struct parent *p, bool good)
{
	size_t i;

	for (i = 0; p->workers && i < p->worker_count; i++) {
		if (!good && p->workers[i].pid)
			kill(p->workers[i].pid, SIGTERM);
		worker_end(p, &p->workers[i]);
		token_give(p, &p->workers[i]);
		free(p->workers[i].bytes);
	}
	for (i = p->told; p->answers && i < p->run->count; i++) {
		free(p->answers[i].bytes);
		free(p->answers[i].why);
	}
	free(p->answers);
}

/* Not more than have something to do, and half of the files that may be open: the others are
 * for what is looked at. */
static size_t workers_count(const struct workers_run *run)
{
	size_t n = (size_t)run->jobs < run->count ? (size_t)run->jobs : run->count;
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files) && n > files.rlim_cur / 2)
		n = files.rlim_cur / 2;
	return n ? n : 1;
}

bool workers_run(const struct workers_run *run)
{
	size_t workers = workers_count(run), i;
	struct parent p = {.run = run, .worker_count = workers};
	struct pollfd *fds = calloc(workers + 1, sizeof(*fds));
	bool good, ready;

	jobserver_open(&p.jobserver);
	p.workers = calloc(workers + 1, sizeof(*p.workers));
	p.answers = calloc(run->count + 1, sizeof(*p.answers));
	good = ready = fds && p.workers && p.answers;
	parent_of_all = &p;
	if (ready)
		signals_catch(&p.signals, parent_ends);
	while (good && p.told < run->count) {
		for (i = 0; i < workers && good; i++)
			good = worker_feed(&p, &p.workers[i]);
		good = good && answers_tell(&p) && (p.told == run->count || workers_hear(&p, fds)) && answers_tell(&p);
	}
	workers_close(&p, good);
	if (ready)
		signals_back(&p.signals);
	jobserver_close(&p.jobserver);
	free(p.workers);
	free(fds);
	return good;
}

int workers_jobs(void)
{
	struct jobserver j;
	long cpus = 1;

	jobserver_open(&j);
	if (jobserver_is(&j))
		cpus = sysconf(_SC_NPROCESSORS_ONLN);
	jobserver_close(&j);
	return cpus < 1 ? 1 : cpus > 1024 ? 1024 : (int)cpus;
}
