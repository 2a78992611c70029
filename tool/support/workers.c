/* SPDX-License-Identifier: MIT */
/* Worker processes (workers.h): the parent hands out inputs over sockets and delivers the answers
 * in order. */
#include "support/workers.h"

#include "support/bounds.h"
#include "support/ending.h"
#include "support/jobserver.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/error.h"

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

/* Signals that end this program while it has workers. */
static const int ends[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXFSZ};
#define ENDS (sizeof(ends) / sizeof(*ends))

struct signals {
	sigset_t all, before;
	struct sigaction action[ENDS]; /* the actions from before */
};

static void signals_catch(struct signals *s, void (*handler)(int))
{
	struct sigaction caught = {.sa_handler = handler};
	size_t i;

	sigemptyset(&s->all);
	for (i = 0; i < ENDS; i++)
		sigaddset(&s->all, ends[i]);
	sigaddset(&s->all, SIGPROF); /* its handler undoes the same (bounds.h) */
	caught.sa_mask = s->all;
	for (i = 0; i < ENDS; i++)
		/* A signal that was ignored at start (nohup) remains ignored. */
		if (!sigaction(ends[i], NULL, &s->action[i]) && s->action[i].sa_handler == SIG_DFL)
			sigaction(ends[i], &caught, NULL);
}

static void signals_back(const struct signals *s)
{
	size_t i;

	for (i = 0; i < ENDS; i++)
		sigaction(ends[i], &s->action[i], NULL);
}

/* Blocks the signals, since the state that the handler reads must not change while it runs. */
static void signals_hold(struct signals *s) { sigprocmask(SIG_BLOCK, &s->all, &s->before); }

static void signals_release(const struct signals *s) { sigprocmask(SIG_SETMASK, &s->before, NULL); }

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

/* The main loop of a worker: it reads indices of inputs and writes the sizes and bytes of the answers. It ends when the
 * parent closes the socket. */
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
		run->work(run->ctx, input, &answer, &length);
		size = length;
		if (!write_all(fd, &size, sizeof(size)) || !write_all(fd, answer, length))
			_exit(3);
		free(answer);
	}
	_exit(0);
}

/* ---- the parent ------------------------------------------------------------------------- */

struct worker {
	pid_t pid; /* 0: no process */
	int fd;
	bool busy;
	bool token; /* the worker uses the jobserver token `byte` */
	char byte;
	size_t input;
	char *bytes; /* received bytes of the answer: its size, then its contents */
	size_t got, capacity;
};

/* An answer that has not been delivered yet. */
struct answer {
	char *bytes; /* null: the process ended */
	char *why;   /* why the process ended; null: it did not */
	size_t size;
	bool ready;
};

struct parent {
	struct ending ending;
	const struct workers_run *run;
	struct jobserver jobserver;
	struct signals signals;
	struct worker *workers;
	size_t worker_count;
	struct answer *answers; /* one for each input, in the order of the inputs */
	size_t next;            /* next input to hand out */
	size_t delivered;       /* inputs that have been delivered */
	size_t finished;
};

/*
 * Ends the workers before the parent ends: SIGTERM lets a worker that is writing output remove its temporary file.
 * Tokens are returned to make, which would otherwise lose these job slots. Async-signal-safe.
 */
static void parent_undo(struct ending *ending)
{
	struct parent *p = (struct parent *)ending; /* its first member */
	size_t i;

	for (i = 0; i < p->worker_count; i++)
		if (p->workers[i].pid) {
			kill(p->workers[i].pid, SIGTERM);
			kill(p->workers[i].pid, SIGCONT); /* a stopped process would not receive SIGTERM */
		}
	for (i = 0; i < p->worker_count; i++) {
		while (p->workers[i].pid && waitpid(p->workers[i].pid, NULL, 0) < 0 && errno == EINTR)
			;
		if (p->workers[i].token)
			jobserver_give(&p->jobserver, p->workers[i].byte);
		p->workers[i].token = false;
	}
}

