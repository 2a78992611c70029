/* SPDX-License-Identifier: MIT */
/*
 * internal.h: what the files of libetch share.
 *
 * Arrows run one way: imv.c (the calls of etch/imv.h) and module.c (what is
 * loaded) use patch.c (changes as a transaction), pv.c (what is known of a call's
 * target), table.c (is a table what it claims to be) and trap.c (the fault handler). All state is under one lock,
 * but for what the fault handler reads; see trap.c.
 */
#ifndef ETCH_INTERNAL_H
#define ETCH_INTERNAL_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <etch/forms.h>
#include <etch/imv.h>
#include <etch/pv_forms.h>

#define ETCH_API __attribute__((visibility("default")))

#define PAGE_OF(at) ((uint64_t)(at) & ~(uint64_t)(ETCH_PAGE - 1))
#define PAGE_UP(at) PAGE_OF((uint64_t)(at) + ETCH_PAGE - 1)

/* ---- an ELF image in memory ---------------------------------------------- */

/* More PT_LOAD segments than any linker writes; a file with more is refused. */
#define IMAGE_SEGMENTS 32

struct segment {
	uint64_t start, end; /* end: of the last byte that exists, not of its page */
	int prot;            /* PROT_*, as its program header asks for */
};

struct image {
	uint64_t start, end; /* hull of the segments */
	uint64_t bias;
	uint64_t dynamic; /* PT_DYNAMIC, 0 if there is none */
	unsigned segments;
	int program; /* the main program, which is never unloaded */
	int crowded; /* more segments than there is room for: the module is ignored */
	struct segment segment[IMAGE_SEGMENTS];
};

/* The segment that holds all of [at, at+size), or null. */
const struct segment *image_segment(const struct image *im, uint64_t at, uint64_t size);

/* ---- modules ------------------------------------------------------------- */

#define OBJECT_ARMED 1u /* its live sites hold immediates */
#define OBJECT_FACT  2u /* someone stores to it plainly, or has its address */
#define OBJECT_CHANGING 4u /* ARMED is about to become so; used inside one call */
#define OBJECT_SEALED 8u /* the other sites too: etch_seal */
#define OBJECT_SEALING 16u /* SEALED is about to become so */

/* 16 bytes: memory for these is what loading a module with many objects costs. */
struct object {
	uint64_t addr;
	uint32_t size;
	uint32_t flags : 5;   /* OBJECT_* */
	uint32_t record : 27; /* position of its first record in the object table */
};
#define RECORDS_MOST ((uint32_t)1 << 27) /* so many span all that 32 bits reach */

/* One row of an index: what lies at `key`. */
struct pair {
	uint64_t key;   /* address of an object's byte */
	uint64_t value; /* position in the table; which one: PAIR_* */
};
#define PAIR_FACT ((uint64_t)1 << 63) /* position in the object table */
#define PAIR_CALL ((uint64_t)1 << 62) /* position in __pv_sites; neither: in __imv */

/* A table of sites, and how those that refer to their object directly are found. */
struct sites {
	const struct etch_imv *entry;
	size_t count;
	size_t own_count;  /* linked: such entries, which come first */
	struct pair *own;  /* not linked: index of them, by object address */
};
enum { SITES_LOAD, SITES_CALL, SITES_KINDS }; /* __imv, __pv_sites */

struct bounds {
	uint64_t start, stop;
};

struct module {
	struct module *next;
	uint64_t capacity; /* bytes of this block: blocks are kept and used again */
	const struct etch_module *desc;
	struct image image;
	int bad;     /* malformed: ignored, but its addresses give ETCH_EFORMAT */
	int checked; /* all entries of the tables have been looked at */
	int linked;  /* the link step has sorted and baked it */
	struct sites sites[SITES_KINDS];
	const struct etch_obj *obj;
	const struct etch_native *native;
	const struct etch_inline *inlines;
	size_t obj_count, native_count, inline_count;
	struct pair *far; /* by object address: sites through the GOT, facts about objects
	                   * that are not of this module */
	size_t far_count;
	struct object *object; /* by address, none overlap */
	size_t object_count;
	struct bounds etched[2]; /* of the etched sections */
	uint64_t page;        /* first page of the etched objects */
	size_t pages;
	uint8_t *readonly;    /* a bit for each: read-only outside a set */
	const char *path;     /* for messages where /proc is missing; "" = the program */
};

