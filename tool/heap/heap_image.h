/* SPDX-License-Identifier: MIT */
/*
 * Reads and checks the recording of one process image (shared/heap_file.h): whatever the bytes are, indexes are in
 * bounds and names are terminated afterwards.
 */
#ifndef HEAP_HEAP_IMAGE_H
#define HEAP_HEAP_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/heap_file.h"
#include "support/error.h"

struct heap_image {
	struct heap_head head;
	struct heap_node *nodes;           /* head.node_count of them; a parent's number is lower than its child's */
	struct heap_leaf *leaves;          /* head.leaf_count of them; each `node` is an index of `nodes` */
	uint8_t *modules;                  /* head.module_size bytes of whole records */
	const struct heap_module **module; /* indexed by the number of the module, from 1 on */
	size_t module_count;
	uint64_t size; /* bytes of the file that are in use */
};

/* Reads `size` bytes at `at` of a recording. Returns false if the recording does not have them. */
typedef bool heap_read_fn(void *context, uint64_t at, void *to, size_t size);

/*
 * Reads a recording that has at most `most` bytes in use; the process may continue to write to it. Returns 0, or -1 and
 * the reason; call heap_image_free() in both cases.
 */
int heap_image_read(struct heap_image *im, heap_read_fn *read, void *context, uint64_t most, struct error *e);
/* Reads a recording as heap_image_read() does, from the file `name` in a directory. */
int heap_image_open(struct heap_image *im, int directory, const char *name, struct error *e);
/* Reads only the head and the modules of a recording; in all else it does what heap_image_open() does. */
int heap_image_modules(struct heap_image *im, int directory, const char *name, struct error *e);
/* Does the directory have, in place of a recording, the reason why there is none (shared/heap_file.h)? Writes that to
 * `e`. */
bool heap_refusal_read(int directory, const char *name, struct error *e);
void heap_image_free(struct heap_image *im);

#endif
