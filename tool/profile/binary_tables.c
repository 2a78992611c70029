/* SPDX-License-Identifier: MIT */
/*
 * Finds the unwind table of a mapped file: its own, a sidecar's, one that libetch's code makes from .eh_frame, or one
 * made from its code. All tables are in memory of their own, since the files may change while the profile runs.
 */
#define ETCH_NO_MODULE /* no constructor for fault tables: nothing here has one */
#include "profile/binary_files.h"

#include <etch/orc_lookup.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/file.h"
#include "unwinding/unwind_make.h"
#include "unwinding/table_read.h"
#include "shared/cfi.h"
#include "shared/sidecars.h"
#include "unwind/eh_view.h"
#include "unwind/recover.h"
#include "support/memory.h"

/* Files that are larger are not read: libetch's tables span at most 4 GiB of code. */
#define IMAGE_MOST ((uint64_t)1 << 32)
/* Files without .eh_frame are analysed up to this size, because samples wait for the analysis. */
#define ANALYSED_MOST ((uint64_t)16 << 20)

static bool table_copy(struct binary *b, const void *table, uint64_t size, enum binary_table from)
{
	void *copy = mem_map(size);

	if (!copy)
		return false;
	memcpy(copy, table, size);
	b->table = copy;
	b->table_size = size;
	b->table_from = from;
	return true;
}

static bool table_take(struct binary *b, const struct table_copy *c, enum binary_table from)
{
	b->table = c->table;
	b->table_size = c->size;
	b->table_address = c->address;
	b->table_from = from;
	return true;
}

static bool table_own(struct binary *b)
{
	struct table_copy c;

	return table_own_read(b->fd, b->phdrs, b->phdr_count, &c) && table_take(b, &c, TABLE_OWN);
}

static bool table_sidecar(struct binary *b)
{
	const char *const places[] = {secure_getenv(SIDECARS_VARIABLE), SIDECARS_PACKAGED, SIDECARS_CACHE};
	const struct elf_headers h = {.eh = b->header, .phdrs = b->phdrs, .phdr_count = b->phdr_count};
	struct sidecar_identity of;
	char name[SIDECAR_NAME_MOST];
	struct table_copy c;

	if (!b->build_id_size || !sidecar_identify(b->fd, &h, false, &of))
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (table_sidecar_read(places[i], &(struct table_wanted){b->build_id, b->build_id_size, of.layout}, name, &c) ==
		    SIDECAR_IS_GOOD)
			return table_take(b, &c, TABLE_SIDECAR);
	return false;
}

/* Reads the segments that are not writable to memory, at their places relative to each other. */
static bool image_read(struct binary *b)
{
	uint64_t low = UINT64_MAX, high = 0;
	unsigned i;

	for (i = 0; i < b->phdr_count; i++) {
		const Elf64_Phdr *p = &b->phdrs[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_memsz > IMAGE_MOST || p->p_filesz > p->p_memsz || p->p_vaddr > UINT64_MAX / 2)
			return false;
		low = p->p_vaddr < low ? p->p_vaddr : low;
		high = p->p_vaddr + p->p_memsz > high ? p->p_vaddr + p->p_memsz : high;
	}
	low &= ~(uint64_t)4095;
	if (low >= high || high - low > IMAGE_MOST)
		return false;
	b->image_low = low;
	b->image_size = (high - low + 4095) & ~(uint64_t)4095;
	b->image = mem_map(b->image_size);
	for (i = 0; b->image && i < b->phdr_count; i++) {
		const Elf64_Phdr *p = &b->phdrs[i];

		if (p->p_type == PT_LOAD && !(p->p_flags & PF_W) &&
		    pread(b->fd, b->image + (p->p_vaddr - low), p->p_filesz, (off_t)p->p_offset) != (ssize_t)p->p_filesz) {
			munmap(b->image, b->image_size);
			b->image = NULL;
		}
	}
	return b->image;
}

static void image_describe(const struct binary *b, struct prepare_image *im)
{
	im->bias = (uint64_t)(uintptr_t)b->image - b->image_low;
	im->start = (uint64_t)(uintptr_t)b->image;
	im->end = im->start + b->image_size;
	im->phdr = b->phdrs;
	im->phnum = b->phdr_count;
	im->kept = false;
}

/* Frees the segments that were read only to make a table. */
static void image_trim(struct binary *b)
{
	uint64_t cfi = 0;
	unsigned i;

	for (i = 0; i < b->phdr_count; i++)
		if (b->phdrs[i].p_type == PT_GNU_EH_FRAME)
			cfi = b->phdrs[i].p_vaddr;
	for (i = 0; i < b->phdr_count; i++) {
		const Elf64_Phdr *p = &b->phdrs[i];
		uint64_t from = ((p->p_vaddr - b->image_low) + 4095) & ~(uint64_t)4095;
		uint64_t to = (p->p_vaddr - b->image_low + p->p_filesz) & ~(uint64_t)4095;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && cfi - p->p_vaddr >= p->p_memsz && from < to)
			madvise(b->image + from, to - from, MADV_DONTNEED);
	}
}

static bool table_eh_frame(struct binary *b)
{
	struct prepare_image im;

	if (!b->image)
		return false;
	image_describe(b, &im);
	b->table = prepare_table(&im, &b->table_size);
	if (!b->table)
		return false;
	if (!etch_unwind_header_valid(b->table, b->table_size)) {
		prepare_table_free(b->table, b->table_size);
		b->table = NULL;
		return false;
	}
	b->table_from = TABLE_EH_FRAME;
	return true;
}

/* Makes rows from the code of a file without .eh_frame, such as Go's linker writes. */
static bool table_analysed(struct binary *b)
{
	const struct unwind_options how = {.encoding = ETCH_ENCODING_BLOCK, .map_shift = 0, .jobs = 1};
	struct unwind_made result = {0};
	struct elf_file f = {0};
	uint8_t *bytes;
	struct error e;
	struct stat st;
	bool got = false, copied;

	if (fstat(b->fd, &st) || st.st_size <= 0 || (uint64_t)st.st_size > ANALYSED_MOST)
		return false;
	bytes = malloc((size_t)st.st_size);
	if (!bytes || pread(b->fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
		free(bytes);
		return false;
	}
	if (!elf_open_bytes(&f, b->path, bytes, (size_t)st.st_size, &e) && !unwind_sidecar(&f, &how, &result, &e) &&
	    result.bytes && etch_unwind_header_valid(result.bytes, result.size))
		got = table_copy(b, result.bytes, result.size, TABLE_ANALYSED);
	unwind_made_free(&result);
	copied = f.bytes != bytes;
	elf_close(&f);
	if (copied) /* elf_bytes_own() has left the bytes that were read to this function */
		free(bytes);
	return got;
}

void binary_prepare(struct binary *b)
{
	if (b->table_from != TABLE_UNASKED)
		return;
	b->table_from = TABLE_NONE;
	if (b->kind != BINARY_FILE)
		return;
	if (!image_read(b))
		return;
	if (!table_own(b) && !table_sidecar(b) && !table_eh_frame(b))
		table_analysed(b);
	if (b->image)
		image_trim(b);
}

bool binary_fde(const struct binary *b, uint64_t at, struct etch_cfi *cfi, struct etch_fde *fde)
{
	struct prepare_image im;
	struct eh_view v;

	if (!b->image)
		return false;
	image_describe(b, &im);
	if (!recover_fde(&im, im.bias + at, &v, fde))
		return false;
	/* There is nothing to close, since the image is read in place. */
	*cfi = v.cfi;
	fde->cfi = cfi;
	return true;
}
