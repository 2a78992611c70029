/* SPDX-License-Identifier: MIT */
/*
 * Mutants of what describes frames, through shared/cfi.h, analysis/facts/cfi_file.c
 * and lib/unwind/prepare.c; to be built with ASan and UBSan.
 *
 *   cfi_fuzz SEED ROUNDS FILE...
 *
 * Each round changes a few bytes of a file's .eh_frame, .eh_frame_hdr,
 * .rela.eh_frame and .gcc_except_table. What must hold then: no report of the
 * sanitizers, rows in order and without gap, FDEs inside the code and apart, a
 * table that is valid and can be searched. Prints a checksum of what was seen.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analysis/facts/cfi_file.h"
#include "unwind/cfi_map.h"

static uint64_t random_state, sum, rows_seen, fdes_seen, sites_seen, tables_seen;

static uint64_t rnd(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return below ? (random_state >> 11) % below : 0;
}

static void require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "violated: %s\n", what);
	abort();
}

struct seen {
	uint64_t at, count;
};

static void row(void *ctx, const struct etch_cfi_row *r)
{
	struct seen *s = ctx;

	require(r->start == s->at && r->end > r->start, "rows are in order and without gap");
	require(etch_rule_valid(&r->rule), "a rule is valid");
	require(r->rule.kind != ETCH_RULE_UNDEF || r->why, "an undefined row has a reason");
	s->at = r->end;
	s->count++;
	rows_seen++;
	sum = sum * 31 + r->end + r->rule.kind;
}

static void site(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	(void)ctx;
	sites_seen++;
	sum = sum * 31 + start + end + pad;
}

static void mutate(uint8_t *bytes, uint64_t size)
{
	static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, 0xfe, 4, 8, 0x40, 0x50, 0x9b, 0x1b};
	uint64_t i, n = 1 + rnd(8);

	for (i = 0; i < n && size; i++) {
		uint64_t at = rnd(size);

		switch (rnd(4)) {
		case 0: bytes[at] = (uint8_t)rnd(256); break;
		case 1: bytes[at] ^= (uint8_t)(1u << rnd(8)); break;
		case 2: bytes[at] = odd[rnd(sizeof(odd))]; break;
		case 3: /* a piece from elsewhere */
			memmove(bytes + at, bytes + rnd(size - at > 16 ? at + 1 : 1), size - at < 16 ? size - at : 16);
			break;
		}
	}
}

/* The section alone, in memory of exactly its size: every read past it is seen. */
static void raw(const uint8_t *bytes, uint64_t size, uint64_t addr)
{
	uint64_t cut = rnd(3) ? size : rnd(size + 1);
	uint8_t *copy = malloc(cut);
	struct etch_cfi c;
	struct etch_fde fde, again;

	memcpy(copy, bytes, cut);
	mutate(copy, cut);
	etch_cfi_open(&c, copy, cut, addr);
	c.stop = rnd(2);
	while (etch_cfi_next(&c, &fde)) {
		struct seen s = {fde.start, 0};

		require(etch_cfi_at(&c, fde.at, &again) && again.start == fde.start && again.lsda == fde.lsda,
		        "an entry reads the same twice");
		etch_cfi_rows(&fde, rnd(2), row, &s);
		require(s.at == fde.end, "rows reach the end");
		fdes_seen++;
	}
	free(copy);
}

static bool is_meant(const char *name)
{
	return !strncmp(name, ".eh_frame", 9) || !strcmp(name, ".rela.eh_frame") || !strncmp(name, ".gcc_except_table", 17);
}

static void fdes_check(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi)
{
	size_t i;

	for (i = 0; i < cfi->count; i++) {
		const struct cfi_fde *fde = &cfi->fdes[i];
		const struct code_section *s = space_at(space, fde->start);
		struct seen seen = {fde->start, 0};

		require(s && fde->start < fde->end && fde->end <= s->addr + s->size, "an FDE is inside the code");
		require(!i || cfi->fdes[i - 1].end <= fde->start, "FDEs do not overlap");
		cfi_file_rows(cfi, i, 0, row, &seen);
		require(seen.at == fde->end, "rows reach the end");
		lsda_call_sites(f, cfi, i, site, NULL);
	}
}

