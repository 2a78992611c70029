/* SPDX-License-Identifier: MIT */
/*
 * An ELF file in memory, which is checked once and unpacked into arrays. Only the files of this folder and of dwarf/
 * use libelf and libdw.
 *
 * All pointers and indices that these functions give out are valid: a section's data has sh_size bytes or is null, a
 * symbol's name is terminated, and a section index exists. Values of symbols and offsets of relocations may be
 * anything, so the caller must check them: elf_held() checks an address in a section, elf_at() one in a segment.
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
	uint32_t section; /* real section index, even if it is beyond SHN_LORESERVE; 0 = undefined */
	uint16_t special; /* SHN_ABS, SHN_COMMON..., or 0 */
	uint8_t type, bind, visibility;
};

struct elf_reloc {
	uint64_t offset;
	int64_t addend;
	uint32_t type;
	uint32_t symbol; /* index into the symbol table that the section links to */
};

/* The order of relocations by offset, for qsort(). */
static inline int elf_reloc_order(const void *a, const void *b)
{
	const struct elf_reloc *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Does a relocation of this type store the distance from its place to the symbol? */
static inline bool elf_reloc_is_relative(uint32_t type)
{
	return type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_PC64;
}

/* An element of the list by which elf_section_at() finds sections: it keeps lookups fast in a file that has 64 Ki
 * sections and as many symbols, each of which needs a lookup. */
struct elf_span {
	uint64_t start, last; /* inclusive */
	uint32_t section;
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
	/* elf_section_rela() uses this: relas[target] is the first section that relocates `target`, relas[section_count +
	 * rela] is the next one after `rela` with the same target; 0: there is none. */
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
 * Opens and checks `path`. Returns 0, or -1 and a message if the file is not a regular file, cannot be read, is not
 * ELF, is not 64-bit x86-64 little-endian, is not an object, program or library, is truncated, or is malformed. Call
 * elf_close() even after a failure.
 */
int elf_open(struct elf_file *f, const char *path, struct error *e);
/* Checks a file whose bytes are in memory (malloc'd), with the results of elf_open(). It takes ownership of the bytes;
 * `path` is for messages. */
int elf_open_bytes(struct elf_file *f, const char *path, uint8_t *bytes, size_t size, struct error *e);
void elf_close(struct elf_file *f);
/* Replaces f->bytes, and the sections' data in it, by a copy that may be changed. The caller then owns the previous
 * bytes, which must live as long as `f`, because names of symbols still point into them. */
void elf_bytes_own(struct elf_file *f);

/* Records the state of a file when it was read, to detect that it has been written or replaced since. Fields that do
 * not depend on the contents (names, permissions, time of the last status change) are left out on purpose. */
struct file_mark {
	uint64_t size;
	struct timespec written;
	uint64_t device, number;
	uint64_t names; /* number of hard links; not compared */
};

/* Reads all of a regular file into *bytes (malloc'd). It is an error if the file is written meanwhile. */
int file_read(const char *path, uint8_t **bytes, size_t *size, struct error *e);
int file_read_marked(const char *path, uint8_t **bytes, size_t *size, struct file_mark *mark, struct error *e);
/* Opens a regular file for reading. Returns the descriptor, or -1 and a message. */
int file_open_marked(const char *path, struct file_mark *mark, struct error *e);
/* Has the file been written or truncated since file_open_marked() opened it? The answer is also yes if the system
 * cannot tell. */
bool file_is_written_since(int fd, const struct file_mark *mark);

/* Is this LLVM bitcode, raw or wrapped, which clang -flto writes instead of ELF? */
bool file_is_bitcode(const uint8_t *bytes, size_t size);

/* Is this a file of debug information alone (objcopy --only-keep-debug, eu-strip -f)? Its code sections have an address
 * and a size, but no contents. */
bool elf_is_debug(const struct elf_file *f);
#define ELF_DEBUG_FILE "is a debug file: the code is in the file that it describes"
/* Is this an object of gcc -flto that has no machine code yet? */
bool elf_is_slim_lto(const struct elf_file *f);

/*
 * Is this an ELF file in a format that only the program that made it reads? `ident` holds its first EI_NIDENT bytes.
 * The gABI leaves the OS/ABI values from 64 on to each processor, and the psABI of x86-64 defines none of them, so a
 * file that has one is marked for a single consumer. Wasmtime, for example, marks its compiled modules with 200, and
 * does not load one that has a section which it does not know. ELFOSABI_STANDALONE is in that range too, but marks an
 * ordinary program.
 */
static inline bool elf_is_private(const uint8_t *ident)
{
	return ident[EI_OSABI] >= 64 && ident[EI_OSABI] != ELFOSABI_STANDALONE;
}

static inline bool elf_is_object(const struct elf_file *f) { return f->eh.e_type == ET_REL; }

/* Is a section's name equal to `wanted`? An object may have a hundred thousand sections, whose names mostly differ in
 * the first characters. */
static inline bool elf_name_is(const char *name, const char *wanted)
{
	return name[0] == wanted[0] && (!name[0] || (name[1] == wanted[1] && !strcmp(name, wanted)));
}

/* Returns the first section of that name from index `from` on, or 0. */
uint32_t elf_section_find(const struct elf_file *f, const char *name, uint32_t from);
/* Returns the first section from index `from` on that relocates section `target` (SHT_RELA), or 0. */
uint32_t elf_section_rela(const struct elf_file *f, uint32_t target, uint32_t from);

/* Reads the relocations of an SHT_RELA section, sorted by offset; malloc'd. Returns their number, or -1 and a message
 * if a symbol index is out of range or the size is no multiple of that of an entry. */
long elf_relocs(const struct elf_file *f, uint32_t section, struct elf_reloc **out, struct error *e);
/* Makes the checks of elf_relocs() and returns the number that it would return, for callers that read the relocations
 * in place by elf_reloc_at(): a large program has hundreds of thousands of relocations, and few passes need them
 * sorted. */
long elf_relocs_count(const struct elf_file *f, uint32_t section, struct error *e);

/* Returns relocation i of a section, in the order of the file; i must be below elf_relocs_count(). */
static inline struct elf_reloc elf_reloc_at(const struct elf_file *f, uint32_t section, long i)
{
	Elf64_Rela rela;

	memcpy(&rela, f->sections[section].data + (size_t)i * sizeof(rela), sizeof(rela));
	return (struct elf_reloc){.offset = rela.r_offset,
	                          .addend = rela.r_addend,
	                          .type = (uint32_t)ELF64_R_TYPE(rela.r_info),
	                          .symbol = (uint32_t)ELF64_R_SYM(rela.r_info)};
}

/* For linked files: returns the bytes at a virtual address if at least `size` of them are in the file contents of one
 * loaded segment, or null. */
const uint8_t *elf_at(const struct elf_file *f, uint64_t addr, uint64_t size);
/* For linked files: returns the section (SHF_ALLOC) whose header covers a virtual address, or 0. elf_held() tells
 * whether the file has contents for that address, which it has not for SHT_NOBITS. */
uint32_t elf_section_at(const struct elf_file *f, uint64_t addr);

/* Builds f->spans; only elf_open_bytes() calls this. An object file has no addresses, and gets no list. */
void elf_spans_build(struct elf_file *f);

/* A part of the file's contents. */
struct elf_held {
	const uint8_t *bytes; /* null where size is 0 */
	uint64_t size;
};

/* Returns a section's contents from an address (ET_REL: an offset) to the section's end. They are empty for SHT_NOBITS,
 * whose sh_size counts bytes that are in no file, for an address outside the section, and for section 0. */
struct elf_held elf_held(const struct elf_file *f, uint32_t section, uint64_t addr);

/* Checks that a section's contents may be changed in place: no other section and no header shares the bytes, and in a
 * linked file its segment maps these bytes at its address. Returns 0, or -1 and a message. */
int elf_section_alone(const struct elf_file *f, uint32_t section, struct error *e);
/* Is no byte of the file, and in a linked file no address, in two sections? Linkers guarantee this. */
bool elf_sections_apart(const struct elf_file *f);

/* Is this ET_DYN a program (DF_1_PIE)? */
bool elf_is_pie(const struct elf_file *f);
/* Finds the first value of a tag in the dynamic segment. Returns false and sets *value to 0 if there is no such
 * entry. */
bool elf_dynamic(const struct elf_file *f, int64_t tag, uint64_t *value);

/* Finds the build-id (NT_GNU_BUILD_ID) in the file's bytes. Returns its size, or 0 if there is none. */
size_t elf_build_id(const struct elf_file *f, const uint8_t **id);

/* Describes an address (in ET_REL: an offset in `section`) for messages: as "name+0x12" if a function or data symbol
 * contains it, otherwise as "section+0x12". The text is truncated to out_size. */
void elf_describe(const struct elf_file *f, uint32_t section, uint64_t addr, char *out, size_t out_size);
/* Describes an address that no symbol contains, as "section+0x12". The name may have any bytes. */
void elf_describe_unnamed(const struct elf_file *f, uint32_t section, uint64_t addr, char *out, size_t out_size);

#endif
