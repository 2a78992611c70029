/* SPDX-License-Identifier: MIT */
/* Reads recordings (heap_image.h): it copies them first and checks the copy, since the process may still write. */
#include "heap/heap_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/memory.h"

struct source {
	heap_read_fn *read;
	void *context;
	uint64_t most;
};

/* Reads an array. Returns false if out of memory, or if the file is too short. */
static bool array_read(const struct source *s, uint64_t at, uint64_t count, size_t each, void *out)
{
	void *p = NULL;

	if (count > s->most / each)
		return false;
	p = malloc((size_t)count * each + 8);
	if (p && !s->read(s->context, at, p, (size_t)count * each)) {
		free(p);
		p = NULL;
	}
	*(void **)out = p;
	return p;
}

static int damaged(struct error *e) { return error_set(e, "its recording is damaged"); }

/* Checks that the records of the modules are whole and that their paths are terminated, and indexes them. */
static int modules_index(struct heap_image *im, struct error *e)
{
	uint64_t at = 0, size = im->head.module_size;
	size_t capacity = 0;

	while (at < size) {
		const struct heap_module *m = (const void *)(im->modules + at);

		if (size - at < sizeof(*m) + 1 || m->size < sizeof(*m) + 1 || m->size % 8 || m->size > size - at ||
		    m->build_id_size > sizeof(m->build_id) || !memchr(m->path, 0, m->size - sizeof(*m)))
			return damaged(e);
		mem_reserve(&im->module, &capacity, im->module_count, sizeof(*im->module));
		im->module[im->module_count++] = m;
		at += m->size;
	}
	return 0;
}

static int nodes_check(const struct heap_image *im, struct error *e)
{
	uint64_t i;

	for (i = 1; i < im->head.node_count; i++) {
		const struct heap_node *n = &im->nodes[i];

		if (n->parent >= i || (!n->parent && (n->ip & 0xff) >= HEAP_STOP_COUNT))
			return damaged(e);
	}
	for (i = 1; i < im->head.leaf_count; i++)
		if (!im->leaves[i].node || im->leaves[i].node >= im->head.node_count || !im->nodes[im->leaves[i].node].parent)
			return damaged(e);
	return 0;
}

static int head_check(const struct heap_head *h, struct error *e)
{
	if (!h->magic)
		return error_set(e, "the recorder could not begin: there is no space for its file");
	if (h->magic != HEAP_MAGIC)
		return damaged(e);
	if (h->version != HEAP_VERSION)
		return error_set(e, "its recorder is of another version of etch");
	/* Numbers of nodes and leaves have 32 bits. */
	return !h->node_count || !h->leaf_count || h->node_count > UINT32_MAX || h->leaf_count > UINT32_MAX ? damaged(e)
	                                                                                                    : 0;
}

static int part_read(struct heap_image *im, const struct source *s, bool all, struct error *e)
{
	struct heap_head *h = &im->head;
	struct error head_error;

	/* Leaves are read before nodes, since a node is older than the leaves that refer to it. For the nodes the head is
	 * read again.
	 */
	if (!s->read(s->context, 0, h, sizeof(*h)))
		memset(h, 0, sizeof(*h));
	if (head_check(h, e))
		return -1;
	if (all) {
		struct heap_head later;

		if (!array_read(s, h->leaf_at, h->leaf_count, sizeof(*im->leaves), &im->leaves) ||
		    !s->read(s->context, 0, &later, sizeof(later)) || head_check(&later, &head_error) ||
		    later.node_count < h->node_count)
			return damaged(e);
		h->node_count = later.node_count;
		if (!array_read(s, h->node_at, h->node_count, sizeof(*im->nodes), &im->nodes) ||
		    !s->read(s->context, 0, &later, sizeof(later)) || later.module_size < h->module_size)
			return damaged(e);
		h->module_size = later.module_size;
	}
	if (!array_read(s, h->module_at, h->module_size, 1, &im->modules))
		return damaged(e);
	if (modules_index(im, e))
		return -1;
	return all ? nodes_check(im, e) : 0;
}

int heap_image_read(struct heap_image *im, heap_read_fn *read, void *context, uint64_t most, struct error *e)
{
	const struct source s = {read, context, most};

	*im = (struct heap_image){.size = most};
	return part_read(im, &s, true, e);
}

static bool file_read(void *context, uint64_t at, void *to, size_t size)
{
	const int *fd = context;

	while (size) {
		ssize_t n = pread(*fd, to, size, (off_t)at);

		if (n <= 0)
			return false;
		to = (char *)to + n;
		at += (uint64_t)n;
		size -= (size_t)n;
	}
	return true;
}

static int file_part(struct heap_image *im, int directory, const char *name, bool all, struct error *e)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), ret;
	struct source s = {file_read, &fd, 0};
	struct stat st;

	*im = (struct heap_image){0};
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		return error_set(e, "its recording cannot be read");
	}
	/* The file is sparse: its arrays are at most as large as its blocks on disk, plus a little for growth. */
	s.most = im->size = (uint64_t)st.st_blocks * 512;
	s.most += 1 << 24;
	ret = part_read(im, &s, all, e);
	close(fd);
	return ret;
}

int heap_image_open(struct heap_image *im, int directory, const char *name, struct error *e)
{
	return file_part(im, directory, name, true, e);
}

int heap_image_modules(struct heap_image *im, int directory, const char *name, struct error *e)
{
	return file_part(im, directory, name, false, e);
}

bool heap_refusal_read(int directory, const char *name, struct error *e)
{
	static const struct {
		const char *reason, *text;
		int usual; /* the errno that needs no mention */
	} known[] = {
		{HEAP_REFUSED_OPEN, "its recording cannot be created", 0},
		{HEAP_REFUSED_SIZE, "its limit of file size (RLIMIT_FSIZE) is too low for a recording", EFBIG},
		{HEAP_REFUSED_MEMORY, "its limits of memory leave no space for the recorder", ENOMEM},
		{HEAP_REFUSED_DISK, "the recorder could not begin: there is no space for its file", ENOSPC},
	};
	char text[64];
	ssize_t n = readlinkat(directory, name, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = 0;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t length = strlen(known[i].reason);
		int number;

		if (strncmp(text, known[i].reason, length))
			continue;
		number = atoi(text + length);
		if (number > 0 && number != known[i].usual)
			error_set(e, "%s: %s", known[i].text, strerror(number));
		else
			error_set(e, "%s", known[i].text);
		return true;
	}
	return false;
}

void heap_image_free(struct heap_image *im)
{
	free(im->nodes);
	free(im->leaves);
	free(im->modules);
	free(im->module);
	*im = (struct heap_image){0};
}
