/* SPDX-License-Identifier: MIT */
/*
 * To be preloaded: a machine whose processor has counters, as FAKE_PERF says, a list of
 * words:
 *     paranoid   what the kernel does may not be counted      nogroup3   groups of two at most
 *     shared     cache-misses is counted a quarter of the time, branch-misses never
 *     errno=N    no event can be opened, for that reason
 * Software events are the kernel's own. Each hardware event counts 1000 times its number
 * plus 1, times the number of the run from 1. What is asked for is written to FAKE_LOG.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int group_of[256], size_of[256];

static void note(const struct perf_event_attr *attr, int pid, int group, int fd)
{
	const char *path = getenv("FAKE_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;

	if (!f)
		return;
	fprintf(f, "%u %u %d %d %d %d %d %d %d\n", attr->type, (unsigned)attr->config, pid != 0, group, fd,
	        (int)attr->inherit, (int)attr->disabled, (int)attr->enable_on_exec, (int)attr->exclude_kernel);
	fclose(f);
}

static int open_hardware(const struct perf_event_attr *attr, int pid, int group, const char *how)
{
	static int last_pid, run;
	uint64_t data[3] = {1000 * (attr->config + 1), 4000000, 4000000};
	int fd;

	if (pid && pid != last_pid) {
		last_pid = pid;
		run++;
	}
	if (strstr(how, "paranoid") && !attr->exclude_kernel) {
		errno = EACCES;
		return -1;
	}
	if (group >= 0 && strstr(how, "nogroup3") && size_of[group] == 2) {
		errno = EINVAL;
		return -1;
	}
	data[0] *= (uint64_t)run;
	if (strstr(how, "shared") && attr->config == PERF_COUNT_HW_CACHE_MISSES)
		data[2] /= 4;
	if (strstr(how, "shared") && attr->config == PERF_COUNT_HW_BRANCH_MISSES)
		data[2] = 0;
	fd = memfd_create("counter", MFD_CLOEXEC);
	if (fd < 0 || fd > 255 || write(fd, data, sizeof(data)) != sizeof(data) || lseek(fd, 0, SEEK_SET))
		abort();
	group_of[fd] = group >= 0 ? group : fd;
	size_of[fd] = 0;
	size_of[group_of[fd]]++;
	return fd;
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	const char *how = getenv("FAKE_PERF"), *error = how ? strstr(how, "errno=") : NULL;
	const struct perf_event_attr *attr;
	long a[6];
	va_list ap;
	int fd;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number != SYS_perf_event_open || !how)
		return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	attr = (const struct perf_event_attr *)a[0];
	if (error) {
		errno = atoi(error + 6);
		return -1;
	}
	if (attr->type == PERF_TYPE_HARDWARE)
		fd = open_hardware(attr, (int)a[1], (int)a[3], how);
	else
		fd = (int)real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	note(attr, (int)a[1], (int)a[3], fd);
	return fd;
}
