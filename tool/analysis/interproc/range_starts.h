/* SPDX-License-Identifier: MIT */
/* Finds where code ranges begin and end, and whether a function begins there. */
#ifndef ANALYSIS_INTERPROC_RANGE_STARTS_H
#define ANALYSIS_INTERPROC_RANGE_STARTS_H

#include "analysis/interproc/work.h"

/* undiscovered.c: makes code ranges at addresses that lie in none. */
/* Notes such an address, for undiscovered_add(). */
void undiscovered_put(struct work *w, uint64_t target);
/* Makes code ranges at all undiscovered targets. */
void undiscovered_add(struct work *w);
/* Before the first round: makes code ranges at the addresses that relocations put into data. */
void undiscovered_in_data(struct work *w);
/* Does the same at addresses in plain words of data; only after the call graph is complete, since the words may be
 * entries of jump tables. */
void undiscovered_in_words(struct work *w);
/* Has etch added a section, or does it change its contents? Then it is no evidence: a rewritten file has to yield the
 * same rows as the original. */
bool section_is_own(const struct work *w, const struct elf_section *s);

/* open_ranges.c: ends of open code ranges. */
/* Cuts open code ranges at the end of their flow, and at starts of functions inside; references to the rest become
 * undiscovered targets. */
void open_trim(struct work *w);
/* Cuts code range i, if it is open, at an address inside where other code begins. open_cuts_note() then makes
 * references to the parts that were cut off undiscovered targets. was[] is 0 for each code range before the first
 * cut. */
void open_cut_at(struct work *w, uint64_t *was, uint32_t i, uint64_t addr);
void open_cuts_note(struct work *w, const uint64_t *was);
/* Extends the empty open code ranges that are marked for the next round up to the next code range or the end of the
 * section. */
void open_extend(struct work *w);

/* starts.c: is a start a function's or that of a part? */
/* Updates EVIDENCE_LED, is_callee and framed_part. */
void called_find(struct work *w);
/* Sets EVIDENCE_FUNCTION where data of the file holds the start of a code range. */
void evidence_data(struct work *w);
/* With options.no_cfi: judges the code ranges without evidence, once all evidence has been collected. */
void starts_classify(struct work *w);
/* Finds parts: code ranges to which other code jumps with a frame, and which nothing calls. Drops the edges of marked
 * ones. */
void parts_find(struct work *w);

/* misfits.c: judges the starts that code jumps to in another state than a function's entry. */
void misfits_find(struct work *w);
/* Finds proofs of an entry for code that needs one (range_state.tail_proved). */
void proofs_find(struct work *w);

/* wide_fde.c: finds functions under an FDE that describes none of them. Drops the symbols that begin no function from
 * the entries of code ranges, before the first round. */
void wide_named(struct work *w);
/* Makes targets of calls entries. */
void wide_called(struct work *w);
/* Makes starts of code that begins and ends as functions do entries, once the call graph is complete. */
void wide_sweep(struct work *w);

/*
 * undiscovered.c: may a function begin at an address only because a number in code or data equals it? Not where the
 * padding of the file shows its functions, and none is in front of this address: heap offsets of GraalVM's images are
 * such numbers.
 */
bool number_may_begin(const struct work *w, uint64_t addr);
/* gap_sweep.c: makes code ranges of the functions between the code ranges, once all other evidence has been
 * collected. */
void gaps_sweep(struct work *w, bool padded_only);

/* noted_ranges.c: with options.profile, adds replacements, and code that no function symbol covers, as code ranges;
 * sets notes and abi_flags of w->env. */
void noted_ranges(struct work *w);

/* entry_tail.c: sets code_range.entry_tail of code to which only the entry point jumps. */
void entry_tail_find(struct work *w);

#endif
