/* SPDX-License-Identifier: MIT */
/*
 * Edges that instructions get at run time: static branches and markers (etch/branch_format.h). Where libetch may put a
 * jump, or a nop in place of a jump, both ways are edges of the flow, as those from a faulting instruction to its fixup
 * are.
 */
#ifndef ANALYSIS_FACTS_PATCHED_EDGES_H
#define ANALYSIS_FACTS_PATCHED_EDGES_H

#include "analysis/facts/fixups.h"

/*
 * Adds the edges of static branches and markers to a list from fixups_read(). Their only effect is the edge. A section
 * that is no table of its name is left out. Returns 0, or -1 and a message: unreadable relocations.
 */
int patched_edges_add(const struct elf_file *f, const struct code_space *space, struct fixups *out, struct error *e);

#endif
