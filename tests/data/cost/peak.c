/* SPDX-License-Identifier: MIT */
/* Runs a command and writes the most memory that it had resident, in KB, as the last line of standard error. It does so
 * from a small process: the kernel counts what the parent had before exec, too. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage use;
	int status = 0;
	pid_t pid;

	if (argc < 2)
		return 125;
	pid = fork();
	if (!pid) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &use) != pid)
		return 125;
	fprintf(stderr, "%ld\n", use.ru_maxrss);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