/* All loaded modules, the newest first. Changed under the lock. */
extern struct module *module_list;
/* Sites that libetch changed while modules were loaded. */
extern unsigned long module_patched;

void etch_lock(void);
void etch_unlock(void);

/* The module, of those registered, whose image spans this address; or null. */
struct module *module_at(uint64_t at);
/* Its object that holds this address; or null. */
struct object *module_object(const struct module *m, uint64_t at);
/* Position of the first object that ends after this address. */
size_t module_object_from(const struct module *m, uint64_t at);
/* Looks at all of a linked module's sites, once. 0 or ETCH_EFORMAT; the module
 * is then ignored. */
int module_check(struct module *m);
/* Is this byte in the ops table that libetch's own copies go through (copy.c)? Programs
 * are not told of it. */
int module_own_table(uint64_t at);
/* Is the page of this address read-only outside a set? */
int module_page_readonly(const struct module *m, uint64_t at);
/* Gives the pages of [from, to) the protection that follows from the objects
 * there. 0 or an etch_error; where it fails some pages keep what they had. */
int module_protect(struct module *m, uint64_t from, uint64_t to);
/* Is [at, at+size) inside a variable that the program copied from an etched
 * object of a shared object (R_X86_64_COPY)? 1, 0, or -1 if over its end. */
int module_copied(uint64_t at, uint64_t size);

/* ---- tables (table.c) ---------------------------------------------------- */

/* What the constructor hands over. */
struct module_arguments {
	const struct etch_module *desc;
	struct bounds imv, obj, etched, scalar, pv, native, in_place;
};

/* Finds the tables: from the descriptor or the arguments. 1 = well-formed. */
int table_locate(struct module *m, const struct module_arguments *args);
/* One entry of __imv, or, where `call`, of __pv_sites: every field lawful, and every
 * address inside the image. */
int table_site_ok(const struct module *m, const struct etch_imv *e, int call);
/* One record of __pv_native, likewise. */
int table_native_ok(const struct module *m, const struct etch_native *n);
/* One record of __etch_obj, likewise. */
int table_object_ok(const struct module *m, const struct etch_obj *o);
/* All entries of a linked module's sites, and their order. */
int table_linked_ok(const struct module *m);

static inline uint64_t site_address(const struct etch_imv *e)
{
	return etch_ref((uint64_t)(uintptr_t)&e->site, e->site);
}

/* First byte that the site reads; of an entry that table_site_ok() has seen. */
static inline uint64_t site_object(const struct etch_imv *e)
{
	uint64_t at = etch_ref((uint64_t)(uintptr_t)&e->obj, e->obj);

	if (!(e->flags & ETCH_IMV_GOT))
		return at;
	at = *(const uint64_t *)(uintptr_t)at;
	return etch_form_is_pv(e->form) ? at + (uint64_t)(int64_t)etch_pv_disp(e) : at;
}

/* How many bytes the site reads there. */
static inline unsigned site_size(const struct etch_imv *e)
{
	return etch_form_is_pv(e->form) ? 8 : etch_form_size(e->form);
}

static inline const struct etch_imv *pair_site(const struct module *m, uint64_t value)
{
	return &m->sites[value & PAIR_CALL ? SITES_CALL : SITES_LOAD].entry[value & ~PAIR_CALL];
}

static inline uint64_t record_object(const struct etch_obj *o)
{
	uint64_t at = etch_ref((uint64_t)(uintptr_t)&o->addr, o->addr);

	return o->flags & ETCH_OBJ_GOT ? *(const uint64_t *)(uintptr_t)at : at;
}

/* ---- changes (patch.c) --------------------------------------------------- */

/* A change inside one aligned 8-byte word, of data or of text. */
struct word {
	uint64_t at;
	uint64_t old, new; /* whole words; only the bytes of mask are changed */
	uint64_t mask;
};

/* Words that need no mapping, which a batch of 100 variables does not. 4 KiB of
 * the caller's stack for data; the text list has room of its own. */
#define LIST_FIXED 128

struct list {
	struct word *word;
	struct word *fixed; /* the room that it began with */
	size_t count, capacity;
};

/* The two images of the site planned last: neighbours in a table are often alike. */
struct memo {
	uint64_t object;
	uint32_t shape;
	unsigned old_length, new_length; /* 0 = no immediate form for this value */
	uint64_t old, new;
};

