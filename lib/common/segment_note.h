/* SPDX-License-Identifier: MIT */
/*
 * segment_note.h: the note at the start of a segment that etch has added (tool/output/segment.h).
 */
#ifndef ETCH_LIB_COMMON_SEGMENT_NOTE_H
#define ETCH_LIB_COMMON_SEGMENT_NOTE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct segment_note {
	uint32_t namesz, descsz, type;
	char name[8];
	uint32_t version;
	uint32_t first;  /* offset of the first table from the segment's start */
	uint32_t inside; /* bytes of a segment that is a part of the first PT_LOAD; 0: it is a PT_LOAD of its own */
};
#define SEGMENT_NOTE_TYPE    0x67657365u
#define SEGMENT_NOTE_VERSION 1u
#define SEGMENT_NOTE_INSIDE  4096u /* the note's offset in a PT_LOAD that begins with the ELF header */

/* The number of bytes, from *at on, of a segment with this program header that may belong to etch; 0: none. */
static inline uint64_t segment_note_may(const Elf64_Phdr *p, uint64_t *at)
{
	*at = p->p_offset ? 0 : SEGMENT_NOTE_INSIDE;
	if (p->p_type != PT_LOAD || (p->p_flags & (PF_R | PF_W)) != PF_R || (p->p_offset && (p->p_flags & PF_X)) ||
	    p->p_filesz < *at + sizeof(struct segment_note))
		return 0;
	return p->p_filesz - *at;
}

/* The size of etch's segment that begins with this note, at offset `at`, out of the `capacity` bytes that are there; 0
 * if the note does not fit them. */
static inline uint64_t segment_note_size(const struct segment_note *n, uint64_t at, uint64_t capacity)
{
	if ((n->inside != 0) != (at != 0) || n->inside > capacity)
		return 0;
	return n->inside ? n->inside : capacity;
}

/* Copies the note. Returns 1, or 0 if these bytes are no note. */
static inline int segment_note_read(const void *segment, struct segment_note *n)
{
	/* Most segments have no note, and one word tells. */
	__builtin_memcpy(&n->type, (const char *)segment + offsetof(struct segment_note, type), sizeof(n->type));
	if (n->type != SEGMENT_NOTE_TYPE)
		return 0;
	__builtin_memcpy(n, segment, sizeof(*n));
	return n->namesz == 5 && n->descsz == 12 && n->version == SEGMENT_NOTE_VERSION && n->name[0] == 'e' &&
	       n->name[1] == 't' && n->name[2] == 'c' && n->name[3] == 'h' && !n->name[4];
}

#endif
