/* SPDX-License-Identifier: MIT */
/* Opens the kernel's samples and reads them in order of time (perf_ring.h). */
#include "profile/perf_ring.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "support/memory.h"
#include "support/clock.h"

/* ax bx cx dx si di bp sp ip r8-r15: enum perf_event_x86_regs of asm/perf_regs.h */
#define REGISTERS 0xff01ffu
/* The greatest delay in ns between the time that a record has and its appearance in the buffer. */
#define LATE_NS 5000000u
/*
 * Sizes of the data of a buffer. Without privileges a user may have 512 KiB for each processor (perf_event_mlock_kb),
 * and beyond that what `ulimit -l` allows. With more than RING_SHARED / RING_MOST processors each buffer is smaller.
 */
#define RING_MOST   (32u << 20)
#define RING_SHARED (512u << 20)
#define RING_MANY   (16u << 20)
#define RING_LEAST  (128u << 10)
/*
 * How much of a stack a sample copies by default: as much as fits in a record if a buffer of the largest size then
 * holds half a second, otherwise half as much, so that etch has as much time to read a buffer before it is full.
 */
#define STACK_LARGE_HZ 1000u
#define STACK_SMALL    32768u
#define PAGE           4096u

/* Sets the attributes of an event: with `waits` it happens when a thread stops running, otherwise when a period of the
 * thread's time has passed. */
static void attr_set(struct perf_event_attr *a, const struct perf_options *o, bool waits)
{
	memset(a, 0, sizeof(*a));
	a->size = sizeof(*a);
	a->type = PERF_TYPE_SOFTWARE;
	a->config = waits ? PERF_COUNT_SW_CONTEXT_SWITCHES : PERF_COUNT_SW_CPU_CLOCK;
	a->sample_period = waits ? 1 : 1000000000u / o->hz;
	a->sample_type = PERF_FIELDS | (o->kernel ? PERF_SAMPLE_CALLCHAIN : 0);
	a->exclude_callchain_user = 1;
	a->sample_regs_user = REGISTERS;
	a->sample_stack_user = o->stack;
	a->sample_id_all = 1;
	a->use_clockid = 1;
	a->clockid = CLOCK_MONOTONIC;
	a->disabled = !o->whole_process;
	a->enable_on_exec = !o->whole_process;
	a->inherit = o->children;
	a->exclude_kernel = !o->kernel && !waits; /* threads stop running in the kernel */
	a->exclude_hv = 1;
	a->context_switch = waits;
}

/* Sets the attributes of an event that never happens, but with which the kernel reports the programs that are
 * executed. */
static void watch_set(struct perf_event_attr *a, const struct perf_options *o)
{
	memset(a, 0, sizeof(*a));
	a->size = sizeof(*a);
	a->type = PERF_TYPE_SOFTWARE;
	a->config = PERF_COUNT_SW_DUMMY;
	a->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	a->sample_id_all = 1;
	a->use_clockid = 1;
	a->clockid = CLOCK_MONOTONIC;
	a->enable_on_exec = a->disabled = 1;
	a->inherit = o->children;
	a->exclude_kernel = a->exclude_hv = 1;
	a->comm = a->comm_exec = 1;
}

/* Sets the attributes of the session's events. The first event also reports mappings, names and the tree of
 * processes. */
static void attrs_set(struct perf_session *s, const struct perf_options *o)
{
	struct perf_event_attr *first = &s->attr[0];

	s->attr_count = 0;
	s->kernel = o->kernel;
	if (!o->on_cpu && !o->off_cpu) {
		watch_set(&s->attr[s->attr_count++], o);
		return;
	}
	if (o->on_cpu)
		attr_set(&s->attr[s->attr_count++], o, false);
	if (o->off_cpu)
		attr_set(&s->attr[s->attr_count++], o, true);
	first->mmap = first->mmap2 = first->build_id = 1;
	first->comm = first->comm_exec = first->task = 1;
}

