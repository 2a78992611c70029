/* SPDX-License-Identifier: MIT */
/*
 * eh_view.h: the .eh_frame of a loaded module, for walks; the module may be unloaded at any moment (eh_view.c).
 * Async-signal-safe.
 */
#ifndef ETCH_LIB_UNWIND_EH_VIEW_H
#define ETCH_LIB_UNWIND_EH_VIEW_H

#include "unwind/eh_frame.h"

/*
 * All addresses are link-time addresses. The bytes that h and cfi point to must not be read without the functions
 * below: they may belong to a copy that is not filled yet.
 */
struct eh_view {
	struct etch_cfi_hdr h;
	struct etch_cfi cfi;
	const struct prepare_image *im;
	struct frames_copy *copy; /* null: the section is read in place */
	bool mine;                /* the copy belongs to this view */
	bool gone;                /* a read has found that the module is no longer there: what the view says of it does
	                           * not count */
};

/* Returns false, with nothing to close, if the module has no .eh_frame. */
bool eh_view_open(struct eh_view *v, const struct prepare_image *im);
void eh_view_close(struct eh_view *v);

/* The start address of the function of entry i < v->h.count. Sets v->gone if the module cannot be read any more. */
uint64_t eh_view_start(struct eh_view *v, uint64_t i);
/* Parses the FDE of entry i into *fde, which refers to v. Returns false if it is malformed or cannot be read. */
bool eh_view_fde(struct eh_view *v, uint64_t i, struct etch_fde *fde);

/* Copies at most `size` bytes of a module's code to `to`, and returns how many; 0 if it cannot be read. */
uint64_t eh_code_copy(const struct prepare_image *im, uint64_t addr, uint8_t *to, uint64_t size);
/* Does the function at this address start with mov %reg,%rsp? Does what eh_discards_stack() does, for a module that
 * may be unloaded at any moment. */
bool eh_view_discards_stack(const struct prepare_image *im, uint64_t addr);

/* Returns the checksum `sum`, continued over these bytes. */
uint64_t eh_sum_add(uint64_t sum, const void *bytes, uint64_t size);
/* Sets *out to the checksum `sum`, continued over .eh_frame_hdr's table and .eh_frame. Returns false if the module has
 * no .eh_frame, or one of more than `most` bytes. */
bool eh_view_sum(const struct prepare_image *im, uint64_t most, uint64_t sum, uint64_t *out);

#endif
