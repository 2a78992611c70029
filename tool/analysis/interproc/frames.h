/* SPDX-License-Identifier: MIT */
/*
 * The generator makes unwind rows from machine code, with .eh_frame as a second witness. Each row is proven from code,
 * read from .eh_frame, or UNDEF.
 *
 * A proof from code has premises, and some of these are heuristics where neither symbols nor .eh_frame answer the
 * question: where a function begins (undiscovered.c, tried_starts.c, gap_sweep.c), where a function without a size ends
 * (flow/ends.c), which calls do not return (noreturn_named.c judges by the name of the callee, returns.c by the code
 * after the call). If a premise is false, a row can be wrong although each step from the premise is proven;
 * docs/correctness.md tells how each premise is tested.
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
	/* Ignore the call frame instructions of .eh_frame; the address ranges of its FDEs still say where functions are. */
	bool no_cfi;
	int jobs;                      /* number of threads; 0 counts as 1 */
	bool progress;                 /* report progress (support/progress.h); the caller calls progress_end() */
	enum saves_of saves;           /* for which code frames.saves is filled */
	bool observe;                  /* also add the findings of analysis/lint/observe.h about flow and stack */
	const struct profile *profile; /* conventions of the file; null: those of user space */
	/* Notes that the profile has already read; frames_find() takes them over. Null: frames_find() reads them. */
	struct notes *notes;
	/* In: the addresses to report in detail (analysis/flow/insn_detail.h); out: the details found. Null: no details
	 * are wanted. */
	struct detail *detail;
};

/* Padding between functions. */
struct filled {
	uint64_t addr, size;
};

/* The results of frames_find(). */
struct frames {
	struct code_space space;
	struct row_list rows;
	struct notes notes;       /* the notes that options.profile has read */
	struct save_list saves;   /* where callee-saved registers are; filled if options.saves asks for it */
	struct cfi_file cfi;      /* the FDEs that the linker wrote; filled if options.saves asks for it */
	struct reached reached;   /* the instructions that some path reaches; filled with options.observe */
	struct findings findings; /* sorted by address; e.g. where code and .eh_frame disagree */
	/* Statistics. */
	size_t functions;   /* code ranges analysed */
	uint64_t insns;     /* instructions decoded, each once */
	uint64_t covered;   /* bytes of text with a row that is not UNDEF */
	uint64_t undefined; /* bytes inside functions whose row is UNDEF */
	/* Bytes of code, whether or not functions were found there. `covered` less `padding_covered`, divided by `text`
	 * less `padding`, is the share of the code that has rows. */
	uint64_t text;
	uint64_t padding; /* number of bytes in `filled` */
	/* Bytes of padding with a row that is not UNDEF: padding has the row of the code before it. */
	uint64_t padding_covered;
	uint64_t elsewhere;    /* bytes of code that are neither padding nor in a code range */
	struct filled *filled; /* all padding between functions, sorted and disjoint */
	size_t filled_count, filled_capacity;
};

/* Finds the rows of a file. Returns 0, or -1 with a message in *e. The result is the same for any number of jobs. */
int frames_find(const struct elf_file *f, const struct frames_options *o, struct frames *out, struct error *e);
void frames_free(struct frames *fr);

#endif
