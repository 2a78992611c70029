/* SPDX-License-Identifier: MIT */
/* Reads the unwind table in a file or in a sidecar (table_read.h). */
#define ETCH_NO_MODULE /* leaves out the constructor for fault tables, which this program does not have */
#include "unwinding/table_read.h"

#include <etch/orc_lookup.h>
#include <etch/unwind.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/headers.h"
#include "output/segment.h"
#include "support/memory.h"

/* Larger segments are not read, since a table covers at most 4 GiB of code. */
#define SEGMENT_MOST ((uint64_t)1 << 32)

static bool copy_make(struct table_copy *out, const struct etch_unwind *table, uint64_t size, uint64_t address)
{
	void *copy = mem_map(size);

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

/* An ELF file in memory with one segment. It is passed to etch_table_in_file() instead of a mapping of the file: if the
 * file became shorter, reading a mapping would end etch by SIGBUS. */
struct segment_file {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	uint8_t bytes[];
};

static struct segment_file *segment_file_make(int fd, const Elf64_Phdr *p)
{
	struct segment_file *s = mem_map(sizeof(*s) + p->p_filesz);

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
		uint64_t size = 0, address = 0, in = p->p_offset ? 0 : SEGMENT_INSIDE;
		Elf64_Phdr own = *p;
		const struct etch_unwind *u;
		struct segment_file *s;
		struct segment_note n;

		if (p->p_type != PT_LOAD || pread(fd, &n, sizeof(n), (off_t)(p->p_offset + in)) != sizeof(n))
			continue;
		own.p_filesz = segment_in_load(p, &n, &in);
		if (!own.p_filesz || own.p_filesz > SEGMENT_MOST)
			continue;
		/* Make the part of the segment that has the table a segment of its own. */
		n.inside = 0;
		own.p_flags = PF_R;
		own.p_offset += in;
		own.p_vaddr += in;
		s = segment_file_make(fd, &own);
		if (!s)
			return false;
		memcpy(s->bytes, &n, sizeof(n));
		u = etch_table_in_file(s, sizeof(*s) + own.p_filesz, &size, &address);
		got = u && copy_make(out, u, size, address);
		munmap(s, sizeof(*s) + own.p_filesz);
	}
	return got;
}

/* Reads the sidecar `name` in a directory. Returns its state; sets *out if that is SIDECAR_IS_GOOD. */
static enum table_sidecar sidecar_read(int directory, const char *name, const struct table_wanted *w,
                                       struct table_copy *out)
{
	static const enum table_sidecar unusable[] = {
		[SIDECAR_OLD] = SIDECAR_IS_OLD, [SIDECAR_OTHERS] = SIDECAR_IS_OTHERS, [SIDECAR_NONE] = SIDECAR_IS_REFUSAL};
	const size_t id_most = sizeof(((struct etch_unwind *)0)->build_id);
	enum table_sidecar state = SIDECAR_IS_DAMAGED;
	enum sidecar_state head;
	const struct etch_unwind *u;
	uint64_t size = 0, mapped;
	bool untrusted;
	int fd = sidecar_open(directory, name, &size, &untrusted);
	uint8_t *bytes;

	if (fd < 0)
		return untrusted ? SIDECAR_IS_UNTRUSTED : SIDECAR_IS_NO_FILE;
	mapped = size ? size : 1; /* mmap() does not accept size 0 */
	bytes = size <= SEGMENT_MOST ? mem_map(mapped) : NULL;
	if (bytes && pread(fd, bytes, size, 0) == (ssize_t)size) {
		head = sidecar_judge(bytes, size, w->layout);
		u = (const void *)(bytes + sizeof(struct sidecar));
		if (head != SIDECAR_GOOD)
			state = unusable[head];
		else if (size - sizeof(struct sidecar) == ((const struct sidecar *)(const void *)bytes)->bytes &&
		         etch_unwind_valid(u, size - sizeof(struct sidecar)) && u->encoding == ETCH_ENCODING_BLOCK &&
		         !memcmp(u->build_id, w->build_id, w->build_id_size < id_most ? w->build_id_size : id_most) &&
		         copy_make(out, u, size - sizeof(struct sidecar), 0))
			state = SIDECAR_IS_GOOD;
	}
	if (bytes)
		munmap(bytes, mapped);
	close(fd);
	return state;
}

enum table_sidecar table_sidecar_read(const char *directory, const struct table_wanted *w, char name[SIDECAR_NAME_MOST],
                                      struct table_copy *out)
{
	int fd = directory && *directory && w->build_id_size ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	enum table_sidecar first, second;
	struct sidecar_identity of = {0};
	char id[2 * BUILD_ID_MOST + 1], other[SIDECAR_NAME_MOST];

	*out = (struct table_copy){0};
	*name = 0;
	if (fd < 0)
		return SIDECAR_IS_NO_FILE;
	for (unsigned i = 0; i < w->build_id_size; i++)
		snprintf(id + 2 * i, 3, "%02x", w->build_id[i]);
	strcpy(name, id);
	first = sidecar_read(fd, name, w, out);
	if (first != SIDECAR_IS_GOOD && first != SIDECAR_IS_NO_FILE) {
		memcpy(of.layout, w->layout, sizeof(of.layout));
		sidecar_second_name(other, id, &of);
		second = sidecar_read(fd, other, w, out);
		if (second != SIDECAR_IS_NO_FILE) {
			first = second;
			strcpy(name, other);
		}
	}
	close(fd);
	return first;
}
