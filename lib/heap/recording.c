/* SPDX-License-Identifier: MIT */
/*
 * recording.c: the file of this process image (recording.h).
 *
 * No descriptor is kept, because the program might close it. The file is sparse, and from the start as large as it
 * may become, so that it is never made larger later, when RLIMIT_FSIZE may be lower. But little of it is mapped,
 * because its address space belongs to the program, which may limit itself (RLIMIT_AS). Mappings grow by mremap(2),
 * which needs no descriptor either, and pages by MADV_POPULATE_WRITE, which fails where a store would raise SIGBUS
 * (on a full disk).
 */
#include "heap/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/sys.h"
#include "heap/memory_capacity.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define PAGE       4096u
#define STEP_LEAST (4u * PAGE)
#define STEP_MOST  (1u << 20)

/* The parts of the file: the page of the head, then modules, nodes and leaves. A smaller file is divided in
 * proportion. */
#define MODULES_MOST (16ull << 20)
#define FILE_MOST    (PAGE + MODULES_MOST + (1ull << 32))
#define FILE_LEAST   (PAGE + 3 * STEP_LEAST)
/* The bytes of each array that are mapped at first. */
#define MAPPED_FIRST (64u * PAGE)

struct recording recording;

static long sys_open(const char *path, int flags, int mode)
{
	return sys_call6(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, mode, 0, 0);
}

static void sys_close(long fd) { sys_call3(SYS_close, fd, 0, 0); }

static bool is_error(long ret) { return ret < 0 && ret > -4096; }

/* Notes in the head what was missing. Returns false. */
static bool falls_short(enum heap_short of)
{
	if (recording.head)
		__atomic_fetch_or(&recording.head->short_of, of, __ATOMIC_RELAXED);
	return false;
}

