/* SPDX-License-Identifier: MIT */
/* Reads the unwind table of a file, or of a sidecar (table_read.h). */
#define ETCH_NO_MODULE /* no constructor for fault tables, which nothing here has */
#include "rewrite/table_read.h"

#include <etch/orc_lookup.h>
#include <etch/unwind.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/file.h"
#include "elf/headers.h"
#include "elf/segment.h"

/* Larger segments are not read: tables span at most 4 GiB of code. */
#define SEGMENT_MOST ((uint64_t)1 << 32)

static void *memory_map(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool copy_make(struct table_copy *out, const struct etch_unwind *table, uint64_t size, uint64_t address)
{
	void *copy = memory_map(size);

	if (!copy)
		return false;
	memcpy(copy, table, size);
	*out = (struct table_copy){copy, size, address};
	return true;
}

void table_copy_free(struct table_copy *c)
{
	if (c->table)
		munmap(c->table, c->size);
	c->table = NULL;
}

/* A file of one segment, in memory, passed to etch_table_in_file() in place of a mapping, which would end etch by
 * SIGBUS if the file became shorter. */
struct segment_file {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	uint8_t bytes[];
};

static struct segment_file *segment_file_make(int fd, const Elf64_Phdr *p)
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
	if (pread(fd, s->bytes, p->p_filesz, (off_t)p->p_offset) == (ssize_t)p->p_filesz)
		return s;
	munmap(s, sizeof(*s) + p->p_filesz);
	return NULL;
}

bool table_own_read(int fd, const Elf64_Phdr *phdrs, unsigned count, struct table_copy *out)
{
	bool got = false;

	*out = (struct table_copy){0};
	for (unsigned i = count; !got && i--;) {
		const Elf64_Phdr *p = &phdrs[i];
		uint64_t size = 0, address = 0;
		const struct etch_unwind *u;
		struct segment_file *s;
		struct segment_note n;

		if (p->p_type != PT_LOAD || p->p_flags != PF_R || p->p_filesz < sizeof(n) || p->p_filesz > SEGMENT_MOST ||
		    pread(fd, &n, sizeof(n), (off_t)p->p_offset) != sizeof(n) || n.type != SEGMENT_NOTE_TYPE)
			continue;
		s = segment_file_make(fd, p);
		if (!s)
			return false;
		u = etch_table_in_file(s, sizeof(*s) + p->p_filesz, &size, &address);
		got = u && copy_make(out, u, size, address);
		munmap(s, sizeof(*s) + p->p_filesz);
	}
	return got;
}

bool table_sidecar_read(const char *directory, const uint8_t *build_id, unsigned build_id_size, struct table_copy *out)
{
	char path[PATH_MAX];
	const struct etch_unwind *u;
	uint8_t *bytes = NULL;
	struct error e;
	size_t n, size;
	bool good;

	*out = (struct table_copy){0};
	if (!directory || !*directory || !build_id_size || strlen(directory) > PATH_MAX - 2 * BUILD_ID_MOST - 2)
		return false;
	n = (size_t)snprintf(path, sizeof(path), "%s/", directory);
	for (unsigned i = 0; i < build_id_size; i++)
		n += (size_t)snprintf(path + n, sizeof(path) - n, "%02x", build_id[i]);
	if (access(path, R_OK) || file_read(path, &bytes, &size, &e))
		return false;
	u = (const void *)bytes;
	good = size >= sizeof(*u) && etch_unwind_valid(u, size) && u->encoding == ETCH_ENCODING_BLOCK &&
	       !memcmp(u->build_id, build_id, build_id_size < sizeof(u->build_id) ? build_id_size : sizeof(u->build_id)) &&
	       copy_make(out, u, size, 0);
	free(bytes);
	return good;
}
