/* SPDX-License-Identifier: MIT */
/*
 * internal.h: interfaces between the files of libetch.
 *
 * Dependencies: imv.c (the functions of etch/imv.h) and module.c (the loaded modules; module_objects.c) use patch.c
 * and its helpers (changes as a transaction, patch.h), pv.c (the target of a call), table_check.c (validation of
 * tables) and trap.c (the fault handler). They reach the parts that a static program may lack through parts.h. One
 * lock protects all state, except the state that the fault handler reads; see trap.c.
 *
 * Terms. A site is an instruction that reads an etched object, or calls through one; it holds its load (or indirect
 * call), or an immediate (or direct call) for the value in memory. It is live if one store can change it while threads
 * run. An object is armed while its sites hold immediates; to arm it is to change them. A fact is a record which says
 * that code stores to an object plainly, or lets its address escape (etch/format.h); to fold facts is to set the flags
 * of the objects that they concern. A linked module is one that the link step has processed: it has sorted the tables,
 * and baked the sites of armed objects, that is, written their immediates into the file. To open a page is to make it
 * writable.
 */
#ifndef ETCH_LIB_PATCH_INTERNAL_H
#define ETCH_LIB_PATCH_INTERNAL_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <etch/branch_format.h>
#include <etch/forms.h>
#include <etch/imv.h>
#include <etch/pv_forms.h>

#include "shared/search.h"

#define ETCH_API __attribute__((visibility("default")))

#define PAGE_OF(at) ((uint64_t)(at) & ~(uint64_t)(ETCH_PAGE - 1))
#define PAGE_UP(at) PAGE_OF((uint64_t)(at) + ETCH_PAGE - 1)

/* ---- an ELF image in memory ---------------------------------------------- */

/* More PT_LOAD segments than any linker emits; a file with more is refused. */
#define IMAGE_SEGMENTS 32

/* A PT_LOAD of an image. */
struct segment {
	uint64_t start, end; /* end is that of the last existing byte, not of its page */
	uint64_t offset;     /* offset of `start` in the file */
	int prot;            /* PROT_*, from its program header */
};

/* A module's ELF image in memory. */
struct image {
	uint64_t start, end; /* range that spans the segments */
	uint64_t bias;
	uint64_t dynamic; /* PT_DYNAMIC, 0 if there is none */
	unsigned segments;
	int program;           /* this is the main program, which is never unloaded */
	int too_many_segments; /* there are more than IMAGE_SEGMENTS segments: the module is ignored */
	struct {
		uint64_t dev, inode; /* inode 0: unknown */
	} file;
	struct segment segment[IMAGE_SEGMENTS];
};

/* The segment that contains all of [at, at+size), or null. */
const struct segment *image_segment(const struct image *im, uint64_t at, uint64_t size);

/* ---- modules ------------------------------------------------------------- */

#define OBJECT_ARMED    ETCH_OBJ_ARMED /* its live sites hold immediates */
#define OBJECT_FIELD    ETCH_OBJ_FIELD /* directly follows the previous object: the next field of the variable */
#define OBJECT_KEPT     ETCH_OBJ_KEPT  /* code stores to it even after etch_sync: it is never armed */
#define OBJECT_WRITABLE ETCH_OBJ_VALUE /* its page is never made read-only, because other data is on it */
#define OBJECT_FACT     8u             /* code stores to it plainly, or its address escapes */
#define OBJECT_CHANGING 16u            /* ARMED is about to be set; used inside one call */
#define OBJECT_SEALED   32u            /* the sites that are not live are armed too: etch_seal */
#define OBJECT_SEALING  128u           /* SEALED is about to be set */
/* The program wants the object armed, and it is not: its page was given up while it was armed, or etch_sync has left
 * it alone because the page stays writable for other objects that are not armed. It is armed as soon as all objects on
 * its page can be armed. */
#define OBJECT_WANTED 512u
#define OBJECT_OFTEN  256u                           /* it was armed when it had been set too often (give_up.c) */
#define OBJECT_HELD   (OBJECT_WANTED | OBJECT_OFTEN) /* etch_tick arms it again */
_Static_assert((ETCH_OBJ_ARMED | ETCH_OBJ_FIELD | ETCH_OBJ_KEPT | ETCH_OBJ_VALUE) == 71, "bits of struct object");

/* 16 bytes: the main memory cost of a module with many objects. */
struct object {
	uint64_t addr;
	uint32_t size;
	uint32_t flags : 10;  /* OBJECT_* */
	uint32_t record : 22; /* index of its first record in the object table */
};
#define RECORDS_MAX ((uint32_t)1 << 22) /* the range of `record`: a table of 64 MiB */

