/* SPDX-License-Identifier: MIT */
/*
 * usage OUT PROGRAM [ARG...]: runs a program and writes to OUT its CPU time in microseconds, the most memory that it had in
 * KiB, and how much of that is its own, no file's pages, which all processes share. Its exit status is the program's.
 *
 * Not by getrusage(2) from a script: what a process had before execve() counts for the program, too, and a Python has more than
 * what is measured here. The kernel's own number of this process is asked for when it ends, and still has its memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A number of /proc/PID/status. */
static long field(pid_t pid, const char *name)
{
	char path[64], line[256];
	long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			value = atol(line + strlen(name));
	if (f)
		fclose(f);
	return value;
}

static long microseconds(struct timeval t) { return t.tv_sec * 1000000L + t.tv_usec; }

int main(int argc, char **argv)
{
	long most = -1, files = -1;
	struct rusage used;
	int status;
	FILE *out;
	pid_t pid;

	if (argc < 3)
		return 2;
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	while (wait4(pid, &status, 0, &used) == pid && WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status);

		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
			most = field(pid, "VmHWM:");
			files = field(pid, "RssFile:");
		} else if (signal == SIGTRAP) { /* of execve() */
			ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACEEXIT);
		}
		ptrace(PTRACE_CONT, pid, NULL, (void *)(long)(signal == SIGTRAP ? 0 : signal));
	}
	out = fopen(argv[1], "w");
	if (!out || most < 0)
		return 2;
	fprintf(out, "%ld %ld %ld\n", microseconds(used.ru_utime) + microseconds(used.ru_stime), most, most - files);
	fclose(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
