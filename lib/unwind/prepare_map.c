/* SPDX-License-Identifier: MIT */
/*
 * prepare_map.c: the return-address map of a table that prepare.c makes. It is as specified in docs/formats.md, but
 * has no exception units: a granule whose return addresses have different rules is looked up in the full table.
 * Normal context only.
 */
#include <string.h>

#include "unwind/calls.h"
#include "unwind/table_builder.h"
#include "common/sys.h"

/* Records that the address after a call, at `offset`, has this rule; NO_ID stands for a rule that the map cannot
 * hold. */
static void granule_note(struct table_builder *m, uint64_t offset, uint32_t rule)
{
	uint32_t *g = &m->granules[offset >> MAP_SHIFT];

	if (rule == NO_ID || (*g && *g != rule + 1))
		*g = MIXED;
	else
		*g = rule + 1;
}

/* Records all calls of one segment. As for any return address, the row is looked up at the byte before it. */
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
			n = call_length(m->size, code + i, size - i, offset + i, i && code[i - 1] == 0x67);
			if (!n)
				continue;
			last = offset + i + n - 1;
			while (row + 1 < m->rows.count && rows[row + 1].at <= last)
				row++;
			while (rows[row].at > last) /* the previous call ended after this one */
				row--;
			granule_note(m, last + 1,
			             etch_map_rule_pack(&rules[rows[row].rule].rule, &unused) ? rows[row].rule : NO_ID);
		}
	}
}

/*
 * Records the return addresses that no call pushed: a signal's restorer, and the first address of a thread or a
 * context (clone, makecontext), where its trace ends.
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

void prepare_map(struct table_builder *m, const struct prepare_image *im)
{
	uint64_t count = (m->size >> MAP_SHIFT) + 1;
	unsigned i;

	if (!calls_can_be_read(im))
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
