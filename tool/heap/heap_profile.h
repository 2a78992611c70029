/* SPDX-License-Identifier: MIT */
/*
 * The recordings of all processes as one profile: a sample is what a stack of a process has allocated, and the writers
 * of `etch profile` (profile/writers.h) show it.
 */
#ifndef HEAP_HEAP_PROFILE_H
#define HEAP_HEAP_PROFILE_H

#include "heap/heap_image.h"
#include "profile/profile.h"

/* Values of a sample: blocks and bytes of each measure, in the order of pprof's types. */
enum heap_measure { MEASURE_TOTAL, MEASURE_PEAK, MEASURE_LEAKED, MEASURE_COUNT };

/* What a process image has allocated. */
struct heap_process {
	uint32_t image; /* number in profile.processes.images */
	struct heap_sum sum[MEASURE_COUNT];
};

struct heap_profile {
	struct profile *profile;
	enum heap_measure measure; /* the samples' weight */
	size_t value_capacity;
	struct heap_sum sum[MEASURE_COUNT];
	uint64_t processes; /* process images */
	struct heap_process *each;
	size_t each_count, each_capacity;
	uint64_t unrecorded; /* programs that were executed and have no recording */
	char unrecorded_names[256];
	uint64_t lost_handler, lost_stack, lost_block, lost_thread, lost_module, lost_children, lost_files;
	uint32_t short_of; /* enum heap_short: why */
	int child_error;   /* errno of the first of lost_children; 0: not known */
	/* Recording has ended before the process did, by reason (enum heap_ended). */
	struct {
		uint64_t processes, recorded, missed; /* missed: allocations that were made later */
	} ended[HEAP_ENDED_COUNT];
	uint64_t unseen_deep, unseen_spaces, unseen_calls; /* as in struct heap_head */
	char unseen_names[HEAP_UNSEEN_NAMES];              /* of the first process with such */
	uint64_t memory, file;                             /* bytes of the recorders, of their files: the most of one */
	uint64_t own_malloc;                               /* processes that define a malloc of their own */
	struct error lost_file;                            /* why the first of lost_files was */
};

/* Were there allocations that the recorder could not see? */
static inline bool heap_profile_has_unseen(const struct heap_profile *h)
{
	return h->own_malloc || h->unseen_deep || h->unseen_spaces || h->unseen_calls || h->unrecorded;
}

/* Opens the files that the modules are from, while the process may still be there: a container's, a removed one. */
void heap_files_open(struct heap_profile *h, const struct heap_image *im);
/* Adds a recording. `leaf_node`: null, or room for the stack node of each of its leaves. False: out of memory. */
bool heap_profile_add(struct heap_profile *h, const struct heap_image *im, uint32_t *leaf_node);

static inline const struct heap_sum *heap_values(const struct heap_profile *h, size_t sample)
{
	return (const struct heap_sum *)(const void *)&h->profile->values[sample * 2 * MEASURE_COUNT];
}

#endif
