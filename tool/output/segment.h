/* SPDX-License-Identifier: MIT */
/*
 * Adds read-only data to a linked ELF file (ET_EXEC, ET_DYN, x86-64), with section headers of its own. The addresses to
 * which code and data refer do not change.
 *
 * The place in memory: the kernel begins the heap of a program whose addresses are not randomized right after its
 * highest PT_LOAD, and programs made by unexec (GCL, Emacs up to 26, XEmacs) have their heap at _end and grow it by brk
 * from there. So the data of a program go, in this order,
 *   1. into the largest gap between its segments, as a PT_LOAD of their own;
 *   2. in a program at fixed addresses, below all others: its first PT_LOAD is extended downwards, by a page for the
 *      ELF header and the program headers, and by the data. Its end stays where it is, since elfutils match a separate
 *      debug file by the end of the first PT_LOAD. Linux before 5.18 computes AT_PHDR from the first PT_LOAD, so that
 *      only a segment with the program headers in it can be below the others;
 *   3. above all others, as a PT_LOAD of their own, in position-independent files only. Any other file is refused.
 * The data of a shared library, which has no heap, always go above.
 *
 * These are pure functions on byte buffers: they read and write no file and keep no state, and any thread may call
 * them. The same input gives the same bytes, and a second run over the output finds the segment and replaces its
 * contents.
 *
 * A section may ask for a program header of its own (struct segment_section.phdr): a header of that type is pointed to
 * the section, or added if the file has none.
 *
 * The program headers that are needed come from these places, in this order:
 *   1. a PT_NULL entry;
 *   2. unused zero bytes after the program header table;
 *   3. PT_GNU_PROPERTY, if a PT_NOTE with 8-byte alignment covers the same note: glibc then reads the PT_NOTE, and the
 *      x86 kernel reads neither;
 *   4. PT_PHDR, if there is no PT_INTERP (shared objects, static programs): the loaders then take the table from
 *      AT_PHDR or the ELF header;
 *   5. space after the table, from which sections that only headers or DT_ entries refer to (.interp, notes, .gnu.hash,
 *      .hash, .dynsym) move up a little or into the new segment. The build-id note leaves the first page of the file,
 *      where older kernels and core dumps look for it, only if nothing else makes enough space. Symbols, relocations,
 *      data and (by a scan for operands) code must not refer to a section that moves;
 *   6. a new first page with the ELF header and the table, by which the first PT_LOAD of a program at fixed addresses
 *      is extended downwards: everything else moves in the file, by a multiple of its segments' alignment, and keeps
 *      its address. The old ELF header, to which code may refer as __ehdr_start, leads to the new table. The page has a
 *      copy of the build-id note, which would leave the first page of the file;
 *   7. the new segment, into which the table itself moves. This is the last resort because GNU strip and objcopy always
 *      write the table directly after the ELF header, and break a file whose table was elsewhere. (eu-strip keeps it,
 *      thanks to section SEGMENT_TABLE.)
 */
#ifndef OUTPUT_SEGMENT_H
#define OUTPUT_SEGMENT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/error.h"

/* The elf.h of some systems is older than these; binutils' include/elf/common.h defines them. */
#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME 0x6474e554u
#endif
#ifndef SHT_GNU_SFRAME
#define SHT_GNU_SFRAME 0x6ffffff4u
#endif

/* Results. All but SEGMENT_OK leave a message in `e`, without the file's name
 * and without a newline. */
enum segment_result {
	SEGMENT_OK = 0,
	SEGMENT_EINPUT = -1,  /* not a linked x86-64 ELF file, or one that cannot be rewritten */
	SEGMENT_ENOSLOT = -2, /* there is no space for another program header */
	SEGMENT_EINVAL = -3,  /* the caller's list of sections is not usable */
};

/*
 * The segment begins with an ELF note in section SEGMENT_SECTION, so that a runtime that calls dl_iterate_phdr() can
 * recognise the segment by its PT_LOAD alone. No PT_NOTE covers the note, since that would take a second program
 * header. The section is SHT_PROGBITS, because eu-elflint reports every SHT_NOTE whose owner it does not know.
 */
