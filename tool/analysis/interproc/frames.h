/* SPDX-License-Identifier: MIT */
/*
 * The generator makes unwind rows from machine code, with .eh_frame as a second witness. Each row is proven from code,
 * read from .eh_frame, or UNDEF.
 *
 * A proof from code has premises, and some of these are heuristics where neither symbols nor .eh_frame answer the
 * question: where a function begins (undiscovered.c, tried_starts.c, gap_sweep.c), where a function without a size ends
 * (flow/ends.c), which calls do not return (noreturn_named.c by name, returns.c by the code after them). Where a
 * premise fails, a row is wrong although each step from the premise is proven; docs/correctness.md tells how each
 * premise is tested.
 */
#ifndef ANALYSIS_INTERPROC_FRAMES_H
#define ANALYSIS_INTERPROC_FRAMES_H

#include "analysis/flow/reached.h"
#include "analysis/unwind/rows.h"
#include "analysis/unwind/saves.h"
#include "analysis/facts/notes.h"
#include "analysis/facts/space.h"
#include "report/finding.h"

struct frames_options {
	bool no_cfi;         /* ignore the instructions of .eh_frame; its address ranges still say where functions are */
	int jobs;            /* threads; 0 = 1 */
	bool progress;       /* report progress (support/progress.h); the caller calls progress_end() */
	enum saves_of saves; /* for which code to find frames.saves */
	bool observe;        /* also add findings about flow and stack (analysis/lint/observe.h) */
	const struct profile *profile; /* conventions of the file; null: those of user space */
	struct notes *notes;           /* the profile's notes, which frames_find() takes over; null: it reads them itself */
	struct detail
		*detail; /* in: the addresses to report in detail (analysis/flow/detail.h); out: that detail; or null */
};

/* Padding between functions. */
struct filled {
	uint64_t addr, size;
};

struct frames {
	struct code_space space;
	struct row_list rows;
	struct notes notes;       /* read by options.profile */
	struct save_list saves;   /* with options.saves */
	struct cfi_file cfi;      /* the linker's FDEs, with options.saves */
	struct reached reached;   /* with observe: instructions that flow reaches */
	struct findings findings; /* sorted by address; e.g. where code and .eh_frame disagree */
	/* Statistics. */
	size_t functions;   /* code ranges analysed */
	uint64_t insns;     /* instructions decoded, each once */
	uint64_t covered;   /* bytes of text with a row that is not UNDEF */
	uint64_t undefined; /* bytes inside functions whose row is UNDEF */
	/* The whole of which `covered` is a share: all bytes of code except for the padding between functions, whether or
	 * not functions were found there. */
	uint64_t text;
	uint64_t padding;         /* bytes of `filled` */
	uint64_t padding_covered; /* bytes of padding with a row that is not UNDEF: padding keeps the row of the code before
	                           * it */
	uint64_t elsewhere;       /* bytes that are neither padding nor in a code range */
	struct filled *filled;    /* sorted, disjoint */
	size_t filled_count, filled_capacity;
};

/* Finds the rows of a file. Returns 0, or -1 and a message. The result is the same for any number of jobs. */
int frames_find(const struct elf_file *f, const struct frames_options *o, struct frames *out, struct error *e);
void frames_free(struct frames *fr);

#endif
