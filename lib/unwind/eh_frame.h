/* SPDX-License-Identifier: MIT */
/*
 * eh_frame.h: finds the .eh_frame of a loaded module. Async-signal-safe.
 */
#ifndef ETCH_LIB_UNWIND_EH_FRAME_H
#define ETCH_LIB_UNWIND_EH_FRAME_H

#include "shared/cfi.h"

#include "unwind/unwind_internal.h"

/* The bytes at a link-time address, up to the end of its segment's file contents; null if they are
 * not in a readable segment. */
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

/* Opens .eh_frame through PT_GNU_EH_FRAME; false if there is none. Addresses are link-time
 * addresses. The size of .eh_frame is unknown: the rest of its segment is used. */
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
