/* SPDX-License-Identifier: MIT */
/*
 * eh_frame.h: finds the .eh_frame of a loaded module that cannot be unloaded during the call; walks use eh_view.h.
 * Async-signal-safe.
 */
#ifndef ETCH_LIB_UNWIND_EH_FRAME_H
#define ETCH_LIB_UNWIND_EH_FRAME_H

#include "shared/cfi.h"

#include "unwind/unwind_internal.h"

/* The bytes at a link-time address, up to the end of its segment's file contents; null if they are not in a readable
 * segment. */
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

/* Opens .eh_frame through PT_GNU_EH_FRAME; false if there is none. Addresses are link-time addresses. The size of
 * .eh_frame is unknown, so the rest of its segment is used. */
static inline bool eh_frame_open(const struct prepare_image *im, struct etch_cfi_hdr *h, struct etch_cfi *cfi)
{
	const void *bytes = NULL;
	uint64_t capacity;
	unsigned i;

	for (i = 0; i < im->phnum && !bytes; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type != PT_GNU_EH_FRAME)
			continue;
		bytes = eh_segment_at(im, p->p_vaddr, &capacity);
		if (!bytes || !etch_cfi_hdr(bytes, p->p_memsz < capacity ? p->p_memsz : capacity, p->p_vaddr, h))
			return false;
	}
	bytes = bytes ? eh_segment_at(im, h->eh_frame, &capacity) : NULL;
	if (!bytes)
		return false;
	etch_cfi_open(cfi, bytes, capacity, h->eh_frame);
	cfi->stop = true;
	return true;
}

/* The link-time range that spans a module's executable segments, starting at a multiple of 256; false if there are
 * none. */
static inline bool eh_text(const struct prepare_image *im, uint64_t *from, uint64_t *to)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && p->p_memsz && p->p_vaddr + p->p_memsz > p->p_vaddr) {
			lo = p->p_vaddr < lo ? p->p_vaddr : lo;
			hi = p->p_vaddr + p->p_memsz > hi ? p->p_vaddr + p->p_memsz : hi;
		}
	}
	*from = lo & ~(uint64_t)255;
	*to = hi;
	return *from < hi && hi - *from <= UINT32_MAX;
}

/*
 * Does a function start with mov %reg,%rsp? Then the words on the stack at its entry are not a frame. glibc's
 * __start_context, whose first address makecontext pushes as a return address, starts that way too; its FDE does not
 * mark the end of the stack.
 */
#define EH_DISCARD_CODE 7u /* how many bytes of code decide */
static inline bool eh_code_discards_stack(const uint8_t *p, uint64_t size)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

	if (size >= 4 && !memcmp(p, endbr64, 4)) {
		p += 4;
		size -= 4;
	}
	if (size < 3)
		return false;
	return ((p[0] & 0xfb) == 0x48 && p[1] == 0x89 && (p[2] & 0xc7) == 0xc4) || /* REX.W; REX.R is part of the number
	                                                                            * of the source register */
	       ((p[0] & 0xfe) == 0x48 && p[1] == 0x8b && (p[2] & 0xf8) == 0xe0);
}

static inline bool eh_discards_stack(const struct prepare_image *im, uint64_t addr)
{
	uint64_t size = 0;
	const uint8_t *p = eh_segment_at(im, addr, &size);

	return p && eh_code_discards_stack(p, size);
}

#endif
