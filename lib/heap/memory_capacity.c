/* SPDX-License-Identifier: MIT */
/* memory_capacity.c: reads the limits and /proc/self/statm (memory_capacity.h). */
#include "heap/memory_capacity.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/resource.h>

#include "common/sys.h"

#define PAGE 4096u

/* Parses a field of /proc/self/statm, counted from 0: field 0 is the size of the address space in pages, field 5 that
 * of data and stack. */
static bool statm_field(const char *text, unsigned field, uint64_t *out)
{
	for (; field; field--) {
		while (*text && *text != ' ')
			text++;
		if (*text)
			text++;
	}
	for (*out = 0; *text >= '0' && *text <= '9'; text++)
		*out = *out * 10 + (uint64_t)(*text - '0');
	return *text == ' ';
}

static bool statm_read(char text[128])
{
	long fd = sys_call6(SYS_openat, AT_FDCWD, (long)"/proc/self/statm", O_RDONLY | O_CLOEXEC, 0, 0, 0), n;

	if (fd < 0)
		return false;
	n = sys_call3(SYS_read, fd, (long)text, 127);
	sys_call3(SYS_close, fd, 0, 0);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

static uint64_t limit_of(int which)
{
	struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};

	sys_call6(SYS_prlimit64, 0, which, 0, (long)&r, 0, 0);
	return r.rlim_cur;
}

static uint64_t left_of(uint64_t limit, const char *statm, unsigned field)
{
	uint64_t pages;

	if (limit == RLIM_INFINITY)
		return MEMORY_UNLIMITED;
	if (!statm || !statm_field(statm, field, &pages))
		return limit / 8;
	return limit > pages * PAGE ? limit - pages * PAGE : 0;
}

void memory_capacity(struct memory_capacity *r)
{
	uint64_t space = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
	char text[128];
	bool got = (space != RLIM_INFINITY || data != RLIM_INFINITY) && statm_read(text);

	r->space = left_of(space, got ? text : NULL, 0);
	r->data = left_of(data, got ? text : NULL, 5);
}

bool memory_may_take(uint64_t size, bool is_private)
{
	struct memory_capacity r;

	memory_capacity(&r);
	return size <= r.space / 2 && (!is_private || size <= r.data / 2);
}
