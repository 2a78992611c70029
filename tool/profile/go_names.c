/* SPDX-License-Identifier: MIT */
/* Names functions by Go's own table (go_names.h). */
#include "profile/go_names.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/file.h"
#include "elf/pclntab.h"
#include "shared/search.h"

struct go_names {
	struct elf_file file;
	struct go_function *list;
	size_t count;
};

struct go_names *go_names_open(const struct binary *b)
{
	struct go_names *g = calloc(1, sizeof(*g));
	uint8_t *bytes = NULL;
	struct stat st;
	struct error e;
	long count = 0;

	if (g && !fstat(b->fd, &st) && st.st_size > 0)
		bytes = malloc((size_t)st.st_size);
	if (bytes && pread(b->fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
		free(bytes);
		bytes = NULL;
	}
	if (bytes && !elf_open_bytes(&g->file, b->path, bytes, (size_t)st.st_size, &e))
		count = go_functions_read(&g->file, &g->list, &e);
	if (count > 0) {
		g->count = (size_t)count;
		return g;
	}
	go_names_close(g);
	return NULL;
}

const char *go_names_find(const struct go_names *g, uint64_t at)
{
	size_t low = SEARCH(g->count, i, g->list[i].start <= at);

	return low && at < g->list[low - 1].end ? g->list[low - 1].name : NULL;
}

void go_names_close(struct go_names *g)
{
	if (!g)
		return;
	free(g->list);
	elf_close(&g->file);
	free(g);
}
