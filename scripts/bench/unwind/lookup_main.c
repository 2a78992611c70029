/* SPDX-License-Identifier: MIT */
/*
 * Times one lookup (lookup_probe.c) in the table of a file.
 *
 *     lookup-NAME FILE TABLE ROUNDS
 *
 * TABLE is FILE's block table (etch rewrite --sidecar); the other shapes are made from its rows. The
 * addresses that are looked up are those after the direct calls in its text, as an
 * unwinder would. Each lookup waits for the one before it, as in a walk, where the
 * next return address comes from a frame that the last row has found.
 * Prints bytes of each shape, then samples: ticks of a lookup, warm (64 addresses, again
 * and again) and random (any of the file).
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../bench.h"
#include "lookup.h"

#define WARM     64
#define LOOKUPS  4096 /* a sample: short, so that few are interrupted */
#define SAMPLES  16   /* a round */
#define ODD_SIZE 250

static struct shapes shapes;
static volatile uint64_t zero, odd_size = ODD_SIZE;

static void *memory(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p) {
		perror("calloc");
		exit(2);
	}
	return p;
}

static const uint8_t *file_read(const char *path, size_t *size)
{
	struct stat st;
	uint8_t *p;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st)) {
		perror(path);
		exit(2);
	}
	*size = (size_t)st.st_size;
	p = memory(*size, 1);
	if (read(fd, p, *size) != st.st_size) {
		perror(path);
		exit(2);
	}
	close(fd);
	return p;
}

/* Rows of the block table as parallel arrays. Where an entry cannot hold a rule, it says
 * UNDEFINED: so few that they change no figure. */
static void shapes_build(const struct etch_unwind *u)
{
	uint64_t blocks = (u->text_size + 255) >> ETCH_BLOCK_SHIFT, odd = u->text_size / ODD_SIZE + 1, b, o, at;
	int32_t *ip = memory(u->rows, sizeof *ip);
	struct etch_orc *orc = memory(u->rows, sizeof *orc);
	struct wide *wide = memory(u->rows, sizeof *wide);
	uint32_t *lookup = memory(blocks + 1, sizeof *lookup), *odd_lookup = memory(odd + 1, sizeof *odd_lookup);
	const struct etch_rule *rule, *last = NULL;
	uint64_t map = u->map ? etch_map_bytes(u) + 4ull * u->map_page_count + (uint64_t)ETCH_UNIT_SIZE * u->map_unit_count +
	                                8ull * u->map_palette_count : 0;
	uint32_t n = 0, i;

	for (at = 0; at < u->text_size; at++) {
		rule = etch_block_find_in(&shapes.block, at);
		if (last && etch_rule_equal(rule, last))
			continue;
		if (n == u->rows) {
			fprintf(stderr, "more rows than the table says\n");
			exit(2);
		}
		ip[n] = (int32_t)((int64_t)at - 4 * (int64_t)n);
		etch_orc_pack(rule, ETCH_SOURCE_CODE, &orc[n]);
		wide[n] = (struct wide){orc[n].sp_offset, orc[n].bp_offset, orc[n].bits};
		n++;
		last = rule;
	}
	for (i = 0, b = o = 0; i <= n; i++) {
		int64_t at = i < n ? ip[i] + 4 * (int64_t)i : INT64_MAX;

		for (; b <= blocks && (int64_t)(b << ETCH_BLOCK_SHIFT) < at; b++)
			lookup[b] = i ? i - 1 : 0;
		for (; o <= odd && (int64_t)(o * ODD_SIZE) < at; o++)
			odd_lookup[o] = i ? i - 1 : 0;
	}
	/* At "link-time address" 0, where the text begins too. */
	shapes.orc = (struct etch_orc_table){ip, orc, lookup, n, 0, 0, u->text_size};
	shapes.wide = wide;
	shapes.odd_lookup = odd_lookup;
	shapes.odd_size = odd_size;
	if (!etch_orc_valid(&shapes.orc)) {
		fprintf(stderr, "the arrays are not those of a valid table\n");
		exit(2);
	}
	printf("# rows\t%u\ttext\t%llu\tip\t%zu\tpacked\t%zu\twide\t%zu\tlookup\t%zu\todd\t%zu\tblock\t%llu\tmap\t%llu\n", n,
	       (unsigned long long)u->text_size, n * sizeof *ip, n * sizeof *orc, n * sizeof *wide,
	       (size_t)(blocks + 1) * sizeof *lookup, (size_t)(odd + 1) * sizeof *odd_lookup,
	       (unsigned long long)(u->bytes - map), (unsigned long long)map);
}

