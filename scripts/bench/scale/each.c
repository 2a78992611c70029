/* SPDX-License-Identifier: MIT */
/*
 * One process after the other, each on a fresh copy of a file: what each of them took.
 *
 *     each COPY COMMAND... < NAMES
 *
 * NAMES end in NUL. Each is copied to COPY, which is not counted, and COMMAND run with COPY as
 * its last argument, its output thrown away. A line each: user + system microseconds, elapsed
 * microseconds, peak KiB, exit status, bytes that COPY has afterwards. Small, since the peak of
 * a process begins with what it was forked from.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static long micros(const struct timeval *t) { return (long)t->tv_sec * 1000000 + t->tv_usec; }

static void copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out;
	char buffer[65536];
	ssize_t n;

	unlink(to);
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (in < 0 || out < 0) {
		fprintf(stderr, "each: %s: %s\n", in < 0 ? from : to, strerror(errno));
		exit(2);
	}
	while ((n = read(in, buffer, sizeof(buffer))) > 0)
		if (write(out, buffer, (size_t)n) != n) {
			fprintf(stderr, "each: %s: %s\n", to, strerror(errno));
			exit(2);
		}
	close(in);
	close(out);
}

int main(int argc, char **argv)
{
	posix_spawn_file_actions_t quiet;
	char **command = calloc((size_t)argc + 1, sizeof(*command)), *name = NULL;
	size_t space = 0;

	if (argc < 3 || !command) {
		fprintf(stderr, "usage: %s COPY COMMAND... <NAMES\n", argv[0]);
		return 2;
	}
	memcpy(command, argv + 2, (size_t)(argc - 2) * sizeof(*command));
	command[argc - 2] = argv[1];
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
	while (getdelim(&name, &space, 0, stdin) > 1) {
		struct timespec from, to;
		struct rusage used;
		struct stat st;
		int status;
		pid_t pid;

		copy(name, argv[1]);
		clock_gettime(CLOCK_MONOTONIC, &from);
		if (posix_spawn(&pid, command[0], &quiet, NULL, command, environ) || wait4(pid, &status, 0, &used) != pid) {
			fprintf(stderr, "each: %s: cannot be run\n", command[0]);
			return 2;
		}
		clock_gettime(CLOCK_MONOTONIC, &to);
		if (stat(argv[1], &st))
			st.st_size = 0;
		printf("%ld\t%ld\t%ld\t%d\t%lld\n", micros(&used.ru_utime) + micros(&used.ru_stime),
		       (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000, used.ru_maxrss,
		       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), (long long)st.st_size);
	}
	unlink(argv[1]);
	return 0;
}
