/* SPDX-License-Identifier: MIT */
/*
 * Baking replaces loads by immediates and indirect calls by direct ones in the bytes of a linked file. The functions
 * here do and undo that.
 */
#ifndef SITE_BAKE_H
#define SITE_BAKE_H

#include "site/site.h"
#include "site/slot_target.h"

/*
 * Restores the load or indirect call of every baked site, so that the link step always starts from the code that the
 * linker wrote. Returns 0, or -1 and a message if the bytes of a baked site have neither form.
 */
int sites_unbake(struct elf_file *f, struct linked_tables *t, struct error *e);

/*
 * Can the immediate form of a load hold the initial value of its object? Also true if the file does not have that
 * value, because the dynamic linker or another module provides it. For linked files only.
 */
bool site_value_fits(const struct scan *s, const struct site *site);

/* A site whose bytes do not match its table entry. */
struct site_mismatch {
	const struct imv_row *row;
	const uint8_t *found; /* bytes in the file; null: the address is not in the file */
	const uint8_t *baked; /* the bytes that baking would write; null: etch cannot bake this entry */
	const uint8_t *plain; /* the load or indirect call; null: the entry describes none */
	unsigned len;
	bool call;
};
typedef void site_mismatch_fn(void *ctx, const struct site_mismatch *mismatch);

/*
 * Restores every baked site like sites_unbake(), for callers that continue after a mismatch. It calls `mismatch` for
 * each baked site whose bytes have neither form and, if the link step has processed the file, for each other site whose
 * bytes are not its load or call. It removes the entries of these sites from t. Returns 0, or -1 and a message for
 * malformed relocations.
 */
int sites_unbake_each(struct elf_file *f, struct linked_tables *t, site_mismatch_fn *mismatch, void *ctx,
                      struct error *e);

/*
 * The caller calls this if the tables have no space for more entries. Each site without an entry gets a reason and
 * stays as it is; each object without a record stays unarmed. Returns the number of such sites.
 */
size_t sites_unlisted(struct scan *s, const struct linked_tables *now);

/* Numbers of baked sites. */
struct bake_counts {
	size_t immediates; /* of kind SITE_LOAD */
	size_t direct, nops,
		bodies; /* of kind SITE_CALL: direct calls, nops, and instructions of the target's body (including moves) */
};

/*
 * Bakes each live site of an armed object. A load gets the initial value as its immediate, if the value fits and is
 * known before the dynamic linker runs; a SITE_CALL gets the single instruction for its slot's initial target. Sets
 * ETCH_IMV_BAKED in the entries. Both decoders must agree on every instruction that is written.
 */
int sites_bake(struct scan *s, enum site_kind kind, struct elf_file *f, const struct linked_tables *now,
               struct bake_counts *counts, struct error *e);

/* How a load or call is patched while threads run. */
enum site_patch {
	SITE_NOT_PATCHED,
	SITE_BY_STORE,  /* by one store, since all of it is inside one aligned 8-byte word */
	SITE_BY_SWAP,   /* by replacing its page */
	SITE_BY_LINKER, /* in an object file: by one store or by a swap, depending on where the linker puts it */
};
/*
 * Returns how a site is patched. Sets *why to the reason for SITE_NOT_PATCHED, a phrase for messages, and otherwise to
 * null.
 */
enum site_patch site_patch(const struct scan *s, const struct site *site, const char **why);

/* Can the site be patched while threads run? If not, *why is set to the reason. */
bool site_is_live(const struct scan *s, const struct site *site, const char **why);

#endif
