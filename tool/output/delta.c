/* SPDX-License-Identifier: MIT */
/* Makes and applies deltas (see delta.h), by greedy matching with an index of the blocks of `have`. */
#include "output/delta.h"
#include "support/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK        32u /* bytes of `have` that are indexed together, and found at any offset of `want` */
#define SHORTEST     16u /* bytes of the shortest copy: a shorter one costs more than it saves */
#define CHANGED_MOST 24u /* bytes that may differ between two copies: one number, or two that are close together */
/* The index of blocks is used only after so many bytes of `want`, plus one part in MISSED_SHARE, had no match at the
 * likely places, because building it takes as long as everything else. */
#define MISSED_SOME  64u
#define MISSED_SHARE 1024u

struct output {
	uint8_t *data;
	size_t size, capacity;
};

static void put(struct output *b, const void *data, size_t n)
{
	if (b->size + n > b->capacity) {
		b->capacity = (b->size + n) * 2 + 64;
		b->data = mem_resize(b->data, b->capacity, 1);
	}
	memcpy(b->data + b->size, data, n);
	b->size += n;
}

static void put_number(struct output *b, uint64_t n)
{
	uint8_t byte;

	do {
		byte = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
		put(b, &byte, 1);
	} while (n >>= 7);
}

static void put_signed(struct output *b, int64_t n)
{
	bool more = true;
	uint8_t byte;

	while (more) {
		byte = n & 0x7f;
		n >>= 7; /* an arithmetic shift */
		more = !((n == 0 && !(byte & 0x40)) || (n == -1 && (byte & 0x40)));
		byte |= more ? 0x80 : 0;
		put(b, &byte, 1);
	}
}

/* A hash table of the blocks of `have` by contents. Each bucket has one entry, for the first block that hashes to
 * it. */
struct blocks {
	uint32_t *at; /* block number + 1; 0: empty */
	unsigned shift;
};

static uint64_t block_hash(const uint8_t *p)
{
	uint64_t w[BLOCK / 8], h = 0;
	size_t i;

	memcpy(w, p, BLOCK);
	for (i = 0; i < BLOCK / 8; i++)
		h = (h ^ w[i]) * 0x9e3779b97f4a7c15;
	return h;
}

/* Prefetch distances: in blocks when the index is built, in bytes when it is searched. */
#define AHEAD     32u
#define LOOKED_UP 4u

static void blocks_index(struct blocks *b, const uint8_t *have, size_t size)
{
	size_t count = size / BLOCK, i, k, n;
	uint32_t *slots[AHEAD];
	unsigned bits = 8;

	while (bits < 30 && ((size_t)1 << bits) < count * 2)
		bits++;
	b->shift = 64 - bits;
	b->at = big_zero((size_t)1 << bits, sizeof(*b->at));
	for (i = 0; i < count && i < UINT32_MAX; i += n) {
		n = count - i < AHEAD ? count - i : AHEAD;
		for (k = 0; k < n; k++) { /* accesses are random: prefetching makes their cache misses overlap */
			slots[k] = &b->at[block_hash(have + (i + k) * BLOCK) >> b->shift];
			__builtin_prefetch(slots[k], 1);
		}
		for (k = 0; k < n; k++)
			if (!*slots[k])
				*slots[k] = (uint32_t)(i + k + 1);
	}
}

static size_t same(const uint8_t *a, const uint8_t *b, size_t most)
{
	size_t n = 0;

	while (most - n >= 256 && !memcmp(a + n, b + n, 256))
		n += 256;
	while (most - n >= 8 && !memcmp(a + n, b + n, 8))
		n += 8;
	while (n < most && a[n] == b[n])
		n++;
	return n;
}

struct maker {
	const uint8_t *have, *want;
	size_t have_size, want_size;
	struct blocks blocks;                        /* built on first use, since that takes as long as everything else */
	const struct delta_guess *guess, *guess_end; /* the guess for the current offset, and the end of the list */
	size_t missed;                               /* bytes without a match at the likely places */
	struct output out;
	size_t encoded; /* bytes of `want` that the commands so far produce */
	size_t source;  /* offset in `have` at which the last copy ended */
};

static void copy_put(struct maker *m, size_t from, size_t at, size_t length)
{
	put_number(&m->out, at - m->encoded);
	put(&m->out, m->want + m->encoded, at - m->encoded);
	put_number(&m->out, length);
	if (length)
		put_signed(&m->out, (int64_t)from - (int64_t)m->source);
	m->encoded = at + length;
	m->source = from + length;
}

/* Returns the length of the common prefix of want[at..] and have[from..]. */
static size_t match(const struct maker *m, size_t from, size_t at)
{
	size_t have = m->have_size > from ? m->have_size - from : 0, want = m->want_size - at;

	return same(m->have + from, m->want + at, have < want ? have : want);
}

/* Returns the number of bytes, at most CHANGED_MOST, after which the two agree again for SHORTEST bytes, or 0 if they
 * do not. */
