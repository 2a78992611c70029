/* SPDX-License-Identifier: MIT */
/*
 * parts.h: the parts of libetch that a static program may lack (enum etch_part of etch/format.h). The core, which
 * every program has, changes the sites that imv_read makes in a module of the link step. It reaches everything else
 * through these tables; a table that is not linked is null. Whatever names a part links it: etch/branch.h and others
 * by its symbol, the files here by PART_NEEDS.
 *
 * The core never leaves out what a module asks for: a module whose tables need a part that is missing is `bad`
 * (module_new()), and sets of its objects return ETCH_EFORMAT.
 */
#ifndef ETCH_LIB_PATCH_PARTS_H
#define ETCH_LIB_PATCH_PARTS_H

#include "patch/patch.h"

/* The references are weak, so that no archive member is linked for them. The definitions are hidden, so that no other
 * copy of libetch serves; the references are not hidden, because gold gives undefined hidden references the load
 * address. */
#define PART_TABLE(type, name) extern const struct type name __attribute__((weak))

/* The word of a part in the program, and the symbol by which other files name the part. */
#define PART_WORD(number, symbol)                                                                   \
	__asm__(".pushsection " ETCH_SEC_PART ",\"aR\",@progbits\n\t.balign 4\n\t.globl " symbol "\n\t" \
	        ".type " symbol ", @object\n\t.size " symbol ", 4\n" symbol ":\t.long " #number "\n\t.popsection")
#define PART_NEEDS(symbol) __asm__(".globl " symbol)

/* ---- other modules, and those that the link step has not seen (other_modules.c) ---------------------- */

/* The number of entries of each kind in a module's tables. */
struct counts {
	size_t own[SITES_KINDS], got, objects, facts;
	size_t pairs;        /* rows of the indexes, which follow one another from `far` on */
	int rising, falling; /* order of the objects' addresses in the table */
};

struct part_others {
	/* Checks and counts the sites that the core does not handle: those of an unlinked module, and those through the
	 * GOT. */
	int (*count)(const struct module *m, struct counts *c);
	/* Fills in objects in any order and the indexes by address, and folds facts into objects. Returns 0 without
	 * memory. */
	int (*fill)(struct module *m, const struct counts *c);
	/* Applies the facts of a new module to other modules, and theirs to it. */
	void (*fold)(struct module *m);
	/* Plans the sites of a set that the core does not find, by the indexes. */
	int (*plan_reads)(struct txn *t, struct range_read *r);
	/* Plans the sites of a linked module that read objects of other modules. */
	void (*plan_far)(struct txn *t, const struct module *m);
	/* Arms the objects without facts of an unlinked module. */
	void (*arm)(struct module *m);
	/* Are these bytes the immediate form of any value? */
	int (*is_immediate)(const struct etch_imv *e, const uint8_t *bytes);
	/* What module_copied() calls. */
	int (*copied)(uint64_t at, uint64_t size);
};
PART_TABLE(part_others, part_others);

/* The functions `count` and `fill` of struct part_others (index_pairs.c). */
int others_count(const struct module *m, struct counts *c);
int others_fill(struct module *m, const struct counts *c);

/* ---- every site (objects.c) ------------------------------------------------------------------ */

struct part_objects {
	/* The following six know every form of a site; without them, encoders.c knows two. */
	unsigned (*size)(unsigned form);
	struct etch_form_info (*info)(unsigned form);
	unsigned (*load)(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16]);
	unsigned (*imm)(const struct etch_imv *e, uint64_t value, uint8_t out[16]);
	unsigned (*flags)(const struct etch_imv_more *m, unsigned flags, unsigned len, uint8_t out[16]);
	int (*valid)(const struct module *m, const struct etch_imv *e, int call);
	/* Is each record of the tables of calls well formed? */
	int (*tables_ok)(const struct module *m);
	/* Plans a call, or a load of more than 8 bytes. */
	int (*plan)(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan);
	/* Plans a site of at most 8 bytes that crosses a word. */
	int (*plan_across)(struct txn *t, uint64_t site, unsigned len, uint64_t have, uint64_t want, int is_load);
	int (*plan_inlines)(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
	/* Plans the calls of a linked module that the link step could not bake. */
	void (*plan_late)(struct txn *t, const struct module *m);
	/* Makes a change as txn_commit() does, if the core cannot make it. */
	int (*commit)(struct txn *t);
	/* Pages of text (page_swap.c, text_file.c). */
	int (*swaps_do)(struct swaps *s);
	void (*swaps_undo)(struct swaps *s);
	/* Stores to read-only pages of data without making them writable (data_swap.c). */
	long (*data_swap_prepare)(const struct list *l);
	long (*data_swap)(const struct list *l);
	void (*data_swap_undo)(const struct list *l);
	void (*data_swap_end)(void);
	/* For a set whose pages cannot be replaced: the first turns the objects on the read-only pages of a list into
	 * loads and makes the pages writable; the second arms the objects again (give_up.c). They return 0 or an
	 * etch_error. */
	int (*pages_release)(const struct list *l);
	void (*pages_rearm)(const struct list *l);
	/* Called after a set has changed code: if it is one of too many in a short time, the object becomes loads
	 * (give_up.c). */
	void (*sets_count)(uint64_t at);
	/* Called in the child of a fork: completes the work of threads that the child does not have (give_up.c). */
	void (*recover)(void);
	void (*identify)(struct image *im, const char *path);
	void (*forget)(const struct image *im);
	/* Called before pages of a module become read-only: prepares for a store to them. Returns 0 or an etch_error. */
	int (*guard)(struct module *m, uint64_t from, uint64_t to);
};
PART_TABLE(part_objects, part_objects);

/* ---- static branches (static_branch.c); markers (mark_tables.c) -------------------------------- */

struct part_branches {
	int (*ok)(const struct module *m);
	int (*plan)(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
};
PART_TABLE(part_branches, part_branches);

struct part_marks {
	int (*ok)(const struct module *m);
};
PART_TABLE(part_marks, part_marks);

#endif
