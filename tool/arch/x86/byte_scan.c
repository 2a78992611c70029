/* SPDX-License-Identifier: MIT */
/* Finds possible return addresses and rip-relative operands without decoding, for most bytes by SSE2. */
#include "arch/x86/byte_scan.h"

#include "support/memory.h"

#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

/* ---- rip-relative operands ------------------------------------------------------------- */

/* The bits mod and rm of a ModRM byte, and their values for a rip-relative operand: mod 0, rm 5 (SDM vol. 2, table
 * 2-7). Nothing in front of this byte changes its meaning. */
#define MOD_RM_MASK 0xc7
#define MOD_RM_RIP  0x05

bool x86_may_be_rip_operand(const uint8_t *disp) { return (disp[-1] & MOD_RM_MASK) == MOD_RM_RIP; }

unsigned x86_rip_operands(const uint8_t *disp)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(disp - 1));
	__m128i masked = _mm_and_si128(bytes, _mm_set1_epi8((char)MOD_RM_MASK));

	return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(masked, _mm_set1_epi8(MOD_RM_RIP)));
}

bool x86_makes_rip_address(const uint8_t *disp)
{
	return (disp[-3] & 0xf8) == 0x48 && disp[-2] == 0x8d && (disp[-1] & MOD_RM_MASK) == MOD_RM_RIP;
}

/* ---- calls ------------------------------------------------------------------------------ */

/* Returns the length of an indirect call (FF /2) from the opcode FF on: opcode, ModRM, SIB, displacement (SDM vol. 2,
 * 2.1.5, tables 2-2 and 2-3). Returns 0 if the bytes are no such call, or are truncated. Prefixes are in front of the
 * opcode, and do not change where the call ends. */
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

/* Returns the length of the call that starts at an offset, or 0 if there is none. */
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

/* The list of results, and the ends of calls that are still to be added to it. They cannot be added at once, in
 * ascending order, since a call may begin inside the bytes of another one. */
struct ends {
	uint64_t **out;
	size_t *count, capacity;
	uint64_t addr;    /* address of offset 0 */
	size_t at;        /* offset that bit 0 of `pending` stands for; all ends below it are in the list */
	uint64_t pending; /* bit k: a call ends at offset at + k */
};

/* Adds the pending ends up to an offset to the list. There are few, since no call is longer than 7 bytes. */
static inline void ends_add(struct ends *e, size_t upto)
{
	while (e->pending) {
		unsigned k = (unsigned)__builtin_ctzll(e->pending);

		if (e->at + k > upto)
			break;
		mem_reserve(e->out, &e->capacity, *e->count, sizeof(**e->out));
		(*e->out)[(*e->count)++] = e->addr + e->at + k;
		e->pending &= e->pending - 1;
	}
	e->pending = e->pending ? e->pending >> (upto - e->at) : 0; /* ends left are within 7 bytes */
	e->at = upto;
}

/* If a call begins at an offset, adds its end to the pending ones. */
static inline void call_note(struct ends *e, const struct call_code *c, size_t at)
{
	unsigned n = call_length(c, at);

	if (!n)
		return;
	ends_add(e, at);
	e->pending |= (uint64_t)1 << n;
}

void callsites_find(const struct call_code *c, uint64_t **out, size_t *count)
{
	const __m128i e8 = _mm_set1_epi8((char)0xe8), ff = _mm_set1_epi8((char)0xff);
	struct ends e = {.out = out, .count = count, .capacity = *count, .addr = c->addr};
	size_t i = 0;

	for (; c->size - i >= 16; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(c->bytes + i));
		unsigned hits = (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, e8), _mm_cmpeq_epi8(v, ff)));

		for (; hits; hits &= hits - 1)
			call_note(&e, c, i + (unsigned)__builtin_ctz(hits));
	}
	for (; i < c->size; i++)
		if (c->bytes[i] == 0xe8 || c->bytes[i] == 0xff)
			call_note(&e, c, i);
	ends_add(&e, c->size);
}

/* ---- the code of one function ------------------------------------------------------------- */

uint64_t code_last_call(const uint8_t *bytes, size_t size, uint64_t addr)
{
	int32_t distance;

	if (size <= sizeof(distance) || bytes[size - sizeof(distance) - 1] != 0xe8)
		return 0;
	memcpy(&distance, bytes + size - sizeof(distance), sizeof(distance));
	return addr + size + (uint64_t)(int64_t)distance;
}

bool code_may_return(const uint8_t *bytes, size_t size) { return memchr(bytes, 0xc3, size); }
