/* SPDX-License-Identifier: MIT */
/*
 * segment_note.h: the note at the start of a segment that etch has added (tool/elf/segment.h).
 */
#ifndef ETCH_LIB_COMMON_SEGMENT_NOTE_H
#define ETCH_LIB_COMMON_SEGMENT_NOTE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct segment_note {
	uint32_t namesz, descsz, type;
	char name[8];
	uint32_t version, first, zero; /* first: offset of the first table from the segment's start */
};
#define SEGMENT_NOTE_TYPE    0x67657365u
#define SEGMENT_NOTE_VERSION 1u

/* Can a segment with this program header begin with the note? */
static inline int segment_note_may(const Elf64_Phdr *p)
{
	return p->p_type == PT_LOAD && (p->p_flags & (PF_R | PF_W | PF_X)) == PF_R &&
	       p->p_filesz >= sizeof(struct segment_note);
}

/* Copies the note. Returns 1, or 0 if the segment begins with something else. */
static inline int segment_note_read(const void *segment, struct segment_note *n)
{
	/* Most segments have no note; one word tells. */
	__builtin_memcpy(&n->type, (const char *)segment + offsetof(struct segment_note, type), sizeof(n->type));
	if (n->type != SEGMENT_NOTE_TYPE)
		return 0;
	__builtin_memcpy(n, segment, sizeof(*n));
	return n->namesz == 5 && n->descsz == 12 && n->version == SEGMENT_NOTE_VERSION && n->name[0] == 'e' &&
	       n->name[1] == 't' && n->name[2] == 'c' && n->name[3] == 'h' && !n->name[4];
}

#endif
