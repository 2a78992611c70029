/* SPDX-License-Identifier: MIT */
/* edge: other threads, and processes that fork while they set. */
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "edge.h"
#include "../threads.h"

static atomic_int thread_stop, thread_wrong;

static void *thread_read(void *arg)
{
	sigset_t all;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	thread_begun();
	do {
		int v = plain_read();

		if (v < 0 || v > 1000000)
			thread_wrong = 1;
	} while (!thread_stop);
	return NULL;
}

pthread_t thread_start(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, thread_read, NULL));
	threads_wait(1);
	return t;
}

/* pthread_join returns while the kernel still counts the thread: libetch asks the kernel. */
void thread_end(pthread_t t)
{
	struct stat st;

	thread_stop = 1;
	CHECK(!pthread_join(t, NULL));
	CHECK(!thread_wrong);
	do
		CHECK(!stat("/proc/self/task", &st));
	while (st.st_nlink > 3 && !usleep(1000));
}

/* Readers with every signal blocked see every value. */
static void case_blocked(void)
{
	pthread_t t = thread_start();

	for (int v = 0; v < 2000; v++) {
		CHECK_EQ(etch_set(&plain, v), 0);
		CHECK_EQ(sum_plain(), v);
	}
	thread_end(t);
	check_closed();
}

static void wait_ok(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

static void case_fork(void)
{
	int to_child[2], from_child[2];
	char byte = 0;
	pid_t pid;

	CHECK(!pipe(to_child) && !pipe(from_child));
	CHECK_EQ(etch_set(&plain, 20), 0);
	pid = fork();
	if (!pid) {
		CHECK_EQ(sum_plain(), 20);
		CHECK_EQ(etch_set(&plain, 30), 0);
		CHECK(write(from_child[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1);
		CHECK_EQ(sum_plain(), 30); /* the parent has set 40 */
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		check_closed();
		_exit(0);
	}
	CHECK(read(from_child[0], &byte, 1) == 1);
	CHECK_EQ(sum_plain(), 20); /* the child has set 30 */
	CHECK_EQ(etch_set(&plain, 40), 0);
	CHECK(write(to_child[1], &byte, 1) == 1);
	wait_ok(pid);
	CHECK_EQ(sum_plain(), 40);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void *thread_set(void *arg)
{
	int v = 0;

	(void)arg;
	thread_begun();
	do
		if (etch_set(&plain, v) || plain_read() != v)
			thread_wrong = 1;
	while (v = (v + 1) % 1000, !thread_stop);
	return NULL;
}

/* A fork in the middle of another thread's sets: the child has a whole state and
 * a free lock. vfork and posix_spawn: the child is another program, untouched. */
static void case_fork_set(void)
{
	static char *const args[] = {(char *)"edge", (char *)"basic", NULL};
	extern char **environ;
	pthread_t t;
	pid_t pid;

	CHECK(!pthread_create(&t, NULL, thread_set, NULL));
	threads_wait(1);
	for (int i = 0; i < 200; i++) {
		pid = fork();
		if (!pid) {
			int v = plain_read();

			CHECK_EQ(sum_plain(), v);
			CHECK_EQ(etch_verify(NULL, NULL), 0);
			CHECK_EQ(etch_set(&plain, v + 1), 0);
			CHECK_EQ(sum_plain(), v + 1);
			_exit(0);
		}
		wait_ok(pid);
		if (i % 20 == 0) {
			pid = vfork();
			if (!pid) {
				execve("/proc/self/exe", args, environ);
				_exit(1);
			}
			wait_ok(pid);
			CHECK(!posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ));
			wait_ok(pid);
		}
	}
	thread_end(t);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

const struct edge_case edge_threads[] = { CASE(blocked), CASE(fork), CASE(fork_set), {0} };
