/* SPDX-License-Identifier: MIT */
/*
 * The etched objects of a file, and every instruction that uses one. The lists are filled from an object file (by
 * relocations) or from a linked file (by addresses and its tables); later steps treat both alike.
 */
#ifndef SITE_SITE_H
#define SITE_SITE_H

#include "analysis/addresses/function.h"
#include "analysis/addresses/kernel_reach.h"
#include "analysis/addresses/track.h"
#include "elf/file.h"
#include "dwarf/types.h"
#include "report/finding.h"
#include "site/entries.h"

#include <etch/format.h>

/* Bytes of an object to which something may store, with the facts about them. */
struct stored {
	uint64_t from, to; /* relative to the object; to: exclusive */
	uint8_t facts;     /* ETCH_OBJ_STORED, ETCH_OBJ_ESCAPED */
	bool kept;         /* the facts still hold after etch_sync */
	bool kernel;       /* a system call may store to them */
};

/* Consecutive bytes of an object that have the same facts and get a record of their own. */
struct object_range {
	uint64_t from, to;
	uint8_t facts;
	bool kept, kernel;
	bool open;  /* `kept` only because the object is exported and these bytes are on a page that stays writable */
	char *name; /* "object.member", or "object+0x10" */
};

/* An etched object. */
struct object {
	char *name;
	uint32_t section; /* section that defines it; 0 = it is defined in another file */
	uint64_t addr;    /* ET_REL: offset in section; linked: virtual address */
	uint64_t size;    /* bytes; 0 if defined in another file */
	uint32_t symbol;  /* ET_REL: symbol index of an undefined object */
	bool shared;      /* in ETCH_SEC_SCALAR: 8-byte cells that share pages */
	bool dense;       /* in ETCH_SEC_DENSE: it shares pages with other data, so these stay writable */
	bool kept;        /* linked: something may store to it after etch_sync */
	bool kernel;      /* linked: a system call may store to any of its bytes */
	bool inferred;    /* linked: a part or all of an object without a symbol (inferred_objects.h) */
	bool value;       /* the cell of an etch::value: because of its type, only etch_set writes to it */
	bool suspect;     /* linked: its facts come only from uses that were found at other parts of the section */
	uint8_t facts;    /* ETCH_OBJ_STORED, ETCH_OBJ_ESCAPED in this file */
	bool indexes_tried;
	struct indexes indexes; /* from DWARF; read on first use (neighbours.c) */
	/*
	 * Linked: the bytes to which the facts apply, without overlap, sorted by offset (fields.c). `bounded`: these bytes
	 * are all known, so the facts do not apply to the other bytes.
	 */
	struct stored *stored;
	size_t stored_count;
	bool bounded;
	uint8_t arrays_stored; /* the facts that `stored` already has for all arrays of the object (fields.c) */
	bool vague;            /* linked: a fact is known only from a table, so it is not known to which bytes it applies */
	struct members members;      /* from DWARF */
	struct object_range *ranges; /* the ranges of all bytes, in order; null if one record covers all bytes */
	size_t range_count;
	uint8_t early;   /* linked: facts that may apply to any of its bytes, but only before etch_sync */
	bool memberless; /* linked: it is armed as a whole, because DWARF does not describe its members */
	bool exported;   /* linked: another module, which the tool does not see, may store to it (without --closed) */
	bool in_part;    /* linked: the object as a whole is not armed, but those of its bytes that have no facts are armed
	                    from the start */
	bool armed;      /* linked: armed from the start (armed_objects.h) */
	bool unrecorded; /* linked: the tables have no space for its record */
	const char *unarmed_why; /* linked: the reason why it is not armed, a phrase for messages; null if it is armed */
};

/* The etched objects of a file. */
struct object_list {
	struct object *list; /* in a linked file, defined objects are sorted by (section, addr) */
	size_t count, capacity;
	size_t defined; /* number of objects defined in this file, which come first */
};

/* A value of site.reason: the program does not contain the code of libetch that could change the site. */
#define REASON_NOT_LINKED "what of libetch changes it is not linked"

/* How an instruction or data word uses an object. */
enum site_kind {
	SITE_LOAD, /* a read, which an immediate can replace if `reason` is null */
	SITE_CALL, /* a call or jump through a function pointer; a direct one can replace it if `reason` is null */
	SITE_STORE,
	SITE_ESCAPE,
};

/* Is a site of this kind patched, so that it may have a table entry? */
static inline bool site_kind_is_patched(enum site_kind k) { return k == SITE_LOAD || k == SITE_CALL; }

