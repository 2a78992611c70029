/* SPDX-License-Identifier: MIT */
/*
 * eh_frame.h: the .eh_frame of a module in memory. Async-signal-safe.
 */
#ifndef ETCH_EH_FRAME_H
#define ETCH_EH_FRAME_H

#include <etch/cfi.h>

#include "unwind_internal.h"

/* The bytes at a link-time address, up to the end of what its segment has in the file;
 * null when they are not in a segment that can be read. */
static inline const void *eh_segment_at(const struct prepare_image *im, uint64_t addr, uint64_t *size)
{
	uint64_t at = im->bias + addr;
	unsigned i;

	for (i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_filesz) {
			*size = p->p_filesz - (addr - p->p_vaddr);
			return loaded_inside(im, at, *size) ? (const void *)at : NULL;
		}
	}
	return NULL;
}

/* Opens it through PT_GNU_EH_FRAME; false when there is none. Addresses are link-time
 * ones. The size of .eh_frame is not known: it is what the segment has behind it. */
static inline bool eh_frame_open(const struct prepare_image *im, struct etch_cfi_hdr *h, struct etch_cfi *cfi)
{
	const void *bytes = NULL;
	uint64_t room;
	unsigned i;

	for (i = 0; i < im->phnum && !bytes; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type != PT_GNU_EH_FRAME)
			continue;
		bytes = eh_segment_at(im, p->p_vaddr, &room);
		if (!bytes || !etch_cfi_hdr(bytes, p->p_memsz < room ? p->p_memsz : room, p->p_vaddr, h))
			return false;
	}
	bytes = bytes ? eh_segment_at(im, h->eh_frame, &room) : NULL;
	if (!bytes)
		return false;
	etch_cfi_open(cfi, bytes, room, h->eh_frame);
	cfi->stop = true;
	return true;
}

#endif