void *recorder_map(uint64_t size)
{
	void *p = memory_may_take(size, true) ? sys_map(size, MAP_NORESERVE) : NULL;

	if (!p)
		falls_short(HEAP_SHORT_MEMORY);
	else if (recording.head)
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

/* Allocates the blocks of a part of the file, for kernels before Linux 5.14. */
static bool allocate(uint64_t offset, uint64_t size)
{
	long fd = sys_open(recording.path, O_RDWR, 0), ret;

	if (fd < 0)
		return falls_short(HEAP_SHORT_DESCRIPTOR);
	ret = sys_call6(SYS_fallocate, fd, 0, (long)offset, (long)size, 0, 0);
	sys_close(fd);
	return ret ? falls_short(HEAP_SHORT_DISK) : true;
}

static bool remap(struct region *r, uint64_t size)
{
	long p = -ENOMEM;

	if (memory_may_take(size - r->mapped, false))
		p = sys_call6(SYS_mremap, (long)r->at, (long)r->mapped, (long)size, MREMAP_MAYMOVE, 0, 0);
	if (is_error(p))
		return false;
	r->at = (uint8_t *)p;
	r->mapped = size;
	return true;
}

/* Maps at least `size` bytes, and twice as much as before if memory allows it. */
static bool map_grow(struct region *r, uint64_t size)
{
	uint64_t twice = 2 * r->mapped < r->most ? 2 * r->mapped : r->most;

	if (size <= r->mapped || (twice > size && remap(r, twice)) || remap(r, size))
		return true;
	return falls_short(HEAP_SHORT_MEMORY);
}

/* Populates the pages from `ready` up to `to`. */
static bool pages_make(const struct region *r, uint64_t to)
{
	long ret = sys_call3(SYS_madvise, (long)(r->at + r->ready), (long)(to - r->ready), MADV_POPULATE_WRITE);

	if (ret == -EINVAL)
		return allocate(r->offset + r->ready, to - r->ready);
	return ret ? falls_short(HEAP_SHORT_DISK) : true;
}

bool region_grow(struct region *r, uint64_t size)
{
	uint64_t step = r->ready, to = (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);

	if (step < STEP_LEAST)
		step = STEP_LEAST;
	if (step > STEP_MOST)
		step = STEP_MOST;
	if (to < r->ready + step)
		to = r->ready + step;
	if (to > r->most)
		to = r->most;
	if (size > to)
		return falls_short(HEAP_SHORT_NUMBERS);
	if (!map_grow(r, to) || !pages_make(r, to))
		return false;
	r->ready = to;
	return true;
}

/* ---- the configuration: the variable ---------------------------------------------- */

struct config {
	bool known, on;
	uint64_t sample;
	long only; /* the parent of the one process to record; 0: record every process */
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

/* The place where the kernel has put argc, argv and the environment; glibc's dynamic linker exports it. */
extern void *__libc_stack_end __attribute__((weak));

/* Reads the configuration from the stack that the program began with, if /proc is not mounted. */
static void config_from_stack(void)
{
	static const char name[] = HEAP_VARIABLE "=";
	char **at = &__libc_stack_end ? __libc_stack_end : NULL;

	if (!at)
		return;
	for (at += 1 + *(long *)(void *)at + 1; *at; at++)
		if (!strncmp(*at, name, sizeof(name) - 1)) {
			config_parse(*at + sizeof(name) - 1);
			return;
		}
}

/* Reads the configuration from the kernel's copy of the environment: before libc's own constructors there is no
 * environ. */
static void config_read(void)
{
	static const char name[] = HEAP_VARIABLE "=";
	char block[512], value[sizeof(config.directory) + 48];
	size_t matched = 0, used = 0;
	long fd, n;

	config.known = true;
	fd = sys_open("/proc/self/environ", O_RDONLY, 0);
	if (fd < 0) {
		config_from_stack();
		return;
	}
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

/* Makes recording.path DIRECTORY/PID.N. */
static void path_make(long pid, uint64_t n)
{
	size_t size = strlen(config.directory);
	char *end;

	memcpy(recording.path, config.directory, size);
	recording.path[size] = '/';
	end = decimal(recording.path + size + 1, (uint64_t)pid);
	*end++ = '.';
	decimal(end, n);
}

#define NUMBERS_MOST 1000000u

/* Creates DIRECTORY/PID.N, where N is the first free number: an exec(2) keeps the PID. */
static long file_create(long pid)
{
	long fd = -EEXIST;

	for (uint64_t i = 0; fd == -EEXIST && i < NUMBERS_MOST; i++) {
		path_make(pid, i);
		fd = sys_open(recording.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	}
	return fd;
}

/* Makes the file as large as the process's limit and the file system allow. Returns its size, or a negative errno. */
static long file_size(long fd)
{
	struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
	uint64_t size = FILE_MOST;
	long ret = -EFBIG;

	sys_call6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&most, 0, 0);
	if (size > most.rlim_cur) /* a larger file would raise SIGXFSZ */
		size = most.rlim_cur & ~(uint64_t)(PAGE - 1);
	for (; size >= FILE_LEAST; size = size / 2 & ~(uint64_t)(PAGE - 1)) {
		ret = sys_call3(SYS_ftruncate, fd, (long)size, 0);
		if (!ret)
			return (long)size;
	}
	return ret;
}

static long region_map(struct region *r, long fd, uint64_t offset, uint64_t most)
{
	uint64_t size = most < MAPPED_FIRST ? most : MAPPED_FIRST;
	long p = -ENOMEM;

	*r = (struct region){.most = most, .offset = offset};
	if (memory_may_take(size, false))
		p = sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (long)offset);
	if (is_error(p))
		return p;
	sys_call3(SYS_madvise, p, (long)size, MADV_DONTDUMP);
	r->at = (uint8_t *)p;
	r->mapped = size;
	return 0;
}

static void region_unmap(struct region *r)
{
	if (r->at)
		sys_munmap(r->at, r->mapped);
	*r = (struct region){0};
}

void recording_shrink(void)
{
	region_unmap(&recording.modules);
	region_unmap(&recording.nodes);
	region_unmap(&recording.leaves);
}

uint64_t recording_mapped(void) { return recording.modules.mapped + recording.nodes.mapped + recording.leaves.mapped; }

/* Why a process is not recorded: a reason of shared/heap_file.h, and a negative errno. */
struct refusal {
	const char *reason;
	long error;
};

static bool refused(struct refusal *r, const char *reason, long error)
{
	*r = (struct refusal){reason, error};
	return false;
}

/* Leaves the reason in place of the file. */
static bool refusal_leave(long pid, const struct refusal *why)
{
	size_t n = strlen(why->reason);
	long ret = -EEXIST;
	char text[64];

	memcpy(text, why->reason, n);
	decimal(text + n, (uint64_t)-why->error);
	for (uint64_t i = 0; ret == -EEXIST && i < NUMBERS_MOST; i++) {
		path_make(pid, i);
		ret = sys_call3(SYS_symlink, (long)text, (long)recording.path, 0);
	}
	return !ret;
}

/* Maps a file of this size. */
static bool file_map(long fd, uint64_t size, struct refusal *why)
{
	uint64_t modules = (size - PAGE) / 8 & ~(uint64_t)(PAGE - 1), each;
	struct region head;
	long ret;

	if (modules > MODULES_MOST)
		modules = MODULES_MOST;
	if (modules < STEP_LEAST)
		modules = STEP_LEAST;
	each = (size - PAGE - modules) / 2 & ~(uint64_t)(PAGE - 1);
	ret = region_map(&head, fd, 0, PAGE);
	if (!ret && !pages_make(&head, PAGE)) {
		region_unmap(&head);
		return refused(why, HEAP_REFUSED_DISK, -ENOSPC);
	}
	/* Only now, because a store to a page without space on the disk would raise SIGBUS. */
	recording.head = (struct heap_head *)(void *)head.at;
	if (!ret)
		ret = region_map(&recording.modules, fd, PAGE, modules);
	if (!ret)
		ret = region_map(&recording.nodes, fd, PAGE + modules, each);
	if (!ret)
		ret = region_map(&recording.leaves, fd, PAGE + modules + each, each);
	if (ret)
		return refused(why, HEAP_REFUSED_MEMORY, ret);
	if (!region_grow(&recording.modules, PAGE) || !region_grow(&recording.nodes, PAGE) ||
	    !region_grow(&recording.leaves, PAGE))
		return refused(why, HEAP_REFUSED_DISK, -ENOSPC);
	return true;
}

static void head_write(long pid)
{
	struct heap_head *h = recording.head;

	h->pid = (int32_t)pid;
	h->parent = (int32_t)sys_call3(SYS_getppid, 0, 0, 0);
	h->sample = recording.sample = config.sample;
	h->module_at = recording.modules.offset;
	h->node_at = recording.nodes.offset;
	h->leaf_at = recording.leaves.offset;
	h->node_count = h->leaf_count = 1;
	h->version = HEAP_VERSION;
	sys_call6(SYS_readlink, (long)"/proc/self/ns/pid", (long)h->space, sizeof(h->space) - 1, 0, 0, 0);
	sys_call3(SYS_prctl, PR_GET_NAME, (long)h->name, 0);
	__atomic_store_n(&h->magic, HEAP_MAGIC, __ATOMIC_RELEASE);
}

struct heap_head *recording_leave(void)
{
	struct heap_head *h = recording.head;

	recording_shrink();
	recording.head = NULL;
	return h;
}

static void recording_drop(void)
{
	recording_shrink();
	if (recording.head)
		sys_munmap(recording.head, PAGE);
	recording.head = NULL;
}

/* Opens this process's file. */
static bool file_open(long pid, struct refusal *why)
{
	long fd = file_create(pid), size;
	bool good;

	if (fd < 0)
		return refused(why, HEAP_REFUSED_OPEN, fd);
	size = file_size(fd);
	good = size > 0 ? file_map(fd, (uint64_t)size, why) : refused(why, HEAP_REFUSED_SIZE, size);
	sys_close(fd);
	if (good) {
		head_write(pid);
	} else {
		recording_drop();
		sys_call3(SYS_unlink, (long)recording.path, 0, 0);
	}
	return good;
}

bool recording_open(struct heap_head *parent)
{
	long pid = sys_call3(SYS_getpid, 0, 0, 0);
	struct refusal why;
	bool wanted, good;

	if (!config.known)
		config_read();
	wanted = config.on && (!config.only || config.only == sys_call3(SYS_getppid, 0, 0, 0));
	good = wanted && file_open(pid, &why);
	if (wanted && !good && !refusal_leave(pid, &why) && parent &&
	    !__atomic_fetch_add(&parent->lost_children, 1, __ATOMIC_RELAXED))
		parent->child_error = (uint64_t)-why.error;
	if (parent)
		sys_munmap(parent, PAGE);
	return good;
}
