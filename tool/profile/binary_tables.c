/* SPDX-License-Identifier: MIT */
/*
 * The unwind table of a mapped file: its own, a sidecar's, or made from .eh_frame by libetch's code. All tables are in
 * memory of their own: the files may change while the profile runs.
 */
#define ETCH_NO_MODULE /* no constructor for fault tables, which nothing here has */
#include "profile/binary_files.h"

#include <etch/orc_lookup.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/file.h"
#include "elf/segment.h"
#include "rewrite/rewrite.h"
#include "profile/binary_fde.h"
#include "shared/sidecars.h"
#include "unwind/recover.h"

/* Larger files are not read: libetch's tables span at most 4 GiB of code. */
#define IMAGE_MOST ((uint64_t)1 << 32)
/* Files without .eh_frame are analysed up to this size: samples wait for it. */
#define ANALYSED_MOST ((uint64_t)16 << 20)

static void *memory_map(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool table_copy(struct binary *b, const void *table, uint64_t size, enum binary_table from)
{
	void *copy = memory_map(size);

	if (!copy)
		return false;
	memcpy(copy, table, size);
	b->table = copy;
	b->table_size = size;
	b->table_from = from;
	return true;
}

/* A file of one segment, in memory, passed to etch_table_in_file() in place of a mapping, which would end etch by
 * SIGBUS if the file became shorter. */
struct segment_file {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	uint8_t bytes[];
};

static struct segment_file *segment_file_make(const struct binary *b, const Elf64_Phdr *p)
{
	struct segment_file *s = memory_map(sizeof(*s) + p->p_filesz);

	if (!s)
		return NULL;
	s->header = (Elf64_Ehdr){.e_machine = EM_X86_64,
	                         .e_phoff = offsetof(struct segment_file, segment),
	                         .e_phentsize = sizeof(Elf64_Phdr),
	                         .e_phnum = 1};
	memcpy(s->header.e_ident, ELFMAG, SELFMAG);
	s->header.e_ident[EI_CLASS] = ELFCLASS64;
	s->header.e_ident[EI_DATA] = ELFDATA2LSB;
	s->segment = *p;
	s->segment.p_offset = offsetof(struct segment_file, bytes);
	if (pread(b->fd, s->bytes, p->p_filesz, (off_t)p->p_offset) == (ssize_t)p->p_filesz)
		return s;
	munmap(s, sizeof(*s) + p->p_filesz);
	return NULL;
}

static bool table_own(struct binary *b)
{
	bool got = false;

	for (unsigned i = b->phdr_count; !got && i--;) {
		const Elf64_Phdr *p = &b->phdrs[i];
		uint64_t size = 0, address = 0;
		const struct etch_unwind *u;
		struct segment_file *s;
		struct segment_note n;

		if (p->p_type != PT_LOAD || p->p_flags != PF_R || p->p_filesz < sizeof(n) || p->p_filesz > IMAGE_MOST ||
		    pread(b->fd, &n, sizeof(n), (off_t)p->p_offset) != sizeof(n) || n.type != SEGMENT_NOTE_TYPE)
			continue;
		s = segment_file_make(b, p);
		if (!s)
			return false;
		u = etch_table_in_file(s, sizeof(*s) + p->p_filesz, &size, &address);
		got = u && table_copy(b, u, size, TABLE_OWN) && etch_unwind_header_valid(b->table, size);
		b->table_address = address;
		munmap(s, sizeof(*s) + p->p_filesz);
	}
	return got;
}

static bool sidecar_in(struct binary *b, const char *directory)
{
	char path[PATH_MAX];
	const struct etch_unwind *u;
	uint8_t *bytes = NULL;
	struct error e;
	size_t n, size;
	bool good;

	if (!directory || !*directory || strlen(directory) > PATH_MAX - 2 * BUILD_ID_MOST - 2)
		return false;
	n = (size_t)snprintf(path, sizeof(path), "%s/", directory);
	for (unsigned i = 0; i < b->build_id_size; i++)
		n += (size_t)snprintf(path + n, sizeof(path) - n, "%02x", b->build_id[i]);
	if (access(path, R_OK) || file_read(path, &bytes, &size, &e))
		return false;
	u = (const void *)bytes;
	good = size >= sizeof(*u) && etch_unwind_valid(u, size) && u->encoding == ETCH_ENCODING_BLOCK &&
	       !memcmp(u->build_id, b->build_id,
	               b->build_id_size < sizeof(u->build_id) ? b->build_id_size : sizeof(u->build_id)) &&
	       table_copy(b, u, size, TABLE_SIDECAR);
	free(bytes);
	return good;
}

static bool table_sidecar(struct binary *b)
{
	return b->build_id_size && (sidecar_in(b, secure_getenv(SIDECARS_VARIABLE)) || sidecar_in(b, SIDECARS_PACKAGED) ||
	                            sidecar_in(b, SIDECARS_CACHE));
}

/* Reads the segments to where they lie relative to each other. */
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
	b->image = memory_map(b->image_size);
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
}

/* Frees segments that are only read to make a table. */
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

/* A file without .eh_frame, such as Go's linker writes: makes rows from its code. */
static bool table_analysed(struct binary *b)
{
	const struct rewrite_options how = {.encoding = ETCH_ENCODING_BLOCK, .map_shift = 0, .jobs = 1};
	struct rewrite_result result = {0};
	struct elf_file f = {0};
	uint8_t *bytes;
	struct error e;
	struct stat st;
	bool got = false;

	if (fstat(b->fd, &st) || st.st_size <= 0 || (uint64_t)st.st_size > ANALYSED_MOST)
		return false;
	bytes = malloc((size_t)st.st_size);
	if (!bytes || pread(b->fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
		free(bytes);
		return false;
	}
	if (!elf_open_bytes(&f, b->path, bytes, (size_t)st.st_size, &e) && !rewrite_sidecar(&f, &how, &result, &e) &&
	    result.bytes && etch_unwind_header_valid(result.bytes, result.size))
		got = table_copy(b, result.bytes, result.size, TABLE_ANALYSED);
	rewrite_result_free(&result);
	elf_close(&f);
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

	if (!b->image)
		return false;
	image_describe(b, &im);
	return recover_fde(&im, im.bias + at, cfi, fde);
}
