/* SPDX-License-Identifier: MIT */
/* What a tracer sees: trace PROGRAM ARGUMENT... prints each signal of the program, but
 * for one that comes once more just the same, and how it ends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	siginfo_t info, last;
	int status, started = 0;
	pid_t pid;

	if (argc < 2)
		return 2;
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	memset(&last, 0, sizeof(last));
	for (;;) {
		int sig;

		if (waitpid(pid, &status, 0) != pid)
			return 2;
		if (!WIFSTOPPED(status))
			break;
		sig = WSTOPSIG(status);
		if (!started) { /* the exec */
			started = 1;
			ptrace(PTRACE_CONT, pid, 0, 0);
			continue;
		}
		if (ptrace(PTRACE_GETSIGINFO, pid, 0, &info))
			return 2;
		if (memcmp(&info, &last, sizeof(info))) {
			last = info;
			printf("stop %d %d code %d errno %d ", sig, info.si_signo, info.si_code, info.si_errno);
			if (info.si_code > 0)
				printf("addr %p\n", info.si_addr);
			else
				printf("self %d value %p\n", info.si_pid == pid,
				       info.si_code == SI_QUEUE ? info.si_value.sival_ptr : NULL);
		}
		ptrace(PTRACE_CONT, pid, 0, sig);
	}
	if (WIFSIGNALED(status))
		printf("ended by %d core %d\n", WTERMSIG(status), !!WCOREDUMP(status));
	else
		printf("ended with %d\n", WEXITSTATUS(status));
	return 0;
}
