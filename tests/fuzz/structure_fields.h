/* SPDX-License-Identifier: MIT */
/* What the kinds of structural mutants (structure.h) share: random values, fields of headers, records of tables. */
#ifndef STRUCTURE_FIELDS_H
#define STRUCTURE_FIELDS_H

#include "structure.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etch/format.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#define MEMBER 60u /* bytes of a header */
#define SCAN_MOST   4096u /* headers that are looked at to find one */

struct structure_kind {
	const char *name;
	bool (*make)(struct mutant *m); /* false: nothing of the kind is in the file */
	bool archive;                   /* of archives, not of ELF files */
};
extern const struct structure_kind structure_of_headers[], structure_of_contents[], structure_of_layout[], structure_of_annotations[],
	structure_of_claims[];
extern const unsigned structure_header_kinds, structure_content_kinds, structure_layout_kinds, structure_annotation_kinds,
	structure_claim_kinds;

static inline bool chance(struct mutant *m, uint32_t n) { return structure_below(m, n) == 0; }

static inline uint64_t wide(struct mutant *m) { return (uint64_t)structure_below(m, 1u << 31) << 33 ^ (uint64_t)structure_below(m, 1u << 31) << 11 ^ structure_below(m, 2048); }

static inline bool holds(const struct mutant *m, uint64_t at, uint64_t n) { return at <= m->size && n <= m->size - at; }

static inline uint64_t get(const struct mutant *m, uint64_t at, unsigned width)
{
	uint64_t v = 0;

	if (holds(m, at, width))
		memcpy(&v, m->bytes + at, width);
	return v;
}

static inline void said(struct mutant *m, const char *what, uint64_t at, uint64_t old, uint64_t new)
{
	size_t n = strlen(m->what);

	snprintf(m->what + n, sizeof(m->what) - n, "%s%s at %#" PRIx64 ": %#" PRIx64 " -> %#" PRIx64, n ? "; " : "", what, at, old,
	         new);
}

static inline bool put(struct mutant *m, const char *what, uint64_t at, unsigned width, uint64_t v)
{
	if (!holds(m, at, width))
		return false;
	said(m, what, at, get(m, at, width), width < 8 ? v & ((1ull << 8 * width) - 1) : v);
	memcpy(m->bytes + at, &v, width);
	return true;
}

/* ---- values that tend to hurt ------------------------------------------------------ */

/* For a size, an address or an offset. */
static inline uint64_t extreme(struct mutant *m, uint64_t old)
{
	const uint64_t v[] = {0, 1, 7, 8, 0x10, 0xfff, 0x1000, old + 1, old - 1, old + 8, old - 8, 2 * old, old / 2, m->size,
	                      m->size - 1, m->size + 1, 0 - (uint64_t)m->size, 1ull << 31, 1ull << 32, (1ull << 32) - 1,
	                      1ull << 47, 1ull << 48, 1ull << 63, ~0ull, ~0ull - 7, 0 - old, old ^ 1ull << structure_below(m, 64),
	                      old + 0x1000, old - 0x1000, 1ull << structure_below(m, 64), structure_below(m, (uint32_t)m->size + 1)};

	return v[structure_below(m, COUNT(v))];
}

/* For a number of something of which there are n. */
static inline uint64_t number(struct mutant *m, uint64_t old, uint64_t n)
{
	const uint64_t v[] = {0, 1, 2, n, n - 1, n + 1, old + 1, old - 1, 2 * n, 0xff, 0xfeff, 0xff00, 0xfff1, 0xfff2, 0xffff,
	                      0x10000, 0x7fffffff, 0xffffffff, structure_below(m, n && n < 1u << 20 ? (uint32_t)n : 16)};

	return v[structure_below(m, COUNT(v))];
}

/* ---- headers ------------------------------------------------------------------------ */

#define EH(m, field)       get(m, offsetof(Elf64_Ehdr, field), sizeof(((Elf64_Ehdr *)0)->field))
#define EH_PUT(m, field, v) put(m, #field, offsetof(Elf64_Ehdr, field), sizeof(((Elf64_Ehdr *)0)->field), v)
#define AT(base, type, field) ((base) + offsetof(type, field))
#define WIDTH(type, field) sizeof(((type *)0)->field)
#define GET(m, base, type, field) get(m, AT(base, type, field), WIDTH(type, field))
#define PUT(m, base, type, field, v) put(m, #field, AT(base, type, field), WIDTH(type, field), v)

