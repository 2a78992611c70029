/* SPDX-License-Identifier: MIT */
/*
 * other_process.c: lookups in the tables of another process, and tables in files.
 *
 * RULES OF THIS FILE. lookup_target() runs in signal context: no malloc, no lock, no
 * thread-local storage, no libc. Do not introduce any dependency there.
 */
#include <string.h>

#include "common/segment_note.h"
#include "shared/search.h"
#include "shared/sidecars.h"
#include "unwind/unwind_internal.h"

/* The place in this process of a target's orc array with the given link-time address; null if it is outside the
 * table's bytes. */
static const void *target_array(const struct etch_target_module *t, uint64_t address, uint64_t size)
{
	uint64_t at = address - t->address;

	if (address < t->address || at > t->size || size > t->size - at)
		return NULL;
	return (const uint8_t *)t->table + at;
}

static int target_orc_open(const struct etch_target_module *t, struct etch_orc_table *o)
{
	const struct etch_unwind *u = t->table;

	o->rows = u->rows;
	o->ip_addr = u->orc_ip;
	o->text = u->text;
	o->text_size = u->text_size;
	o->ip = target_array(t, u->orc_ip, (uint64_t)u->rows * 4);
	o->orc = target_array(t, u->orc, (uint64_t)u->rows * sizeof(struct etch_orc));
	o->lookup = target_array(t, u->orc_lookup, (((u->text_size + 255) >> 8) + 1) * 4);
	return u->rows && o->ip && o->orc && o->lookup;
}

const struct unwind_module *lookup_target(const struct etch_target *target, uint64_t at, struct unwind_module *capacity)
{
	const struct etch_target_module *t;
	size_t k = SEARCH(target->module_count, i, target->modules[i].end <= at);

	if (k == target->module_count)
		return NULL;
	t = &target->modules[k];
	if (at < t->start || !t->table || !etch_unwind_header_valid(t->table, t->size) ||
	    (t->table->encoding == ETCH_ENCODING_ORC && !target_orc_open(t, &capacity->orc)))
		return NULL;
	module_open(capacity, t->table, t->bias);
	return at - capacity->text < capacity->text_size ? capacity : NULL;
}

/* ---- tables in files --------------------------------------------------------------- */

static const struct etch_unwind *table_in_sidecar(const struct sidecar *s, size_t file_size, uint64_t *size)
{
	const struct etch_unwind *u = (const struct etch_unwind *)(const void *)(s + 1);

	/* The sidecar is compared with its own layout: the caller knows which file it describes, and that is not here. */
	if (file_size < sizeof(*s) + sizeof(*u) || sidecar_judge(s, file_size, s->layout) != SIDECAR_GOOD ||
	    s->bytes != file_size - sizeof(*s))
		return NULL;
	*size = s->bytes;
	return etch_unwind_valid(u, *size) && u->encoding == ETCH_ENCODING_BLOCK ? u : NULL;
}

/* Is it the header of an ELF file for this machine, with the program headers inside the file and aligned? */
static bool elf_header_valid(const Elf64_Ehdr *h, size_t file_size)
{
	return h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_machine == EM_X86_64 &&
	       h->e_phentsize == sizeof(Elf64_Phdr) && !(h->e_phoff & 7) && h->e_phoff <= file_size &&
	       h->e_phnum <= (file_size - h->e_phoff) / sizeof(Elf64_Phdr);
}

/* Validates a whole table with the link-time address `address`. */
static bool file_table_valid(const struct etch_unwind *u, uint64_t size, uint64_t address)
{
	struct etch_target_module t = {.table = u, .size = size, .address = address};
	struct etch_orc_table o;

	if (!etch_unwind_valid(u, size))
		return false;
	return u->encoding != ETCH_ENCODING_ORC || (target_orc_open(&t, &o) && etch_orc_valid(&o));
}

UNWIND_API const struct etch_unwind *etch_table_in_file(const void *file, size_t file_size, uint64_t *size,
                                                        uint64_t *address)
{
	const Elf64_Ehdr *h = file;
	const Elf64_Phdr *phdr;
	const struct etch_unwind *u;

	*size = file_size;
	*address = 0;
	if (file_size < sizeof(*h) || ((uintptr_t)file & 7))
		return NULL;
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return table_in_sidecar(file, file_size, size);
	if (!elf_header_valid(h, file_size))
		return NULL;
	phdr = (const Elf64_Phdr *)(const void *)((const uint8_t *)file + h->e_phoff);
	for (unsigned i = h->e_phnum; i--;) {
		const Elf64_Phdr *p = &phdr[i];
		uint64_t in, capacity = segment_note_may(p, &in);
		const uint8_t *at;
		struct segment_note n;

		if (!capacity || p->p_offset > file_size || p->p_filesz > file_size - p->p_offset)
			continue;
		at = (const uint8_t *)file + p->p_offset + in;
		if (!segment_note_read(at, &n))
			continue;
		capacity = segment_note_size(&n, in, capacity);
		if (n.first > capacity || ((p->p_offset + in + n.first) & 7))
			return NULL;
		u = (const struct etch_unwind *)(const void *)(at + n.first);
		*size = capacity - n.first;
		*address = p->p_vaddr + in + n.first;
		return file_table_valid(u, *size, *address) ? u : NULL;
	}
	return NULL;
}
