/* SPDX-License-Identifier: MIT */
/*
 * eh_view.c: reads the .eh_frame of a module for a walk.
 *
 * The .eh_frame of a module that is never unloaded is read in place. That of a module that may be unloaded at any
 * moment is read into a copy, in chunks as lookups need them, by memory_copy(), which does not fault. The copy
 * belongs to the file, which is identified by its headers and its build-id (loaded.c), and stays. While a chunk is
 * read, the module may go away, and another may come and go in its place; so the chunk is read twice, and the
 * module's headers are compared in between. Nothing can be kept of a file without a build-id: its copy lasts as long
 * as the view.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, and of libc only memcpy, memset and memcmp. Do not introduce any dependency there.
 */
#include <string.h>

#include "common/sys.h"
#include "unwind/eh_view.h"

#define PIECE 512u

/* The part of a module that has .eh_frame_hdr and .eh_frame, which usually are in one segment. */
struct frames_copy {
	struct etch_cfi_hdr h; /* its table is in `bytes` */
	uint64_t frames_size;  /* size of .eh_frame and the bytes that follow it */
	uint64_t at, size;     /* link-time address and size of the range that `bytes` holds */
	uint64_t whole;        /* size of this mapping */
	uint8_t *bytes;
	uint8_t have[]; /* for each chunk: 1 if it has been read */
};

/* The maximum number of bytes of .eh_frame_hdr before its table: four, and two encoded numbers. */
#define HDR_FRONT 64u

/* The places of both sections, according to the module's headers; link-time addresses. */
struct frames_place {
	struct etch_cfi_hdr h; /* its table must not be read */
	uint64_t table, frames_size;
	uint64_t from, to;
};

/* Returns false if the module has no .eh_frame, or has gone. */
static bool place_find(const struct prepare_image *im, struct frames_place *p)
{
	uint64_t capacity = 0, addr = 0;
	uint8_t front[HDR_FRONT];

	for (unsigned i = 0; i < im->phnum && !capacity; i++) {
		if (im->phdr[i].p_type != PT_GNU_EH_FRAME)
			continue;
		addr = im->phdr[i].p_vaddr;
		if (!eh_segment_at(im, addr, &capacity))
			return false;
		if (im->phdr[i].p_memsz < capacity)
			capacity = im->phdr[i].p_memsz;
	}
	memset(front, 0, sizeof(front));
	if (!capacity || memory_copy(front, im->bias + addr, capacity < sizeof(front) ? capacity : sizeof(front)) ||
	    !etch_cfi_hdr(front, capacity, addr, &p->h) || !eh_segment_at(im, p->h.eh_frame, &p->frames_size))
		return false;
	p->table = p->h.count ? addr + (uint64_t)(p->h.table - front) : addr;
	p->from = (addr < p->h.eh_frame ? addr : p->h.eh_frame) & ~(uint64_t)(PIECE - 1);
	p->to = p->h.eh_frame + p->frames_size;
	if (p->to < addr + capacity)
		p->to = addr + capacity;
	return true;
}

/* Makes an empty copy; null without memory. */
static struct frames_copy *copy_new(const struct frames_place *p)
{
	uint64_t pieces = (p->to - p->from + PIECE - 1) / PIECE;
	uint64_t whole = ((sizeof(struct frames_copy) + pieces + 63) & ~(uint64_t)63) + pieces * PIECE;
	struct frames_copy *f = sys_map(whole, MAP_NORESERVE);

	if (!f)
		return NULL;
	f->h = p->h;
	f->frames_size = p->frames_size;
	f->at = p->from;
	f->size = p->to - p->from;
	f->whole = whole;
	f->bytes = (uint8_t *)f + whole - pieces * PIECE;
	f->h.table = f->bytes + (p->table - p->from);
	return f;
}