static int fd_open(struct perf_session *s, struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL && attr->build_id) {
		attr->build_id = 0; /* Linux before 5.12 */
		fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	if (fd < 0)
		return -1;
	if (!mem_reserve_try(&s->fds, &s->fd_capacity, s->fd_count, sizeof(*s->fds))) {
		close((int)fd);
		errno = ENOMEM;
		return -1;
	}
	s->fds[s->fd_count++] = (int)fd;
	return (int)fd;
}

static long sysctl_read(const char *path)
{
	FILE *f = fopen(path, "r");
	long value = -100;

	if (f) {
		if (fscanf(f, "%ld", &value) != 1)
			value = -100;
		fclose(f);
	}
	return value;
}

/* Makes the message that says why perf_event_open() was refused, and what helps. */
static int refused(int err, pid_t pid, const struct perf_options *o, struct error *e)
{
	long paranoid = sysctl_read("/proc/sys/kernel/perf_event_paranoid");

	switch (err) {
	case EPERM:
	case EACCES:
		if (o->off_cpu && paranoid > 1)
			return error_set(e,
			                 "perf_event_open: %s: --off-cpu and --wall need the capability CAP_PERFMON, or the sysctl "
			                 "kernel.perf_event_paranoid at 1 or less (it is %ld)",
			                 strerror(err), paranoid);
		if (paranoid > 2)
			return error_set(e,
			                 "perf_event_open: %s: needs the capability CAP_PERFMON, or the sysctl "
			                 "kernel.perf_event_paranoid at 2 or less (it is %ld)",
			                 strerror(err), paranoid);
		return error_set(e,
		                 "perf_event_open: %s: %s; a container's seccomp filter has to allow the system call "
		                 "(--cap-add PERFMON)",
		                 strerror(err),
		                 o->whole_process ? "needs the rights to trace the process (its user, or CAP_PERFMON)"
		                                  : "refused though kernel.perf_event_paranoid is 2 or less");
	case ENOSYS: return error_set(e, "perf_event_open: this kernel does not have it (CONFIG_PERF_EVENTS)");
	case ESRCH: return error_set(e, "no process with the ID %ld", (long)pid);
	case EMFILE:
		return error_set(e,
		                 "perf_event_open: %s: one event per thread and processor needs more descriptors (ulimit -n)",
		                 strerror(err));
	default: return error_set(e, "perf_event_open: %s", strerror(err));
	}
}

/* Maps every ring with `size` bytes of data. If one of them cannot be mapped, maps none and returns false; errno is the
 * reason. */
static bool rings_map(struct perf_session *s, uint64_t size)
{
	for (size_t i = 0; i < s->count; i++) {
		struct perf_ring *r = &s->rings[i];
		void *page = r->fd < 0 ? NULL : mmap(NULL, PAGE + size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);

		if (page == MAP_FAILED) {
			int err = errno;

			while (i--)
				if (s->rings[i].page) {
					munmap(s->rings[i].page, PAGE + size);
					s->rings[i].page = NULL;
				}
			errno = err;
			return false;
		}
		r->page = page;
		r->size = size;
	}
	return true;
}

/*
 * Maps one ring for each processor, all of the same size, which is as large as the kernel allows up to `most`. Each
 * ring belongs to an event of this process that never happens; the events of threads share it.
 */
static int rings_open(struct perf_session *s, const struct perf_options *o, uint64_t most, struct error *e)
{
	struct perf_options own = {.children = false};
	struct perf_event_attr attr;
	uint64_t size = most;

	watch_set(&attr, &own);
	attr.enable_on_exec = attr.comm = attr.comm_exec = 0;
	for (size_t i = 0; i < s->count; i++) {
		s->rings[i].fd = fd_open(s, &attr, 0, (int)i);
		if (s->rings[i].fd < 0 && errno != ENODEV) /* a processor that is off has no ring */
			return refused(errno, 0, o, e);
	}
	while (!rings_map(s, size)) {
		size /= 2;
		if ((errno != EPERM && errno != ENOMEM) || size < RING_LEAST)
			return error_set(
				e, "cannot map a buffer for samples: %s (ulimit -l, or the sysctl kernel.perf_event_mlock_kb)",
				strerror(errno));
	}
	return 0;
}

