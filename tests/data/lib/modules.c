/* SPDX-License-Identifier: MIT */
/*
 * modules.c: objects and sites in different modules: `modules CASE DIR`.
 * Prints what a test wants to know of the numbers, and exits 1 where a value is
 * not what it must be.
 */
#include <dlfcn.h>
#include <pthread.h>

#define PROGRAM_OBJECT
#include "modules.h"
#include "site.h"
#include "../threads.h"

DEFINE_IMV(int, from_program) = 77;
EXPORT_IMV_SYMBOL(from_program);
static int ordinary_here = 1;

/* Each use in a function of its own: the tool follows the register that holds an
 * object's address, and where one is left in rax at a return, or flows on after
 * an exit() that it does not know to be final, it must take that for an escape. */
ALONE static int flag_read(void) { return imv_read(flag); }
ALONE static int flag_memory(void) { return _imv_read(flag); }
ALONE static int flag_set(int v) { return imv_set(flag, v); }
ALONE static int flag_sync(void)
{
	int err = etch_sync(&flag__imv, sizeof(flag__imv));

	__asm__ __volatile__(""); /* no tail call */
	return err;
}
ALONE static int flag_release(void)
{
	int err = etch_release(&flag__imv, sizeof(flag__imv));

	__asm__ __volatile__("");
	return err;
}
ALONE static void *flag_address(void) { return ETCH_ADDR(flag__imv); }
ALONE static int conf_set(long v) { return etch_set(&conf.b, v); }
ALONE static int program_read(void) { return imv_read(from_program); }
ALONE static int program_set(int v) { return imv_set(from_program, v); }

static const char *directory;

struct plugin {
	void *handle;
	int (*flag)(void);
	long (*conf)(void);
	int (*own)(void);
	int (*set_own)(int);
	int (*set_flag)(int);
	void (*store_flag)(int);
};

static struct plugin plugin_open(const char *name)
{
	struct plugin p;
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	p.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!p.handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&p.flag = dlsym(p.handle, "plugin_flag");
	*(void **)&p.conf = dlsym(p.handle, "plugin_conf");
	*(void **)&p.own = dlsym(p.handle, "plugin_own");
	*(void **)&p.set_own = dlsym(p.handle, "plugin_set_own");
	*(void **)&p.set_flag = dlsym(p.handle, "plugin_set_flag");
	*(void **)&p.store_flag = dlsym(p.handle, "plugin_store_flag");
	return p;
}

static void check_flag(const struct plugin *p, int v)
{
	CHECK_EQ(home_flag(), v);
	CHECK_EQ(flag_read(), v);
	CHECK_EQ(flag_memory(), v);
	if (p)
		CHECK_EQ(p->flag(), v);
}

/* Sites of all modules follow a set, from whichever module it comes, also after
 * modules came and went. */
static void case_load(void)
{
	struct plugin p;

	check_flag(NULL, 5);
	CHECK_EQ(flag_set(6), 0);
	check_flag(NULL, 6);
	for (int i = 0; i < 3; i++) {
		unsigned long before = info_now().armed;

		p = plugin_open("plugin.so");
		check_flag(&p, 6 + 10 * i);
		CHECK_EQ(p.conf(), home_conf());
		CHECK_EQ(p.own(), 40);
		printf("plugin %ld modules %lu\n", (long)(info_now().armed - before), info_now().modules);
		CHECK_EQ(p.set_own(41), 0);
		CHECK_EQ(p.own(), 41);
		CHECK_EQ(flag_set(7), 0);
		check_flag(&p, 7);
		CHECK_EQ(home_set_flag(8), 0);
		check_flag(&p, 8);
		CHECK_EQ(p.set_flag(9), 0);
		check_flag(&p, 9);
		CHECK_EQ(conf_set(0x123456789abcdef), 0);
		CHECK_EQ(p.conf(), 0x123456789abcdef + 4);
		CHECK_EQ(home_conf(), 0x123456789abcdef + 4);
		CHECK_EQ(home_set_conf(-3), 0);
		CHECK_EQ(p.conf(), 1);
		CHECK_EQ(home_conf(), 1);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		CHECK(!dlclose(p.handle));
		CHECK_EQ(info_now().armed, before);
		CHECK_EQ(flag_set(16 + 10 * i), 0);
		CHECK_EQ(conf_set(2), 0);
		check_flag(NULL, 16 + 10 * i);
	}
	CHECK_EQ(etch_set(&ordinary_here, 2), ETCH_ENOTETCHED);
	CHECK_EQ(etch_set_bytes(home_ordinary(), &ordinary_here, 4), ETCH_ENOTETCHED);
	printf("verify %ld\n", etch_verify(NULL, NULL));
}

