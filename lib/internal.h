/* SPDX-License-Identifier: MIT */
/*
 * internal.h: what the files of libetch share.
 *
 * Arrows run one way: imv.c (the calls of etch/imv.h) and module.c (what is
 * loaded) use patch.c and what is beside it (changes as a transaction, patch.h), pv.c (what is known of
 * a call's target), table.c (is a table what it claims to be) and trap.c (the fault handler). All state is under one lock,
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

/* What the constructor hands over. */
struct module_arguments {
	const struct etch_module *desc;
	struct bounds imv, obj, etched, scalar, pv, native, in_place;
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
/* The module and the object that hold this address, of all that are no wreck. */
struct object *module_object_anywhere(uint64_t at, struct module **owner);
/* The object of this module that a fact about this byte concerns: the one that
 * holds it, or, since `&array[n]` and a tail of padding are spoken of too, the
 * one before it in the etched sections. */
struct object *module_fact_object(const struct module *m, uint64_t at);
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
/* What the main program's headers say, of which there may be no module. */
extern struct program_image {
	uint64_t dynamic, bias, start;
} module_program;

/* A module of this image, with its indexes; marked bad if it is malformed. Null
 * if there is no memory. (index.c) */
struct module *module_new(const struct image *im, const struct module_arguments *args, const char *path);
/* Its memory may be used for another one. */
void module_free(struct module *m);
/* Facts folded, and what has none armed, of a module that is in the list. (arm.c) */
void module_arm(struct module *m);
/* Is [at, at+size) inside a variable that the program copied from an etched
 * object of a shared object (R_X86_64_COPY, copied.c)? 1, 0, or -1 if over its end. */
int module_copied(uint64_t at, uint64_t size);

/* ---- tables (table.c) ---------------------------------------------------- */

/* Finds the tables: from the descriptor or the arguments. 1 = well-formed. */
int table_locate(struct module *m, const struct module_arguments *args);
/* One entry of __imv, or, where `call`, of __pv_sites: every field lawful, and every
 * address inside the image. */
int table_site_ok(const struct module *m, const struct etch_imv *e, int call);
/* One record of __pv_native, likewise; all of them. */
int table_native_ok(const struct module *m, const struct etch_native *n);
int table_natives_ok(const struct module *m);
/* All of __pv_inline, likewise (inline.c). */
int inlines_ok(const struct module *m);
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

/* Of a negative errno that mprotect(2) gave. */
int errno_to_etch(long negative);

/* ---- the fault handler (trap.c) ------------------------------------------ */

void trap_install(void);

#endif
