/* SPDX-License-Identifier: MIT */
/*
 * shared/blake2b.h: BLAKE2b with a digest of 32 bytes and no key (RFC 7693). Internal to etch. Needs no memory, no lock
 * and no library; about one byte a nanosecond.
 */
#ifndef ETCH_LIB_SHARED_BLAKE2B_H
#define ETCH_LIB_SHARED_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BLAKE2B_DIGEST 32
#define BLAKE2B_BLOCK  128

struct blake2b {
	uint64_t h[8];
	uint64_t bytes; /* size of all blocks before the one in `capacity` */
	uint8_t capacity[BLAKE2B_BLOCK];
	size_t fill; /* a full block waits until it is known whether it is the last */
};

static const uint64_t blake2b_start[8] = {
	0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
	0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

static inline uint64_t blake2b_rotate(uint64_t x, unsigned n) { return x >> n | x << (64 - n); }

static inline void blake2b_mix(uint64_t *v, unsigned a, unsigned b, unsigned c, unsigned d, uint64_t x, uint64_t y)
{
	v[a] += v[b] + x;
	v[d] = blake2b_rotate(v[d] ^ v[a], 32);
	v[c] += v[d];
	v[b] = blake2b_rotate(v[b] ^ v[c], 24);
	v[a] += v[b] + y;
	v[d] = blake2b_rotate(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = blake2b_rotate(v[b] ^ v[c], 63);
}

static inline void blake2b_block(struct blake2b *s, const uint8_t *block, uint64_t bytes, int last)
{
	static const uint8_t order[10][16] = {
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
		{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
		{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
		{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
		{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
	};
	uint64_t v[16], m[16];

	memcpy(m, block, sizeof(m)); /* little-endian, as on the machine */
	for (unsigned i = 0; i < 8; i++) {
		v[i] = s->h[i];
		v[i + 8] = blake2b_start[i];
	}
	v[12] ^= bytes;
	if (last)
		v[14] = ~v[14];
	for (unsigned r = 0; r < 12; r++) {
		const uint8_t *o = order[r % 10];

		blake2b_mix(v, 0, 4, 8, 12, m[o[0]], m[o[1]]);
		blake2b_mix(v, 1, 5, 9, 13, m[o[2]], m[o[3]]);
		blake2b_mix(v, 2, 6, 10, 14, m[o[4]], m[o[5]]);
		blake2b_mix(v, 3, 7, 11, 15, m[o[6]], m[o[7]]);
		blake2b_mix(v, 0, 5, 10, 15, m[o[8]], m[o[9]]);
		blake2b_mix(v, 1, 6, 11, 12, m[o[10]], m[o[11]]);
		blake2b_mix(v, 2, 7, 8, 13, m[o[12]], m[o[13]]);
		blake2b_mix(v, 3, 4, 9, 14, m[o[14]], m[o[15]]);
	}
	for (unsigned i = 0; i < 8; i++)
		s->h[i] ^= v[i] ^ v[i + 8];
}

static inline void blake2b_init(struct blake2b *s)
{
	memcpy(s->h, blake2b_start, sizeof(s->h));
	s->h[0] ^= 0x01010000u ^ BLAKE2B_DIGEST;
	s->bytes = 0;
	s->fill = 0;
}

static inline void blake2b_add(struct blake2b *s, const void *data, uint64_t size)
{
	const uint8_t *p = (const uint8_t *)data;

	while (size) {
		uint64_t part = BLAKE2B_BLOCK - s->fill;

		if (s->fill == BLAKE2B_BLOCK) {
			s->bytes += BLAKE2B_BLOCK;
			blake2b_block(s, s->capacity, s->bytes, 0);
			s->fill = 0;
			/* Whole blocks, except the last one, are read where they are, without a copy. */
			for (; size > BLAKE2B_BLOCK; p += BLAKE2B_BLOCK, size -= BLAKE2B_BLOCK) {
				s->bytes += BLAKE2B_BLOCK;
				blake2b_block(s, p, s->bytes, 0);
			}
			continue;
		}
		part = part < size ? part : size;
		memcpy(s->capacity + s->fill, p, part);
		s->fill += part;
		p += part;
		size -= part;
	}
}

static inline void blake2b_end(struct blake2b *s, uint8_t digest[BLAKE2B_DIGEST])
{
	memset(s->capacity + s->fill, 0, BLAKE2B_BLOCK - s->fill);
	blake2b_block(s, s->capacity, s->bytes + s->fill, 1);
	memcpy(digest, s->h, BLAKE2B_DIGEST);
}

#endif
