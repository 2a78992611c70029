/* SPDX-License-Identifier: MIT */
/* Tells which functions of interpreters and JITs are known (runtimes_seen.h). */
#include "profile/runtimes_seen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PYTHON_FIRST 12 /* 3.12 has trampolines */

/* Returns the minor version of Python 3 if a file is its interpreter, or 0 if it is not, or if the version is not
 * known. */
static unsigned python_version(const char *name)
{
	int minor = 0;

	if (sscanf(name, "python3.%d", &minor) == 1 || sscanf(name, "libpython3.%d", &minor) == 1)
		return minor > 0 ? (unsigned)minor : 0;
	return 0;
}

enum python_part { PYTHON_INTERPRETER = 1, PYTHON_FUNCTION = 2 };

/* Returns the part of Python to which a frame belongs, or 0. */
static unsigned python_part(const struct profile *p, uint32_t node, const uint8_t *by_binary)
{
	uint32_t binary = key_kind(&p->stacks.list[node]);
	const struct profile_place *place;

	if (p->address_of[node] == KEY_NONE || binary >= p->binaries.count)
		return 0;
	place = &p->places[p->place_first[p->address_of[node]]];
	if (p->binaries.list[binary]->kind == BINARY_CODE &&
	    !strcmp(p->names.list[(uint32_t)p->functions.list[place->function].a], "Python"))
		return PYTHON_FUNCTION;
	return by_binary[binary] ? PYTHON_INTERPRETER : 0;
}

static uint64_t image_of(const struct profile *p, uint32_t node)
{
	while (node && key_kind(&p->stacks.list[node]) != STACK_PROCESS)
		node = key_caller(&p->stacks.list[node]);
	return node ? p->stacks.list[node].b : 0;
}

bool python_count(struct profile *p)
{
	uint8_t *by_binary = calloc(p->binaries.count + 1, 1), *by_node = calloc(p->stacks.count + 1, 1);
	uint8_t *by_image = calloc(p->processes.image_count + 1, 1);
	bool good = by_binary && by_node && by_image;

	for (size_t i = 0; good && i < p->binaries.count; i++) {
		by_binary[i] = python_version(p->binaries.list[i]->name) != 0;
		if (by_binary[i])
			p->python_minor = python_version(p->binaries.list[i]->name);
	}
	for (size_t i = 1; good && i < p->stacks.count; i++)
		by_node[i] = by_node[key_caller(&p->stacks.list[i])] | (uint8_t)python_part(p, (uint32_t)i, by_binary);
	/* A program that names some functions names all: its other samples in Python are the interpreter's own start. */
	for (size_t i = 0; good && i < p->sample_count; i++)
		by_image[image_of(p, p->samples[i].node)] |= by_node[p->samples[i].node] & PYTHON_FUNCTION;
	for (size_t i = 0; good && i < p->sample_count; i++)
		p->python_blind +=
			by_node[p->samples[i].node] == PYTHON_INTERPRETER && !by_image[image_of(p, p->samples[i].node)];
	free(by_image);
	free(by_binary);
	free(by_node);
	return good;
}

void python_advice_put(const struct profile *p, FILE *out)
{
	if (p->python_minor < PYTHON_FIRST)
		fprintf(out, " (3.12 and later name them; this is 3.%u)", p->python_minor);
	else if (!p->python_asked)
		fputs(" (PYTHONPERFSUPPORT=1 in its environment names them)", out);
}

static bool has_binary(const struct profile *p, const char *name)
{
	for (size_t i = 0; i < p->binaries.count; i++)
		if (!strcmp(p->binaries.list[i]->name, name))
			return true;
	return false;
}

void jit_advice_put(const struct profile *p, FILE *out)
{
	if (has_binary(p, "node"))
		fputs(" (node --perf-basic-prof names them)", out);
	else if (has_binary(p, "libjvm.so"))
		fputs(" (java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit names them)", out);
}

/* Is this a map that Python has written since that time? */
static bool map_is_ours(const char *path, time_t since)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[256] = "";
	struct stat st;
	bool ours = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_mtime >= since &&
	            read(fd, text, sizeof(text) - 1) > 0 && strstr(text, " py::");

	if (fd >= 0)
		close(fd);
	return ours;
}

void python_maps_remove(const struct profile *p)
{
	for (size_t i = 1; p->python_asked && i < p->processes.image_count; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)p->processes.images[i].pid);
		if (map_is_ours(path, p->started))
			unlink(path);
	}
}
