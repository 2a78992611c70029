/* SPDX-License-Identifier: MIT */
/*
 * Tables of shared objects that come and go: modules CASE PLUGIN...
 * Linked with libetch.so, except for the case `holder`.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef HOLDER
#include <etch/copy.h>
#include <etch/extable.h>
#endif

#include "../check.h"
#include "../threads.h"

static char *nothing;

static void *sym(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	CHECK(p);
	return p;
}

#ifdef HOLDER
/*
 * A program that knows nothing of libetch loads an object that has libetch.a inside,
 * which installs its handlers and is gone again.
 */
static void holder(const char *path)
{
	for (int i = 0; i < 50; i++) {
		struct sigaction was, now;
		void *lib;

		CHECK(!sigaction(SIGSEGV, NULL, &was));
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!lib)
			puts(dlerror());
		CHECK(lib);
		CHECK(((int (*)(void *))sym(lib, "holder_run"))(nothing) == -EFAULT);
		CHECK(!sigaction(SIGSEGV, NULL, &now) && now.sa_handler != was.sa_handler);
		CHECK(!dlclose(lib));
		CHECK(!dlopen(path, RTLD_NOLOAD | RTLD_NOW));
		/* Except for the flag that the C library sets for the kernel (SA_RESTORER). */
		CHECK(!sigaction(SIGSEGV, NULL, &now) && now.sa_handler == was.sa_handler);
		CHECK(!((now.sa_flags ^ was.sa_flags) & ~0x04000000));
		CHECK(!sigaction(SIGBUS, NULL, &now) && now.sa_handler == SIG_DFL);
	}
}
#else
struct plugin {
	void *lib;
	long (*first)(const void *), (*second)(const void *), (*c)(const void *);
	void *at_first, *at_second;
};

static struct plugin plugin_open(const char *path)
{
	struct plugin p = {.lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)};

	if (!p.lib)
		puts(dlerror());
	CHECK(p.lib);
	*(void **)&p.first = sym(p.lib, "plugin_first");
	*(void **)&p.second = sym(p.lib, "plugin_second");
	*(void **)&p.c = sym(p.lib, "plugin_c");
	p.at_first = sym(p.lib, "plugin_at_first");
	p.at_second = sym(p.lib, "plugin_at_second");
	return p;
}

static void plugin_try(const struct plugin *p)
{
	long here = 11;

	CHECK(p->first(&here) == 11 && p->second(&here) == 11 && p->c(&here) == 11);
	CHECK(p->first(nothing) == 0 && p->second(nothing) == -EFAULT && p->c(nothing) == -EFAULT);
	CHECK(etch_fault_expected(p->at_first) && etch_fault_expected(p->at_second));
	CHECK(!etch_fault_expected((char *)p->at_first + 1) && !etch_fault_expected((void *)p->first));
}

static void case_several(int n, char **paths)
{
	struct plugin p[32];

	/* More than there is space for without a page; all orders of leaving. */
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++)
			p[i] = plugin_open(paths[i]);
		for (int i = 0; i < n; i++)
			plugin_try(&p[i]);
		for (int k = 0; k < n; k++) {
			const int orders[] = {k, n - 1 - k, (k * 7 + 3) % n};
			int i = orders[round];

			CHECK(!dlclose(p[i].lib));
			CHECK(!etch_fault_expected(p[i].at_first) && !etch_fault_expected(p[i].at_second));
			for (int j = 0; j < n && k == n / 2; j++)
				if (etch_fault_expected(p[j].at_first))
					plugin_try(&p[j]);
		}
	}
}

static int stop;

static void *reader(void *unused)
{
	uint64_t v;

	(void)unused;
	thread_begun();
	do
		CHECK(etch_probe_read_64(&v, nothing) == -EFAULT && !etch_fault_expected(&v));
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED));
	return NULL;
}

static void mappings(unsigned *count, unsigned long *bytes)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[5000];

	*count = 0;
	*bytes = 0;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && !strstr(line, "[heap]")) {
			++*count;
			*bytes += to - from;
		}
	fclose(f);
}

