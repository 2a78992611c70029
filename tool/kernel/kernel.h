/* SPDX-License-Identifier: MIT */
/*
 * Recognizes the files of the Linux kernel (modules, vmlinux, and the objects from which they are linked), finds their
 * release, and resolves the references in their tables. In ET_REL, relocations resolve a reference, so the result may
 * be a symbol of another file; in a linked file, addresses do.
 */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "elf/file.h"

/* KERNEL_VERSION_OF(6, 4) is 6004. */
#define KERNEL_VERSION_OF(major, minor) ((major)*1000u + (minor))

struct kernel_symbol {
	uint64_t value, size; /* size 0: it extends to the next symbol */
	uint32_t section;
	uint32_t parent; /* index of the enclosing symbol + 1, or 0 */
	bool local;
	const char *name;
};

struct kernel_symbols {
	struct kernel_symbol *list; /* sorted by (section, value); of equal values the largest first */
	size_t count;
	char *text; /* the text of a System.map, to which the names point */
};

/* The relocations of a section, read on first use and cached. */
struct kernel_relocs {
	/*
	 * first: index of the first section with relocations of this section; next: index of the next section with
	 * relocations of the section that this one relocates.
	 */
	uint32_t first, next;
	bool read;
	struct elf_reloc *list; /* sorted by offset */
	size_t count;
	struct error *broken; /* the reason why they cannot be read; null: they can be read */
};

struct kernel {
	const struct elf_file *file;
	const char *sign;         /* name of the section that identified the file as a kernel file */
	char release[80];         /* "6.1.0-13-amd64"; empty: unknown */
	const char *release_from; /* where the release was found: ".modinfo", "its banner" */
	unsigned version;         /* KERNEL_VERSION_OF the release; 0: unknown */
	struct kernel_symbols symbols;
	struct kernel_relocs *relocs; /* indexed by section; read on first use */
	uint32_t last;                /* index of the section that the last lookup by address found */
};

/*
 * Returns the name of the section that identifies a kernel file, or null for any other file. The rule
 * (docs/formats.md): the file has none of the sections of etch/imv.h, and at least one that only the kernel's build
 * makes.
 */
const char *kernel_sign(const struct elf_file *f);

/*
 * Opens a kernel file. `map` is null, or the path of a System.map whose symbols replace those of a linked file. Returns
 * 0, or -1 and a message. The caller calls kernel_close() also after a failure.
 */
int kernel_open(struct kernel *k, const struct elf_file *f, const char *map, struct error *e);
void kernel_close(struct kernel *k);
/* Returns "kernel module", "kernel object" or "vmlinux". */
const char *kernel_kind(const struct kernel *k);

/* ---- symbols ----------------------------------------------------------------- */

int kernel_symbols_load(struct kernel *k, const char *map, struct error *e);
void kernel_symbols_free(struct kernel_symbols *s);
/* Returns the innermost symbol that contains an address of a section, or null. */
const struct kernel_symbol *kernel_symbol_at(const struct kernel *k, uint32_t section, uint64_t addr);
/* Returns the first symbol of that name, or null. */
const struct kernel_symbol *kernel_symbol_named(const struct kernel *k, const char *name);

/* ---- references --------------------------------------------------------------- */

enum kernel_place_kind {
	KPLACE_NONE,    /* there is no reference, or an invalid one: see `why` */
	KPLACE_SECTION, /* section and addr: an address in a linked file, an offset in ET_REL */
	KPLACE_SYMBOL,  /* a symbol of another file, plus addr bytes */
	KPLACE_OUTSIDE, /* linked files: an address outside all sections */
};

struct kernel_place {
	enum kernel_place_kind kind;
	uint32_t section;
	uint64_t addr;
	const char *symbol;
	const char *why; /* KPLACE_NONE: the reason, a phrase for messages */
};

/* The ways in which a table stores a reference. */
enum kernel_ref {
	KREF_REL32, /* s32, relative to itself */
	KREF_REL64, /* s64, relative to itself */
	KREF_ABS64,
};

/* Reads the reference at `offset` in a section; all of its bytes must exist. */
void kernel_ref_read(struct kernel *k, uint32_t section, uint64_t offset, enum kernel_ref ref,
                     struct kernel_place *out);
/* Removes the flag bits in `mask` from the address of a place, and stores them in *flags. */
void kernel_place_flags(struct kernel_place *p, unsigned mask, unsigned *flags);

/* Finds the place of an address in a linked file. */
void kernel_place_at(struct kernel *k, uint64_t addr, struct kernel_place *out);

/* Returns the contents of the section from a place on, or null if fewer than `size` bytes follow. */
const uint8_t *kernel_place_bytes(const struct kernel *k, const struct kernel_place *p, uint64_t size);
/* Returns the number of bytes from a place to the end of its section. */
uint64_t kernel_place_left(const struct kernel *k, const struct kernel_place *p);
bool kernel_place_is_code(const struct kernel *k, const struct kernel_place *p);
/* Returns the NUL-terminated string at a place, or null. */
const char *kernel_place_string(const struct kernel *k, const struct kernel_place *p);

/*
 * kernel_place_text() writes a place as an address, or in ET_REL as ".text+0x10". kernel_place_name() writes "name+0x4"
 * if there is a symbol, otherwise the offset in the section.
 */
void kernel_place_text(const struct kernel *k, const struct kernel_place *p, char *out, size_t size);
void kernel_place_name(const struct kernel *k, const struct kernel_place *p, char *out, size_t size);

/* Returns the first relocation of a section in [start, end), or null if there is none or the relocations cannot be
 * read. */
const struct elf_reloc *kernel_reloc_in(struct kernel *k, uint32_t section, uint64_t start, uint64_t end);
/* Returns a phrase that says why the relocations of a section cannot be read, or null if they can be read. */
const char *kernel_relocs_broken(struct kernel *k, uint32_t section);
/* Finds the place to which a relocation's symbol plus addend plus `bias` refers. */
void kernel_reloc_place(const struct kernel *k, const struct elf_reloc *r, int64_t bias, struct kernel_place *out);

/* These two are called only by kernel.c. */
void kernel_relocs_open(struct kernel *k);
void kernel_relocs_free(struct kernel *k);

/* ---- code ---------------------------------------------------------------------- */

/*
 * Disassembles `size` bytes at a place into readable text: "; " separates instructions, each reference is followed by
 * the symbol that it means, and a run of padding becomes one word. If `size` is 0, disassembles one instruction.
 */
void kernel_code_text(struct kernel *k, const struct kernel_place *p, uint64_t size, char *out, size_t out_size);

#endif