static inline uint64_t section_count(const struct mutant *m)
{
	uint64_t n = EH(m, e_shnum), capacity;

	if (!n)
		n = GET(m, EH(m, e_shoff), Elf64_Shdr, sh_size);
	capacity = EH(m, e_shoff) < m->size ? (m->size - EH(m, e_shoff)) / sizeof(Elf64_Shdr) : 0;
	return n < capacity ? n : capacity;
}

static inline uint64_t shdr(const struct mutant *m, uint64_t i) { return EH(m, e_shoff) + i * sizeof(Elf64_Shdr); }

/* A header but the first; 0: there is none. */
static inline uint64_t any_section(struct mutant *m)
{
	uint64_t n = section_count(m);

	return n > 1 ? shdr(m, 1 + structure_below(m, (uint32_t)n - 1)) : 0;
}

static const char *name_of(const struct mutant *m, uint64_t sh)
{
	uint64_t names = shdr(m, EH(m, e_shstrndx)), at = GET(m, names, Elf64_Shdr, sh_offset) + GET(m, sh, Elf64_Shdr, sh_name);

	return at < m->size && memchr(m->bytes + at, 0, m->size - at) ? (const char *)m->bytes + at : "";
}

/* One of a type, or of a name that begins so. */
static inline uint64_t section_like(struct mutant *m, uint32_t type, const char *name)
{
	uint64_t n = section_count(m), i, start, found = 0;

	n = n < SCAN_MOST ? n : SCAN_MOST;
	if (n < 2)
		return 0;
	start = structure_below(m, (uint32_t)n);
	for (i = 0; i < n && !found; i++) {
		uint64_t sh = shdr(m, (start + i) % n);

		if (name ? !strncmp(name_of(m, sh), name, strlen(name)) : GET(m, sh, Elf64_Shdr, sh_type) == type)
			found = GET(m, sh, Elf64_Shdr, sh_type) != SHT_NOBITS && GET(m, sh, Elf64_Shdr, sh_size) ? sh : 0;
	}
	return found;
}

static inline uint64_t phdr_count(const struct mutant *m)
{
	uint64_t n = EH(m, e_phnum), at = EH(m, e_phoff), capacity = at < m->size ? (m->size - at) / sizeof(Elf64_Phdr) : 0;

	return n < capacity ? n : capacity;
}

static inline uint64_t phdr(const struct mutant *m, uint64_t i) { return EH(m, e_phoff) + i * sizeof(Elf64_Phdr); }

static inline uint64_t any_segment(struct mutant *m)
{
	uint64_t n = phdr_count(m);

	return n ? phdr(m, structure_below(m, (uint32_t)n)) : 0;
}

/* A record of a section, of `each` bytes. */
static inline uint64_t record_in(struct mutant *m, uint64_t sh, unsigned each)
{
	uint64_t offset = GET(m, sh, Elf64_Shdr, sh_offset), n = GET(m, sh, Elf64_Shdr, sh_size) / each, at;

	if (!sh || !n)
		return 0;
	at = offset + structure_below(m, n < 1u << 20 ? (uint32_t)n : 1u << 20) * (uint64_t)each;
	return holds(m, at, each) ? at : 0;
}

/* Exchanges n bytes at two places. */
static inline bool bytes_swap(struct mutant *m, const char *what, uint64_t a, uint64_t b, size_t n)
{
	uint8_t t[64];

	if (!a || a == b || n > sizeof(t) || !holds(m, a, n) || !holds(m, b, n))
		return false;
	said(m, what, a, a, b);
	memcpy(t, m->bytes + a, n);
	memcpy(m->bytes + a, m->bytes + b, n);
	memcpy(m->bytes + b, t, n);
	return true;
}

static inline bool is_archive(const struct mutant *m)
{
	return m->size > 8 + MEMBER && (!memcmp(m->bytes, "!<arch>\n", 8) || !memcmp(m->bytes, "!<thin>\n", 8));
}

#endif
