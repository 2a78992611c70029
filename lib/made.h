/* SPDX-License-Identifier: MIT */
/*
 * made.h: the tables of modules that have none of their own (made.c).
 */
#ifndef ETCH_MADE_H
#define ETCH_MADE_H

#include "unwind_internal.h"

/* What makes a file the one that it was. */
struct identity {
	Elf64_Ehdr header;
	Elf64_Phdr note; /* the PT_NOTE that holds the build-id; all zero: none */
	uint32_t note_index, id_offset, id_size;
	uint8_t id[32];
	uint64_t sum;    /* without a build-id: of program headers and .eh_frame */
};

struct made {
	struct made *next;
	uint64_t start, end;
	struct identity identity;
	const struct etch_unwind *table;
	uint64_t size;
	struct unwind_module module;
};

/* The one of this module, if it is still the module that it was made for. Async-signal-safe. */
const struct made *made_find(const struct prepare_image *im);

/* What follows is for one thread at a time. */

/* 1, or 0: nothing says what file this is. */
int made_identity(const struct prepare_image *im, struct identity *id);
/* The same file at another address; or null. */
const struct made *made_elsewhere(const struct identity *id);
/* Kept for good, as the table is: 1, or 0 where there is no memory. */
int made_add(const struct prepare_image *im, const struct identity *id, const struct etch_unwind *u, uint64_t size);

#endif
