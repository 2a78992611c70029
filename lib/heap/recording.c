/* SPDX-License-Identifier: MIT */
/*
 * recording.c: the file of this process image (recording.h).
 *
 * No descriptor is kept, which the program might close: the file is mapped once, larger than it will be, and grows by
 * MADV_POPULATE_WRITE, which fails where a store would be a SIGBUS (a full disk).
 */
#include "heap/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/sys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define PAGE       4096u
#define STEP_LEAST (4u * PAGE)
#define STEP_MOST  (1u << 20)

/* Of the file: the head's page, then modules, nodes, leaves. Halved until the address space has room. */
#define MODULES_MOST (16u << 20)
#define NODES_MOST   (1ull << 31)
#define LEAVES_MOST  (1ull << 31)
#define MOST_LEAST   (1u << 20)

struct recording recording;

static long sys_open(const char *path, int flags, int mode)
{
	return sys_call6(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, mode, 0, 0);
}

static void sys_close(long fd) { sys_call3(SYS_close, fd, 0, 0); }

void *recorder_map(uint64_t size)
{
	void *p = sys_map(size, MAP_NORESERVE);

	if (p && recording.head)
		__atomic_fetch_add(&recording.head->memory, size, __ATOMIC_RELAXED);
	return p;
}

void recorder_unmap(void *at, uint64_t size)
{
	if (!at)
		return;
	sys_munmap(at, size);
	if (recording.head)
		__atomic_fetch_sub(&recording.head->memory, size, __ATOMIC_RELAXED);
}

/* ---- growing --------------------------------------------------------------- */

/* Before Linux 5.14. */
static bool allocate(uint64_t offset, uint64_t size)
{
	long fd = sys_open(recording.path, O_RDWR, 0), ret;

	if (fd < 0)
		return false;
	ret = sys_call6(SYS_fallocate, fd, 0, (long)offset, (long)size, 0, 0);
	sys_close(fd);
	return !ret;
}