static size_t changed(const struct maker *m, size_t from, size_t at)
{
	size_t have = m->have_size > from ? m->have_size - from : 0, want = m->want_size - at, k;

	for (k = 1; k <= CHANGED_MOST && k + SHORTEST <= have && k + SHORTEST <= want; k++)
		if (!memcmp(m->have + from + k, m->want + at + k, SHORTEST))
			return k;
	return 0;
}

/* Tries want[at..] at the same offset of `have`, then at the caller's guess. Returns the length of the match. */
static size_t likely(struct maker *m, size_t at, size_t *from)
{
	size_t length = match(m, *from = at, at);

	while (m->guess < m->guess_end && m->guess_end - m->guess > 1 && m->guess[1].want <= at)
		m->guess++;
	if (length < SHORTEST && m->guess < m->guess_end && m->guess->want <= at)
		length = match(m, *from = m->guess->have + (at - m->guess->want), at);
	return length;
}

/* Looks want[at..] up in the index of blocks. */
static void look_up(struct maker *m, size_t at, size_t *from, size_t *length)
{
	const uint8_t *want = m->want + at;
	const uint32_t *slot;

	if (m->want_size - at < BLOCK || ++m->missed <= MISSED_SOME + m->want_size / MISSED_SHARE)
		return;
	if (!m->blocks.at)
		blocks_index(&m->blocks, m->have, m->have_size);
	slot = &m->blocks.at[block_hash(want) >> m->blocks.shift];
	if (m->want_size - at >= BLOCK + LOOKED_UP) /* most lookups fail, and the following bytes are looked up next */
		__builtin_prefetch(&m->blocks.at[block_hash(want + LOOKED_UP) >> m->blocks.shift]);
	*from = *slot ? (size_t)(*slot - 1) * BLOCK : m->have_size;
	*length = match(m, *from, at);
}

/* Encodes `want` as commands, from its start to its end. */
static void commands_make(struct maker *m)
{
	size_t at = 0;

	while (at < m->want_size) {
		/* The first guess is that the last copy continues. */
		size_t from = m->source + (at - m->encoded), length = match(m, from, at), skip = 0;

		if (length < SHORTEST)
			skip = changed(m, from, at);
		if (length < SHORTEST && !skip)
			length = likely(m, at, &from);
		if (length < SHORTEST && !skip)
			look_up(m, at, &from, &length);
		if (!skip && (length >= SHORTEST || (length && at + length == m->want_size))) {
			copy_put(m, from, at, length);
			at += length;
		} else {
			at += skip ? skip : 1;
		}
	}
	if (m->encoded < m->want_size)
		copy_put(m, m->source, m->want_size, 0);
}

void delta_make(struct bytes have, struct bytes want, const struct delta_guess *guesses, size_t guess_count,
                uint8_t **out, size_t *size)
{
	struct maker m = {.have = have.at,
	                  .want = want.at,
	                  .have_size = have.size,
	                  .want_size = want.size,
	                  .guess = guesses,
	                  .guess_end = guess_count ? guesses + guess_count : guesses};

	commands_make(&m);
	free(m.blocks.at);
	*out = m.out.data;
	*size = m.out.size;
}

static uint64_t number_next(struct delta_reader *r, bool is_signed)
{
	unsigned shift = 0;
	uint64_t n = 0;
	uint8_t byte;

	do {
		if (r->at == r->end || shift > 63) {
			r->bad = true;
			return 0;
		}
		byte = *r->at++;
		n |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && shift < 64 && (byte & 0x40))
		n |= ~(uint64_t)0 << shift;
	return n;
}

void delta_open(struct delta_reader *r, struct bytes delta, uint64_t have_size, uint64_t want_size)
{
	*r = (struct delta_reader){.at = delta.at, .end = delta.at + delta.size, .have = have_size, .left = want_size};
}

int delta_next(struct delta_reader *r, struct delta_command *out)
{
	if (!r->left)
		return r->at == r->end ? 0 : -1;
	out->literal_size = number_next(r, false);
	if (r->bad || out->literal_size > r->left || out->literal_size > (uint64_t)(r->end - r->at))
		return -1;
	out->literal = r->at;
	r->at += out->literal_size;
	r->left -= out->literal_size;
	out->size = number_next(r, false);
	if (out->size)
		r->source += number_next(r, true);
	out->from = r->source;
	if (r->bad || out->size > r->left || r->source > r->have || out->size > r->have - r->source)
		return -1;
	if (!out->size && r->left)
		return -1;
	r->source += out->size;
	r->left -= out->size;
	return 1;
}

int delta_apply(const uint8_t *have, size_t have_size, const uint8_t *delta, size_t delta_size, uint8_t *want,
                size_t want_size)
{
	struct delta_command c;
	struct delta_reader r;
	int more;

	delta_open(&r, (struct bytes){delta, delta_size}, have_size, want_size);
	while ((more = delta_next(&r, &c)) > 0) {
		memcpy(want, c.literal, c.literal_size);
		big_copy(want + c.literal_size, have + c.from, c.size);
		want += c.literal_size + c.size;
	}
	return more;
}
