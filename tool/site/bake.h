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

/* A site of an entry whose bytes are not what the entry says. */
struct site_odd {
	const struct imv_row *row;
	const uint8_t *found;   /* in the file; null: there is nothing */
	const uint8_t *baked;   /* what etch rewrite would have made of it; null: nothing could stand there */
	const uint8_t *plain;   /* the load or indirect call; null: the entry says of none */
	unsigned len;
	bool call;
};
/* 0, or -1 (and out of memory is what that means). */
typedef int site_odd_fn(void *ctx, const struct site_odd *odd);

/*
 * The same for those who go on: `odd` gets each baked site whose bytes are neither, and,
 * of a file that the link step has seen, each other one whose bytes are not its load or
 * call. t has no entry of those afterwards. -1: out of memory, or relocations that are
 * malformed.
 */
int sites_unbake_each(struct elf_file *f, struct linked_tables *t, site_odd_fn *odd, void *ctx, struct error *e);

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
