/* SPDX-License-Identifier: MIT */
/* Reads the Go runtime's function table (see pclntab.h). */
#include "elf/pclntab.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

#include "elf/dynamic.h"
#include "support/memory.h"

#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u /* function records also have startLine, which moves the flag byte */
#define HEADER     72u
/* Words of moduledata before minpc: pcHeader, six slices, findfunctab. */
#define MINPC     (8u * (1 + 6 * 3 + 1))
#define TOP_FRAME 1u

struct table {
	const uint8_t *bytes; /* bytes of the section, from its header on */
	uint64_t addr, size;
	uint64_t functions; /* offset of functab, to which the offsets in it are relative */
	uint64_t names;
	uint64_t count;
	unsigned flag; /* offset of the flag byte in a function's record */
};

static uint32_t word32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t word64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool table_open(const struct elf_file *f, struct table *t)
{
	uint32_t i = elf_section_find(f, ".gopclntab", 1), magic;
	const struct elf_section *s = &f->sections[i];

	if (!i)
		s = &f->sections[i = elf_section_find(f, ".data.rel.ro.gopclntab", 1)];
	if (!i || !s->data || s->sh.sh_size < HEADER)
		return false;
	magic = word32(s->data);
	/* On x86-64 the instruction size quantum is 1 and pointers have 8 bytes. */
	if ((magic != MAGIC_1_18 && magic != MAGIC_1_20) || s->data[6] != 1 || s->data[7] != 8)
		return false;
	*t = (struct table){.bytes = s->data,
	                    .addr = s->sh.sh_addr,
	                    .size = s->sh.sh_size,
	                    .functions = word64(s->data + 64),
	                    .names = word64(s->data + 32),
	                    .count = word64(s->data + 8),
	                    .flag = magic == MAGIC_1_20 ? 41 : 37};
	/* functab has a pair of words for each function, and then the end of the last one. */
	return t->count && t->functions <= t->size && t->size - t->functions >= 4 &&
	       t->count <= (t->size - t->functions - 4) / 8;
}

static uint64_t offset_of(const struct table *t, uint64_t i) { return word32(t->bytes + t->functions + 8 * i); }

/* Do these minpc and maxpc of a candidate for moduledata agree with the table? Sets *base to the address that the
 * table's offsets are relative to. */
static bool module_confirms(const struct table *t, uint64_t minpc, uint64_t maxpc, uint64_t *base)
{
	*base = minpc - offset_of(t, 0);
	return minpc && maxpc > minpc && *base + offset_of(t, t->count) == maxpc;
}

static bool base_in_data(const struct elf_file *f, const struct table *t, uint64_t *base)
{
	uint32_t i;
	uint64_t at;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || s->sh.sh_type == SHT_NOBITS || !(s->sh.sh_flags & SHF_ALLOC) || !(s->sh.sh_flags & SHF_WRITE))
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + MINPC + 16 <= s->sh.sh_size; at += 8)
			if (word64(s->data + at) == t->addr &&
			    module_confirms(t, word64(s->data + at + MINPC), word64(s->data + at + MINPC + 8), base))
				return true;
	}
	return false;
}

static const struct dynamic_reloc *reloc_at(const struct dynamic_reloc *r, size_t count, uint64_t place)
{
	size_t low = SEARCH(count, i, r[i].place < place);

	return low < count && r[low].place == place && r[low].type == R_X86_64_RELATIVE ? &r[low] : NULL;
}

/* Looks for moduledata by its relocations. Returns 1 and sets *base, or returns 0 if there is none, or -1 and a
 * message. */
static int base_in_relocs(const struct elf_file *f, const struct table *t, uint64_t *base, struct error *e)
{
	struct dynamic_reloc *r;
	size_t count, i;
	int found = 0;

	if (dynamic_relocs_read(f, 0, UINT64_MAX, &r, &count, e))
		return -1;
	for (i = 0; i < count && !found; i++) {
		const struct dynamic_reloc *low, *high;

		if (r[i].type != R_X86_64_RELATIVE || r[i].addend != t->addr)
			continue;
		low = reloc_at(r, count, r[i].place + MINPC);
		high = reloc_at(r, count, r[i].place + MINPC + 8);
		found = low && high && module_confirms(t, low->addend, high->addend, base);
	}
	free(r);
	return found;
}

static uint64_t record_of(const struct table *t, uint64_t i)
{
	return t->functions + word32(t->bytes + t->functions + 8 * i + 4);
}

static bool is_top(const struct table *t, uint64_t i)
{
	uint64_t at = record_of(t, i) + t->flag;

	return at < t->size && (t->bytes[at] & TOP_FRAME);
}

static const char *name_of(const struct table *t, uint64_t i)
{
	uint64_t at = record_of(t, i) + 4;

	if (at + 4 > t->size || t->names > t->size)
		return "";
	at = t->names + word32(t->bytes + at);
	return at < t->size && memchr(t->bytes + at, 0, t->size - at) ? (const char *)t->bytes + at : "";
}

long go_functions_read(const struct elf_file *f, struct go_function **out, struct error *e)
{
	struct table t;
	uint64_t base = 0, i;
	int found;

	*out = NULL;
	if (elf_is_object(f) || !table_open(f, &t))
		return 0;
	found = base_in_data(f, &t, &base) ? 1 : base_in_relocs(f, &t, &base, e);
	if (found <= 0)
		return found;
	for (i = 0; i < t.count; i++)
		if (offset_of(&t, i) > offset_of(&t, i + 1))
			return 0;
	*out = mem_alloc(t.count, sizeof(**out));
	for (i = 0; i < t.count; i++)
		(*out)[i] =
			(struct go_function){base + offset_of(&t, i), base + offset_of(&t, i + 1), is_top(&t, i), name_of(&t, i)};
	return (long)t.count;
}
