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

#include "profile/key_set.h"
#include "shared/search.h"
#include "support/memory.h"

/* The greatest number of bytes that are read of the file, which its process may still extend. V8 writes some 100 bytes
 * for each function. */
#define MAP_MOST  ((uint64_t)256 << 20)
#define LINE_MOST (NAME_KEPT + 64)

struct jit_function {
	uint64_t start, end;
	size_t line; /* if other code has replaced code, the later line counts */
	char *name;
};

struct jit_map {
	struct jit_function *list;
	size_t count, capacity;
};

static int function_order(const void *a, const void *b)
{
	const struct jit_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->line < y->line ? -1 : 1;
}

/* Returns the PID in the process's own namespace, which the file's name has. */
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

/* Reads the next line, truncated to the buffer. Returns false if there is none. */
static bool line_read(FILE *f, char line[LINE_MOST], uint64_t *size_read)
{
	size_t n = 0;
	int c;

	while ((c = getc_unlocked(f)) != EOF && c != '\n' && *size_read < MAP_MOST) {
		++*size_read;
		if (n < LINE_MOST - 1)
			line[n++] = (char)c;
	}
	++*size_read;
	line[n] = 0;
	return c != EOF || n;
}

struct jit_map *jit_map_open(pid_t pid)
{
	struct jit_map *m = calloc(1, sizeof(*m));
	char path[PATH_MAX], line[LINE_MOST];
	size_t number = 0;
	uint64_t size_read = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/root/tmp/perf-%ld.map", (long)pid, own_number(pid));
	f = m ? map_file(path) : NULL;
	if (m && !f) {
		snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)pid);
		f = map_file(path);
	}
	while (f && size_read < MAP_MOST && line_read(f, line, &size_read)) {
		char *rest, *name;
		struct jit_function j = {.line = number++};
		uint64_t size;

		j.start = strtoull(line, &rest, 16);
		size = strtoull(rest, &name, 16);
		name += *name == ' ';
		j.end = j.start + size;
		if (j.end <= j.start || !*name || !mem_reserve_try(&m->list, &m->capacity, m->count, sizeof(*m->list)))
			continue;
		j.name = strdup(name);
		if (j.name)
			m->list[m->count++] = j;
	}
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