/* What is called at a call site, and what is known of it. */
struct target {
	uint64_t at;
	int known; /* body is what its code does */
	struct etch_pv_body body;
};

/* Both values of the slot planned last, which many sites may call through. */
struct slot {
	uint64_t at;
	struct target old, new;
};

struct txn {
	struct list data, text;
	size_t run, run_end; /* cells of data that are now being planned for */
	struct memo memo;
	struct slot slot;
	int alone;  /* is this the only thread? -1: not asked yet */
	int lonely; /* some planned change needs that */
	struct word fixed[LIST_FIXED]; /* of data */
};

enum plan {
	PLAN_SET,  /* memory changes: armed sites follow */
	PLAN_ARM,  /* sites become immediates of what memory holds */
	PLAN_LOAD, /* sites become loads */
};

void txn_begin(struct txn *t);
/* Under the lock. */
void txn_end(struct txn *t);
/* Makes room for changes of this many sites, if it can: adding them is then
 * cheaper. Under the lock. */
void txn_reserve(struct txn *t, size_t sites);
/* Adds a store of `size` bytes. Call before taking the lock. 0 or ETCH_ENOMEM. */
int txn_store(struct txn *t, uint64_t at, const void *value, size_t size);
/* Under the lock: orders the stores, reads what memory holds, drops those that
 * change nothing, and plans every armed site they touch. 0 or an etch_error. */
int txn_plan_stores(struct txn *t);
/* Plans all sites of one object. own: null, or for objects in ascending order
 * the places in the module's sites to go on from, 0 at first. 0 or an etch_error. */
int txn_plan_object(struct txn *t, const struct object *o, enum plan plan, size_t own[SITES_KINDS]);
/* Plans one site that reads from `at`, which is in object `o`. 0 or an etch_error. */
int txn_plan_site(struct txn *t, const struct etch_imv *e, uint64_t at, const struct object *o, enum plan plan);
/* Makes the changes. 0 or an etch_error; then everything is as before. */
int txn_commit(struct txn *t);

/* Of the bytes at a site. */
enum site_state {
	SITE_LOAD,      /* or an indirect call */
	SITE_IMMEDIATE, /* of the value that memory holds; a direct call to it */
	SITE_INLINE,    /* what the function that memory names does, as far as can be told */
	SITE_STALE,     /* an immediate of another value, a call of another function */
	SITE_BUSY,      /* 0xcc */
	SITE_UNKNOWN,
};
enum site_state site_state(const struct etch_imv *e, uint64_t object);
/* The same, as if these were the bytes at the site. */
enum site_state site_state_of(const struct etch_imv *e, uint64_t object, const uint8_t *bytes);

/* What the 8-byte slot holds after the stores of this transaction. */
uint64_t txn_value(const struct txn *t, uint64_t slot);
/* Adds the words that change these bytes of text. */
int txn_bytes(struct txn *t, uint64_t site, unsigned len, const uint8_t *have, const uint8_t *want);

/* ---- calls compiled in place (inline.c) -------------------------------------- */

/* All of a module's __pv_inline: 1 = well-formed. */
int inlines_ok(const struct module *m);
/* Plans those whose slot has a byte in [from, to); PLAN_SET: where its object is armed. */
int txn_plan_inlines(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
/* For etch_verify and etch_info. */
long inlines_verify(const struct module *m, void (*report)(void *, const void *, const void *), void *arg);
void inlines_info(const struct module *m, struct etch_info *info);

/* Could membarrier(2) synchronize other threads, now? */
int sync_available(void);
/* Is this the only thread of the process, as far as can be told? */
int sync_alone(void);

int errno_to_etch(long negative);

/* ---- what is known of a call's target (pv.c) ------------------------------- */

/* Fills in what the function at t->at does, where that may stand in a call's place;
 * `use`: its bytes are about to be written. Under the lock. */
void pv_target(struct target *t, int use);
/* Can its code not be judged: no module of ours holds it, or a breakpoint is there? */
int pv_unsure(uint64_t target);
/* Are the bytes at this site what etch makes of some function's body? Returns the
 * number of instructions (a nop is one), or 0. */
unsigned pv_some_body(const struct etch_imv *e, uint64_t site, const uint8_t *bytes);
/* Likewise, of a direct call or jump to any address. */
int pv_some_direct(const struct etch_imv *e, const uint8_t *bytes);

/* ---- the fault handler (trap.c) ------------------------------------------ */

void trap_install(void);

#endif