/* A plugin that stores plainly: its coming disarms the object. */
static void case_fact(void)
{
	struct plugin a = plugin_open("plugin.so"), b;
	int armed = !!strcmp(page_perms(flag_address()), "rw-p");

	check_flag(&a, 5);
	b = plugin_open("stores.so");
	CHECK_PERMS(flag_address(), "rw-p");
	printf("armed %d before\n", armed);
	b.store_flag(123);
	check_flag(&a, 123);
	check_flag(&b, 123);
	CHECK_EQ(flag_set(124), 0);
	check_flag(&a, 124);
	check_flag(&b, 124);
	CHECK_EQ(flag_sync(), 0);
	CHECK_EQ(flag_set(125), 0);
	check_flag(&a, 125);
	check_flag(&b, 125);
	CHECK_EQ(flag_release(), 0);
	b.store_flag(126);
	check_flag(&a, 126);
	check_flag(&b, 126);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* A plugin that no tool has seen stores to an armed object. */
static void case_late(void)
{
	struct plugin p = plugin_open("stores.so");

	check_flag(&p, 5);
	p.store_flag(6);
}

/* The program's own object, read by a library that was loaded before it. */
static void case_upwards(void)
{
	CHECK_EQ(home_from_program(), 77);
	for (int v = 0; v < 20; v++) {
		CHECK_EQ(program_set(v), 0);
		CHECK_EQ(home_from_program(), v);
		CHECK_EQ(program_read(), v);
	}
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* A program that is not position-independent has a copy of the library's object
 * in its own .bss: sets are stores to it, and everybody reads it. */
static void case_copy(void)
{
	static const char over_the_end[8192];
	struct plugin p = plugin_open("plugin.so");

	check_flag(&p, 5);
	for (int v = 0; v < 20; v++) {
		CHECK_EQ(flag_set(v), 0);
		check_flag(&p, v);
		CHECK_EQ(home_set_flag(v + 100), 0);
		check_flag(&p, v + 100);
		CHECK_EQ(p.set_flag(v + 200), 0);
		check_flag(&p, v + 200);
		CHECK_EQ(conf_set((long)v << 40), 0);
		CHECK_EQ(p.conf(), ((long)v << 40) + 4);
		CHECK_EQ(home_conf(), ((long)v << 40) + 4);
		}
	CHECK_EQ(flag_sync(), 0);
	CHECK_EQ(flag_release(), 0);
	CHECK_EQ(etch_set_bytes(flag_address(), over_the_end, sizeof(over_the_end)), ETCH_EINVAL);
	CHECK_EQ(etch_set(&ordinary_here, 2), ETCH_ENOTETCHED);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(program_set(1), 0);
	CHECK_EQ(home_from_program(), 1);
}

static volatile int stop, wrong;

static void *setter(void *arg)
{
	int v = 1;

	(void)arg;
	thread_begun();
	do
		if (flag_set(v) || flag_read() != v || home_flag() != v || home_set_conf(v) ||
		    program_set(v) || home_from_program() != v)
			wrong = 1;
	while (v++, !stop);
	return NULL;
}

/* Modules come and go while another thread sets. */
static void case_churn(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, setter, NULL));
	threads_wait(1);
	for (int i = 0; i < 200; i++) {
		struct plugin p = plugin_open("plugin.so");
		int a = home_flag(), b = p.flag(), c = home_flag();

		CHECK(b - a >= 0 && c - b >= 0);
		CHECK_EQ(p.own(), 40);
		CHECK_EQ(p.set_own(i), 0);
		CHECK_EQ(p.own(), i);
		CHECK(!dlclose(p.handle));
	}
	stop = 1;
	CHECK(!pthread_join(t, NULL));
	CHECK(!wrong);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	directory = argv[2];
	if (!strcmp(argv[1], "load"))
		case_load();
	else if (!strcmp(argv[1], "fact"))
		case_fact();
	else if (!strcmp(argv[1], "late"))
		case_late();
	else if (!strcmp(argv[1], "upwards"))
		case_upwards();
	else if (!strcmp(argv[1], "copy"))
		case_copy();
	else if (!strcmp(argv[1], "churn"))
		case_churn();
	else
		return 2;
	puts("done");
	return 0;
}
