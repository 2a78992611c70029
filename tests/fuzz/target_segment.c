/* SPDX-License-Identifier: MIT */
/* The segment module alone, on bytes that no other reader of ELF files has looked at: it trusts none of them. */
#include "fuzz.h"

#include "output/segment.h"

#define SECTIONS 3

/* Sizes by the last byte, so that a segment grows and shrinks from one file to the next. */
static void sections_make(struct segment_section secs[SECTIONS], const uint8_t *contents, unsigned seed)
{
	secs[0] = (struct segment_section){.name = ".etch.a", .type = SHT_PROGBITS, .align = 64, .data = contents, .size = 1 + seed % 200};
	secs[1] = (struct segment_section){.name = ".note.b", .type = SHT_NOTE, .align = 4, .data = contents, .size = 16};
	secs[2] = (struct segment_section){.name = SEGMENT_UNLOADED "c", .type = SHT_PROGBITS, .align = 8, .data = contents,
	                                   .size = 8 + seed / 16, .unloaded = true};
}

/* Sections of the name, with these contents at the address that was planned. */
static void section_check(const uint8_t *out, size_t size, const struct segment_found *at, const struct segment_section *s)
{
	uint64_t offset = at->offset + (s->addr - at->addr);

	must(s->addr > at->addr && s->addr - at->addr + s->size <= at->size);
	must(offset + s->size <= size && !memcmp(out + offset, s->data, s->size));
}

/* A loader takes it: segments in the file, in order, apart, and each where its page is. */
static void loads_check(const uint8_t *out, size_t size)
{
	uint64_t end = 0;
	Elf64_Ehdr eh;
	Elf64_Phdr p;
	size_t i;

	memcpy(&eh, out, sizeof(eh));
	must(eh.e_phoff <= size && eh.e_phnum <= (size - eh.e_phoff) / sizeof(p));
	for (i = 0; i < eh.e_phnum; i++) {
		memcpy(&p, out + eh.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type != PT_LOAD)
			continue;
		must(p.p_vaddr >= end && p.p_memsz >= p.p_filesz && p.p_vaddr + p.p_memsz >= p.p_vaddr);
		must(!p.p_filesz || (p.p_offset <= size && p.p_filesz <= size - p.p_offset));
		must((p.p_vaddr - p.p_offset) % 4096 == 0);
		end = p.p_vaddr + p.p_memsz;
	}
}

/* What is made has its segment, is in proportion, stays the same when it is made again, and keeps the
 * segment where it is when that grows. */
void fuzz_segment(const uint8_t *data, size_t size)
{
	uint8_t *copy = fuzz_copy(data, size), *out = NULL, *again = NULL, contents[256];
	struct segment_section secs[SECTIONS];
	struct segment_found before, at, then;
	struct segment_request from_out;
	unsigned seed = size ? data[size - 1] : 0;
	size_t out_size, again_size;
	struct error e = {""};
	int had, r;

	memset(contents, 0xa5, sizeof(contents));
	sections_make(secs, contents, seed);
	had = segment_find(copy, size, &before, &e);
	must(had != 1 || (before.offset <= size && before.size <= size - before.offset && before.first <= before.size));
	r = segment_build(&(struct segment_request){copy, size, secs, SECTIONS, NULL, NULL}, &out, &out_size, &e);
	must(!r || (*e.text && r < 0 && r != SEGMENT_EINVAL));
	if (!r) {
		must(out_size <= 4 * size + (20u << 20)); /* MAX_FILL of tool/output/segment_place.c */
		must(segment_find(out, out_size, &at, &e) == 1);
		must(had != 1 || at.addr == before.addr);
		loads_check(out, out_size);
		section_check(out, out_size, &at, &secs[0]);
		section_check(out, out_size, &at, &secs[1]);
		from_out = (struct segment_request){out, out_size, secs, SECTIONS, NULL, NULL};
		must(!segment_add(&from_out, &again, &again_size, &e));
		must(again_size == out_size && !memcmp(again, out, out_size));
		free(again);
		again = NULL;
		sections_make(secs, contents, seed + 77);
		if (!segment_build(&from_out, &again, &again_size, &e))
			must(segment_find(again, again_size, &then, &e) == 1 && then.addr == at.addr);
	}
	free(again);
	free(out);
	free(copy);
}