/* A use of an object. */
struct site {
	uint32_t section;
	uint64_t addr; /* address of the instruction or of the data word */
	enum site_kind kind;
	int32_t object;
	int64_t off; /* offset in the object of the first byte read (SITE_CALL: of the slot) */
	bool off_known;
	bool indexed;    /* if !off_known: the address is `off` plus an index */
	bool in_data;    /* an escape through a data word */
	bool as_pointer; /* the address escapes as a pointer whose reach is limited by the rules of C (track.h) */
	bool argument;   /* the address escapes as an argument or the return value of a function */
	bool kernel;     /* the address escapes, and a system call may store to it (kernel_reach.h) */
	uint8_t beside;  /* enum beside (track.h): which neighbouring objects the address may also mean */
	bool recorded;   /* linked: the site is known only from a table */
	bool late;       /* linked: a store that may run after etch_sync, or an escaped address that may be used after it */
	uint8_t len;     /* length of the instruction in bytes */
	uint16_t size;   /* number of bytes read */
	struct etch_imv entry;     /* form, regs, shape and flags of the row in __imv, or for SITE_CALL in __pv_sites */
	struct etch_imv_more more; /* with ETCH_IMV_MORE */
	uint64_t slot;             /* linked, ETCH_IMV_GOT: address of the slot */
	uint64_t stored_at;        /* linked: the fixed place to which the code stores an escaping address; 0: none */
	const char *reason;        /* the reason why it has no form, a phrase for messages; null if it has one */
};

/* A GOT slot that holds the address of an etched object once the file is loaded. */
struct slot {
	uint64_t addr;
	int32_t object;
	int64_t off;
};

/* A compare whose operands are exchanged, or an instruction that reads its flags, with the bytes that replace it. */
struct commuted {
	uint64_t addr;
	uint8_t bytes[16];
	uint8_t len;
};

/* An operand with an index whose constant address is in a variable next to the etched sections. */
struct vague_place {
	uint64_t at;
	uint32_t section; /* section, address and length of the instruction */
	uint64_t addr;
	uint8_t len;
};

/* All objects and sites of a file. */
struct scan {
	const struct elf_file *file;
	struct slot *slots; /* linked: sorted by addr */
	size_t slot_count, slot_capacity;
	struct func_list funcs;
	struct func_clobbers clobbers;
	struct object_list objects;
	struct site *sites; /* sorted by (section, addr, kind) once finished */
	size_t site_count, site_capacity;
	struct findings findings;
	size_t functions,
		undecoded; /* functions: number that were scanned; undecoded: number of these that do not decode to the end */
	bool stripped; /* linked: object symbols are stripped (inferred_objects.h) */
	uint64_t *relocated; /* linked: addresses that the dynamic linker writes, sorted */
	size_t relocated_count, relocated_capacity;
	uint64_t *code_words; /* linked: values of data words (relocated or not) that are addresses of code */
	size_t code_word_count, code_word_capacity;
	uint64_t *init_words; /* the elements of code_words that are in tables of constructors */
	size_t init_word_count, init_word_capacity;
	struct commuted *commuted; /* linked: instructions that the link step may change (classify.c) */
	size_t commuted_count, commuted_capacity;
	struct vague_place *vague; /* linked */
	size_t vague_count, vague_capacity;
	const uint64_t *init; /* linked: addresses of functions that --init names, sorted; the caller owns them */
	size_t init_count;
	bool closed;            /* linked: no other module uses the names that this one exports (--closed) */
	struct entries entries; /* built on first use */
	struct lines *lines;    /* opened on first use; null: no DWARF */
	struct function_types *types;
	struct imports imports;
	struct kernel_reach kernel; /* linked */
	bool lines_tried;
	size_t external;    /* linked: number of table entries whose object is not an etched object of this file */
	struct error error; /* the error of a function that returned -1 */
};

/* A set of symbol names, such as those of objects that other files of the command line define. */
struct name_set {
	char **names; /* sorted after name_set_sort() */
	size_t count, capacity;
};
void name_set_add(struct name_set *s, const char *name);
/* Must be called after the last name_set_add() and before name_set_has(). */
void name_set_sort(struct name_set *s);
void name_set_free(struct name_set *s);
bool name_set_has(const struct name_set *s, const char *name);

/*
 * Scans an object file: finds objects, sites and facts by relocations. `others` are the names of objects that other
 * files define, or null. Returns 0, or -1 and s->error.
 */
int scan_object_file(struct scan *s, const struct elf_file *f, const struct name_set *others);
/* Adds the names of global etched objects that f defines. */
void scan_defined_names(const struct elf_file *f, struct name_set *out);
/*
 * Scans a linked file: finds objects by its tables and symbols, and sites and facts by addresses in every function that
 * decodes and by the tables. The caller has restored baked sites before (bake.h). `now` stays the caller's. Returns 0,
 * or -1 and s->error.
 */