/* Offsets of addresses after an E8 rel32 that leads into the text, where a row is a call
 * frame's and fits the arrays. */
static uint32_t *addresses(const uint8_t *file, const struct etch_unwind *u, size_t *count)
{
	const Elf64_Ehdr *e = (const void *)file;
	const Elf64_Phdr *ph = (const void *)(file + e->e_phoff);
	uint32_t *out = memory(u->text_size / 5 + 1, sizeof *out);
	size_t n = 0, i;
	int k;

	for (k = 0; k < e->e_phnum; k++)
		for (i = 0; ph[k].p_type == PT_LOAD && ph[k].p_flags & PF_X && i + 5 <= ph[k].p_filesz; i++) {
			const uint8_t *p = file + ph[k].p_offset + i;
			uint64_t at = ph[k].p_vaddr + i + 5 - u->text;
			const struct etch_rule *r;
			int32_t rel;
			int64_t row;

			memcpy(&rel, p + 1, 4);
			if (*p != 0xe8 || at >= u->text_size || at + (uint64_t)(int64_t)rel >= u->text_size)
				continue;
			r = etch_block_find_in(&shapes.block, at - 1);
			row = etch_orc_find(&shapes.orc, at - 1);
			if (r->kind == ETCH_RULE_CALL && (r->cfa == ETCH_REG_RSP || r->cfa == ETCH_REG_RBP) && row >= 0 &&
			    (shapes.orc.orc[row].bits >> 8 & 7) == ETCH_ORC_TYPE_CALL)
				out[n++] = (uint32_t)at;
		}
	*count = n;
	return out;
}

static uint64_t time_lookups(const uint32_t *list, uint32_t mask)
{
	uint64_t start = bench_tsc(), r = 0, none = zero;
	uint32_t i;

	for (i = 0; i < LOOKUPS; i++)
		r = probe(&shapes, list[i & mask] + (r & none));
	return bench_tsc() - start;
}

int main(int argc, char **argv)
{
	static uint32_t random_list[LOOKUPS], warm_list[WARM];
	uint64_t seed = 88172645463325252u;
	const struct etch_unwind *u;
	const uint8_t *file;
	size_t size, bytes, count, i;
	uint32_t *list;
	int round, rounds = argc == 4 ? atoi(argv[3]) : 0;

	if (!rounds) {
		fprintf(stderr, "usage: %s FILE TABLE ROUNDS\n", argv[0]);
		return 2;
	}
	file = file_read(argv[1], &size);
	u = (const void *)file_read(argv[2], &bytes);
	if (!etch_unwind_valid(u, bytes) || u->encoding != ETCH_ENCODING_BLOCK) {
		fprintf(stderr, "%s: no block table\n", argv[2]);
		return 2;
	}
	etch_block_open(u, &shapes.block);
	shapes_build(u);
	list = addresses(file, u, &count);
	if (count < WARM || (probe_map && !u->map)) {
		fprintf(stderr, "%s: too few calls, or no map\n", argv[1]);
		return 2;
	}
	/* Every shape must say the same before it is timed. */
	for (i = 0; i < count; i++) {
		const struct etch_rule *r = etch_block_find_in(&shapes.block, list[i] - 1);

		if (probe(&shapes, list[i]) != ((uint32_t)r->cfa_off | (uint64_t)(uint16_t)r->bp_off << 32 |
		                                (uint64_t)r->cfa << 48 | (uint64_t)(r->bp != ETCH_BP_SAME) << 56)) {
			fprintf(stderr, "wrong answer at offset %#x\n", list[i]);
			return 1;
		}
	}
	printf("# ticks_per_ns\t%.4f\taddresses\t%zu\tprobe\t%llu\n", bench_ticks_per_ns(), count,
	       (unsigned long long)(uintptr_t)probe);
	for (i = 0; i < WARM; i++)
		warm_list[i] = list[bench_random(&seed) % count];
	for (round = -SAMPLES; round < rounds * SAMPLES; round++) {
		uint64_t warm, random;

		/* New ones a sample: a branch predictor must not learn them by heart. */
		for (i = 0; i < LOOKUPS; i++)
			random_list[i] = list[bench_random(&seed) % count];
		random = time_lookups(random_list, LOOKUPS - 1);
		time_lookups(warm_list, WARM - 1);
		warm = time_lookups(warm_list, WARM - 1);
		if (round >= 0)
			printf("%.2f\t%.2f\n", (double)warm / LOOKUPS, (double)random / LOOKUPS);
	}
	return 0;
}
