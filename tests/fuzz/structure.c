/* SPDX-License-Identifier: MIT */
/* Makes structural mutants (structure.h): structure_headers.c, structure_contents.c, structure_layout.c,
 * structure_annotations.c and structure_claims.c have the kinds. */
#include "structure_fields.h"

uint32_t structure_below(struct mutant *m, uint32_t n)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((m->random >> 33) % n);
}

static const struct {
	const struct structure_kind *list;
	const unsigned *count;
} lists[] = {{structure_of_headers, &structure_header_kinds}, {structure_of_contents, &structure_content_kinds},
             {structure_of_layout, &structure_layout_kinds}, {structure_of_annotations, &structure_annotation_kinds},
             {structure_of_claims, &structure_claim_kinds}};

static const struct structure_kind *kind_of(unsigned kind)
{
	unsigned i = 0;

	for (; kind >= *lists[i].count; i++)
		kind -= *lists[i].count;
	return &lists[i].list[kind];
}

unsigned structure_kinds(void)
{
	unsigned i, n = 0;

	for (i = 0; i < COUNT(lists); i++)
		n += *lists[i].count;
	return n;
}

const char *structure_kind(unsigned kind) { return kind_of(kind)->name; }

bool structure_mutate(struct mutant *m, unsigned kind)
{
	if (kind >= structure_kinds() || kind_of(kind)->archive != is_archive(m) ||
	    (!is_archive(m) && m->size < sizeof(Elf64_Ehdr)))
		return false;
	return kind_of(kind)->make(m);
}