/* One row of an index, sorted by `key`. */
struct pair {
	uint64_t key;   /* address of an object's byte */
	uint64_t value; /* index in a table; PAIR_* says which one */
};
#define PAIR_FACT ((uint64_t)1 << 63) /* in `value`: the index is in the object table */
#define PAIR_CALL ((uint64_t)1 << 62) /* in `value`: the index is in __pv_sites; without either flag it is in __imv */

/* The index of the first of n rows, sorted by key, whose key is at least this. */
static inline size_t pair_from(const struct pair *p, size_t n, uint64_t key) { return SEARCH(n, i, p[i].key < key); }

/* A table of sites, with the index of those that refer to their object directly. */
struct sites {
	const struct etch_imv *entry;
	size_t count;
	size_t own_count; /* number of entries that do not go through the GOT; in a linked module they come first */
	struct pair *own; /* in a module that is not linked: index of these entries by address of the object */
};
enum { SITES_LOAD, SITES_CALL, SITES_KINDS }; /* __imv, __pv_sites */

/* The range of addresses [start, stop). */
struct bounds {
	uint64_t start, stop;
};

/* The members that are used most come first: their offsets take one byte of an instruction. */
struct module {
	struct module *next;
	struct module *free_next; /* next of the unused blocks (index.c) */
	struct object *object;    /* the objects, sorted by address, without overlap */
	size_t object_count;
	uint64_t page; /* first page of the etched objects */
	size_t pages;
	uint8_t *readonly;         /* one bit per page: read-only outside a set */
	struct given_up *given_up; /* one for each page; null until a page is read-only (give_up.h) */
	int bad;                   /* malformed: ignored, and its addresses give ETCH_EFORMAT */
	int checked;               /* all entries of the tables have been checked */
	int linked;                /* the link step has sorted and baked the tables */
	struct sites sites[SITES_KINDS];
	const struct etch_module *desc;
	const struct etch_obj *obj;
	const struct etch_native *native;
	const struct etch_inline *inlines;
	const struct etch_branch *branches;
	const struct etch_mark_site *marks;
	size_t obj_count, native_count, inline_count, branch_count, mark_count;
	struct pair *far; /* index of the sites through the GOT and of facts about objects of other modules, by address of
	                     the object */
	size_t far_count;
	struct bounds etched[3]; /* bounds of the etched sections; the third shares its pages with other data */
	const char *path;        /* used in messages if /proc is missing; "" is the program */
	uint64_t capacity;       /* size of this block: blocks are reused */
	struct image image;
};

/* The arguments that the constructor passes. */
struct module_arguments {
	const struct etch_module *desc;
	union {
		struct {
			struct bounds imv, obj, etched, scalar, pv, native, in_place, branch, mark, dense;
		};
		struct bounds all[10];
	};
};

/* All loaded modules, newest first. Changed under the lock. */
extern struct module *module_list;
/* Odd while a module is taken out of the list or its block is reused: whoever walks the list without the lock, and
 * does not find what it looks for, looks again if this has changed. */
extern unsigned module_changes;
/* Number of sites that libetch changed while modules were loaded. */
extern unsigned long module_patched;

/* ---- the lock (lock.c) -------------------------------------------------- */

/* Takes the lock, with signals blocked. Returns 0; or ETCH_EBUSY without the lock: a signal handler has interrupted
 * this thread, by a fault, while the thread held the lock; or _Fork(3) made this process while a thread held the lock
 * that this process lacks. */
int etch_lock(void) __attribute__((warn_unused_result));
/* Takes the lock as etch_lock() does, but in a handler of SIGSEGV: uses nothing of the C library. */
int etch_lock_in_handler(void) __attribute__((warn_unused_result));
/* Takes the lock as etch_lock() does, but before all threads that wait in etch_lock(). It is for a thread that loads a
 * module, which may hold other locks while it waits. */
int etch_lock_first(void) __attribute__((warn_unused_result));
void etch_unlock(void);
/* Registers what a fork(2) does with the lock. To be called once. */
void etch_lock_prepare(void);

/* The registered module whose image spans this address; or null. */
struct module *module_at(uint64_t at);
/* The object of the module that contains this address; or null. */
struct object *module_object(const struct module *m, uint64_t at);
/* May [at, at+size) be set? It must be in one object, or in an etched section whose objects are unknown (because the
 * tool has not processed the file), or in a copy of an object. Returns 0, or an etch_error. (imv.c) */
int range_check(uint64_t at, uint64_t size);
/* The index of the first object that ends after this address. */
size_t module_object_from(const struct module *m, uint64_t at);
/* The object that contains this address, and its module, among all modules that are not `bad`. */
struct object *module_object_anywhere(uint64_t at, struct module **owner);
/* Widens a range of a module's objects to whole variables, because fields belong together. */
void module_fields_all(const struct module *m, size_t *first, size_t *end);
/* Is this object armed on facts alone, because its page is not protected? */
int module_is_dense(const struct module *m, const struct object *o);
/* May code store plainly to an object of ETCHED_SHARED after etch_sync (called in the object's own module if `own`),
 * or has somebody stored to a page of it? Then it is armed only while all its pages are read-only, which depends on
 * the other objects there. */
