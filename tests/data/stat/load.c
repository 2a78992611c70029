/* SPDX-License-Identifier: MIT */
/*
 * A program that knows what it costs. Arguments, any number of them:
 *     pages=N    touches N fresh pages            sleeps=N  N sleeps of 100 us
 *     cpu=MS     uses so much processor time      hops=N    moves between two CPUs N times
 *     loop=N     a loop of N rounds, of 3 instructions and one branch each
 *     fork=WORDS a child does WORDS (separated by commas) and is waited for
 *     rawfork=WORDS, the same by a system call that no library sees
 *     stay=MS    a daemon in a session of its own, with no file open, that sleeps MS
 *     files=N    sets its limits of open files to N, as servers do, or exits with 3
 *     close      closes every file                exit=N, signal=N  ends so
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void loop(long n)
{
	__asm__ volatile("1: lea (%%rax), %%rax\n\tdec %0\n\tjnz 1b" : "+r"(n) : : "cc");
}

static void pages(long n)
{
	char *p = mmap(NULL, (size_t)n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(p, (size_t)n * 4096, MADV_NOHUGEPAGE);
	while (n--)
		p[n * 4096] = 1;
}

static void cpu(long ms)
{
	struct timespec from, t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	do {
		loop(10000);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while ((t.tv_sec - from.tv_sec) * 1000000000 + t.tv_nsec - from.tv_nsec < ms * 1000000);
}

static void hops(long n)
{
	cpu_set_t all, one;
	int at[2] = {-1, -1}, i;

	sched_getaffinity(0, sizeof(all), &all);
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all))
			at[at[0] >= 0] = i;
	while (n--) {
		CPU_ZERO(&one);
		CPU_SET(at[n & 1], &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
}

static void daemon_stay(long ms)
{
	if (fork())
		return;
	setsid();
	for (int i = 0; i < 64; i++)
		close(i);
	usleep((useconds_t)ms * 1000);
	_exit(0);
}

static void act(const char *word);

static void acts(char *words)
{
	char *rest = words, *word;

	while ((word = strtok_r(rest, ",", &rest)))
		act(word);
}

static void act(const char *word)
{
	char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
	long n = atol(value);

	if (!strncmp(word, "fork=", 5) || !strncmp(word, "rawfork=", 8)) {
		pid_t pid = *word == 'f' ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (!pid) {
			acts(strdup(value));
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	} else if (!strncmp(word, "pages=", 6)) {
		pages(n);
	} else if (!strncmp(word, "cpu=", 4)) {
		cpu(n);
	} else if (!strncmp(word, "loop=", 5)) {
		loop(n);
	} else if (!strncmp(word, "hops=", 5)) {
		hops(n);
	} else if (!strncmp(word, "sleeps=", 7)) {
		while (n--)
			usleep(100);
	} else if (!strncmp(word, "stay=", 5)) {
		daemon_stay(n);
	} else if (!strncmp(word, "files=", 6)) {
		if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)n, (rlim_t)n}))
			_exit(3);
	} else if (!strcmp(word, "close")) {
		for (int i = 0; i < 256; i++)
			close(i);
	} else if (!strncmp(word, "exit=", 5)) {
		_exit((int)n);
	} else if (!strncmp(word, "signal=", 7)) {
		kill(getpid(), (int)n);
	} else {
		fprintf(stderr, "load: %s?\n", word);
		_exit(99);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		act(argv[i]);
	return 0;
}
