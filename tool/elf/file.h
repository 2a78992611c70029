/* SPDX-License-Identifier: MIT */
/*
 * An ELF file in memory, checked once and unpacked into arrays. Only the files
 * of this folder and of dwarf/ use libelf and libdw.
 *
 * All pointers and indices given out here are valid: a section's data has sh_size
 * bytes or is null, a symbol's name is terminated, a section index exists. Values
 * of symbols and offsets of relocations may be anything, and the caller has to
 * check them: elf_held() does it for an address in a section, elf_at() for one
 * in a segment.
 */
#ifndef ELF_FILE_H
#define ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <time.h>

#include "support/error.h"

struct elf_section {
	const char *name;
	Elf64_Shdr sh;
	const uint8_t *data; /* sh_size bytes; null for SHT_NOBITS and empty sections */
};

struct elf_symbol {
	const char *name; /* never null */
	uint64_t value;
	uint64_t size;
	uint32_t section; /* real section index, also beyond SHN_LORESERVE; 0 = undefined */
	uint16_t special; /* SHN_ABS, SHN_COMMON..., or 0 */
	uint8_t type, bind, visibility;
};

struct elf_reloc {
	uint64_t offset;
	int64_t addend;
	uint32_t type;
	uint32_t symbol; /* index into the symbol table that the section links to */
};

struct elf_file {
	const char *path;
	uint8_t *bytes; /* the whole file; owned */
	size_t size;
	Elf64_Ehdr eh;
	struct elf_section *sections;
	uint32_t section_count;
	struct elf_span *spans; /* sections by address, for elf_section_at() */
	size_t span_count;
	/* For elf_section_rela(): relas[target] is the first section that relocates `target`, relas[section_count + rela]
	 * the next one after `rela` with the same target; 0: none. */
	uint32_t *relas;
	Elf64_Phdr *phdrs;
	uint32_t phdr_count;
	struct elf_symbol *symbols; /* .symtab, or .dynsym where there is no .symtab */
	uint32_t symbol_count;
	uint32_t symtab;            /* its section; 0 = none */
	struct elf_symbol *dynsyms; /* .dynsym */
	uint32_t dynsym_count;
	uint32_t dynsym; /* its section; 0 = none */
	void *elf;       /* libelf's handle */
};

/*
 * Opens and checks `path`. Returns 0; or -1 and a message: not a regular file,
 * cannot be read, not ELF, not 64-bit x86-64 little-endian, not an object,
 * program or library, truncated, or malformed. elf_close() also after a failure.
 */
int elf_open(struct elf_file *f, const char *path, struct error *e);
/* The same for bytes in memory (malloc'd); takes ownership of them. */
int elf_open_bytes(struct elf_file *f, const char *path, uint8_t *bytes, size_t size, struct error *e);
void elf_close(struct elf_file *f);
/* Replaces f->bytes, and the sections' data in it, by a copy that may be changed. The previous bytes become the
 * caller's, and must live as long as `f`: names of symbols still point into them. */
void elf_bytes_own(struct elf_file *f);

/* What a file was when it was read, to detect that it has been written or replaced since. Fields that do not depend on
 * the contents (names, permissions, time of the last status change) are left out on purpose. */
struct file_mark {
	uint64_t size;
	struct timespec written;
	uint64_t device, number;
	uint64_t names; /* number of hard links; not compared */
};

/* Reads all of a regular file into *bytes (malloc'd); a file that is written meanwhile is an error. */
int file_read(const char *path, uint8_t **bytes, size_t *size, struct error *e);
int file_read_marked(const char *path, uint8_t **bytes, size_t *size, struct file_mark *mark, struct error *e);
/* Opens a regular file for reading. Returns the descriptor, or -1 and a message. */
int file_open_marked(const char *path, struct file_mark *mark, struct error *e);
/* Has the file been written or truncated since it was opened so? True also where the system does not say. */
bool file_is_written_since(int fd, const struct file_mark *mark);

/* True for LLVM bitcode, raw or wrapped: what clang -flto writes instead of ELF. */
bool file_is_bitcode(const uint8_t *bytes, size_t size);

/* True for a file of debug information alone (objcopy --only-keep-debug, eu-strip -f): its code sections have
 * an address and a size, but no contents. */
bool elf_is_debug(const struct elf_file *f);
#define ELF_DEBUG_FILE "is a debug file: the code is in the file that it describes"
/* True for an object of gcc -flto that has no machine code yet. */
bool elf_is_slim_lto(const struct elf_file *f);