bool region_grow(struct region *r, uint64_t size)
{
	uint64_t step = r->ready < STEP_LEAST ? STEP_LEAST : r->ready > STEP_MOST ? STEP_MOST : r->ready;
	uint64_t to = (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	long ret;

	if (to < r->ready + step)
		to = r->ready + step;
	if (to > r->most)
		to = r->most;
	if (size > to)
		return false;
	ret = sys_call3(SYS_madvise, (long)(r->at + r->ready), (long)(to - r->ready), MADV_POPULATE_WRITE);
	if (ret == -EINVAL)
		ret = allocate(r->offset + r->ready, to - r->ready) ? 0 : -ENOSPC;
	if (ret)
		return false;
	r->ready = to;
	return true;
}

/* ---- what to do: the variable ------------------------------------------------ */

struct config {
	bool known, on;
	uint64_t sample;
	long only; /* the parent of the one process to record; 0: every one */
	char directory[HEAP_PATH_MOST - 64];
};

static struct config config;

static const char *number(const char *s, uint64_t *out)
{
	for (*out = 0; *s >= '0' && *s <= '9'; s++)
		*out = *out * 10 + (uint64_t)(*s - '0');
	return *s == ':' ? s + 1 : NULL;
}

static void config_parse(const char *value)
{
	uint64_t only = 0;
	const char *s = number(value, &config.sample);

	s = s ? number(s, &only) : NULL;
	if (!s || *s != '/' || strlen(s) >= sizeof(config.directory))
		return;
	memcpy(config.directory, s, strlen(s) + 1);
	config.only = (long)only;
	config.on = true;
}

/* From the kernel's copy of the environment: before libc's own constructors there is no environ. */
static void config_read(void)
{
	static const char name[] = HEAP_VARIABLE "=";
	char block[512], value[sizeof(config.directory) + 48];
	size_t matched = 0, used = 0;
	long fd, n;

	config.known = true;
	fd = sys_open("/proc/self/environ", O_RDONLY, 0);
	if (fd < 0)
		return;
	while ((n = sys_call3(SYS_read, fd, (long)block, sizeof(block))) > 0) {
		for (long i = 0; i < n; i++) {
			if (matched == sizeof(name) - 1 && used < sizeof(value) - 1)
				value[used++] = block[i];
			else if (matched < sizeof(name) - 1)
				matched = block[i] == name[matched] ? matched + 1 : sizeof(name);
			if (block[i])
				continue;
			if (used)
				goto found;
			matched = 0;
		}
	}
found:
	sys_close(fd);
	value[used] = 0;
	if (used)
		config_parse(value);
}

/* ---- the file ------------------------------------------------------------------ */

static char *decimal(char *out, uint64_t n)
{
	char digits[20];
	int count = 0;

	do
		digits[count++] = (char)('0' + n % 10);
	while (n /= 10);
	while (count)
		*out++ = digits[--count];
	*out = 0;
	return out;
}

/* Creates DIRECTORY/PID.N, N being the first number that is free: an exec(2) keeps the PID. */
static long file_create(long pid)
{
	size_t n = strlen(config.directory);
	char *end;
	long fd = -EEXIST;

	memcpy(recording.path, config.directory, n);
	recording.path[n] = '/';
	end = decimal(recording.path + n + 1, (uint64_t)pid);
	*end++ = '.';
	for (uint64_t i = 0; fd == -EEXIST && i < 1000000; i++) {
		decimal(end, i);
		fd = sys_open(recording.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	}
	return fd;
}

static void region_set(struct region *r, uint64_t offset, uint64_t most)
{
	*r = (struct region){.at = (uint8_t *)recording.head + offset, .most = most, .offset = offset};
}

/* Maps the file, as large as the process's limits let it be. */
static bool file_map(long fd)
{
	struct rlimit most = {0};
	uint64_t nodes = NODES_MOST, leaves = LEAVES_MOST, size;
	long p = -ENOMEM;

	sys_call6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&most, 0, 0);
	for (; nodes >= MOST_LEAST; nodes /= 2, leaves /= 2) {
		size = PAGE + MODULES_MOST + nodes + leaves;
		if (size > most.rlim_cur || sys_call3(SYS_ftruncate, fd, (long)size, 0))
			continue; /* a larger file would be a SIGXFSZ */
		p = sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
		if (p > 0 || p < -4095)
			break;
	}
	if (nodes < MOST_LEAST)
		return false;
	recording.head = (struct heap_head *)p;
	recording.mapped = size;
	sys_call3(SYS_madvise, p, (long)size, MADV_DONTDUMP);
	region_set(&recording.modules, PAGE, MODULES_MOST);
	region_set(&recording.nodes, PAGE + MODULES_MOST, nodes);
	region_set(&recording.leaves, PAGE + MODULES_MOST + nodes, leaves);
	return true;
}

static bool head_write(long pid)
{
	struct region page = {.at = (uint8_t *)recording.head, .most = PAGE};
	struct heap_head *h = recording.head;
	long fd;

	if (!region_grow(&page, PAGE) || !region_grow(&recording.modules, PAGE) || !region_grow(&recording.nodes, PAGE) ||
	    !region_grow(&recording.leaves, PAGE))
		return false;
	h->pid = (int32_t)pid;
	h->parent = (int32_t)sys_call3(SYS_getppid, 0, 0, 0);
	h->sample = recording.sample = config.sample;
	h->module_at = recording.modules.offset;
	h->node_at = recording.nodes.offset;
	h->leaf_at = recording.leaves.offset;
	h->node_count = h->leaf_count = 1;
	h->version = HEAP_VERSION;
	sys_call6(SYS_readlink, (long)"/proc/self/ns/pid", (long)h->space, sizeof(h->space) - 1, 0, 0, 0);
	fd = sys_open("/proc/self/comm", O_RDONLY, 0);
	if (fd >= 0) {
		long n = sys_call3(SYS_read, fd, (long)h->name, sizeof(h->name));

		if (n > 0)
			h->name[n - 1] = 0; /* a newline */
		sys_close(fd);
	}
	__atomic_store_n(&h->magic, HEAP_MAGIC, __ATOMIC_RELEASE);
	return true;
}

struct heap_head *recording_leave(void)
{
	struct heap_head *h = recording.head;

	recording.head = NULL;
	return h;
}

bool recording_open(struct heap_head *parent)
{
	uint64_t parent_size = recording.mapped;
	long pid = sys_call3(SYS_getpid, 0, 0, 0), fd = -1;
	bool wanted, good = false;

	if (!config.known)
		config_read();
	wanted = config.on && (!config.only || config.only == sys_call3(SYS_getppid, 0, 0, 0));
	if (wanted)
		fd = file_create(pid);
	if (fd >= 0) {
		good = file_map(fd) && head_write(pid);
		sys_close(fd);
	}
	if (recording.head && !good) {
		sys_munmap(recording.head, recording.mapped);
		recording.head = NULL;
	}
	if (parent && wanted && !good)
		__atomic_fetch_add(&parent->lost_children, 1, __ATOMIC_RELAXED);
	if (parent)
		sys_munmap(parent, parent_size);
	return good;
}
