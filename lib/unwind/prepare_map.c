/* SPDX-License-Identifier: MIT */
/*
 * prepare_map.c: the return-address map of a table that prepare.c makes. As specified in
 * docs/formats.md, but without exception units: a granule whose return addresses have different
 * rules is looked up in the full table. Normal context only.
 */
#include <string.h>

#include "unwind/table_builder.h"
#include "common/sys.h"

/* Length of the call that starts at p, or 0: E8 whose target is in the module's own code, or any
 * target if it has the prefix that etch writes for calls of an ops table; FF /2 (Intel SDM 2,
 * CALL; tables 2-2 and 2-3). Data and the inside of other instructions may match too, which at
 * worst makes a granule MIXED. */
static unsigned call_length(const struct table_builder *m, const uint8_t *p, uint64_t avail, uint64_t offset,
                            bool prefixed)
{
	unsigned mod, rm, n = 2;
	int32_t to;

	if (avail >= 5 && *p == 0xe8) {
		memcpy(&to, p + 1, 4);
		return prefixed || offset + 5 + (uint64_t)(int64_t)to < m->size ? 5 : 0;
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

/* Records that the address behind a call, at `offset`, has this rule; NO_ID: a rule that the map
 * cannot hold. */
static void granule_note(struct table_builder *m, uint64_t offset, uint32_t rule)
{
	uint32_t *g = &m->granules[offset >> MAP_SHIFT];

	if (rule == NO_ID || (*g && *g != rule + 1))
		*g = MIXED;
	else
		*g = rule + 1;
}

/* Which of the up to 16 bytes at p may begin a call: E8, or FF with /2 behind it. At the end of the code: all. */
static unsigned calls_maybe(const uint8_t *p, uint64_t avail)
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

/* Records all calls of one segment. A row is looked up at the byte before the return address, as
 * for any return address. */
static void calls_note(struct table_builder *m, const uint8_t *code, uint64_t size, uint64_t offset)
{
	const struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	struct etch_map_rule unused;
	uint64_t at, i, row = 0;

	for (at = 0; at < size; at += 16) {
		unsigned maybe = calls_maybe(code + at, size - at), n;

		for (; maybe; maybe &= maybe - 1) {
			uint64_t last;

			i = at + (unsigned)__builtin_ctz(maybe);
			n = call_length(m, code + i, size - i, offset + i, i && code[i - 1] == 0x67);
			if (!n)
				continue;
			last = offset + i + n - 1;
			while (row + 1 < m->rows.count && rows[row + 1].at <= last)
				row++;
			while (rows[row].at > last) /* the previous call ended behind this one */
				row--;
			granule_note(m, last + 1,
			             etch_map_rule_pack(&rules[rows[row].rule].rule, &unused) ? rows[row].rule : NO_ID);
		}
	}
}

/*
 * Records the return addresses that no call pushed: a signal's restorer, and the first address of
 * a thread or a context (clone, makecontext), where its trace ends.
 */
static void uncalled_note(struct table_builder *m)
{
	const struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	uint64_t i, at;

	for (i = 0; i < m->rows.count; i++) {
		uint64_t end = i + 1 < m->rows.count ? rows[i + 1].at : m->size;
		uint8_t kind = rules[rows[i].rule].rule.kind;

		if (kind == ETCH_RULE_SIGNAL || kind == ETCH_RULE_END)
			for (at = rows[i].at; at >> MAP_SHIFT <= end >> MAP_SHIFT; at += 1u << MAP_SHIFT)
				granule_note(m, at, NO_ID);
	}
}

/* Has the dynamic linker relocated the code (DT_TEXTREL)? Calls may then have any target. */
static bool is_relocated(const struct prepare_image *im)
{
	unsigned i;

	for (i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		const uint8_t *bytes;
		uint64_t room, at;
		Elf64_Dyn d;

		if (p->p_type != PT_DYNAMIC)
			continue;
		bytes = eh_segment_at(im, p->p_vaddr, &room);
		for (at = 0; bytes && at + sizeof(d) <= room; at += sizeof(d)) {
			memcpy(&d, bytes + at, sizeof(d));
			if (d.d_tag == DT_NULL)
				break;
			if (d.d_tag == DT_TEXTREL || (d.d_tag == DT_FLAGS && (d.d_un.d_val & DF_TEXTREL)))
				return true;
		}
	}
	return false;
}

void prepare_map(struct table_builder *m, const struct prepare_image *im)
{
	uint64_t count = (m->size >> MAP_SHIFT) + 1;
	unsigned i;

	for (i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_LOAD && (im->phdr[i].p_flags & (PF_X | PF_R)) == PF_X)
			return;
	if (is_relocated(im))
		return;
	m->granules = sys_map(count * sizeof(*m->granules), 0);
	if (!m->granules)
		return;
	m->granule_count = count;
	for (i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X))
			calls_note(m, (const uint8_t *)(im->bias + p->p_vaddr), p->p_filesz, p->p_vaddr - m->text);
	}
	uncalled_note(m);
}
