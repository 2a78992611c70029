/* SPDX-License-Identifier: MIT */
/*
 * Makes one profile of the recordings of all processes: a sample holds what one stack of a process has allocated, and
 * the writers of `etch profile` (profile/writers.h) show it.
 */
#ifndef HEAP_HEAP_PROFILE_H
#define HEAP_HEAP_PROFILE_H

#include "heap/heap_image.h"
#include "profile/profile.h"

/* The measures of a sample, in the order of pprof's types. Each has a number of bytes and a number of blocks. */
enum heap_measure { MEASURE_TOTAL, MEASURE_PEAK, MEASURE_LEAKED, MEASURE_COUNT };

/* The sums of what a process image has allocated. */
struct heap_process {
	uint32_t image; /* index in profile.processes.images */
	struct heap_sum sum[MEASURE_COUNT];
};

struct heap_profile {
	struct profile *profile;
	enum heap_measure measure; /* the measure that is the samples' weight */
	size_t value_capacity;
	struct heap_sum sum[MEASURE_COUNT];
	uint64_t processes; /* process images */
	struct heap_process *each;
	size_t each_count, each_capacity;
	uint64_t unrecorded; /* programs that were executed and have no recording */
	char unrecorded_names[256];
	uint64_t lost_handler, lost_stack, lost_block, lost_thread, lost_module, lost_children, lost_files;
	uint32_t short_of; /* the reasons, bits of enum heap_short */
	int child_error;   /* errno of the first of lost_children; 0: not known */
	/* Processes whose recording ended before they did, by reason (enum heap_ended). */
	struct {
		uint64_t processes, recorded, missed; /* missed: allocations that were made afterwards */
	} ended[HEAP_ENDED_COUNT];
	uint64_t unseen_deep, unseen_spaces, unseen_calls; /* the same as in struct heap_head */
	char unseen_names[HEAP_UNSEEN_NAMES];              /* names of the first process that has some */
	uint64_t memory, file;                             /* the greatest number of bytes of a recorder, and of its file */
	uint64_t own_malloc;                               /* processes that define a malloc of their own */
	struct error lost_file;                            /* why the first of lost_files was lost */
};

/* Were there allocations that the recorder could not see? */
static inline bool heap_profile_has_unseen(const struct heap_profile *h)
{
	return h->own_malloc || h->unseen_deep || h->unseen_spaces || h->unseen_calls || h->unrecorded;
}

/* Opens the files of the modules while the process may still be running, which reaches those of a container and those
 * that have been removed. */
void heap_files_open(struct heap_profile *h, const struct heap_image *im);
/* Adds a recording. `leaf_node` is null, or an array that receives the stack node of each leaf. Returns false if out of
 * memory. */
bool heap_profile_add(struct heap_profile *h, const struct heap_image *im, uint32_t *leaf_node);

static inline const struct heap_sum *heap_values(const struct heap_profile *h, size_t sample)
{
	return (const struct heap_sum *)(const void *)&h->profile->values[sample * 2 * MEASURE_COUNT];
}

#endif
