/* SPDX-License-Identifier: MIT */
/* Starts a command, waits for it, and forwards signals to it (run.h). */
#include "support/run.h"
#include "support/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 250000000L

static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define STOPS (sizeof(stops) / sizeof(stops[0]))

/* The signal mask and the action for SIGCHLD from before runs_begin(), which the command inherits. */
static sigset_t mask;
static struct sigaction on_child;

static sigset_t awaited; /* signals that run_go() waits for */
static int stopped;
static off_t input_at = -1; /* position that standard input is rewound to; -1: not seekable */

void runs_begin(void)
{
	struct sigaction plain = {.sa_handler = SIG_DFL}, old;
	size_t i;

	sigemptyset(&awaited);
	sigaddset(&awaited, SIGCHLD);
	/* A signal that etch was started with as ignored (nohup, a shell's background job) remains
	 * ignored. */
	for (i = 0; i < STOPS; i++)
		if (!sigaction(stops[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaddset(&awaited, stops[i]);
	sigprocmask(SIG_BLOCK, &awaited, &mask);
	/* If SIGCHLD were ignored, wait4() would not get the command's status. */
	sigaction(SIGCHLD, &plain, &on_child);
	input_at = isatty(STDIN_FILENO) ? -1 : lseek(STDIN_FILENO, 0, SEEK_CUR);
}

void runs_end(void)
{
	struct timespec none = {0, 0};

	/* Discards further ^C, so that the results so far can be printed. */
	while (sigtimedwait(&awaited, NULL, &none) > 0)
		;
	sigaction(SIGCHLD, &on_child, NULL);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

bool runs_share_input(void)
{
	struct stat st;

	return input_at >= 0 || fstat(STDIN_FILENO, &st) || S_ISCHR(st.st_mode);
}

/* Waits for a signal of `awaited`, for at most `nanoseconds`. `pid` is the command to forward the signal to, or 0.
 * Returns true if the command may have ended. */
static bool signal_take(pid_t pid, long nanoseconds)
{
	struct timespec limit = {0, nanoseconds};
	siginfo_t info;
	int got = sigtimedwait(&awaited, &info, &limit);

	if (got < 0)
		return errno == EAGAIN;
	if (got == SIGCHLD)
		return true;
	stopped = got;
	/* A signal that the kernel sent (for the terminal) has reached the whole process group. */
	if (pid && info.si_code <= 0)
		kill(pid, got);
	return false;
}

int runs_stopped(void)
{
	if (!stopped)
		signal_take(0, 0);
	return stopped;
}

static int full_open(const char *path, int flags, int to)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		return -1;
	return fd == to ? fcntl(fd, F_SETFD, 0) : dup2(fd, to);
}

/* Sets up the child before it executes the command. Returns 0, or -1 and errno. */
static int child_prepare(const struct run_options *o)
{
	cpu_set_t cpus;

	if (o->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET((size_t)o->cpu, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			return -1;
	}
	if (o->input) {
		if (full_open(o->input, O_RDONLY, STDIN_FILENO) < 0)
			return -1;
	} else if (!o->input_keep) {
		if (full_open("/dev/null", O_RDONLY, STDIN_FILENO) < 0)
			return -1;
	} else if (input_at >= 0) {
		lseek(STDIN_FILENO, input_at, SEEK_SET);
	}
	if (o->out >= 0 && dup2(o->out, STDOUT_FILENO) < 0)
		return -1;
	sigaction(SIGCHLD, &on_child, NULL);
	return sigprocmask(SIG_SETMASK, &mask, NULL);
}

static void child(char **argv, const struct run_options *o, int go, int failed) __attribute__((noreturn));
static void child(char **argv, const struct run_options *o, int go, int failed)
{
	char byte;
	int error;

	if (!child_prepare(o)) {
		if (read(go, &byte, 1) != 1)
			_exit(127); /* etch has ended */
		execvp(argv[0], argv);
	}
	error = errno;
	while (write(failed, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

int run_start(struct run *r, char **argv, const struct run_options *o, struct error *e)
{
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC))
		return error_set(e, "cannot make a pipe: %s", strerror(errno));
	if (pipe2(failed, O_CLOEXEC)) {
		error_set(e, "cannot make a pipe: %s", strerror(errno));
		close(go[0]);
		close(go[1]);
		return -1;
	}
	r->go = go[1];
	r->failed = failed[0];
	r->tick_ns = o->tick_ns ? o->tick_ns : TICK_NS;
	r->pid = fork();
	if (!r->pid) {
		close(go[1]);
		close(failed[0]);
		child(argv, o, go[0], failed[1]);
	}
	close(go[0]);
	close(failed[1]);
	if (r->pid < 0) {
		error_set(e, "cannot start a process: %s", strerror(errno));
		close(r->go);
		close(r->failed);
		return -1;
	}
	return 0;
}

int run_go(struct run *r, struct run_end *out, void (*tick)(void *), void *context, struct error *e)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, on_pipe;
	double start = 1e3 * clock_seconds();
	pid_t got = 0;
	int error = 0;

	/* If the child has already ended, the write fails with EPIPE: the child has reported an error, or was killed. */
	sigaction(SIGPIPE, &ignore, &on_pipe);
	if (write(r->go, "", 1) < 0)
		error = errno;
	sigaction(SIGPIPE, &on_pipe, NULL);
	close(r->go);
	while (!got) {
		if (signal_take(r->pid, r->tick_ns))
			got = wait4(r->pid, &out->status, WNOHANG, &out->usage);
		if (!got)
			tick(context);
	}
	out->elapsed = 1e3 * clock_seconds() - start;
	if (read(r->failed, &error, sizeof(error)) != sizeof(error))
		error = 0;
	close(r->failed);
	if (got < 0)
		return error_set(e, "cannot wait for it: %s", strerror(errno));
	return error ? error_set(e, "%s", strerror(error)) : 0;
}

int run_exit_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

void run_drop(struct run *r)
{
	close(r->go); /* the child ends */
	close(r->failed);
	waitpid(r->pid, NULL, 0);
}

/* Finds the file that execvp(3) would run for a name without a slash. Returns 0, or an errno value. */
static int path_search(const char *name, char out[PATH_MAX])
{
	const char *path = getenv("PATH"), *p;
	struct stat st;
	int error = ENOENT;

	for (p = path ? path : "/bin:/usr/bin"; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		size_t n = strcspn(p, ":");

		if (snprintf(out, PATH_MAX, "%.*s%s%s", (int)n, p, n ? "/" : "", name) >= PATH_MAX)
			continue;
		if (stat(out, &st) || S_ISDIR(st.st_mode))
			continue;
		if (!access(out, X_OK))
			return 0;
		error = errno;
	}
	return error;
}

int command_check(const char *name, struct error *e)
{
	char path[PATH_MAX];
	struct stat st;
	int error;

	if (!*name)
		return error_set(e, "empty command name");
	if (strchr(name, '/')) {
		if (stat(name, &st) || access(name, X_OK))
			return error_set(e, "%s", strerror(errno));
		return S_ISDIR(st.st_mode) ? error_set(e, "%s", strerror(EISDIR)) : 0;
	}
	error = path_search(name, path);
	if (!error)
		return 0;
	return error_set(e, error == ENOENT ? "command not found" : "%s", strerror(error));
}

bool command_path(const char *name, char out[PATH_MAX])
{
	if (strchr(name, '/'))
		return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX;
	return !path_search(name, out);
}

enum command_rights command_rights(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return RIGHTS_NONE;
	if (((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
	    ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()))
		return RIGHTS_SET_ID;
	return geteuid() && getxattr(path, "security.capability", NULL, 0) > 0 ? RIGHTS_CAPABILITIES : RIGHTS_NONE;
}
