/* SPDX-License-Identifier: MIT */
/*
 * program.c: what somebody gains who can write to this program's memory, and when its text is
 * writable. `program CASE [PLUGIN]`; test_security.py has the list.
 */
#include <errno.h>
#include <dlfcn.h>
#include <etch/imv.h>
#include <etch/pv.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { printf("line %d: %s\n", __LINE__, #x); exit(1); } } while (0)
#define NOINLINE __attribute__((noinline))

struct ops {
	int (*decide)(int);
};
static NOINLINE int deny(int x) { return x + 1000; }
static NOINLINE int allow(int x) { return x + 2000; }
static NOINLINE int evil(int x) { return x + 6660; }

DEFINE_IMV(int, level) = 3;
static DEFINE_PV_OPS(struct ops, ops) = {deny};      /* armed: nothing is against it */
static DEFINE_PV_OPS(struct ops, open_ops) = {deny}; /* its address escapes: loads */
struct ops plain_ops = {deny};                /* no business of etch's */
struct ops *volatile escaped = &open_ops;

static NOINLINE int ask(int x) { return pv_call(ops, decide, x) ^ 0; }
static NOINLINE int ask_open(int x) { return pv_call(open_ops, decide, x) ^ 0; }
static NOINLINE int ask_plain(int x) { return plain_ops.decide(x) ^ 0; }
static NOINLINE int read_level(void) { return imv_read(level); }

/* A store as a stray pointer would do it, that says whether it went well: the kernel looks at
 * the protection of the page. */
static int store(const void *to, const void *value, size_t n)
{
	struct iovec from = {(void *)(uintptr_t)value, n}, at = {(void *)(uintptr_t)to, n};

	return process_vm_writev(getpid(), &from, 1, &at, 1, 0) == (ssize_t)n ? 0 : errno;
}

/* One that no protection of pages stops, as a debugger has it. */
static void store_by_force(const void *to, const void *value, size_t n)
{
	int fd = open("/proc/self/mem", O_RDWR);

	CHECK(fd >= 0 && pwrite(fd, value, n, (off_t)(uintptr_t)to) == (ssize_t)n);
	close(fd);
}

static int writable_code(void)
{
	char line[512];
	int found = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		const char *p = strchr(line, ' ');

		found += p && p[2] == 'w' && p[3] == 'x';
	}
	fclose(f);
	return found;
}

/* ---- cases ------------------------------------------------------------------- */

/* Function pointers, each overwritten as an attacker would. */
static void pointers(void)
{
	struct ops to = {evil};

	CHECK(ask(1) == 1001 && ask_open(1) == 1001 && ask_plain(1) == 1001);
	CHECK(store(&plain_ops, &to, sizeof(to)) == 0 && ask_plain(1) == 6661);
	/* Not armed: a pointer as any other. */
	CHECK(store(escaped, &to, sizeof(to)) == 0 && ask_open(1) == 6661);
	/* Armed: the page is read-only, ... */
	CHECK(store(ETCH_ADDR(ops), &to, sizeof(to)) == EFAULT && ask(1) == 1001);
	/* ... and the code has the old function even where that does not help; which is seen. */
	CHECK(etch_verify(NULL, NULL) == 0);
	store_by_force(ETCH_ADDR(ops), &to, sizeof(to));
	CHECK(ask(1) == 1001 && etch_verify(NULL, NULL) > 0);
	/* A set finds other code than memory would have it, and leaves both. */
	CHECK(pv_set(ops.decide, allow) == ETCH_ECODE && ask(1) == 1001);
	/* To agree with memory is what etch_sync is for, whoever wrote there. */
	CHECK(etch_sync_bytes(ETCH_ADDR(ops), sizeof(ops)) == 0 && ask(1) == 6661);
	CHECK(pv_set(ops.decide, allow) == 0 && ask(1) == 2001 && etch_verify(NULL, NULL) == 0);
}

/* Text is no one's to write, before, between and after changes of all kinds. */
static void text(const char *plugin)
{
	int (*nothing)(int) = (int (*)(int))(uintptr_t)ask;
	uint8_t byte = 0;
	void *lib;

	memcpy(&byte, (const void *)(uintptr_t)nothing, 1);
	CHECK(!writable_code() && store((const void *)(uintptr_t)nothing, &byte, 1) == EFAULT);
	CHECK(imv_set(level, 5) == 0 && !writable_code());
	CHECK(pv_set(ops.decide, allow) == 0 && !writable_code());
	CHECK(pv_set(ops.decide, allow) == 0 && !writable_code()); /* no change */
	CHECK(etch_sync(&open_ops, sizeof(open_ops)) == 0 && !writable_code());
	CHECK(pv_set(open_ops.decide, allow) == 0 && ask_open(1) == 2001 && !writable_code());
	CHECK(etch_release(&open_ops, sizeof(open_ops)) == 0 && !writable_code());
	CHECK(etch_seal(&ops, sizeof(ops)) == 0 && !writable_code());
	lib = dlopen(plugin, RTLD_NOW);
	CHECK(lib && !writable_code());
	CHECK(imv_set(level, 6) == 0 && !writable_code() && !dlclose(lib) && !writable_code());
	CHECK(store((const void *)(uintptr_t)nothing, &byte, 1) == EFAULT);
}

