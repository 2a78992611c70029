/* SPDX-License-Identifier: MIT */
/*
 * Expands only the part of a compressed .debug_info that some addresses need (info_cut.h).
 *
 * libdw expands the section as a whole: of glibc's debug file 5.8 MB, which takes longer than all other work for a
 * profile's names. .debug_aranges (DWARF 5, 6.1.2), which is small, says where the units of addresses are.
 */
#include "dwarf/info_cut.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "shared/search.h"

#define ARANGES_MOST ((uint64_t)64 << 20) /* bytes of .debug_aranges */
#define INFO_MOST    ((uint64_t)2 << 30)  /* bytes of .debug_info; zlib's avail_out has 32 bits */
#define INFO_LEAST   ((uint64_t)1 << 20)  /* a smaller section is not worth it */
#define RATIO_MOST   1100u                /* zlib makes at most 1032 bytes of one */

/* A section that zlib has compressed. */
struct packed {
	size_t index;
	const uint8_t *bytes;
	uint64_t bytes_size;
	uint64_t size, align; /* of the expanded section */
};

static bool packed_read(Elf_Scn *s, const GElf_Shdr *sh, uint64_t most, struct packed *out)
{
	Elf_Data *d = sh->sh_flags & SHF_COMPRESSED ? elf_rawdata(s, NULL) : NULL;
	Elf64_Chdr h;

	if (!d || !d->d_buf || d->d_size < sizeof(h))
		return false;
	memcpy(&h, d->d_buf, sizeof(h));
	*out = (struct packed){.index = elf_ndxscn(s),
	                       .bytes = (const uint8_t *)d->d_buf + sizeof(h),
	                       .bytes_size = d->d_size - sizeof(h),
	                       .size = h.ch_size,
	                       .align = h.ch_addralign};
	return h.ch_type == ELFCOMPRESS_ZLIB && h.ch_size <= most && out->bytes_size <= UINT32_MAX &&
	       h.ch_size / RATIO_MOST <= out->bytes_size;
}

static bool sections_find(Elf *elf, struct packed *info, struct packed *aranges)
{
	bool has_info = false, has_aranges = false;
	Elf_Scn *s = NULL;
	size_t names;
	GElf_Shdr sh;

	if (!elf || gelf_getclass(elf) != ELFCLASS64 || elf_getshdrstrndx(elf, &names))
		return false;
	while ((s = elf_nextscn(elf, s))) {
		const char *name = gelf_getshdr(s, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;

		if (name && !strcmp(name, ".debug_info")) {
			if (has_info || !packed_read(s, &sh, INFO_MOST, info))
				return false;
			has_info = true;
		} else if (name && !strcmp(name, ".debug_aranges")) {
			if (has_aranges || !packed_read(s, &sh, ARANGES_MOST, aranges))
				return false;
			has_aranges = true;
		}
	}
	return has_info && has_aranges && info->size >= INFO_LEAST;
}

/* ---- which units are needed ---------------------------------------------------------------- */

static uint64_t number(const uint8_t *at, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, at, bytes);
	return v;
}

/* Marks the addresses in a range. Returns how many had not been marked before. */
static size_t addresses_mark(const uint64_t *addresses, size_t count, uint64_t start, uint64_t size, bool *marked,
                             bool *any)
{
	size_t fresh = 0;

	for (size_t k = SEARCH(count, i, addresses[i] < start); k < count && addresses[k] - start < size; k++) {
		fresh += !marked[k];
		marked[k] = *any = true;
	}
	return fresh;
}

/* Finds the offset of the last unit in .debug_info that has one of the addresses. Returns false if some address is in
 * no unit, or the table is malformed. */
