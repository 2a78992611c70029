/* SPDX-License-Identifier: MIT */
/*
 * Delta encoding: describes a sequence of bytes by copies from another sequence, and literals for the rest. It is meant
 * for two files that differ by small changes; .etch.undo stores the original file this way.
 */
#ifndef OUTPUT_DELTA_H
#define OUTPUT_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A span of bytes, as one argument. */
struct bytes {
	const uint8_t *at;
	size_t size;
};

/* The bytes of the output from offset `want` up to the next guess may be those of the input from offset `have`. A wrong
 * guess costs size, not correctness. */
struct delta_guess {
	size_t want, have;
};

/*
 * Encodes `want` as a list of commands on `have`, malloc'd in *out: pairs of
 *     length of a literal, its bytes; length of a copy, and unless that is 0 the distance of
 *     its start from the end of the previous copy
 * until `want` is complete. Numbers are LEB128, distances signed (DWARF 5, 7.6). Time and memory are linear. `guesses`
 * is sorted by `want`, and may be empty.
 */
void delta_make(struct bytes have, struct bytes want, const struct delta_guess *guesses, size_t guess_count,
                uint8_t **out, size_t *size);

/* One command: a literal, whose bytes are in the delta, and then a copy from `have`. Either may be empty. */
struct delta_command {
	const uint8_t *literal;
	uint64_t literal_size;
	uint64_t from, size;
};

struct delta_reader {
	const uint8_t *at, *end;
	uint64_t have;   /* size of the input */
	uint64_t left;   /* bytes of the output that no command has produced yet */
	uint64_t source; /* offset in the input at which the last copy ended */
	bool bad;
};

/* Decode a delta command by command. delta_next() returns 1 and a command, 0 if the output is complete, or -1 if the
 * commands do not fit the two sizes. */
void delta_open(struct delta_reader *r, struct bytes delta, uint64_t have_size, uint64_t want_size);
int delta_next(struct delta_reader *r, struct delta_command *out);

/* Decodes a whole delta to want[0..want_size), which must be zeroed memory. Returns 0, or -1 if the commands do not fit
 * these two sizes. */
int delta_apply(const uint8_t *have, size_t have_size, const uint8_t *delta, size_t delta_size, uint8_t *want,
                size_t want_size);

#endif
