/* SPDX-License-Identifier: MIT */
/*
 * Linux kernel files: modules, vmlinux and the objects that they are linked from. Recognizes them,
 * finds their release, and resolves references: symbolically by relocations in ET_REL, by address
 * in a linked file.
 */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "elf/file.h"

/* 6.4 is 6004. */
#define KERNEL_VERSION_OF(major, minor) ((major)*1000u + (minor))

struct kernel_symbol {
	uint64_t value, size; /* size 0: to the next symbol */
	uint32_t section;
	uint32_t parent; /* index of the enclosing symbol + 1, or 0 */
	bool local;
	const char *name;
};

struct kernel_symbols {
	struct kernel_symbol *list; /* by (section, value); at equal values the largest first */
	size_t count;
	char *text; /* the text of a System.map, which the names point into */
};

struct kernel {
	const struct elf_file *file;
	const char *sign;         /* the section that identified the file as a kernel file */
	char release[80];         /* "6.1.0-13-amd64"; empty: unknown */
	const char *release_from; /* ".modinfo", "its banner" */
	unsigned version;         /* KERNEL_VERSION_OF the release; 0: unknown */
	struct kernel_symbols symbols;
	struct kernel_relocs *relocs; /* by section; read on first use (relocs.h) */
	uint32_t last;                /* the section that the last lookup by address found */
};

/*
 * The section that identifies a kernel file; null for any other file. Rule (docs/formats.md): the
 * file has none of the sections of etch/imv.h, and at least one that only the kernel's build
 * makes.
 */
const char *kernel_sign(const struct elf_file *f);

/* `map`: path of a System.map whose symbols replace those of a linked file; or null. Call
 * kernel_close() also after a failure. */
int kernel_open(struct kernel *k, const struct elf_file *f, const char *map, struct error *e);
void kernel_close(struct kernel *k);
/* "kernel module", "kernel object", "vmlinux". */
const char *kernel_kind(const struct kernel *k);

/* ---- symbols ----------------------------------------------------------------- */

int kernel_symbols_load(struct kernel *k, const char *map, struct error *e);
void kernel_symbols_free(struct kernel_symbols *s);
/* The innermost symbol that contains an address of a section, or null. */
const struct kernel_symbol *kernel_symbol_at(const struct kernel *k, uint32_t section, uint64_t addr);
/* The first symbol of that name, or null. */
const struct kernel_symbol *kernel_symbol_named(const struct kernel *k, const char *name);

/* ---- references --------------------------------------------------------------- */

enum kernel_place_kind {
	KPLACE_NONE,    /* no reference, or an invalid one: see `why` */
	KPLACE_SECTION, /* section and addr: in a linked file an address, in ET_REL an offset */
	KPLACE_SYMBOL,  /* a symbol of another file, plus addr bytes */
	KPLACE_OUTSIDE, /* linked files: an address outside all sections */
};

struct kernel_place {
	enum kernel_place_kind kind;
	uint32_t section;
	uint64_t addr;
	const char *symbol;
	const char *why; /* a phrase for messages */
};

/* How a table stores a reference. */
enum kernel_ref {
	KREF_REL32, /* s32, relative to itself */
	KREF_REL64, /* s64, relative to itself */
	KREF_ABS64,
};

/* Reads the reference at `offset` in a section; all of its bytes must exist. */
void kernel_ref_read(struct kernel *k, uint32_t section, uint64_t offset, enum kernel_ref ref,
                     struct kernel_place *out);
/* Moves the low bits that are flags out of a reference. */
void kernel_place_flags(struct kernel_place *p, unsigned mask, unsigned *flags);

/* The place of an address in a linked file. */
void kernel_place_at(struct kernel *k, uint64_t addr, struct kernel_place *out);

/* `size` bytes of the section's contents from a place on; null: out of range. */
const uint8_t *kernel_place_bytes(const struct kernel *k, const struct kernel_place *p, uint64_t size);
/* Number of bytes from a place to the end of its section. */
uint64_t kernel_place_left(const struct kernel *k, const struct kernel_place *p);
bool kernel_place_is_code(const struct kernel *k, const struct kernel_place *p);
/* The NUL-terminated string at a place, or null. */
const char *kernel_place_string(const struct kernel *k, const struct kernel_place *p);

/* Formats a place: the address, in ET_REL ".text+0x10"; and "name+0x4" if there is a symbol, else
 * relative to the section. */
void kernel_place_text(const struct kernel *k, const struct kernel_place *p, char *out, size_t size);
void kernel_place_name(const struct kernel *k, const struct kernel_place *p, char *out, size_t size);

/* The first relocation of a section in [start, end); null: none, or the relocations cannot be
 * read. */
const struct elf_reloc *kernel_reloc_in(struct kernel *k, uint32_t section, uint64_t start, uint64_t end);
/* Why the relocations of a section cannot be read, a phrase; null: they can be read. */
const char *kernel_relocs_broken(struct kernel *k, uint32_t section);
/* The place that a relocation's symbol plus addend plus `bias` refers to. */
void kernel_reloc_place(const struct kernel *k, const struct elf_reloc *r, int64_t bias, struct kernel_place *out);

/* ---- code ---------------------------------------------------------------------- */

/*
 * Disassembles `size` bytes at a place into readable text: separated by "; ", followed by the
 * symbol where an instruction refers to one, padding as one word. One instruction for size 0.
 */
void kernel_code_text(struct kernel *k, const struct kernel_place *p, uint64_t size, char *out, size_t out_size);

#endif
