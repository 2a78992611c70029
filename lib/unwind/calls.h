/* SPDX-License-Identifier: MIT */
/*
 * calls.h: recognizes the calls in a loaded module's code by its bytes. Async-signal-safe.
 */
#ifndef ETCH_LIB_UNWIND_CALLS_H
#define ETCH_LIB_UNWIND_CALLS_H

#include <emmintrin.h>

#include "unwind/eh_frame.h"

/* The maximum length of a call that call_length() recognizes. */
#define CALL_MAX 7

/* The length of the call that starts at p, `offset` bytes from the start of the `size` bytes of the module's code, or
 * 0 if there is none. It recognizes E8 with a target in the module's own code, or with any target if it has the
 * prefix that etch writes for calls of an ops table; and FF /2 (Intel SDM 2, CALL; tables 2-2 and 2-3). Data and the
 * inside of other instructions may match too, which at worst makes a granule MIXED. */
static inline unsigned call_length(uint64_t size, const uint8_t *p, uint64_t avail, uint64_t offset, bool prefixed)
{
	unsigned mod, rm, n = 2;
	int32_t to;

	if (avail >= 5 && *p == 0xe8) {
		memcpy(&to, p + 1, 4);
		return prefixed || offset + 5 + (uint64_t)(int64_t)to < size ? 5 : 0;
	}
	if (avail < 2 || *p != 0xff || (p[1] >> 3 & 7) != 2)
		return 0;
	mod = p[1] >> 6;
	rm = p[1] & 7;
	if (mod != 3 && rm == 4) {
		n = 3;
		if (!mod && avail >= 3 && (p[2] & 7) == 5)
			n = 7;
	} else if (!mod && rm == 5) {
		n = 6;
	}
	if (mod == 1)
		n += 1;
	else if (mod == 2)
		n += 4;
	return n <= avail ? n : 0;
}

/* Tells which of the up to 16 bytes at p may begin a call: E8, or FF followed by /2. At the end of the code: all of
 * them. */
static inline unsigned calls_maybe(const uint8_t *p, uint64_t avail)
{
	__m128i here, next, e8, ff, two;

	if (avail < 17)
		return (1u << (avail < 16 ? avail : 16)) - 1;
	here = _mm_loadu_si128((const __m128i *)(const void *)p);
	next = _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)(p + 1)), _mm_set1_epi8(0x38));
	e8 = _mm_cmpeq_epi8(here, _mm_set1_epi8((char)0xe8));
	ff = _mm_cmpeq_epi8(here, _mm_set1_epi8((char)0xff));
	two = _mm_cmpeq_epi8(next, _mm_set1_epi8(0x10));
	return (unsigned)_mm_movemask_epi8(_mm_or_si128(e8, _mm_and_si128(ff, two)));
}

/* Has the dynamic linker relocated the code (DT_TEXTREL)? Calls may then have any target. */
static inline bool calls_are_relocated(const struct prepare_image *im)
{
	unsigned i;

	for (i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		const uint8_t *bytes;
		uint64_t capacity, at;
		Elf64_Dyn d;

		if (p->p_type != PT_DYNAMIC)
			continue;
		bytes = eh_segment_at(im, p->p_vaddr, &capacity);
		for (at = 0; bytes && at + sizeof(d) <= capacity; at += sizeof(d)) {
			memcpy(&d, bytes + at, sizeof(d));
			if (d.d_tag == DT_NULL)
				break;
			if (d.d_tag == DT_TEXTREL || (d.d_tag == DT_FLAGS && (d.d_un.d_val & DF_TEXTREL)))
				return true;
		}
	}
	return false;
}

/* Can a module's calls be recognized from its bytes? */
static inline bool calls_can_be_read(const struct prepare_image *im)
{
	for (unsigned i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_LOAD && (im->phdr[i].p_flags & (PF_X | PF_R)) == PF_X)
			return false;
	return !calls_are_relocated(im);
}

#endif