struct linked_tables;
int scan_linked_file(struct scan *s, const struct elf_file *f, const struct linked_tables *now);
/* For linked files: does the dynamic linker write one of these bytes before the program starts? */
bool scan_is_relocated(const struct scan *s, uint64_t addr, uint64_t size);
void scan_free(struct scan *s);

/* Returns the file's DWARF, which it opens on first use, or null if there is none. */
struct lines *scan_lines(struct scan *s);
/*
 * For an operand whose object was found by an address, returns which neighbouring objects the operand may mean instead
 * (enum beside, neighbours.c). In an object file, only operands with section symbols are found so, and these refer only
 * to local objects.
 */
uint8_t scan_ref_beside(struct scan *s, const struct ref *r, const struct insn *in, bool immediate);
/*
 * Adds the facts about an object that result from uses of its neighbours, whose addresses may mean this object. Call
 * this before the sites are sorted.
 */
void scan_neighbours(struct scan *s);
/*
 * For linked files: determines to which bytes of each object its facts apply. Call this after the sites have been
 * sorted.
 */
void scan_fields_find(struct scan *s);
/* For linked files: writes the commuted compares that a scan has found. The code must be scanned again afterwards. */
void compares_commute(const struct scan *s, struct elf_file *f);
/* The bytes of its object that a store or an escape can change. */
enum reach {
	REACH_ANY,
	REACH_BYTES,  /* [*from, *to) */
	REACH_ARRAYS, /* all arrays of the object */
};
enum reach site_reach(const struct object *o, const struct site *site, uint64_t *from, uint64_t *to);
/* Site number i comes from a table. Has the scan of the code found the same use (same instruction, kind and object)? */
bool scan_is_explained(const struct scan *s, size_t i);
/*
 * Returns the first element of `stored` that overlaps the bytes [from, to) of an object, or null if they have no facts.
 */
const struct stored *object_stored(const struct object *o, uint64_t from, uint64_t to);
/* For linked files: are these bytes of the object armed from the start? */
bool object_armed_at(const struct object *o, uint64_t from, uint64_t to);

/* ---- shared by the two scanners ----------------------------------------------- */

void scan_object_add(struct scan *s, const struct object *o); /* takes ownership of o->name */
void scan_objects_sort(struct scan *s);
/*
 * Returns the index of the defined object that contains `at` (an offset in the section, or an address), or -1. With
 * `end_too` an object that ends there matches too.
 */
int32_t scan_object_find(const struct scan *s, uint32_t section, uint64_t at, bool end_too);
void scan_site_add(struct scan *s, const struct site *site);
/*
 * Adds an escape of every object in an etched section, because the reference at `addr` in section `code` may mean any
 * of them.
 */
void scan_suspect_all(struct scan *s, uint32_t section, uint32_t code, uint64_t addr, uint8_t len);
void scan_finding_add(struct scan *s, const char *id, uint32_t section, uint64_t addr, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
void scan_sites_sort(struct scan *s);

/*
 * Tracks the values in one decoded function, and adds its sites and facts. The operands of each instruction have been
 * resolved to `mem` and `imm`. A load gets a form only if both decoders agree and the load can be regenerated byte for
 * byte. Returns 0, or -1 and s->error.
 */
int scan_function(struct scan *s, const struct func *fn, const struct func_code *code, const struct ref *mem,
                  const struct ref *imm);

/* Does the object share pages with others, so that the pages may stay writable while it is armed? */
static inline bool object_is_exposed(const struct object *o) { return o->dense || (o->shared && !o->value); }

/*
 * Is the object one that only sets change: the NAME__imv of a DEFINE_IMV, in the section of scalars, or the cell of an
 * etch::value?
 */
bool object_is_imv(const struct object *o);
/*
 * Sets `callee` and `entry` of the instruction `in` of function `own`, if it is a call or a jump out of the function
 * with a known target.
 */
void scan_callee(const struct scan *s, const struct func *own, uint32_t section, struct insn *in);
/* Adds the cells of etch::value in writable sections, by the marks after them (etch/format.h). */
void scan_values_add(struct scan *s);
/* Is this a section of ETCHED, DEFINE_IMV or ETCHED_DENSE? Sets *shared if it is the section of scalars. */
bool section_is_etched(const struct elf_section *s, bool *shared);
/*
 * Is this a section of ETCH_TABLE? There, the program promises that after etch_sync only sets store through the
 * addresses of etched objects.
 */
bool section_is_settings(const struct elf_section *s);

#endif