int module_needs_guard(const struct module *m, const struct object *o, int own);
/* Is a page to be read-only, according to the flags of the objects on it? */
int module_page_wanted(const struct module *m, uint64_t page);
/* Extends the objects [*first, *end) to all that share a page with them. */
void module_page_mates(const struct module *m, size_t *first, size_t *end);
/* Is the variable of this object one of several fields? */
int module_has_fields(const struct module *m, const struct object *o);
/* Are all objects armed that a site reads which starts in `o`? A site that also reads a part of another variable does
 * not count as armed, because that variable is set independently. */
int module_reads_armed(const struct module *m, const struct object *o, uint64_t at, unsigned size);
/* Finds the objects of a module that a fact of this record about this byte concerns: [*first, *end). */
void module_fact_objects(const struct module *m, const struct etch_obj *r, uint64_t at, size_t *first, size_t *end);
/* The object of this module that a fact about this byte concerns: the one that contains the byte or, because
 * `&array[n]` and trailing padding may be referred to as well, the object before it in the etched sections. */
struct object *module_fact_object(const struct module *m, uint64_t at);
/* Marks the objects that a fact concerns. (index_pairs.c) */
void objects_fact(struct module *m, size_t first, size_t end);
/* Checks all sites of a linked module, once. Returns 0, or ETCH_EFORMAT, and then the module is ignored. */
int module_check(struct module *m);
/* Are the tables well formed that only parts of libetch read (parts.h)? */
int module_rest_ok(const struct module *m);
/* Does the whole page belong to etched sections? */
int module_page_is_etched(const struct module *m, uint64_t page);
/* Is this byte in the ops table of libetch's own copies (copy.c), which is hidden from programs? */
int module_own_table(uint64_t at);
/* Does a module that is not `bad` have etched objects on the page of this address, or on pages around it? */
static inline int module_has_page(const struct module *m, uint64_t at)
{
	return !m->bad && at >= m->page && (at - m->page) / ETCH_PAGE < m->pages;
}
/* The name of an object, which ends after *most characters at the latest, perhaps without a NUL; null if its record
 * is damaged. Async-signal-safe. */
static inline const char *module_object_name(const struct module *m, const struct object *o, size_t *most)
{
	const struct etch_obj *r = m->obj + o->record;
	const struct segment *s = NULL;
	uint64_t name = 0;

	if (image_segment(&m->image, (uint64_t)(uintptr_t)r, sizeof(*r))) {
		name = etch_ref((uint64_t)(uintptr_t)&r->ref, r->ref);
		s = image_segment(&m->image, name, 1);
	}
	*most = s ? s->end - name : 0;
	return s ? (const char *)(uintptr_t)name : NULL;
}
/* Is the page of this address read-only outside a set? */
int module_page_readonly(const struct module *m, uint64_t at);
/* Sets the pages of [from, to) to the protection that follows from their objects. Returns 0 or an etch_error; after
 * an error some pages keep their previous protection. */
int module_protect(struct module *m, uint64_t from, uint64_t to);
/* The main program's headers; the program need not be a module. */
extern struct program_image {
	uint64_t dynamic, bias, start;
} module_program;

struct bounds bounds_of(const void *start, const void *stop);
void module_load(const struct module_arguments *args);
/* Adds an object, if the record is one. The records come in ascending order; several records of one object (from
 * several files) are merged. (index.c) */
void object_add(struct module *m, const struct etch_obj *r);
/* Creates a module for this image, with its indexes; it is marked bad if it is malformed. Null without memory.
 * (index.c) */
struct module *module_new(const struct image *im, const struct module_arguments *args, const char *path);
/* Releases a module's block for reuse. */
void module_free(struct module *m);
/* Is [at, at+size) inside a variable that the program copied from an etched object of a shared object (R_X86_64_COPY,
 * copied.c)? Returns 1, 0, or -1 if it extends past the variable's end. */
int module_copied(uint64_t at, uint64_t size);

/* ---- encodings (encoders.c; all_forms.c) ------------------------------------------------- */

unsigned form_size(unsigned form);
unsigned form_load(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16]);
/* Is an entry of __imv, or with `call` of __pv_sites, well formed, and can the parts that are linked change it? The
 * record after or before it that belongs to it is included. */
int form_valid(const struct module *m, const struct etch_imv *e, int call);