static uint64_t ring_most(const struct perf_session *s, const struct perf_options *o)
{
	if (!o->on_cpu && !o->off_cpu)
		return RING_LEAST;
	return s->count <= RING_SHARED / RING_MOST ? RING_MOST : RING_MANY;
}

static bool rings_are_large(const struct perf_session *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->rings[i].page && s->rings[i].size < RING_MOST)
			return false;
	return true;
}

/* Opens one event of a thread on one processor. Returns 0, 1 if the thread is gone, or -1 and a message. */
static int event_open(struct perf_session *s, struct perf_event_attr *attr, pid_t tid, size_t cpu,
                      const struct perf_options *o, struct error *e)
{
	struct perf_ring *r = &s->rings[cpu];
	int fd = r->page ? fd_open(s, attr, tid, (int)cpu) : -1;

	if (!r->page || (fd < 0 && errno == ENODEV))
		return 0; /* the processor is off */
	if (fd < 0 && errno == ESRCH && o->whole_process)
		return 1;
	if (fd < 0)
		return refused(errno, tid, o, e);
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fd))
		return error_set(e, "cannot share a buffer for samples: %s", strerror(errno));
	return 0;
}

/* Opens the events of one thread, which share the rings. Returns what event_open() returns. */
static int thread_open(struct perf_session *s, pid_t tid, const struct perf_options *o, struct error *e)
{
	int err = 0;

	for (size_t cpu = 0; cpu < s->count && !err; cpu++)
		for (size_t i = 0; i < s->attr_count && !err; i++)
			err = event_open(s, &s->attr[i], tid, cpu, o, e);
	return err;
}

/* May the kernel be sampled? Opens an event, which it closes again, to find out. */
static bool kernel_allowed(const struct perf_options *o, pid_t pid)
{
	struct perf_event_attr a;
	long fd;

	attr_set(&a, o, false);
	a.disabled = 1;
	a.enable_on_exec = 0;
	fd = syscall(SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return errno != EACCES && errno != EPERM;
	close((int)fd);
	return true;
}

struct seen_threads {
	int *list;
	size_t count, capacity;
};

static bool number_has(const int *list, size_t count, int number)
{
	while (count && list[count - 1] != number)
		count--;
	return count;
}

/* Opens the events of the threads that are not in `seen`. Returns the number of new threads, or -1 and a message. */
static int threads_open(struct perf_session *s, DIR *tasks, const struct perf_options *o, struct seen_threads *seen,
                        struct error *e)
{
	struct dirent *d;
	int found = 0;

	rewinddir(tasks);
	while ((d = readdir(tasks)) != NULL) {
		int tid = atoi(d->d_name);

		if (tid <= 0 || number_has(seen->list, seen->count, tid))
			continue;
		mem_reserve(&seen->list, &seen->capacity, seen->count, sizeof(*seen->list));
		seen->list[seen->count++] = tid;
		if (thread_open(s, tid, o, e) < 0)
			return -1;
		found++;
	}
	return found;
}

/* Opens the events of a running process, whose threads come and go: repeats until every thread has an event. */
static int process_open(struct perf_session *s, pid_t pid, const struct perf_options *o, struct error *e)
{
	struct seen_threads seen = {0};
	size_t before = s->fd_count;
	char path[64];
	int found;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	tasks = opendir(path);
	if (!tasks)
		return refused(errno == ENOENT ? ESRCH : errno, pid, o, e);
	do
		found = threads_open(s, tasks, o, &seen, e);
	while (found > 0);
	closedir(tasks);
	free(seen.list);
	if (!found && s->fd_count == before)
		return refused(ESRCH, pid, o, e);
	return found;
}

int perf_open(struct perf_session *s, pid_t pid, const struct perf_options *o, struct error *e)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct perf_options how;
	struct rlimit files;

	memset(s, 0, sizeof(*s));
	s->wrapped = malloc(1 << 16);
	s->rings = calloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*s->rings));
	if (!s->rings || !s->wrapped)
		return error_set(e, NO_MEMORY);
	s->count = cpus > 0 ? (size_t)cpus : 1;
	/* There is one descriptor for each thread and processor, and one for each file with samples. */
	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (rings_open(s, o, ring_most(s, o), e))
		return -1;
	how = *o;
	if (!how.stack)
		how.stack = o->hz <= STACK_LARGE_HZ && rings_are_large(s) ? PERF_STACK_MOST / 8 * 8 : STACK_SMALL;
	s->stack = how.stack;
	how.kernel = o->kernel && (o->off_cpu || kernel_allowed(o, pid));
	attrs_set(s, &how);
	if (o->whole_process)
		return process_open(s, pid, &how, e);
	return thread_open(s, pid, &how, e) ? -1 : 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* Copies bytes of a ring, which may wrap around its end. */