/* The parent whose work the signal handler undoes. */
static struct parent *signal_parent;

static void parent_signal(int sig)
{
	int error = errno;

	parent_undo(&signal_parent->ending);
	signal(sig, SIG_DFL);
	raise(sig); /* delivered when this handler returns */
	errno = error;
}

static void worker_begin(struct parent *p, const struct worker *w, pid_t parent)
{
	sigset_t term;
	size_t i;

	ending_forget();
	for (i = 0; i < p->worker_count; i++)
		if (p->workers[i].pid && &p->workers[i] != w)
			close(p->workers[i].fd); /* so that this worker does not keep the others' sockets open */
	signals_back(&p->signals);
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	signals_release(&p->signals);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	/* Do not outlive the parent, however it ends. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(3);
	progress_off();
}

static bool worker_start(struct parent *p, struct worker *w)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	fflush(NULL); /* so that a worker that calls exit() does not flush the parent's buffers */
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

/* Closes the connection to a worker, waits for its process to end, and returns its wait status. */
static int worker_end(struct parent *p, struct worker *w)
{
	int status = 0;

	if (!w->pid)
		return 0;
	shutdown(w->fd, SHUT_RDWR); /* ends the connection even if another process holds the descriptor */
	close(w->fd);
	signals_hold(&p->signals);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	signals_release(&p->signals);
	w->busy = false;
	return status;
}

/* Returns the token of an idle worker: other processes may need it. */
static void token_give(struct parent *p, struct worker *w)
{
	if (!w->token)
		return;
	signals_hold(&p->signals);
	jobserver_give(&p->jobserver, w->byte);
	w->token = false;
	signals_release(&p->signals);
}

/* The first worker needs no token: it uses the job slot that make gave this program. */
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

/* Called when a worker's process has ended before it has answered its input: the answer is the reason why it ended. */
static void worker_lost(struct parent *p, struct worker *w)
{
	size_t input = w->input;
	int status = worker_end(p, w);
	struct answer a = {0};

	if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));

		a.why =
			mem_format("etch was killed by signal %d (SIG%s) while processing it", WTERMSIG(status), name ? name : "?");
	} else if (WEXITSTATUS(status) == BOUNDS_STATUS) {
		a.why = mem_format("exceeds the CPU time limit for its size (ETCH_BOUNDS=none: no limit)");
	} else if (WEXITSTATUS(status) == BOUNDS_STATUS_MEMORY) {
		a.why = mem_string(NO_MEMORY);
	} else {
		a.why = mem_format("etch exited with status %d while processing it", WEXITSTATUS(status));
	}
	answer_put(p, input, a);
}

/* Takes a worker's answer if it is complete. */
static void answer_take(struct parent *p, struct worker *w)
{
	struct answer a = {0};
	uint64_t size;

	if (w->got < sizeof(size))
		return;
	memcpy(&size, w->bytes, sizeof(size));
	if (w->got - sizeof(size) < size)
		return;
	a.size = size;
	a.bytes = mem_alloc(size + 1, 1);
	memcpy(a.bytes, w->bytes + sizeof(size), size);
	a.bytes[size] = 0;
	answer_put(p, w->input, a);
	w->busy = false;
	w->got = 0;
}

static void worker_read(struct parent *p, struct worker *w)
{
	ssize_t n;

	if (w->capacity - w->got < 4096) {
		w->capacity = 2 * w->capacity + 65536;
		w->bytes = mem_resize(w->bytes, w->capacity, 1);
	}
	n = read(w->fd, w->bytes + w->got, w->capacity - w->got);
	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		worker_lost(p, w);
		return;
	}
	w->got += (size_t)n;
	answer_take(p, w);
}

static void work_in_parent(struct parent *p, size_t input)
{
	struct answer a = {0};

	p->run->work(p->run->ctx, input, &a.bytes, &a.size);
	answer_put(p, input, a);
}

