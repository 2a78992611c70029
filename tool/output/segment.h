/* SPDX-License-Identifier: MIT */
/*
 * Adds read-only data to a linked ELF file (ET_EXEC, ET_DYN, x86-64), with section headers of its own. No address that
 * code or data refer to changes.
 *
 * The place in memory: the kernel begins the heap of a program whose addresses are not randomized right after its
 * highest PT_LOAD, and programs made by unexec (GCL, Emacs up to 26, XEmacs) have their heap at _end and grow it by brk
 * from there. So the data of a program go, in this order,
 *   1. into the largest gap between its segments, as a PT_LOAD of their own;
 *   2. in a program at fixed addresses, below all others: its first PT_LOAD is extended downwards, by a page for the
 * ELF header and the program headers, and by the data. Its end stays where it is: elfutils match a separate debug file
 *      by the end of the first PT_LOAD. Linux before 5.18 computes AT_PHDR from the first PT_LOAD, so that nothing but
 * a segment with the program headers in it can be below the others;
 *   3. above all others, as a PT_LOAD of their own: in position-independent files only. Any other is refused.
 * Those of a shared library, which has no heap, always go above.
 *
 * Pure functions on byte buffers: no file is read or written, no state is kept,
 * any thread may call them.  The same input gives the same bytes, and a second
 * run over the output finds the segment and replaces its contents.
 *
 * A section may ask for a program header of its own (struct segment_section.phdr): one of that type is
 * pointed to the section, and where the file has none, one is added.
 *
 * The program headers that are needed come from these, in this order:
 *   1. a PT_NULL entry;
 *   2. unused zero bytes after the program header table;
 *   3. PT_GNU_PROPERTY, where a PT_NOTE with 8-byte alignment covers the same
 *      note: glibc then reads the PT_NOTE, and the x86 kernel reads neither;
 *   4. PT_PHDR, where there is no PT_INTERP (shared objects, static programs):
 *      the loaders then take the table from AT_PHDR or the ELF header;
 *   5. room after the table, made by moving what only headers or DT_ entries
 *      refer to (.interp, notes, .gnu.hash, .hash, .dynsym) up a little or into
 *      the new segment.  The build-id note leaves the first page of the file,
 *      where older kernels and core dumps look for it, only if nothing else
 *      makes room.  Symbols, relocations, data and (by a scan for operands) code
 *      must not refer to what moves;
 *   6. a new first page with the ELF header and the table, by which the first PT_LOAD of a program at fixed addresses
 *      is extended downwards: everything else moves in the file, by a multiple of its segments' alignment, and keeps
 * its address. The old ELF header, which code may refer to as __ehdr_start, leads to the new table. The page has a copy
 * of the build-id note, which would leave the first page of the file;
 *   7. the table itself goes into the new segment.
 * 7 is the last resort because GNU strip and objcopy always write the table directly
 * after the ELF header, and break a file whose table was elsewhere.
 * (eu-strip keeps it, thanks to section SEGMENT_TABLE.)
 */
#ifndef OUTPUT_SEGMENT_H
#define OUTPUT_SEGMENT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/error.h"

/* Newer than the elf.h of some systems: binutils' include/elf/common.h. */
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
	SEGMENT_ENOSLOT = -2, /* no room for one more program header */
	SEGMENT_EINVAL = -3,  /* the caller's list of sections is not usable */
};

/*
 * The first bytes of the segment: an ELF note (so that a runtime that walks
 * dl_iterate_phdr can tell the segment from its PT_LOAD alone; there is no
 * PT_NOTE for it, which would take a second program header), in section
 * SEGMENT_SECTION.  The section is SHT_PROGBITS: eu-elflint reports every SHT_NOTE
 * whose owner it does not know.
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
	uint32_t first;   /* offset of the caller's first section from the start of the segment;
	                   * sections of the file that had to move lie between the note and it */
	uint32_t inside;  /* bytes of the segment if it is a part of the first PT_LOAD, else 0 */
};

/*
 * Finds the bytes of etch in a PT_LOAD by the note that they begin with: at its start, or, in the one that begins with
 * the ELF header, a page further. `note`: what is at that place, SEGMENT_INSIDE bytes from the start of a PT_LOAD with
 * p_offset 0, at the start of any other. Returns their number, 0 if there are none, and sets *at to their offset in it.
 */
#define SEGMENT_INSIDE 4096u
uint64_t segment_in_load(const Elf64_Phdr *p, const struct segment_note *note, uint64_t *at);

struct segment_section {
	const char *name;
	uint32_t type;  /* SHT_PROGBITS or another type that has contents */
	uint64_t flags; /* SHF_MERGE, SHF_STRINGS; SHF_ALLOC is added unless `unloaded` */
	uint64_t align; /* a power of two up to 4096; 0 is 1 */
	uint64_t entsize;
	const void *data;   /* not used by segment_plan */
	uint64_t size;      /* bytes, not 0 */
	uint64_t addr;      /* set by segment_plan: virtual address of the contents */
	uint32_t phdr;      /* p_type of a program header that covers the section alone; 0: none */
	const char *former; /* new name of the input's section with this name; null: it keeps the name */
	bool unloaded;      /* not part of the segment, but after it in the file, without an address:
	                     * strip may drop it. The name must start with SEGMENT_UNLOADED */
};

/*
 * Sets secs[].addr, where each of the n sections will lie. This depends on names,
 * sizes and alignments, but not on contents, which may therefore contain these
 * addresses. With a .bss of gigabytes the segment may be more than 2 GiB away
 * from the code: a caller with 32-bit references has to check them.
 */
int segment_plan(const uint8_t *file, size_t size, struct segment_section *secs, size_t n, struct error *e);

/* A file, and the sections that it is to get. */
struct segment_request {
	const uint8_t *file;
	size_t size; /* bytes of the file */
	struct segment_section *sections;
	size_t count;
	int (*fill)(void *context); /* for segment_build(); null: the contents are complete */
	void *context;
};

/*
 * Makes the file with these sections, at the addresses that segment_plan gave
 * for the same list (SEGMENT_EINVAL otherwise), in *out, to be freed by the
 * caller. The sections of an existing etch segment are replaced by the list as a
 * whole; if names and sizes are the same, only contents change.
 * All other sections keep their index.
 */
int segment_add(const struct segment_request *q, uint8_t **out, size_t *out_size, struct error *e);

/*
 * segment_plan, then `fill` to write contents that depend on the addresses, then segment_add, but the layout is made
 * only once. If `fill` does not return 0, its result is returned, and it has to set `e` itself.
 */
int segment_build(const struct segment_request *q, uint8_t **out, size_t *out_size, struct error *e);

/*
 * Finds the etch segment of a file: 1 and *found, 0 if there is none, or a
 * negative result. `offset` is in the file; `first` as in struct segment_note.
 */
struct segment_found {
	uint64_t offset, addr, size, first;
};
int segment_find(const uint8_t *file, size_t size, struct segment_found *found, struct error *e);
/* True if code makes the address of _end, the end of the highest segment, or one in the page after it, or a relocation
 * does. May be true without reason: this is no disassembly. */
bool segment_end_is_used(const uint8_t *file, size_t size);
/* True if these bytes begin with the note of an etch segment, of any version. */
bool segment_begins(const uint8_t *bytes, size_t size);

#endif