/* A change that is refused in the middle: a breakpoint at the site. */
static void refused(void)
{
	uint8_t *p = (uint8_t *)(uintptr_t)read_level, breakpoint = 0xcc, old = 0;
	int i;

	CHECK(read_level() == 3);
	/* The site: mov $3,%r32 with prefixes; the byte before its immediate changes. */
	for (i = 0; i < 32 && memcmp(p + i, "\x03\0\0\0", 4); i++)
		;
	CHECK(i > 1 && i < 32);
	for (i = i - 1; i > 0 && (p[i - 1] == 0xc7 || (p[i - 1] & 0xf0) == 0x40); i--)
		;
	old = p[i];
	store_by_force(p + i, &breakpoint, 1);
	CHECK(imv_set(level, 9) == ETCH_EBUSY && !writable_code());
	store_by_force(p + i, &old, 1);
	CHECK(read_level() == 3 && imv_set(level, 9) == 0 && read_level() == 9 && !writable_code());
}

static volatile int stop;
static volatile unsigned long tried, done;

/* Tries to write the byte that is there to the page of ask(). */
static void *writer(void *arg)
{
	const uint8_t *at = (const uint8_t *)((uintptr_t)ask & ~(uintptr_t)4095);
	uint8_t byte = *at;

	(void)arg;
	while (!stop) {
		done += store(at, &byte, 1) == 0;
		tried++;
	}
	return NULL;
}

/* How much of the time is it writable, while nothing is set, and while sets are all that is
 * done? */
static void window(unsigned long sets)
{
	unsigned long before, before_done;
	struct timespec from, to;
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, writer, NULL));
	while (tried < 20000)
		usleep(1000);
	printf("idle: %lu of %lu\n", done, tried);
	before = tried;
	before_done = done;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (unsigned long i = 0; i < sets; i++)
		CHECK(pv_set(ops.decide, i & 1 ? deny : allow) == 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("setting: %lu of %lu, %.0f ns a set\n", done - before_done, tried - before,
	       ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)sets);
	before_done = done;
	before = tried;
	while (tried < before + 20000)
		usleep(1000);
	printf("after: %lu of %lu\n", done - before_done - (done - before_done == 1), tried - before);
	stop = 1;
	pthread_join(t, NULL);
}

/* A library with tables that lie. What is the program's stays as it is. */
static void forged(const char *plugin)
{
	struct etch_info before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	static uint8_t copy[4096];
	const uint8_t *page = (const uint8_t *)((uintptr_t)ask & ~(uintptr_t)4095);
	int (*plugin_level)(void), to = 7;
	void *lib;

	memcpy(copy, page, sizeof(copy));
	CHECK(etch_info(&before) == 0);
	lib = dlopen(plugin, RTLD_NOW);
	CHECK(lib);
	printf("info %d\n", etch_info(&after));
	CHECK(!memcmp(copy, page, sizeof(copy)));
	plugin_level = (int (*)(void))(uintptr_t)dlsym(lib, "plugin_level");
	CHECK(plugin_level && plugin_level() == 11);
	printf("set %d\n", imv_set(level, to));
	printf("plugin %d\n", plugin_level());
	printf("armed %ld pages %ld\n", (long)(after.armed_objects - before.armed_objects),
	       (long)(after.readonly_pages - before.readonly_pages));
	CHECK(read_level() == to && ask(1) == 1001);
	printf("ops %d\n", store(ETCH_ADDR(ops), &plain_ops, sizeof(ops)));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *plugin = argc > 2 ? argv[2] : "";

	if (!strcmp(what, "pointers"))
		pointers();
	else if (!strcmp(what, "text"))
		text(plugin);
	else if (!strcmp(what, "refused"))
		refused();
	else if (!strcmp(what, "window"))
		window(argc > 2 ? strtoul(argv[2], NULL, 10) : 2000);
	else if (!strcmp(what, "forged"))
		forged(plugin);
	else
		return 2;
	printf("done\n");
	return 0;
}
