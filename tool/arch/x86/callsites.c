/* SPDX-License-Identifier: MIT */
/* Finds possible return addresses by the bytes alone, with SSE2 over the bytes that cannot start a call. */
#include "arch/x86/callsites.h"

#include "support/memory.h"

#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

/* Length of FF /2 from the FF on: opcode, ModRM, SIB, displacement (SDM vol. 2, 2.1.5, tables 2-2 and 2-3). 0:
 * not /2, or truncated. Prefixes precede the opcode and do not change where the call ends. */
static unsigned indirect_length(const uint8_t *p, size_t avail)
{
	unsigned modrm, mod, rm, n = 2;

	if (avail < 2)
		return 0;
	modrm = p[1];
	mod = modrm >> 6;
	rm = modrm & 7;
	if ((modrm >> 3 & 7) != 2)
		return 0;
	if (mod != 3 && rm == 4) {
		if (avail < 3)
			return 0;
		n++;
		if (!mod && (p[2] & 7) == 5)
			n += 4;
	} else if (!mod && rm == 5) {
		n += 4;
	}
	if (mod == 1)
		n += 1;
	else if (mod == 2)
		n += 4;
	return n <= avail ? n : 0;
}

/* Length of the call that starts at an offset, or 0. */
static unsigned call_length(const struct call_code *c, size_t at)
{
	const uint8_t *p = c->bytes + at;
	size_t avail = c->size - at;
	int32_t rel;

	if (p[0] == 0xff)
		return indirect_length(p, avail);
	if (p[0] != 0xe8 || avail < 5)
		return 0;
	memcpy(&rel, p + 1, 4);
	return c->addr + at + 5 + (uint64_t)(int64_t)rel - c->lo < c->hi - c->lo ? 5 : 0;
}

void callsites_find(const struct call_code *c, uint64_t **out, size_t *count)
{
	const uint8_t *bytes = c->bytes;
	const size_t size = c->size;
	const __m128i e8 = _mm_set1_epi8((char)0xe8), ff = _mm_set1_epi8((char)0xff);
	size_t i, capacity = *count;
	unsigned ends = 0; /* bit k: a call ends at i + k */

	for (i = 0; i <= size; i++, ends >>= 1) {
		if (ends & 1) {
			mem_reserve(out, &capacity, *count, sizeof(**out));
			(*out)[(*count)++] = c->addr + i;
		}
		if (i == size)
			break;
		while (!(ends & ~1u) && size - i > 16) { /* skip bytes that start no call */
			__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
			int hits = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, e8), _mm_cmpeq_epi8(v, ff)));

			if (hits) {
				i += (unsigned)__builtin_ctz((unsigned)hits);
				break;
			}
			i += 16;
		}
		if (bytes[i] == 0xe8 || bytes[i] == 0xff) {
			unsigned n = call_length(c, i);

			if (n)
				ends |= 1u << n;
		}
	}
}
