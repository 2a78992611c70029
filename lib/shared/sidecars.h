/* SPDX-License-Identifier: MIT */
/*
 * shared/sidecars.h: sidecars, the files with unwind tables of other files (docs/formats.md): the directories where
 * DIRECTORY/BUILD-ID is looked for, in this order, and the header that says of which file a sidecar is. If there is
 * none, a table is made from .eh_frame. Internal to etch.
 *
 * Any file can bear a build-id, so a sidecar says by two hashes of what it was made; one whose hashes are another
 * file's is passed over. Readers compare the layout, which costs a few hundred bytes and .eh_frame_hdr; `etch tables
 * update` compares everything.
 */
#ifndef ETCH_LIB_SHARED_SIDECARS_H
#define ETCH_LIB_SHARED_SIDECARS_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/blake2b.h"

#define SIDECARS_VARIABLE "ETCH_SIDECAR_DIR"     /* 1: the user's directory; ignored in set-user-ID programs */
#define SIDECARS_PACKAGED "/usr/lib/etch/unwind" /* 2: the directory in which packages install sidecars */
#define SIDECARS_CACHE    "/var/cache/etch"      /* 3: the directory that `etch tables update` maintains */

#define SIDECAR_MAGIC   0x63737465u /* "etsc" */
#define SIDECAR_VERSION 1u

/* The first 128 bytes of a sidecar. The unwind table follows, and then a register table if the file has one. */
struct sidecar {
	uint32_t magic;
	uint16_t version;
	uint16_t size;  /* size of this header */
	uint64_t bytes; /* size of what follows; 0: no table can be made of this file */
	uint8_t layout[BLAKE2B_DIGEST];
	uint8_t contents[BLAKE2B_DIGEST]; /* all zero if bytes is 0 and several files with this layout have no table */
	uint8_t refused[BLAKE2B_DIGEST];  /* without a table: hash of the whole file; with one: zero */
	uint8_t zero[16];
};
_Static_assert(sizeof(struct sidecar) == 128, "the layout is fixed");

/* Two files can have the same build-id. The table of the second file is called BUILD-ID-LAYOUT, with so many bytes of
 * the layout in hexadecimal, and is read if the file BUILD-ID belongs to another file. */
#define SIDECAR_NAME_LAYOUT 8

/* Copies the ELF header without what `strip` changes. */
static inline Elf64_Ehdr sidecar_header_of(const Elf64_Ehdr *eh)
{
	Elf64_Ehdr h = *eh;

	h.e_shoff = 0;
	h.e_shentsize = h.e_shnum = h.e_shstrndx = 0;
	return h;
}

/* Computes the layout: the hash of the ELF header, the program headers, and .eh_frame_hdr as its program header
 * describes it (null if there is none). */
static inline void sidecar_layout(uint8_t out[BLAKE2B_DIGEST], const Elf64_Ehdr *eh, const Elf64_Phdr *phdrs,
                                  unsigned count, const void *eh_frame_hdr, uint64_t size)
{
	Elf64_Ehdr h = sidecar_header_of(eh);
	struct blake2b s;

	blake2b_init(&s);
	blake2b_add(&s, &h, sizeof(h));
	blake2b_add(&s, phdrs, (uint64_t)count * sizeof(*phdrs));
	if (eh_frame_hdr)
		blake2b_add(&s, eh_frame_hdr, size);
	blake2b_end(&s, out);
}

/* What sidecar_judge() finds out about a sidecar. */
enum sidecar_state {
	SIDECAR_GOOD,   /* the header is that of this file, and a table follows */
	SIDECAR_OLD,    /* the sidecar has an earlier format, or the file is no sidecar */
	SIDECAR_OTHERS, /* the sidecar belongs to another file */
	SIDECAR_NONE,   /* the sidecar says that no table can be made */
};

/* Judges the first bytes of a sidecar. */
static inline enum sidecar_state sidecar_judge(const void *file, uint64_t size, const uint8_t layout[BLAKE2B_DIGEST])
{
	struct sidecar s;

	if (size < sizeof(s))
		return SIDECAR_OLD;
	memcpy(&s, file, sizeof(s));
	if (s.magic != SIDECAR_MAGIC || s.version != SIDECAR_VERSION || s.size != sizeof(s))
		return SIDECAR_OLD;
	if (memcmp(s.layout, layout, sizeof(s.layout)) != 0)
		return SIDECAR_OTHERS;
	return s.bytes ? SIDECAR_GOOD : SIDECAR_NONE;
}

/* May this file, which lies in `directory`, be read as a sidecar? Not if another user has put it into a directory
 * that everyone can write to. */
static inline int sidecar_is_trusted(const struct stat *file, const struct stat *directory, uid_t self)
{
	return file->st_uid == 0 || file->st_uid == self || file->st_uid == directory->st_uid;
}

#endif