/* etch_form_info() and the like for all forms: the library has one copy of each. */
unsigned forms_size(unsigned form);
struct etch_form_info forms_info(unsigned form);
unsigned forms_load(const struct etch_imv *e, uint64_t site, uint64_t object, uint8_t out[16]);
unsigned forms_imm(const struct etch_imv *e, uint64_t value, uint8_t out[16]);
unsigned forms_flags(const struct etch_imv_more *m, unsigned flags, unsigned len, uint8_t out[16]);
int forms_valid(const struct module *m, const struct etch_imv *e, int call);
unsigned pv_load(const struct etch_imv *e, uint64_t site, uint64_t slot, uint8_t out[16]);
unsigned pv_image(const struct etch_imv *e, uint64_t site, uint64_t target, const struct etch_pv_body *body,
                  uint8_t out[16], unsigned *count);

/* ---- tables (table_check.c) ---------------------------------------------------- */

/* Is [at, at+size) in a segment with this protection? */
int range_has(const struct module *m, uint64_t at, uint64_t size, int prot);
/* Locates the tables, from the descriptor or the arguments. Returns 1 if they are well formed. */
int table_locate(struct module *m, const struct module_arguments *args);
/* Is an entry of __imv, or with `call` of __pv_sites, valid: is every field well formed, and every address inside the
 * image? The record of ETCH_IMV_MORE is judged with the entry before it, and there must be one. */
int table_site_ok(const struct module *m, const struct etch_imv *e, int call);
/* Is a record of __pv_native valid: is every field well formed, and every address inside the image? (native_check.c) */
int table_native_ok(const struct module *m, const struct etch_native *n);
int table_natives_ok(const struct module *m);
/* Is the whole __pv_inline table valid, in the same sense? (inline.c) */
int inlines_ok(const struct module *m);
/* Is a record of __etch_obj valid, in the same sense? */
int table_object_ok(const struct module *m, const struct etch_obj *o);
/* Validates all entries of a linked module's sites, and their order. */
int table_linked_ok(const struct module *m);

/* Is an entry a site? It is if it is neither empty nor the second record of the site before it. */
static inline int entry_is_site(const struct etch_imv *e)
{
	return e->form != ETCH_FORM_NONE && e->form != ETCH_FORM_MORE;
}

static inline uint64_t site_address(const struct etch_imv *e)
{
	return etch_ref((uint64_t)(uintptr_t)&e->site, e->site);
}

/* The first byte that a site reads, if it does not go through the GOT. */
static inline uint64_t site_own_object(const struct etch_imv *e)
{
	return etch_ref((uint64_t)(uintptr_t)&e->obj, e->obj);
}

/* An index in a linked table from which to search for the sites that read `from` or a later byte, not through the GOT.
 * It is never after the first of them. (plan.c) */
size_t sites_from(const struct sites *s, uint64_t from);

/* The first byte that the site reads; the entry must have passed table_site_ok(). */
static inline uint64_t site_object(const struct etch_imv *e)
{
	uint64_t at = site_own_object(e);

	if (!(e->flags & ETCH_IMV_GOT))
		return at;
	at = *(const uint64_t *)(uintptr_t)at;
	if (e->flags & ETCH_IMV_MORE)
		return at + (uint64_t)(int64_t)etch_imv_more(e)->disp;
	return etch_form_is_pv(e->form) ? at + (uint64_t)(int64_t)etch_pv_disp(e) : at;
}

/* The number of bytes that the site reads. */
static inline unsigned site_size(const struct etch_imv *e) { return etch_form_is_pv(e->form) ? 8 : form_size(e->form); }

static inline const struct etch_imv *pair_site(const struct module *m, uint64_t value)
{
	return &m->sites[value & PAIR_CALL ? SITES_CALL : SITES_LOAD].entry[value & ~PAIR_CALL];
}

static inline uint64_t record_object(const struct etch_obj *o)
{
	uint64_t at = etch_ref((uint64_t)(uintptr_t)&o->addr, o->addr);

	return o->flags & ETCH_OBJ_GOT ? *(const uint64_t *)(uintptr_t)at : at;
}

/* Converts the result of mprotect(2), 0 or a negative errno, to an etch_error. */
int errno_to_etch(long ret);

/* ---- the file of a module (text_file.c) ------------------------------------------ */

/* Notes which file a module was loaded from. path: "" is the program. */
void text_file_identify(struct image *im, const char *path);
/* Forgets the notes about addresses in the image. */
void text_file_forget(const struct image *im);

/* ---- the fault handler (trap.c) ------------------------------------------ */

/* Nonzero while page_swap.c replaces pages of text: one of them may be missing for a moment. */
extern int swap_active;
extern unsigned swap_count; /* number of such replacements that have begun */

void trap_install(void);
/* The sum of ETCH_STRAY_* constants that the environment and etch_stray() have set. */
unsigned stray_mode(void);
/* Reads ETCH_STRAY from the environment, once. */
void stray_mode_read(void);
/* Will a store to a read-only page come to libetch's handler, as far as is known? Called under the lock. */
int trap_guards(void);

#endif
