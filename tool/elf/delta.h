/* SPDX-License-Identifier: MIT */
/*
 * One sequence of bytes told by another: what to copy from it, and what else there is.
 * Made for files of which the one came out of the other by small changes.
 */
#ifndef ELF_DELTA_H
#define ELF_DELTA_H

#include <stddef.h>
#include <stdint.h>

/* From `want` on, up to where the next one begins, the bytes may be those from `have` on. A guess: where it is
 * wrong, others are made. */
struct delta_guess {
	size_t want, have;
};

/*
 * `want` as a list of commands on `have`, malloc'd in *out: pairs of
 *     length of a literal, its bytes; length of a copy, and unless that is 0 the distance of
 *     its start from where the copy before ended
 * until `want` is complete. Numbers are LEB128, distances signed (DWARF 5, 7.6). Time and
 * memory are linear. `guesses`: in order of `want`; may be none. 0; -1: out of memory.
 */
int delta_make(const uint8_t *have, size_t have_size, const uint8_t *want, size_t want_size,
               const struct delta_guess *guesses, size_t guess_count, uint8_t **out, size_t *size);

/* The other way: fills want[0..want_size). -1: the commands are not for these two sizes. */
int delta_apply(const uint8_t *have, size_t have_size, const uint8_t *delta, size_t delta_size, uint8_t *want,
                size_t want_size);

#endif