/* Hands the next input to an idle worker; if no process can be started, this process works on it. */
static void worker_dispatch(struct parent *p, struct worker *w)
{
	uint64_t input = p->next;

	if (w->busy)
		return;
	if (p->next == p->run->count || !token_take(p, w)) {
		token_give(p, w);
		return;
	}
	w->input = p->next++;
	w->got = 0;
	w->busy = true;
	if (w->pid && write_all(w->fd, &input, sizeof(input)))
		return;
	/* The worker has no process yet, or its process ended after its last answer, for which this input is not
	 * responsible. */
	worker_end(p, w);
	w->busy = worker_start(p, w) && write_all(w->fd, &input, sizeof(input));
	if (w->busy)
		return;
	worker_end(p, w);
	work_in_parent(p, w->input);
}

static bool answers_deliver(struct parent *p)
{
	while (p->delivered < p->run->count && p->answers[p->delivered].ready) {
		struct answer *a = &p->answers[p->delivered];
		bool on = p->run->done(p->run->ctx, p->delivered++, a->bytes, a->size, a->why);

		free(a->bytes);
		free(a->why);
		*a = (struct answer){0};
		if (!on)
			return false;
	}
	return true;
}

/* Waits until a busy worker has sent something, and reads it. */
static bool workers_poll(struct parent *p, struct pollfd *fds)
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
		if (p->workers[i].busy && fds[i].revents)
			worker_read(p, &p->workers[i]);
	return true;
}

static void workers_close(struct parent *p, bool good)
{
	size_t i;

	for (i = 0; i < p->worker_count; i++) {
		if (!good && p->workers[i].pid)
			kill(p->workers[i].pid, SIGTERM);
		worker_end(p, &p->workers[i]);
		token_give(p, &p->workers[i]);
		free(p->workers[i].bytes);
	}
	for (i = p->delivered; i < p->run->count; i++) {
		free(p->answers[i].bytes);
		free(p->answers[i].why);
	}
	free(p->answers);
}

/* Returns the number of workers: at most one for each input, and at most half of RLIMIT_NOFILE, since the other half is
 * for the inputs. */
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
	struct pollfd *fds = mem_zero(workers, sizeof(*fds));
	struct parent p = {.ending = {.undo = parent_undo},
	                   .run = run,
	                   .workers = mem_zero(workers, sizeof(*p.workers)),
	                   .worker_count = workers,
	                   .answers = mem_zero(run->count, sizeof(*p.answers))};
	bool good = true;

	jobserver_open(&p.jobserver);
	signal_parent = &p;
	signals_catch(&p.signals, parent_signal);
	ending_add(&p.ending);
	while (good && p.delivered < run->count) {
		for (i = 0; i < workers; i++)
			worker_dispatch(&p, &p.workers[i]);
		good = answers_deliver(&p) && (p.delivered == run->count || workers_poll(&p, fds)) && answers_deliver(&p);
	}
	workers_close(&p, good);
	ending_drop(&p.ending);
	signals_back(&p.signals);
	jobserver_close(&p.jobserver);
	free(p.workers);
	free(fds);
	return good;
}

/* Returns the number of processors that are online, limited to the range 1 to `most`. */
static int cpus_up_to(int most)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 1;
	return cpus > most ? most : (int)cpus;
}

int workers_jobs(void)
{
	struct jobserver j;
	int jobs = 1;

	jobserver_open(&j);
	if (jobserver_is(&j))
		jobs = cpus_up_to(1024);
	jobserver_close(&j);
	return jobs;
}

#define LARGE_FILE   ((uint64_t)32 << 20) /* for a smaller file, threads save less than a tenth of a second */
#define THREADS_MOST 4 /* ninja, which does not tell how many jobs it runs, may start several links */

int workers_threads(uint64_t size) { return size <= LARGE_FILE || jobserver_above() ? 1 : cpus_up_to(THREADS_MOST); }
