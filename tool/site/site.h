/* SPDX-License-Identifier: MIT */
/*
 * Etched objects, and every instruction that touches one. The same lists are
 * filled from an object file (by relocations) and from a linked file (by
 * addresses and by its tables), so that all later steps need not care.
 */
#ifndef SITE_SITE_H
#define SITE_SITE_H

#include "code/func.h"
#include "code/track.h"
#include "elf/file.h"
#include "report/finding.h"
#include "site/entries.h"

#include <etch/format.h>

/* An etched object. */
struct object {
	char *name;
	uint32_t section; /* that defines it; 0 = another file does */
	uint64_t addr;    /* ET_REL: offset in section; linked: virtual address */
	uint64_t size;    /* bytes; 0 where another file defines it */
	uint32_t symbol;  /* ET_REL: for an undefined one, its symbol */
	bool shared;      /* in ETCH_SEC_SCALAR: 8-byte cells sharing pages */
	bool part;        /* linked: of an object without a symbol, or all of it (parts.h) */
	bool suspect;     /* linked: what speaks against it is seen at another object alone */
	uint8_t facts;    /* ETCH_OBJ_STORED, ETCH_OBJ_ESCAPED as seen in this file */
	bool armed;       /* linked: the link step's verdict */
	bool unrecorded;  /* linked: there is no room for a record of it */
	const char *unarmed; /* linked: why not, a phrase for people; null when armed */
};

struct object_list {
	struct object *list; /* linked and defined ones: sorted by (section, addr) */
	size_t count;
	size_t defined; /* the first `defined` are defined in this file */
};

enum site_kind {
	SITE_LOAD,   /* reads; an immediate can take its place when reason is null */
	SITE_CALL,   /* calls or jumps through a function pointer; likewise */
	SITE_STORE,
	SITE_ESCAPE,
};

/* Sites that have, or could have, an entry in a table. */
static inline bool site_kind_is_patched(enum site_kind k) { return k == SITE_LOAD || k == SITE_CALL; }

struct site {
	uint32_t section;
	uint64_t addr;          /* of the instruction (of the data word, for an escape in data) */
	enum site_kind kind;
	int32_t object;
	int64_t off;            /* first byte read (SITE_CALL: the slot), from the start of the object */
	bool off_known;
	bool in_data;           /* an escape through a data word */
	uint8_t len;            /* of the instruction */
	uint16_t size;          /* bytes read */
	struct etch_imv entry;  /* form, regs, shape, flags: of __imv, or with SITE_CALL of __pv_sites */
	uint64_t slot;          /* linked, ETCH_IMV_GOT: address of the slot */
	const char *reason;     /* why it has no immediate form; null when it has one */
};

/* A GOT slot that holds (or will hold) the address of an etched object. */
struct slot {
	uint64_t addr;
	int32_t object;
	int64_t off;
};

struct scan {
	const struct elf_file *file;
	struct slot *slots; /* linked: sorted by addr */
	size_t slot_count, slot_room;
	struct func_list funcs;
	struct func_clobbers clobbers;
	struct object_list objects;
	struct site *sites; /* sorted by (section, addr, kind) once finished */
	size_t site_count, site_room;
	struct findings findings;
	size_t functions, undecoded; /* looked at, and of those not decoded to the end */
	bool stripped;               /* linked: without the symbols of its objects (parts.h) */
	uint64_t *relocated;         /* linked: places that the dynamic linker writes, sorted */
	size_t relocated_count, relocated_room;
	uint64_t *code_words;        /* linked: what such places hold, where that is an address of code */
	size_t code_word_count, code_word_room;
	struct entries entries;      /* built when first needed */
	size_t foreign;              /* linked: table entries whose object is not etched in this file */
	struct error error;          /* set when a call returned -1 */
};

/* A set of symbol names: objects that other files of the same command define. */
struct name_set {
	char **names; /* sorted */
	size_t count, room;
};
int name_set_add(struct name_set *s, const char *name, struct error *e);
/* Before name_set_has(). */
void name_set_sort(struct name_set *s);
void name_set_free(struct name_set *s);
bool name_set_has(const struct name_set *s, const char *name);

/* ET_REL: objects, sites and facts by relocations. `others` may be null. */
int scan_object_file(struct scan *s, const struct elf_file *f, const struct name_set *others);
/* Adds the names of global etched objects that f defines. */
int scan_defined_names(const struct elf_file *f, struct name_set *out, struct error *e);
/*
 * A linked file: objects from its tables and its symbols, sites and facts by
 * addresses, in every function that decodes, and those of the tables. Baked
 * sites must have been put back to loads (see bake.h). `now` stays the caller's.
 */
struct linked_tables;
int scan_linked_file(struct scan *s, const struct elf_file *f, const struct linked_tables *now);
/* Linked: does the dynamic linker write any of these bytes before the program starts? */
bool scan_is_relocated(const struct scan *s, uint64_t addr, uint64_t size);
void scan_free(struct scan *s);

/* ---- for the two scanners ------------------------------------------------ */

/* Room for one more in an array that doubles; false when out of memory. */
bool list_grow(void **list, size_t count, size_t *room, size_t size);
int scan_object_add(struct scan *s, const struct object *o); /* takes o->name over */
void scan_objects_sort(struct scan *s);
/* The defined object that holds section offset or address `at`, or -1. `end_too`:
 * also one that ends exactly there. */
int32_t scan_object_find(const struct scan *s, uint32_t section, uint64_t at, bool end_too);
int scan_site_add(struct scan *s, const struct site *site);
/* An escape of every object of an etched section, by something at `addr` of
 * `code` that refers to the section in a way that does not say to which. */
int scan_suspect_all(struct scan *s, uint32_t section, uint32_t code, uint64_t addr, uint8_t len);
int scan_finding_add(struct scan *s, const char *id, uint32_t section, uint64_t addr, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
void scan_sites_sort(struct scan *s);

/*
 * Tracks one decoded function whose operands have been resolved and adds its
 * sites and facts. Loads get their form, the two decoders' agreement and the
 * proof that the load can be regenerated to the byte.
 */
int scan_function(struct scan *s, const struct func *fn, const struct func_code *code, const struct ref *mem,
                  const struct ref *imm);

/* NAME__imv in the scalars' section: what DEFINE_IMV makes. */
bool object_is_imv(const struct object *o);
/* A call, or a jump out of `own`, by its address: sets callee and entry. */
void scan_callee(const struct scan *s, const struct func *own, uint32_t section, struct insn *in);
/* True for the sections that ETCHED and DEFINE_IMV put objects into. */
bool section_is_etched(const struct elf_section *s, bool *shared);

#endif