#define SEGMENT_SECTION   ".etch.segment"
#define SEGMENT_TABLE     ".etch.phdrs"    /* covers the program headers, if they are in the segment */
#define SEGMENT_FRONT     ".etch.ehdr"     /* covers the old ELF header, if there is a new first page */
#define SEGMENT_BUILD_ID  ".etch.build-id" /* a copy of the build-id note in a new first page */
#define SEGMENT_UNLOADED  ".etch."
#define SEGMENT_NOTE_TYPE 0x67657365u /* "eseg" */
#define SEGMENT_VERSION   1u

struct segment_note {
	uint32_t namesz;  /* 5 */
	uint32_t descsz;  /* 12 */
	uint32_t type;    /* SEGMENT_NOTE_TYPE */
	char name[8];     /* "etch" */
	uint32_t version; /* SEGMENT_VERSION */
	uint32_t first; /* offset of the caller's first section from the start of the segment; sections of the file that had
	                   to move are between the note and it */
	uint32_t inside; /* bytes of the segment if it is a part of the first PT_LOAD, otherwise 0 */
};

/*
 * Finds the bytes of etch in a PT_LOAD by the note that they begin with: at its start, or a page further in the PT_LOAD
 * that begins with the ELF header. `note` is what that place holds: SEGMENT_INSIDE bytes from the start of a PT_LOAD
 * with p_offset 0, or the start of any other. Returns the number of the bytes, or 0 if there are none, and sets *at to
 * their offset in the PT_LOAD.
 */
#define SEGMENT_INSIDE 4096u
uint64_t segment_in_load(const Elf64_Phdr *p, const struct segment_note *note, uint64_t *at);

/* A section to add to the segment, or after it. */
struct segment_section {
	const char *name;
	uint32_t type;  /* SHT_PROGBITS or another type that has contents */
	uint64_t flags; /* SHF_MERGE, SHF_STRINGS; SHF_ALLOC is added unless `unloaded` */
	uint64_t align; /* a power of two up to 4096; 0 is 1 */
	uint64_t entsize;
	const void *data;   /* not used by segment_plan */
	uint64_t size;      /* bytes, not 0 */
	uint64_t addr;      /* virtual address of the contents, which segment_plan sets */
	uint32_t phdr;      /* p_type of a program header that covers the section alone; 0: none */
	const char *former; /* new name of the input's section that has this name; null: it keeps the name */
	bool unloaded; /* not a part of the segment, but after it in the file, without an address; strip may drop it. The
	                  name must begin with SEGMENT_UNLOADED */
};

/*
 * Sets secs[].addr to the address that each of the n sections will have. The addresses depend on names, sizes and
 * alignments, but not on contents, which may therefore contain them. With a .bss of gigabytes the segment may be more
 * than 2 GiB away from the code, so a caller with 32-bit references must check them.
 */
int segment_plan(const uint8_t *file, size_t size, struct segment_section *secs, size_t n, struct error *e);

/* A file, and the sections that it is to get. */
struct segment_request {
	const uint8_t *file;
	size_t size; /* bytes of the file */
	struct segment_section *sections;
	size_t count;
	int (*fill)(void *context); /* segment_build() calls it; null: the contents are complete */
	void *context;
};

/*
 * Makes the file with these sections in *out, which the caller frees, at the addresses that segment_plan gave for the
 * same list (otherwise the result is SEGMENT_EINVAL). The list as a whole replaces the sections of an existing etch
 * segment; if names and sizes are the same, only contents change. All other sections keep their index.
 */
int segment_add(const struct segment_request *q, uint8_t **out, size_t *out_size, struct error *e);

/*
 * Does the work of segment_plan() and segment_add(), but makes the layout only once. Between the two it calls `fill`,
 * which writes the contents that depend on addresses. If `fill` does not return 0, its result is returned, and it must
 * have set the error itself.
 */
int segment_build(const struct segment_request *q, uint8_t **out, size_t *out_size, struct error *e);

/*
 * Finds the etch segment of a file. Returns 1 and sets *found, or returns 0 if there is none, or a negative result.
 * `offset` is that in the file; `first` is as in struct segment_note.
 */
struct segment_found {
	uint64_t offset, addr, size, first;
};
int segment_find(const uint8_t *file, size_t size, struct segment_found *found, struct error *e);
/* Does code or a relocation make the address of _end, the end of the highest segment, or does code make one in the page
 * after it? The answer may be yes by mistake, since this does not disassemble. */
bool segment_end_is_used(const uint8_t *file, size_t size);
/* Do these bytes begin with the note of an etch segment, of any version? */
bool segment_begins(const uint8_t *bytes, size_t size);

#endif
