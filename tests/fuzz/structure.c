/* SPDX-License-Identifier: MIT */
/* Makes structural mutants (structure.h): structure_headers.c, structure_contents.c, structure_layout.c and
 * structure_annotations.c have the kinds. */
#include "structure_fields.h"

uint32_t structure_below(struct mutant *m, uint32_t n)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((m->random >> 33) % n);
}

static const struct structure_kind *kind_of(unsigned kind)
{
	const unsigned contents = structure_header_kinds, layout = contents + structure_content_kinds,
	               annotations = layout + structure_layout_kinds;

	return kind < contents ? &structure_of_headers[kind]
	       : kind < layout ? &structure_of_contents[kind - contents]
	       : kind < annotations ? &structure_of_layout[kind - layout] : &structure_of_annotations[kind - annotations];
}

unsigned structure_kinds(void)
{
	return structure_header_kinds + structure_content_kinds + structure_layout_kinds + structure_annotation_kinds;
}

const char *structure_kind(unsigned kind) { return kind_of(kind)->name; }

bool structure_mutate(struct mutant *m, unsigned kind)
{
	if (kind >= structure_kinds() || kind_of(kind)->archive != is_archive(m) ||
	    (!is_archive(m) && m->size < sizeof(Elf64_Ehdr)))
		return false;
	return kind_of(kind)->make(m);
}