/* Other threads fault all the time. */
static void case_cycles(int n, char **paths)
{
	unsigned long bytes = 0, bytes_now;
	unsigned count = 0, count_now;
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, reader, NULL));
	threads_wait(2);
	for (int i = 0; i < 1000; i++) {
		struct plugin p = plugin_open(paths[i % n]);

		plugin_try(&p);
		CHECK(!dlclose(p.lib) && !etch_fault_expected(p.at_first));
		if (i == 100)
			mappings(&count, &bytes);
	}
	mappings(&count_now, &bytes_now);
	if (count_now > count || bytes_now > bytes)
		printf("%u %lu, then %u %lu\n", count, bytes, count_now, bytes_now);
	CHECK(count_now <= count && bytes_now <= bytes);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

static void case_damaged(char **paths, int harmless)
{
	struct plugin p = plugin_open(paths[0]);
	long here = 11;

	if (harmless) {
		plugin_try(&p);
	} else {
		CHECK(p.first(&here) == 11);
		CHECK(!etch_fault_expected(p.at_first) && !etch_fault_expected(p.at_second));
	}
	CHECK(!dlclose(p.lib));
}

/* What the constructor would never hand over. */
static void case_arguments(void)
{
	static const struct etch_ex table[2];
	struct etch_ex *heap = calloc(2, sizeof(*heap));
	uint64_t v;

	etch_extable_load_v1(NULL, NULL);
	etch_extable_load_v1(table, table);
	etch_extable_load_v1(table + 1, table);
	etch_extable_load_v1(heap, heap + 2);
	etch_extable_load_v1((const void *)((const char *)table + 1), (const void *)((const char *)table + 13));
	etch_extable_load_v1(table, table + 2);
	etch_extable_unload_v1(NULL);
	etch_extable_unload_v1(table);
	etch_extable_unload_v1(heap);
	CHECK(!etch_fault_expected(NULL) && !etch_fault_expected(table) && !etch_fault_expected((void *)-1));
	CHECK(etch_probe_read_64(&v, nothing) == -EFAULT);
	free(heap);
}

/* Forks in between: the child's tables are its own. */
static void case_fork(char **paths)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, reader, NULL));
	threads_wait(1);
	for (int i = 0; i < 40; i++) {
		struct plugin p = plugin_open(paths[0]);
		pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (!pid) {
			plugin_try(&p);
			CHECK(!dlclose(p.lib) && !etch_fault_expected(p.at_first));
			p = plugin_open(paths[0]);
			plugin_try(&p);
			_exit(0);
		}
		CHECK(!dlclose(p.lib));
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
}

/* Leaves by exit(3) while other threads fault, through destructors that take a while. */
static __attribute__((destructor)) void slow(void) { usleep(20000); }

static void *plugin_reader(void *p)
{
	const struct plugin *plugin = p;

	thread_begun();
	for (;;)
		if (plugin->c(nothing) != -EFAULT)
			_exit(3);
	return NULL;
}

static void case_exit(char **paths)
{
	static struct plugin p;
	pthread_t t;

	p = plugin_open(paths[0]);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t, NULL, i ? reader : plugin_reader, &p));
	threads_wait(2);
	usleep(2000);
}
#endif

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[1] : "";

	nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#ifdef HOLDER
	(void)name;
	holder(argv[2]);
#else
	CHECK(!etch_fault_init());
	if (!strcmp(name, "several"))
		case_several(argc - 2, argv + 2);
	else if (!strcmp(name, "cycles"))
		case_cycles(argc - 2, argv + 2);
	else if (!strcmp(name, "damaged") || !strcmp(name, "harmless"))
		case_damaged(argv + 2, name[0] == 'h');
	else if (!strcmp(name, "arguments"))
		case_arguments();
	else if (!strcmp(name, "fork"))
		case_fork(argv + 2);
	else if (!strcmp(name, "exit"))
		case_exit(argv + 2);
	else
		return 2;
#endif
	puts("done");
	return 0;
}
