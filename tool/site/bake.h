/* SPDX-License-Identifier: MIT */
/*
 * Baking: replaces loads by immediates and indirect calls by direct ones in the bytes of a linked file, and
 * restores them.
 */
#ifndef SITE_BAKE_H
#define SITE_BAKE_H

#include "site/site.h"
#include "site/slot_target.h"

/*
 * Restores the load or indirect call of every baked site, so that the link step always starts from what the linker
 * wrote. -1 and a message if the bytes of a baked site are neither.
 */
int sites_unbake(struct elf_file *f, struct linked_tables *t, struct error *e);

/* Linked: does the immediate form of a load hold the value that the file has for it? Also where the dynamic linker, or
 * another module, brings the value. */
bool site_value_fits(const struct scan *s, const struct site *site);

/* A site whose bytes do not match its table entry. */
struct site_mismatch {
	const struct imv_row *row;
	const uint8_t *found; /* bytes in the file; null: the address is not in the file */
	const uint8_t *baked; /* bytes that etch rewrite would write; null: none are possible */
	const uint8_t *plain; /* the load or indirect call; null: the entry describes none */
	unsigned len;
	bool call;
};
typedef void site_mismatch_fn(void *ctx, const struct site_mismatch *mismatch);

/*
 * Like sites_unbake(), for callers that continue after a mismatch: `mismatch` is called with each baked site whose
 * bytes are neither form, and, if the link step has processed the file, with each other site whose bytes are not its
 * load or call. These entries are removed from t. -1: malformed relocations.
 */
int sites_unbake_each(struct elf_file *f, struct linked_tables *t, site_mismatch_fn *mismatch, void *ctx,
                      struct error *e);

/*
 * For tables without room for more entries: a site without an entry gets a reason and stays as it is, an object
 * without a record stays unarmed. Returns the number of such sites.
 */
size_t sites_unlisted(struct scan *s, const struct linked_tables *now);

/* Numbers of baked sites. */
struct bake_counts {
	size_t immediates;           /* SITE_LOAD */
	size_t direct, nops, bodies; /* SITE_CALL; a move counts as a body */
};

/*
 * Bakes each live site of an armed object. A load gets the initial value as its immediate, if that is known before
 * the dynamic linker runs and fits; a SITE_CALL gets the one instruction for its slot's initial target. Sets
 * ETCH_IMV_BAKED in the entries. Both decoders must agree on every instruction written.
 */
int sites_bake(struct scan *s, enum site_kind kind, struct elf_file *f, const struct linked_tables *now,
               struct bake_counts *counts, struct error *e);

/* How a load or call is patched while threads run. */
enum site_patch {
	SITE_NOT_PATCHED,
	SITE_BY_STORE,  /* it is in one aligned 8-byte word */
	SITE_BY_SWAP,   /* with its page */
	SITE_BY_LINKER, /* in an object file: one of the two, depending on where the linker puts it */
};
/* For SITE_NOT_PATCHED *why is the reason, a phrase for messages; else it is null. */
enum site_patch site_patch(const struct scan *s, const struct site *site, const char **why);

/* Is a load or call patched while threads run? */
bool site_is_live(const struct scan *s, const struct site *site, const char **why);

#endif