static bool unit_last(const uint8_t *table, uint64_t size, const uint64_t *addresses, size_t count, bool *marked,
                      uint64_t *last)
{
	uint64_t at = 0;
	size_t found = 0;

	*last = 0;
	while (size - at >= 16) {
		uint64_t length = number(table + at, 4), end = at + 4 + length, unit = number(table + at + 6, 4);
		bool any = false;

		/* 64-bit DWARF, other versions, other addresses */
		if (length > size - at - 4 || length < 12 || number(table + at + 4, 2) != 2 || table[at + 10] != 8 ||
		    table[at + 11])
			return false;
		for (at += 16; at <= end && end - at >= 16; at += 16)
			found += addresses_mark(addresses, count, number(table + at, 8), number(table + at + 8, 8), marked, &any);
		if (any && unit > *last)
			*last = unit;
		at = end;
	}
	return found == count;
}

/* ---- expanding ----------------------------------------------------------------------------- */

/* Expands the section up to this size. */
static bool expand_to(z_stream *z, uint8_t *out, uint64_t size)
{
	int ret = Z_OK;

	z->avail_out = (uInt)(size - (uint64_t)(z->next_out - out));
	while (z->avail_out && ret == Z_OK)
		ret = inflate(z, Z_NO_FLUSH);
	return !z->avail_out;
}

/* Expands .debug_info up to the end of the unit at an offset. Returns the number of bytes, or 0. */
static uint64_t info_expand(const struct packed *p, uint64_t unit, uint8_t *out)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)p->bytes, .avail_in = (uInt)p->bytes_size, .next_out = out};
	uint64_t end = 0, length;

	if (unit > p->size || p->size - unit < 4 || inflateInit(&z) != Z_OK)
		return 0;
	if (expand_to(&z, out, unit + 4)) {
		length = number(out + unit, 4);
		if (length <= p->size - unit - 4 && expand_to(&z, out, unit + 4 + length))
			end = unit + 4 + length;
	}
	inflateEnd(&z);
	return end;
}

/* Puts the expanded bytes at the file's end, and makes the section's header refer to them. */
static bool section_replace(int copy, Elf *elf, const struct packed *p, const uint8_t *bytes, uint64_t size)
{
	off_t end = lseek(copy, 0, SEEK_END);
	GElf_Ehdr eh;
	Elf64_Shdr sh;
	off_t header;

	if (end < 0 || !gelf_getehdr(elf, &eh))
		return false;
	end = (end + 63) & ~(off_t)63;
	header = (off_t)(eh.e_shoff + p->index * sizeof(sh));
	if (pread(copy, &sh, sizeof(sh), header) != (ssize_t)sizeof(sh))
		return false;
	sh.sh_flags &= ~(uint64_t)SHF_COMPRESSED;
	sh.sh_offset = (uint64_t)end;
	sh.sh_size = p->size;
	sh.sh_addralign = p->align;
	return pwrite(copy, bytes, size, end) == (ssize_t)size && !ftruncate(copy, end + (off_t)p->size) &&
	       pwrite(copy, &sh, sizeof(sh), header) == (ssize_t)sizeof(sh);
}

bool info_cut(int copy, const uint64_t *addresses, size_t count)
{
	Elf *elf = elf_begin(copy, ELF_C_READ, NULL);
	uint8_t *table = NULL, *bytes = NULL;
	struct packed info, aranges;
	uint64_t unit, size = 0;
	bool *marked = NULL, good = false;
	uLongf length;

	if (count && sections_find(elf, &info, &aranges)) {
		table = malloc(aranges.size + 1);
		bytes = malloc(info.size); /* only what is expanded takes memory */
		marked = calloc(count, sizeof(*marked));
		length = aranges.size;
		if (table && bytes && marked && uncompress(table, &length, aranges.bytes, aranges.bytes_size) == Z_OK &&
		    length == aranges.size && unit_last(table, aranges.size, addresses, count, marked, &unit))
			size = info_expand(&info, unit, bytes);
		good = size && section_replace(copy, elf, &info, bytes, size);
	}
	free(table);
	free(bytes);
	free(marked);
	elf_end(elf);
	return good;
}
