/* SPDX-License-Identifier: MIT */
/*
 * remote_stops COUNT SEED PROGRAM [ARG...]: stops a program's main thread at random times, 1 to 8 ms apart, and walks
 * its stack by libunwind's ptrace interface. Prints a line a stop: the addresses of its frames, innermost first.
 */
#include <libunwind-ptrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES 2000

static void stack_print(unw_addr_space_t space, pid_t pid)
{
	void *info = _UPT_create(pid);
	unw_cursor_t c;
	unw_word_t ip;
	int n = 0;

	if (info && !unw_init_remote(&c, space, info)) {
		do {
			unw_get_reg(&c, UNW_REG_IP, &ip);
			printf("%lx ", (unsigned long)ip);
		} while (++n < FRAMES && unw_step(&c) > 0);
	}
	printf("\n");
	_UPT_destroy(info);
}

int main(int argc, char **argv)
{
	unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
	int count, status;
	pid_t pid;

	if (argc < 4 || !space)
		return 2;
	count = atoi(argv[1]);
	srand((unsigned)atoi(argv[2]));
	pid = fork();
	if (!pid) {
		personality(ADDR_NO_RANDOMIZE);
		freopen("/dev/null", "w", stdout);
		execv(argv[3], argv + 3);
		_exit(127);
	}
	usleep(200000); /* past the dynamic linker, whose stacks are of another program */
	if (ptrace(PTRACE_SEIZE, pid, 0, 0))
		return 2;
	while (count-- > 0) {
		usleep(1000 + (unsigned)rand() % 7000);
		if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			break;
		stack_print(space, pid);
		ptrace(PTRACE_CONT, pid, 0, status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status));
	}
	kill(pid, SIGKILL);
	return 0;
}
