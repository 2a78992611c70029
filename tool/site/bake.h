/* SPDX-License-Identifier: MIT */
/*
 * Between load and immediate, indirect call and what may stand in its place, in a
 * linked file's own bytes.
 */
#ifndef SITE_BAKE_H
#define SITE_BAKE_H

#include "site/site.h"
#include "site/target.h"

/*
 * Puts every baked site of an already rewritten file back to its load or indirect
 * call, so that the link step always starts from what the linker wrote. -1 and a
 * message when a site's bytes are neither.
 */
int sites_unbake(struct elf_file *f, struct linked_tables *t, struct error *e);

/*
 * Where the tables cannot hold more: sites that are in none of its entries stay
 * as they are, objects without a record stay unarmed. Returns how many sites.
 */
size_t sites_unlisted(struct scan *s, const struct linked_tables *now);

/*
 * Decides for each object whether it is armed from the start: no store, no
 * escape, pages of its own. Sets armed and unarmed (the reason).
 */
void objects_judge(struct scan *s, const struct linked_tables *now);

struct bake_counts {
	size_t immediates; /* SITE_LOAD */
	size_t direct, nops, bodies; /* SITE_CALL; a move is a body */
};

/*
 * Gives each live site of an armed object its immediate, from the initial value in
 * the file, where that is known before the dynamic linker has run and fits; or, of
 * kind SITE_CALL, the one instruction that its slot's initial target asks for. Sets
 * ETCH_IMV_BAKED in the entries. Both decoders must agree on every instruction written.
 */
int sites_bake(struct scan *s, enum site_kind kind, struct elf_file *f, const struct linked_tables *now,
               struct bake_counts *counts, struct error *e);

/* Whether a load or a call may ever be patched while threads run; else why not, a
 * phrase for people. For an unlinked file, "as far as known". */
bool site_is_live(const struct scan *s, const struct site *site, const char **why);

#endif
