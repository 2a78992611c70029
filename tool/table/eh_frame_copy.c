/* SPDX-License-Identifier: MIT */
/* Copies the entries of the linker's .eh_frame. Only pointers that are stored relative to their own addresses have to
 * change. */
#include "table/eh_frames.h"

#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

void eh_pointer_add(struct eh_frame *x, uint64_t at, uint64_t target, uint8_t size)
{
	mem_reserve(&x->pointers, &x->pointer_capacity, x->pointer_count, sizeof(*x->pointers));
	x->pointers[x->pointer_count++] = (struct eh_pointer){at, target, size};
}

void eh_entry_add(struct eh_frame *x, uint64_t start, uint64_t at)
{
	mem_reserve(&x->entries, &x->entry_capacity, x->count, sizeof(*x->entries));
	x->entries[x->count++] = (struct eh_entry){start, at};
}

/* The state of copying one section. */
struct copy {
	const struct cfi_file *file;
	uint32_t part;
	struct etch_cfi cfi;
	struct bytes *b;
	uint64_t to; /* offset of the copy in the new section */
	size_t next; /* for eh_replaces() */
	struct eh_frame *out;
};

/* Returns the size in bytes of a pointer with encoding `enc`, if it is relative to its own address; 0 if it can be
 * copied unchanged; -1 if it cannot be moved. */
static int pointer_size(uint8_t enc)
{
	static const int8_t size[16] = {8, -1, 2, 4, 8, -1, -1, -1, 8, -1, 2, 4, 8, -1, -1, -1};

	if (enc == ETCH_PE_OMIT)
		return 0;
	if ((enc & 0x7f) == ETCH_PE_ALIGNED)
		return -1;
	switch (enc & 0x70) {
	case 0x00: return 0;
	case 0x10: return size[enc & 15];
	default: return -1;
	}
}

/* Records the pointer at in->at as one to be filled in, unless it is 0, which means that there is none. Returns false
 * if the pointer cannot be moved. */
static bool pointer_note(struct copy *c, const struct etch_cfi_in *in, uint8_t enc)
{
	struct etch_cfi_in read = *in;
	int size = pointer_size(enc);
	uint64_t target;

	if (size <= 0)
		return !size;
	target = etch_cfi_pointer(&read, enc & 0x7f, 0);
	if (target && !read.bad)
		eh_pointer_add(c->out, c->to + in->at, target, (uint8_t)size);
	return !read.bad;
}

/* Records the pointer to the personality of a CIE. Goes through the CIE's augmentation as etch_cfi_cie() does. Returns
 * false if the CIE cannot be copied. */
static bool personality_note(struct copy *c, const struct etch_cie *cie, struct etch_cfi_in in)
{
	const uint8_t *s;
	uint8_t version;

	etch_cfi_u(&in, 4);
	version = (uint8_t)etch_cfi_u(&in, 1);
	s = c->cfi.bytes + in.at;
	while (etch_cfi_u(&in, 1))
		;
	if (*s != 'z')
		return *s == 0;
	if (version == 4)
		etch_cfi_u(&in, 2);
	etch_cfi_uleb(&in);
	etch_cfi_sleb(&in);
	etch_cfi_return_register(&in, version);
	etch_cfi_uleb(&in); /* length of the augmentation data, which end at cie->program */
	in.end = cie->program;
	while (*++s && !in.bad) {
		if (*s == 'P') {
			uint8_t enc = (uint8_t)etch_cfi_u(&in, 1);

			if (!pointer_note(c, &in, enc))
				return false;
			etch_cfi_pointer(&in, enc, 0);
		} else if (*s == 'R' || *s == 'L') {
			etch_cfi_u(&in, 1);
		}
	}
	return !in.bad;
}

/* Records the pointers of an FDE to its start and its LSDA. If the FDE is replaced, makes it cover no code. Returns
 * false if it cannot be copied. */
static bool fde_note(struct copy *c, const struct etch_fde *fde, struct etch_cfi_in in)
{
	uint8_t enc = fde->cie.fde_encoding;
	uint64_t size;

	etch_cfi_u(&in, 4);
	if (!pointer_note(c, &in, enc))
		return false;
	etch_cfi_pointer(&in, enc, 0);
	size = in.at;
	etch_cfi_pointer(&in, enc & 0x0f, 0);
	if (!in.bad && eh_replaces(&c->out->replaced, c->file, c->part, fde, &c->next)) {
		memset(c->b->list + c->to + size, 0, in.at - size);
		return true;
	}
	if (fde->cie.data && etch_cfi_uleb(&in) && !pointer_note(c, &in, fde->cie.lsda_encoding))
		return false;
	if (fde->start == fde->end)
		return true;
	c->out->copied++;
	eh_entry_add(c->out, fde->start, c->to + fde->at);
	return true;
}

/* Records the pointers of an entry. Returns false if it cannot be copied. */
static bool entry_note(struct copy *c, uint64_t at, struct etch_cfi_in in)
{
	struct etch_cfi_in id = in;
	struct etch_cie cie;
	struct etch_fde fde;

	if (etch_cfi_u(&id, 4))
		return etch_cfi_at(&c->cfi, at, &fde) && fde_note(c, &fde, in);
	return etch_cfi_cie(&c->cfi, at, &cie) && personality_note(c, &cie, in);
}

int eh_frame_copy(const struct cfi_file *cfi, uint32_t number, struct bytes *b, struct eh_frame *out, struct error *e)
{
	const struct cfi_part *part = &cfi->parts[number];
	struct copy c = {.file = cfi, .part = number, .b = b, .out = out, .to = b->count};
	uint64_t at = 0;

	bytes_put(b, part->bytes, part->size);
	etch_cfi_open(&c.cfi, part->bytes, part->size, part->addr);
	while (at < part->size) {
		struct etch_cfi_in in;
		int kind = etch_cfi_entry(&c.cfi, at, &in);

		if (!kind) {
			uint64_t i;

			for (i = at; i < part->size && !part->bytes[i]; i++)
				;
			if (i < part->size)
				return error_set(e, "its .eh_frame has a terminator before its end: it cannot be extended");
			break;
		}
		if (kind < 0 || !entry_note(&c, at, in))
			return error_set(e, "its .eh_frame has an entry (at offset %#llx) that cannot be copied",
			                 (unsigned long long)at);
		at = in.end;
	}
	b->count = c.to + at;
	return 0;
}
