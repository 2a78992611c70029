/* SPDX-License-Identifier: MIT */
/*
 * Files of the Linux kernel: modules, vmlinux and the objects they are made of. Which
 * files are such, of which release, and what their references lead to: symbolically in
 * ET_REL, where relocations say so; by address in a linked one.
 */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "elf/file.h"

/* 6.4 is 6004. */
#define KERNEL_VERSION_OF(major, minor) ((major) * 1000u + (minor))

struct kernel_symbol {
	uint64_t value, size; /* size 0: to the next symbol */
	uint32_t section;
	uint32_t parent;      /* the symbol around it: number + 1, or 0 */
	bool local;
	const char *name;
};

struct kernel_symbols {
	struct kernel_symbol *list; /* by (section, value), of one value the largest first */
	size_t count;
	char *text;                 /* of a System.map; names point into it */
};

struct kernel {
	const struct elf_file *file;
	const char *sign;         /* the section by which it was told */
	char release[80];         /* "6.1.0-13-amd64"; empty: not known */
	const char *release_from; /* ".modinfo", "its banner" */
	unsigned version;         /* KERNEL_VERSION_OF the release; 0: not known */
	struct kernel_symbols symbols;
	struct kernel_relocs *relocs; /* by section; read when they are asked for (relocs.h) */
	uint32_t last;                /* the section that the last address was in */
};

/*
 * Null where this is no file of the kernel, else the section that says so. Rule
 * (docs/formats.md): none of the sections that etch/imv.h makes, and one of those that
 * only the kernel's build does.
 */
const char *kernel_sign(const struct elf_file *f);

/* `map`: the path of a System.map with symbols for a linked file, instead of its own; or
 * null. kernel_close() also after a failure. */
int kernel_open(struct kernel *k, const struct elf_file *f, const char *map, struct error *e);
void kernel_close(struct kernel *k);
/* "kernel module", "kernel object", "vmlinux". */
const char *kernel_kind(const struct kernel *k);

/* ---- symbols ----------------------------------------------------------------- */

int kernel_symbols_load(struct kernel *k, const char *map, struct error *e);
void kernel_symbols_free(struct kernel_symbols *s);
/* The symbol that holds an address of a section, or null. */
const struct kernel_symbol *kernel_symbol_at(const struct kernel *k, uint32_t section, uint64_t addr);
/* The first of that name, or null. */
const struct kernel_symbol *kernel_symbol_named(const struct kernel *k, const char *name);

/* ---- references --------------------------------------------------------------- */

enum kernel_place_kind {
	KPLACE_NONE,    /* there is no reference, or one that cannot be: see `why` */
	KPLACE_SECTION, /* addr in section: linked files, the address; ET_REL, the offset */
	KPLACE_SYMBOL,  /* a symbol of another file, and addr bytes behind it */
	KPLACE_OUTSIDE, /* linked files: an address in no section */
};

struct kernel_place {
	enum kernel_place_kind kind;
	uint32_t section;
	uint64_t addr;
	const char *symbol;
	const char *why; /* a phrase */
};

/* How a reference is stored. */
enum kernel_ref {
	KREF_REL32, /* s32, to itself */
	KREF_REL64, /* s64, to itself */
	KREF_ABS64,
};

/* The reference at `offset` in a section, all of which is there. */
void kernel_ref_read(struct kernel *k, uint32_t section, uint64_t offset, enum kernel_ref ref,
                     struct kernel_place *out);
/* The same less the low bits that are flags. */
void kernel_place_flags(struct kernel_place *p, unsigned mask, unsigned *flags);

/* The place of an address of a linked file. */
void kernel_place_at(struct kernel *k, uint64_t addr, struct kernel_place *out);

/* `size` bytes of a place's section from it on; null: not there. */
const uint8_t *kernel_place_bytes(const struct kernel *k, const struct kernel_place *p, uint64_t size);
/* Bytes of its section from a place on. */
uint64_t kernel_place_left(const struct kernel *k, const struct kernel_place *p);
bool kernel_place_is_code(const struct kernel *k, const struct kernel_place *p);
/* A NUL-terminated string there, or null. */
const char *kernel_place_string(const struct kernel *k, const struct kernel_place *p);

/* The address, in ET_REL ".text+0x10"; and "name+0x4" where a symbol is, else the section's. */
void kernel_place_text(const struct kernel *k, const struct kernel_place *p, char *out, size_t size);
void kernel_place_name(const struct kernel *k, const struct kernel_place *p, char *out, size_t size);

/* The first relocation of a section in [start, end); null: none, or they cannot be read. */
const struct elf_reloc *kernel_reloc_in(struct kernel *k, uint32_t section, uint64_t start, uint64_t end);
/* Why the relocations of a section cannot be read, a phrase; null: they can. */
const char *kernel_relocs_broken(struct kernel *k, uint32_t section);
/* What a relocation's symbol, addend and `bias` lead to. */
void kernel_reloc_place(const struct kernel *k, const struct elf_reloc *r, int64_t bias, struct kernel_place *out);

/* ---- code ---------------------------------------------------------------------- */

/*
 * The instructions of `size` bytes at a place, for people: "; " between them, a symbol
 * behind those that refer to one, padding in one word. One instruction for size 0.
 */
void kernel_code_text(struct kernel *k, const struct kernel_place *p, uint64_t size, char *out, size_t out_size);

#endif