/* Returns the copy that belongs to the module's file and is never freed; makes it if there is none. */
static struct frames_copy *copy_of_file(const struct prepare_image *im)
{
	struct frames_copy **to = &loaded_copies(im)->frames, *f = __atomic_load_n(to, __ATOMIC_ACQUIRE), *new;
	struct frames_place place, again;

	if (f)
		return f;
	if (!place_find(im, &place) || !loaded_still(im) || !place_find(im, &again) ||
	    again.h.eh_frame != place.h.eh_frame || again.h.count != place.h.count || again.table != place.table)
		return NULL;
	new = copy_new(&place);
	if (!new || __atomic_compare_exchange_n(to, &f, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return new;
	sys_munmap(new, new->whole);
	return f;
}

/* Makes sure that the copy has these bytes; those outside it are ignored. */
static bool copy_fill(struct eh_view *v, uint64_t addr, uint64_t size)
{
	struct frames_copy *f = v->copy;
	uint64_t from = addr - f->at, last;
	uint8_t piece[PIECE], again[PIECE];

	if (from >= f->size || !size)
		return true;
	last = size > f->size - from ? f->size - 1 : from + size - 1;
	for (uint64_t i = from / PIECE; i <= last / PIECE; i++) {
		uint64_t at = v->im->bias + f->at + i * PIECE, n = f->size - i * PIECE < PIECE ? f->size - i * PIECE : PIECE;

		if (__atomic_load_n(&f->have[i], __ATOMIC_ACQUIRE))
			continue;
		if (memory_copy(piece, at, n) ||
		    (!v->mine && (!loaded_still(v->im) || memory_copy(again, at, n) || memcmp(piece, again, n) != 0)))
			return false;
		/* Other threads store the same bytes. */
		memcpy(f->bytes + i * PIECE, piece, n);
		__atomic_store_n(&f->have[i], 1, __ATOMIC_RELEASE);
	}
	return true;
}

bool eh_view_open(struct eh_view *v, const struct prepare_image *im)
{
	struct frames_place place;
	struct frames_copy *f = NULL;

	v->im = im;
	v->copy = NULL;
	v->mine = v->gone = false;
	if (!im->kept)
		return eh_frame_open(im, &v->h, &v->cfi);
	v->mine = !loaded_identity(im)->id_size;
	if (!v->mine)
		f = copy_of_file(im);
	else if (place_find(im, &place))
		f = copy_new(&place);
	v->gone = !f; /* f is null if the module has gone, and also if it has no .eh_frame */
	if (!f)
		return false;
	v->copy = f;
	v->h = f->h;
	etch_cfi_open(&v->cfi, f->bytes + (f->h.eh_frame - f->at), f->frames_size, f->h.eh_frame);
	v->cfi.stop = true;
	return true;
}

void eh_view_close(struct eh_view *v)
{
	if (v->mine && v->copy)
		sys_munmap(v->copy, v->copy->whole);
}

static bool entry_fill(struct eh_view *v, uint64_t i)
{
	uint64_t addr = v->copy ? v->copy->at + (uint64_t)(v->h.table + 8 * i - v->copy->bytes) : 0;

	if (v->copy && !copy_fill(v, addr, 8))
		v->gone = true;
	return !v->gone;
}

uint64_t eh_view_start(struct eh_view *v, uint64_t i) { return entry_fill(v, i) ? etch_cfi_hdr_start(&v->h, i) : 0; }

/* Reads a CIE or an FDE, given by its offset in .eh_frame, into the copy as a whole. */
static bool record_fill(struct eh_view *v, uint64_t offset)
{
	struct etch_cfi_in in;

	if (offset >= v->cfi.size)
		return true;
	return copy_fill(v, v->cfi.addr + offset, v->cfi.size - offset < 12 ? v->cfi.size - offset : 12) &&
	       (etch_cfi_entry(&v->cfi, offset, &in) != 1 || copy_fill(v, v->cfi.addr + in.at, in.end - in.at));
}

static bool fde_fill(struct eh_view *v, uint64_t offset)
{
	struct etch_cfi_in in;
	uint64_t field;

	if (!record_fill(v, offset))
		return false;
	if (etch_cfi_entry(&v->cfi, offset, &in) != 1)
		return true; /* malformed */
	field = in.at;
	return record_fill(v, field - (uint64_t)(int64_t)(int32_t)etch_cfi_u(&in, 4));
}

bool eh_view_fde(struct eh_view *v, uint64_t i, struct etch_fde *fde)
{
	uint64_t offset;

	if (!entry_fill(v, i))
		return false;
	offset = etch_cfi_hdr_fde(&v->h, i) - v->h.eh_frame;
	if (v->copy && !fde_fill(v, offset))
		v->gone = true;
	return !v->gone && etch_cfi_at(&v->cfi, offset, fde);
}

uint64_t eh_code_copy(const struct prepare_image *im, uint64_t addr, uint8_t *to, uint64_t size)
{
	uint64_t capacity = 0;
	const void *code = eh_segment_at(im, addr, &capacity);

	if (!code)
		return 0;
	size = size < capacity ? size : capacity;
	if (im->kept)
		return memory_copy(to, im->bias + addr, size) ? 0 : size;
	memcpy(to, code, size);
	return size;
}

bool eh_view_discards_stack(const struct prepare_image *im, uint64_t addr)
{
	uint8_t code[EH_DISCARD_CODE];

	return eh_code_discards_stack(code, eh_code_copy(im, addr, code, sizeof(code)));
}

/* ---- a checksum ------------------------------------------------------------------------ */

#define SUM_PIECE 1024u

uint64_t eh_sum_add(uint64_t sum, const void *bytes, uint64_t size)
{
	const uint8_t *p = bytes;
	uint64_t lane[4] = {sum, 1, 2, 3}, word;

	for (uint64_t i = 0; i + 32 <= size; i += 32)
		for (unsigned k = 0; k < 4; k++) {
			memcpy(&word, p + i + 8 * k, 8);
			lane[k] = (lane[k] ^ word) * 0x9e3779b97f4a7c15u;
			lane[k] ^= lane[k] >> 32;
		}
	for (uint64_t i = size & ~(uint64_t)31; i < size; i++)
		lane[0] = (lane[0] ^ p[i]) * 0x9e3779b97f4a7c15u;
	for (unsigned k = 1; k < 4; k++)
		lane[0] = (lane[0] ^ lane[k]) * 0x9e3779b97f4a7c15u;
	return lane[0];
}

/* Adds the sum of a range, chunk by chunk, whether the chunks are copied or read in place. */
static bool range_sum(const struct prepare_image *im, uint64_t addr, uint64_t size, uint64_t *sum)
{
	uint8_t piece[SUM_PIECE];
	const uint8_t *bytes = piece;

	for (uint64_t i = 0, n; i < size; i += n) {
		n = size - i < SUM_PIECE ? size - i : SUM_PIECE;
		if (!im->kept)
			bytes = (const uint8_t *)(uintptr_t)(im->bias + addr + i);
		else if (memory_copy(piece, im->bias + addr + i, n))
			return false;
		*sum = eh_sum_add(*sum, bytes, n);
	}
	return true;
}

bool eh_view_sum(const struct prepare_image *im, uint64_t most, uint64_t sum, uint64_t *out)
{
	struct frames_place place;
	struct etch_cfi cfi;

	if (im->kept) {
		if (!place_find(im, &place))
			return false;
	} else {
		if (!eh_frame_open(im, &place.h, &cfi))
			return false;
		place.table = (uint64_t)(uintptr_t)place.h.table - im->bias;
		place.frames_size = cfi.size;
	}
	if (place.frames_size > most || !range_sum(im, place.table, 8 * place.h.count, &sum) ||
	    !range_sum(im, place.h.eh_frame, place.frames_size, &sum))
		return false;
	*out = sum;
	return true;
}