/*
 * True for an ELF file in a format that only the program that made it reads. ident is the first EI_NIDENT bytes. The
 * gABI gives the OS/ABI values from 64 on to each processor, and the psABI of x86-64 defines none of them, so a file
 * that has one is marked for a single consumer: Wasmtime marks its compiled modules with 200, and does not load one
 * that has a section which it does not know. ELFOSABI_STANDALONE is in that range, but is an ordinary program.
 */
static inline bool elf_is_private(const uint8_t *ident)
{
	return ident[EI_OSABI] >= 64 && ident[EI_OSABI] != ELFOSABI_STANDALONE;
}

static inline bool elf_is_object(const struct elf_file *f) { return f->eh.e_type == ET_REL; }

/* Is a section's name this one? An object may have a hundred thousand sections: most names differ in the first
 * characters. */
static inline bool elf_name_is(const char *name, const char *wanted)
{
	return name[0] == wanted[0] && (!name[0] || (name[1] == wanted[1] && !strcmp(name, wanted)));
}

/* First section of that name from index `from` on, or 0. */
uint32_t elf_section_find(const struct elf_file *f, const char *name, uint32_t from);
/* The section that relocates section `target` (SHT_RELA), from index `from` on, or 0. */
uint32_t elf_section_rela(const struct elf_file *f, uint32_t target, uint32_t from);

/* Relocations of an SHT_RELA section, sorted by offset; malloc'd. Returns their
 * number, or -1 and a message (symbol index out of range, odd size). */
long elf_relocs(const struct elf_file *f, uint32_t section, struct elf_reloc **out, struct error *e);
/* The same number, for who reads the relocations in place, by elf_reloc_at(): a large program has hundreds of
 * thousands, and few passes need them sorted. */
long elf_relocs_count(const struct elf_file *f, uint32_t section, struct error *e);

/* Relocation i of a section, in the order of the file; i is below elf_relocs_count(). */
static inline struct elf_reloc elf_reloc_at(const struct elf_file *f, uint32_t section, long i)
{
	Elf64_Rela rela;

	memcpy(&rela, f->sections[section].data + (size_t)i * sizeof(rela), sizeof(rela));
	return (struct elf_reloc){.offset = rela.r_offset,
	                          .addend = rela.r_addend,
	                          .type = (uint32_t)ELF64_R_TYPE(rela.r_info),
	                          .symbol = (uint32_t)ELF64_R_SYM(rela.r_info)};
}

/* Linked files: the bytes at a virtual address, of which at least `size` are in
 * one loaded segment's file contents; null otherwise. */
const uint8_t *elf_at(const struct elf_file *f, uint64_t addr, uint64_t size);
/* Linked files: the section (SHF_ALLOC) whose header covers a virtual address, or 0. Whether the file has
 * contents for that address is for elf_held() to say (SHT_NOBITS). */
uint32_t elf_section_at(const struct elf_file *f, uint64_t addr);

/* A part of the file's contents. */
struct elf_held {
	const uint8_t *bytes; /* null where size is 0 */
	uint64_t size;
};

/* A section's contents from an address (ET_REL: an offset) to the section's end. Empty for SHT_NOBITS, whose
 * sh_size counts bytes that are in no file; for an address outside of the section; for section 0. */
struct elf_held elf_held(const struct elf_file *f, uint32_t section, uint64_t addr);

/* Checks that a section's contents may be changed in place: no other section and no header shares the bytes, and in a
 * linked file its segment maps these bytes at its address. 0, or -1 and a message. */
int elf_section_alone(const struct elf_file *f, uint32_t section, struct error *e);
/* No byte of the file, and in a linked file no address, is in two sections, as linkers guarantee. */
bool elf_sections_apart(const struct elf_file *f);

/* True for an ET_DYN that is a program (DF_1_PIE). */
bool elf_is_pie(const struct elf_file *f);
/* The first value of a tag in the dynamic segment; false, and *value 0: no such entry. */
bool elf_dynamic(const struct elf_file *f, int64_t tag, uint64_t *value);

/* The build-id (NT_GNU_BUILD_ID), in the file's bytes; returns its size, 0 for none. */
size_t elf_build_id(const struct elf_file *f, const uint8_t **id);

/* "name+0x12" of the function symbol that holds an address (in ET_REL: offset in
 * `section`), or "section+0x12". For messages; truncated to out_size. */
void elf_describe(const struct elf_file *f, uint32_t section, uint64_t addr, char *out, size_t out_size);

#endif
