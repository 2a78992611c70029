/* SPDX-License-Identifier: MIT */
/*
 * A program that limits itself, and then allocates 100 blocks of 1,000 bytes in late(): limits HOW [NUMBER]. It prints what it sees of
 * it, which has to be the same under `etch heap`, and ends with status 7.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define CHECK(x) ((x) ? (void)0 : (void)(dprintf(2, "failed: %s: %s\n", #x, strerror(errno)), _exit(1)))

static void *volatile kept[200];
static int failures;

NOINLINE static void early(int i) { kept[i] = malloc(10); }
NOINLINE static void late(int i)
{
	kept[i] = malloc(1000);
	failures += !kept[i];
}

static void work(void)
{
	for (int i = 0; i < 100; i++)
		late(i);
}

static void say(const char *what, long n)
{
	char text[100];
	int size = snprintf(text, sizeof(text), "%s %ld\n", what, n);

	CHECK(write(1, text, (size_t)size) == size);
}

static void limit(int which, rlim_t n)
{
	struct rlimit r = {n, n};

	CHECK(!setrlimit(which, &r));
}

/* Closes all descriptors and takes their numbers: what is written there must stay. */
static void close_all(void)
{
	char text[100] = "";
	int fd[20], out = fcntl(1, F_DUPFD, 3);

	CHECK(out >= 0 && !syscall(SYS_close_range, 3u, ~0u, 0u));
	for (int i = 0; i < 20; i++) {
		fd[i] = memfd_create("own", 0);
		CHECK(fd[i] == 3 + i && write(fd[i], "mine", 4) == 4);
	}
	work();
	for (int i = 0; i < 20; i++) {
		memset(text, 0, sizeof(text));
		CHECK(pread(fd[i], text, sizeof(text), 0) == 4 && !strcmp(text, "mine"));
	}
}

static void no_descriptors(void)
{
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	CHECK(errno == EMFILE);
	work();
}

static void *in_thread(void *arg)
{
	work();
	return arg;
}

static void small_stack(void)
{
	pthread_attr_t attr;
	pthread_t t;

	limit(RLIMIT_STACK, 65536);
	CHECK(!pthread_attr_init(&attr) && !pthread_attr_setstacksize(&attr, 16384));
	CHECK(!pthread_create(&t, &attr, in_thread, NULL) && !pthread_join(t, NULL));
}

/* Stacks that are all different, for which a recording has to grow. */
NOINLINE static int deep(int n)
{
	kept[0] = malloc(10);
	return n ? deep(n - 1) + 1 : 0;
}

/* Only what this program does itself is allowed; all else is death, as in many a sandbox. */
static void filter(int by_syscall)
{
	static const int allowed[] = {SYS_write, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap};
	enum { COUNT = sizeof(allowed) / sizeof(*allowed) };
	struct sock_filter f[COUNT + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = {COUNT + 3, f};

	for (int i = 0; i < COUNT; i++)
		f[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (unsigned char)(COUNT - i), 0);
	f[1 + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[2 + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (by_syscall)
		CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
	else
		CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	for (int i = 0; i < 100; i++)
		kept[i] = malloc(i % 2 ? 1000 : 200000);
	CHECK(deep(3000) == 3000);
}

/* A child of a process that has lost something. */
static void child(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		work();
		_exit(failures);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	say("child", status);
}

static void fork_exec(char **argv)
{
	pid_t pid = vfork();
	int status;

	if (!pid) {
		execl(argv[0], argv[0], "none", NULL);
		_exit(99);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	say("child", WEXITSTATUS(status));
}

static void threads(void)
{
	pthread_t t[64];
	int n = 0;

	while (n < 64 && !pthread_create(&t[n], NULL, in_thread, NULL))
		n++;
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	say("threads", n > 0);
	failures = 0; /* how many depends on how far each thread got */
}

/* Nearly all of the limit can be mapped: it is reached by mmap(2), in steps of 1 MB. */
static void maps(long most)
{
	long n = 0;

	while (n < 10000 && mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		n++;
	work();
	say("mapped", n > most - 6);
}

static void write_limit(rlim_t n)
{
	static char data[4096];
	FILE *f = tmpfile();

	CHECK(f);
	limit(RLIMIT_FSIZE, n);
	work();
	signal(SIGXFSZ, SIG_IGN);
	say("written", pwrite(fileno(f), data, sizeof(data), 0));
}

int main(int argc, char **argv)
{
	const char *how = argv[1];
	rlim_t n = argc > 2 ? (rlim_t)atol(argv[2]) : 0;

	if (!strcmp(how, "as") || !strcmp(how, "data")) {
		early(0);
		limit(how[0] == 'a' ? RLIMIT_AS : RLIMIT_DATA, n << 20);
		work();
	} else if (!strcmp(how, "threads")) {
		limit(RLIMIT_AS, n << 20);
		threads();
	} else if (!strcmp(how, "maps")) {
		early(0);
		limit(RLIMIT_AS, n << 20);
		maps((long)n);
	} else if (!strcmp(how, "nofile")) {
		limit(RLIMIT_NOFILE, n);
		work();
	} else if (!strcmp(how, "descriptors")) {
		no_descriptors();
	} else if (!strcmp(how, "descriptors-late")) {
		early(0);
		no_descriptors();
	} else if (!strcmp(how, "descriptors-child")) {
		early(0);
		no_descriptors();
		child();
	} else if (!strcmp(how, "closeall")) {
		close_all();
	} else if (!strcmp(how, "fsize")) {
		write_limit(n);
	} else if (!strcmp(how, "stack")) {
		small_stack();
	} else if (!strcmp(how, "zero")) {
		early(0);
		limit(RLIMIT_MEMLOCK, 0);
		limit(RLIMIT_CORE, 0);
		limit(RLIMIT_NPROC, 0);
		limit(RLIMIT_SIGPENDING, 0);
		work();
	} else if (!strcmp(how, "mlockall")) {
		CHECK(!mlockall(MCL_CURRENT | MCL_FUTURE));
		work();
	} else if (!strcmp(how, "prctl") || !strcmp(how, "seccomp")) {
		early(0);
		filter(how[0] == 's');
		say("filtered", 0);
		_exit(7);
	} else if (!strcmp(how, "chroot")) {
		early(0);
		CHECK(!chroot(argv[2]) && !chdir("/"));
		work();
		child();
	} else if (!strcmp(how, "setuid")) {
		early(0);
		CHECK(!setgid(65534) && !setuid(65534));
		work();
		child();
	} else if (!strcmp(how, "daemon")) {
		early(0);
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			CHECK(setsid() > 0 && !chdir("/"));
			close_all();
			_exit(failures);
		}
		CHECK(waitpid(pid, NULL, 0) == pid);
	} else if (!strcmp(how, "vfork")) {
		fork_exec(argv);
	} else {
		work();
	}
	say("failures", failures);
	return 7;
}
