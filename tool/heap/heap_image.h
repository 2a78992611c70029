/* SPDX-License-Identifier: MIT */
/*
 * The recording of one process image (shared/heap_file.h), read and checked: whatever the bytes are, indexes are in
 * bounds and names end.
 */
#ifndef HEAP_HEAP_IMAGE_H
#define HEAP_HEAP_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/heap_file.h"
#include "support/error.h"

struct heap_image {
	struct heap_head head;
	struct heap_node *nodes;           /* head.node_count; a parent's number is lower */
	struct heap_leaf *leaves;          /* head.leaf_count; each node is one of `nodes` */
	uint8_t *modules;                  /* head.module_size bytes of whole records */
	const struct heap_module **module; /* by number, from 1 on */
	size_t module_count;
	uint64_t size; /* bytes of the file that are in use */
};

/* Reads `size` bytes at `at` of a recording; false: they are not there. */
typedef bool heap_read_fn(void *context, uint64_t at, void *to, size_t size);

/*
 * Reads a recording with at most `most` bytes in use; the process may continue to write to it. 0, or -1 and the
 * reason; heap_image_free() in both cases.
 */
int heap_image_read(struct heap_image *im, heap_read_fn *read, void *context, uint64_t most, struct error *e);
/* As heap_image_read(), from the file `name` of a directory. */
int heap_image_open(struct heap_image *im, int directory, const char *name, struct error *e);
/* As heap_image_open(), but the head and the modules only. */
int heap_image_modules(struct heap_image *im, int directory, const char *name, struct error *e);
/* Is there, in place of a recording, the reason why there is none (shared/heap_file.h)? Then in e. */
bool heap_refusal_read(int directory, const char *name, struct error *e);
void heap_image_free(struct heap_image *im);

#endif
