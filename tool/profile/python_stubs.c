/* SPDX-License-Identifier: MIT */
/* Steps over Python's trampolines (python_stubs.h). */
#define ETCH_NO_MODULE /* no constructor for fault tables, which nothing here has */
#include "profile/python_stubs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/memory.h"
#include "support/sort.h"
#include "unwind/cursor.h"

#define ARENA ((uint64_t)65536)

/* Reads the trampolines that an arena has. */
static void arena_look(struct python_arena *a, pid_t pid)
{
	uint8_t bytes[TRAMPOLINE_BYTES];
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/mem", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	a->found = fd >= 0 && pread(fd, bytes, sizeof(bytes), (off_t)a->start) == sizeof(bytes) &&
	           trampoline_recognize(bytes, &a->how);
	if (fd >= 0)
		close(fd);
}

static const struct python_arena *arena_find(struct binary *code, pid_t pid, uint64_t start)
{
	struct python_arena *a;

	for (size_t i = 0; i < code->arena_count; i++)
		if (code->arenas[i].start == start)
			return &code->arenas[i];
	mem_reserve(&code->arenas, &code->arena_capacity, code->arena_count, sizeof(*code->arenas));
	a = &code->arenas[code->arena_count++];
	*a = (struct python_arena){.start = start};
	arena_look(a, pid);
	return a;
}

bool python_stub_step(struct binary *code, pid_t pid, uint64_t arena, const struct sample *s, struct cursor *c)
{
	uint64_t ip = c->reg[ETCH_RIP], start = arena + ((ip - arena) & ~(ARENA - 1)), sp = c->reg[ETCH_RSP], to, bp, at;
	const struct python_arena *a = arena_find(code, pid, start);
	const struct trampoline *t;
	bool pushed;

	if (!a || !a->found)
		return false;
	t = &a->how;
	at = (ip - start) % t->stride;
	if (at > t->ret_at || (!c->interrupted && at != t->call_end))
		return false;
	pushed = at >= t->pushed_at && at < t->ret_at;
	if (sample_read(s, sp + (pushed ? 8 : 0), &to) || (t->saves_rbp && pushed && sample_read(s, sp, &bp)))
		return false;
	c->reg[ETCH_RIP] = to;
	c->reg[ETCH_RSP] = sp + (pushed ? 16 : 8);
	c->known &= KNOWN(ETCH_RBP) | KNOWN(ETCH_RSP) | KNOWN(ETCH_RIP);
	if (t->saves_rbp && pushed) {
		c->reg[ETCH_RBP] = bp;
		c->known |= KNOWN(ETCH_RBP);
	}
	c->interrupted = 0;
	return true;
}

bool python_name(const char *map_name, char *name, size_t size, const char **file)
{
	const char *colon = strncmp(map_name, "py::", 4) ? NULL : strchr(map_name + 4, ':'), *slash;

	if (!colon)
		return false;
	*file = colon + 1;
	slash = strrchr(*file, '/');
	snprintf(name, size, "%.*s (%s)", (int)(colon - map_name - 4), map_name + 4, slash ? slash + 1 : *file);
	return true;
}
