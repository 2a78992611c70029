/* SPDX-License-Identifier: MIT */
/*
 * An ELF file in memory: checked once, then plain arrays. The only other users
 * of libelf and libdw are the files of this folder.
 *
 * Everything handed out here is inside the file: a section's data has sh_size
 * bytes, a symbol's name ends, a section index is valid. What the ELF
 * specification leaves open (values of symbols, offsets of relocations) is for
 * the reader to check.
 */
#ifndef ELF_FILE_H
#define ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <time.h>

#include "report/error.h"

struct elf_section {
	const char *name;
	Elf64_Shdr sh;
	const uint8_t *data; /* sh_size bytes; null for SHT_NOBITS and empty sections */
};

struct elf_symbol {
	const char *name;  /* never null */
	uint64_t value;
	uint64_t size;
	uint32_t section;  /* real section index, also beyond SHN_LORESERVE; 0 = undefined */
	uint16_t special;  /* SHN_ABS, SHN_COMMON..., or 0 */
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
	struct elf_span *spans; /* elf_section_at */
	size_t span_count;
	Elf64_Phdr *phdrs;
	uint32_t phdr_count;
	struct elf_symbol *symbols; /* .symtab, or .dynsym where there is no .symtab */
	uint32_t symbol_count;
	uint32_t symtab;            /* its section; 0 = none */
	struct elf_symbol *dynsyms; /* .dynsym */
	uint32_t dynsym_count;
	uint32_t dynsym;            /* its section; 0 = none */
	void *elf;                  /* libelf's handle */
};

/*
 * Opens and checks `path`. Returns 0; or -1 and a message: not a regular file,
 * cannot be read, not ELF, not 64-bit x86-64 little-endian, not an object,
 * program or library, truncated, or malformed. elf_close() also after a failure.
 */
int elf_open(struct elf_file *f, const char *path, struct error *e);
/* The same for bytes already in memory, which it takes over. */
int elf_open_bytes(struct elf_file *f, const char *path, uint8_t *bytes, size_t size, struct error *e);
void elf_close(struct elf_file *f);
/* From now on f->bytes, and sections' data in them, are a copy that may be changed; what was
 * there before, which names of symbols go on pointing into, is the caller's. */
int elf_bytes_own(struct elf_file *f, struct error *e);

/* By this a file that was read is known again. Nothing but its contents is meant: other names,
 * permissions, or a file system that numbers its files anew make no other file of it. */
struct file_mark {
	uint64_t size;
	struct timespec written;
	uint64_t device, number;
	uint64_t names; /* hard links; no part of the likeness */
};

/* Reads all of a regular file; a file that is written meanwhile is an error. */
int file_read(const char *path, uint8_t **bytes, size_t *size, struct error *e);
int file_read_marked(const char *path, uint8_t **bytes, size_t *size, struct file_mark *mark, struct error *e);

/* True for LLVM bitcode, raw or wrapped: what clang -flto writes instead of ELF. */
bool file_is_bitcode(const uint8_t *bytes, size_t size);

/* A file of debug information alone (objcopy --only-keep-debug, eu-strip -f): its code has an
 * address and a size, and is elsewhere. */
bool elf_is_debug(const struct elf_file *f);
#define ELF_DEBUG_FILE "is a debug file: the code is in the file that it is about"
/* True for an object of gcc -flto that has no machine code yet. */
bool elf_is_slim_lto(const struct elf_file *f);

static inline bool elf_is_object(const struct elf_file *f) { return f->eh.e_type == ET_REL; }

/* First section of that name from index `from` on, or 0. */
uint32_t elf_section_find(const struct elf_file *f, const char *name, uint32_t from);
/* The section that relocates section `target` (SHT_RELA), from index `from` on, or 0. */
uint32_t elf_section_rela(const struct elf_file *f, uint32_t target, uint32_t from);

/* Relocations of an SHT_RELA section, sorted by offset; malloc'd. Returns their
 * number, or -1 and a message (symbol index out of range, odd size). */
long elf_relocs(const struct elf_file *f, uint32_t section, struct elf_reloc **out, struct error *e);

/* Linked files: the bytes at a virtual address, of which at least `size` are in
 * one loaded segment's file contents; null otherwise. */
const uint8_t *elf_at(const struct elf_file *f, uint64_t addr, uint64_t size);
/* Linked files: the section that holds a virtual address (SHF_ALLOC), or 0. */
uint32_t elf_section_at(const struct elf_file *f, uint64_t addr);

/* ET_DYN that is a program: DF_1_PIE. */
bool elf_is_pie(const struct elf_file *f);
/* The first value of a tag in the dynamic segment; false, and 0: it has none. */
bool elf_dynamic(const struct elf_file *f, int64_t tag, uint64_t *value);

/* The build-id (NT_GNU_BUILD_ID), in the file's bytes; returns its size, 0 for none. */
size_t elf_build_id(const struct elf_file *f, const uint8_t **id);

/* "name+0x12" of the function symbol that holds an address (in ET_REL: offset in
 * `section`), or "section+0x12". For people; truncated to fit. */
void elf_describe(const struct elf_file *f, uint32_t section, uint64_t addr, char *out, size_t out_size);

#endif