/* A linked file's segments as they would be loaded. */
static void prepare(const struct elf_file *f)
{
	struct prepare_image im = {0};
	uint64_t end = 0, i, size;
	const struct etch_unwind *u;
	struct unwind_module m = {0};
	struct in_place in;
	uint8_t *image;

	for (i = 0; i < f->phdr_count; i++)
		if (f->phdrs[i].p_type == PT_LOAD && f->phdrs[i].p_vaddr + f->phdrs[i].p_memsz > end)
			end = f->phdrs[i].p_vaddr + f->phdrs[i].p_memsz;
	if (elf_is_object(f) || end > 1u << 26)
		return;
	image = calloc(1, end);
	for (i = 0; i < f->phdr_count; i++)
		if (f->phdrs[i].p_type == PT_LOAD)
			memcpy(image + f->phdrs[i].p_vaddr, f->bytes + f->phdrs[i].p_offset, f->phdrs[i].p_filesz);
	im.bias = (uint64_t)image;
	im.end = im.bias + end;
	im.start = im.bias;
	im.phdr = f->phdrs;
	im.phnum = f->phdr_count;
	u = prepare_table(&im, &size);
	if (u) {
		require(etch_unwind_header_valid(u, size) && etch_unwind_valid(u, size), "a table is valid");
		for (i = 0; i < 64; i++)
			sum += etch_block_find(u, rnd(u->text_size))->kind;
		prepare_table_free(u, size);
		tables_seen++;
	}
	if (in_place_open(&im, NULL, &in, &m) && in.map) {
		for (i = 0; i < 64; i++)
			in_place_meet(&m, m.text + 1 + rnd(m.text_size));
		munmap(in.map, sizeof(*in.map) + (m.text_size >> 6) + 1);
	}
	free(image);
}

static void round_file(const char *path, const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size);
	struct code_space space;
	struct cfi_file cfi;
	struct elf_file f;
	struct error e;
	uint32_t i;

	memcpy(copy, bytes, size);
	if (elf_open_bytes(&f, path, copy, size, &e)) {
		fprintf(stderr, "%s: %s\n", path, e.text);
		exit(2);
	}
	for (i = 1; i < f.section_count; i++) {
		const struct elf_section *s = &f.sections[i];

		if (!s->data || !is_meant(s->name) || !rnd(3))
			continue;
		if (!strcmp(s->name, ".eh_frame"))
			raw(s->data, s->sh.sh_size, s->sh.sh_addr);
		mutate(copy + s->sh.sh_offset, s->sh.sh_size);
		if (!elf_is_object(&f) && !rnd(8))
			f.sections[i].name = ".gone"; /* then the program header leads to it */
	}
	space_build(&f, &space);
	cfi_file_open(&f, &space, &cfi);
	fdes_check(&f, &space, &cfi);
	cfi_file_close(&cfi);
	space_free(&space);
	prepare(&f);
	elf_close(&f);
}

int main(int argc, char **argv)
{
	uint64_t rounds, i;
	struct error e;
	uint8_t *bytes;
	size_t size;
	int k;

	if (argc < 4)
		return 2;
	random_state = strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15u + 1;
	rounds = strtoull(argv[2], NULL, 0);
	for (k = 3; k < argc; k++) {
		if (file_read(argv[k], &bytes, &size, &e)) {
			fprintf(stderr, "%s: %s\n", argv[k], e.text);
			return 2;
		}
		for (i = 0; i < rounds; i++)
			round_file(argv[k], bytes, size);
		free(bytes);
	}
	printf("FDEs %" PRIu64 " rows %" PRIu64 " call sites %" PRIu64 " tables %" PRIu64 " sum %" PRIx64 "\n", fdes_seen,
	       rows_seen, sites_seen, tables_seen, sum);
	return 0;
}
