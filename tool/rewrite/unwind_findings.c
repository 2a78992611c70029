/* SPDX-License-Identifier: MIT */
/* Adds the findings about what the unwind table of a file does not have. */
#include "rewrite/rewrite.h"

#include <inttypes.h>

void far_code_finding_add(struct scan *s, const struct rewrite_result *r)
{
	if (r->unwind.far.bytes)
		scan_finding_add(s, "ETCH-T005", elf_section_at(s->file, r->unwind.far.at), r->unwind.far.at,
		                 "%" PRIu64
		                 " bytes of code, from here on, are too far from the rest of the code for the unwind table",
		                 r->unwind.far.bytes);
}

void lost_rows_finding_add(struct scan *s, const struct rewrite_result *r)
{
	if (r->unwind.lost)
		scan_finding_add(s, "ETCH-T002", 0, 0,
		                 "%zu unwind rows do not fit the 6 bytes of the orc encoding and are UNDEFINED in it",
		                 r->unwind.lost);
}
