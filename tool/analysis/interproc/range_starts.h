/* SPDX-License-Identifier: MIT */
/* Finds where code ranges begin and end, and whether a function begins at their starts. */
#ifndef ANALYSIS_INTERPROC_RANGE_STARTS_H
#define ANALYSIS_INTERPROC_RANGE_STARTS_H

#include "analysis/interproc/work.h"

/* undiscovered.c: makes code ranges at undiscovered targets, which are addresses of code that lie in no code range. */
/* Records an undiscovered target, for undiscovered_add(). */
void undiscovered_put(struct work *w, uint64_t target);
/* Makes code ranges at all recorded undiscovered targets, and marks them. */
void undiscovered_add(struct work *w);
/* Before the first round: makes code ranges at the addresses that relocations put into data. */
void undiscovered_in_data(struct work *w);
/* Makes code ranges at the addresses that plain words of data hold. Only called once the call graph is complete, since
 * such words may be entries of jump tables. */
void undiscovered_in_words(struct work *w);
/* Did etch add this section, or does it change the section's contents? If so, the section is no evidence, since a
 * rewritten file must yield the same rows as the original. */
bool section_is_own(const struct work *w, const struct elf_section *s);

/* open_ranges.c: finds the ends of open code ranges, whose size nothing gives. */
/* Cuts open code ranges at the end of their flow, and where another function begins inside them. References to the
 * parts cut off become undiscovered targets. */
void open_trim(struct work *w);
/* Cuts code range i at `addr`, if the range is open and contains the address: other code begins there. was[k] records
 * the end that code range k had before its first cut; it is 0 for code ranges that are not cut. */
void open_cut_at(struct work *w, uint64_t *was, uint32_t i, uint64_t addr);
/* After such cuts: makes the references to the parts that were cut off undiscovered targets. */
void open_cuts_note(struct work *w, const uint64_t *was);
/* If an open code range that is marked for the next round contains no flow yet, extends it to the start of the next
 * code range or to the end of the section. */
void open_extend(struct work *w);

/* starts.c: does a function begin at a start, or a part of a function? */
/* Updates EVIDENCE_LED, is_callee and framed_part of the code ranges in work.graph.touched. */
void called_find(struct work *w);
/* Sets EVIDENCE_FUNCTION of each code range whose start address is found in data of the file. */
void evidence_data(struct work *w);
/* With options.no_cfi: judges the code ranges without evidence, once all evidence has been collected. */
void starts_classify(struct work *w);
/* Finds parts of functions: code ranges that are not called, and to which other code jumps with a frame. Also drops the
 * edges from marked code ranges, which are out of date. */
void parts_find(struct work *w);

/* refuted_starts.c: judges the starts to which code jumps in a state other than that of a function's entry. */
void misfits_find(struct work *w);
/* Looks for a proof that code begins with a function's entry, for code ranges that need one; sets
 * range_state.tail_proved. */
void proofs_find(struct work *w);

/* wide_fde.c: finds functions under an FDE that covers several functions and describes none of them. Before the first
 * round, wide_named() removes those symbols from the entries of code ranges that begin no function. */
void wide_named(struct work *w);
/* Makes the targets of calls inside such an FDE entries of their code range. */
void wide_called(struct work *w);
/* Once the call graph is complete: tries starts inside such an FDE, and makes those whose code begins and ends as
 * functions do entries of their code range. */
void wide_sweep(struct work *w);

/*
 * undiscovered.c: may a function begin at an address, if the only evidence is that a number in code or data equals it?
 * Returns false if most functions of the file follow recognisable padding and this address does not; in images of
 * GraalVM, for example, such numbers are heap offsets.
 */
bool number_may_begin(const struct work *w, uint64_t addr);
/* gap_sweep.c: finds functions in the gaps between code ranges, and makes code ranges of them, once other evidence has
 * been collected. With `padded_only`, only functions that follow padding are looked for. */
void gaps_sweep(struct work *w, bool padded_only);

/* noted_ranges.c: with options.profile, adds code ranges for replacements and for code that no function symbol covers.
 * Sets env.notes and env.abi_flags. */
void noted_ranges(struct work *w);

/* entry_tail.c: sets code_range.entry_tail of the code ranges to which nothing but the entry point of the file
 * jumps. */
void entry_tail_find(struct work *w);

#endif
