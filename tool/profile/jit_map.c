/* SPDX-License-Identifier: MIT */
/* Reads the map file of a JIT (jit_map.h). */
#include "profile/jit_map.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/search.h"
#include "support/vector.h"

struct jit_function {
	uint64_t start, end;
	size_t line; /* where code was replaced by other code, the later line counts */
	char *name;
};

struct jit_map {
	struct jit_function *list;
	size_t count, room;
};

static int function_order(const void *a, const void *b)
{
	const struct jit_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->line < y->line ? -1 : 1;
}

/* The process's number in its own namespace, by which it names the file. */
static long own_number(pid_t pid)
{
	char path[64], line[256];
	long number = pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6))
			number = strtol(strrchr(line, '\t') ? strrchr(line, '\t') : line + 6, NULL, 10);
	if (f)
		fclose(f);
	return number;
}

/* Opens a regular file. */
static FILE *map_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	FILE *f;

	if (fd < 0)
		return NULL;
	f = fstat(fd, &st) || !S_ISREG(st.st_mode) ? NULL : fdopen(fd, "r");
	if (!f)
		close(fd);
	return f;
}

struct jit_map *jit_map_open(pid_t pid)
{
	struct jit_map *m = calloc(1, sizeof(*m));
	char path[PATH_MAX], *line = NULL;
	size_t room = 0, number = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/root/tmp/perf-%ld.map", (long)pid, own_number(pid));
	f = m ? map_file(path) : NULL;
	if (m && !f) {
		snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)pid);
		f = map_file(path);
	}
	while (f && getline(&line, &room, f) > 0) {
		char *rest, *name;
		struct jit_function j = {.line = number++};
		uint64_t size;

		line[strcspn(line, "\n")] = 0;
		j.start = strtoull(line, &rest, 16);
		size = strtoull(rest, &name, 16);
		name += *name == ' ';
		j.end = j.start + size;
		if (j.end <= j.start || !*name || !room_make(&m->list, &m->room, m->count, sizeof(*m->list)))
			continue;
		j.name = strdup(name);
		if (j.name)
			m->list[m->count++] = j;
	}
	free(line);
	if (f)
		fclose(f);
	if (m && m->count)
		qsort(m->list, m->count, sizeof(*m->list), function_order);
	if (m && !m->count) {
		jit_map_close(m);
		m = NULL;
	}
	return m;
}

const char *jit_map_find(const struct jit_map *m, uint64_t at)
{
	size_t low = SEARCH(m->count, i, m->list[i].start <= at);

	return low && m->list[low - 1].end > at ? m->list[low - 1].name : NULL;
}

void jit_map_close(struct jit_map *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->count; i++)
		free(m->list[i].name);
	free(m->list);
	free(m);
}
