/* SPDX-License-Identifier: MIT */
/*
 * The generator: unwind rows from machine code, with .eh_frame as a second
 * witness (design rule 6: proven from code, or read from .eh_frame, or UNDEF).
 */
#ifndef CODE_FRAMES_H
#define CODE_FRAMES_H

#include "code/reached.h"
#include "code/rows.h"
#include "code/space.h"
#include "report/finding.h"

struct frames_options {
	bool no_cfi; /* ignore the instructions of .eh_frame; its address ranges still say where functions are */
	int jobs;    /* threads; 0 = 1 */
	bool progress; /* say how far it is (report/progress.h); progress_end() is the caller's */
	bool observe; /* findings about flow and stack too (code/observe.h) */
	struct detail *detail; /* what to look at more closely (code/detail.h); or null */
};

struct frames {
	struct code_space space;
	struct row_list rows;
	struct reached reached;   /* with observe: instructions that were come to */
	struct findings findings; /* sorted by address: where code and .eh_frame disagree, and the like */
	/* for people: */
	size_t functions;   /* pieces of code looked at */
	uint64_t insns;     /* instructions decoded, each once */
	uint64_t covered;   /* bytes of text with a row that is not UNDEF */
	uint64_t undefined; /* bytes inside functions without one */
};

/* 0, or -1 and a message. Deterministic for any number of jobs. */
int frames_find(const struct elf_file *f, const struct frames_options *o, struct frames *out, struct error *e);
void frames_free(struct frames *fr);

#endif