static void ring_copy(const struct perf_ring *r, uint64_t at, void *to, size_t size)
{
	const char *data = (const char *)r->page + PAGE;
	size_t first = r->size - (at & (r->size - 1));

	if (first > size)
		first = size;
	memcpy(to, data + (at & (r->size - 1)), first);
	memcpy((char *)to + first, data, size - first);
}

/* Reads the time of the record at tail. Returns false if there is none. */
static bool ring_peek(struct perf_ring *r)
{
	struct perf_event_header h;

	if (r->timed)
		return true;
	if (!r->page || r->head - r->tail < sizeof(h))
		return false;
	ring_copy(r, r->tail, &h, sizeof(h));
	if (h.size < sizeof(h) || h.size > r->head - r->tail) {
		r->tail = r->head; /* this is not a record that the kernel wrote */
		return false;
	}
	/* A sample begins with header, ip, pid and tid, and time. Any other record ends with pid and tid, and time. */
	ring_copy(r, r->tail + (h.type == PERF_RECORD_SAMPLE ? sizeof(h) + 16 : h.size - 8u), &r->time, 8);
	r->timed = true;
	return true;
}

static void ring_take(struct perf_session *s, struct perf_ring *r, perf_record_fn *fn, void *ctx)
{
	const char *data = (const char *)r->page + PAGE;
	uint64_t at = r->tail & (r->size - 1);
	struct perf_event_header h;

	ring_copy(r, r->tail, &h, sizeof(h));
	if (at + h.size <= r->size) {
		fn(ctx, (const void *)(data + at));
	} else {
		ring_copy(r, r->tail, s->wrapped, h.size);
		fn(ctx, (const void *)s->wrapped);
	}
	r->tail += h.size;
	r->timed = false;
	__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
}

void perf_read(struct perf_session *s, bool last, perf_record_fn *fn, void *ctx)
{
	uint64_t limit = last ? UINT64_MAX : clock_now() - LATE_NS;

	for (size_t i = 0; i < s->count; i++)
		if (s->rings[i].page)
			s->rings[i].head = __atomic_load_n(&s->rings[i].page->data_head, __ATOMIC_ACQUIRE);
	for (;;) {
		struct perf_ring *first = NULL;

		for (size_t i = 0; i < s->count; i++)
			if (ring_peek(&s->rings[i]) && (!first || s->rings[i].time < first->time))
				first = &s->rings[i];
		if (!first || first->time > limit)
			return;
		ring_take(s, first, fn, ctx);
	}
}

void perf_stop(struct perf_session *s)
{
	for (size_t i = 0; i < s->fd_count; i++)
		ioctl(s->fds[i], PERF_EVENT_IOC_DISABLE, 0);
}

void perf_close(struct perf_session *s)
{
	for (size_t i = 0; i < s->count && s->rings; i++)
		if (s->rings[i].page)
			munmap(s->rings[i].page, PAGE + s->rings[i].size);
	for (size_t i = 0; i < s->fd_count; i++)
		close(s->fds[i]);
	free(s->rings);
	free(s->fds);
	free(s->wrapped);
	memset(s, 0, sizeof(*s));
}
