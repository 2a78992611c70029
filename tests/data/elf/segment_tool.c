/* SPDX-License-Identifier: MIT */
/*
 * segment_tool.c: runs tool/output/segment.c by itself, for test_segment.py.
 *
 *   add IN OUT NAME:SIZE[:ALIGN[:u]]...   adds sections (u: not loaded); their contents
 *                                     start with their own address and follow from their name
 *   find FILE                         where the segment is
 *   fuzz FILE COUNT SEED              damages the file in COUNT ways
 *
 * Exit status: 0, or 1 with the message of the module, or 3 when a promise of
 * segment.h is broken.
 */
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/outfile.h"
#include "output/segment.h"

#define MAX_SECS 16

/* ---- helpers ----------------------------------------------------------------- */

static uint8_t *file_load(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	long n;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET)) {
		perror(path);
		exit(1);
	}
	*size = (size_t)n;
	data = malloc(*size ? *size : 1);
	if (!data || fread(data, 1, *size, f) != *size) {
		perror(path);
		exit(1);
	}
	fclose(f);
	return data;
}

/* Contents after segment_plan: the section's own address, then a pattern. */
static void secs_fill(struct segment_section *secs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t *d = malloc(secs[i].size);
		unsigned h = 5381;

		if (!d)
			abort();
		for (const char *c = secs[i].name; *c; c++)
			h = h * 33 + (unsigned char)*c;
		for (uint64_t k = 0; k < secs[i].size; k++)
			d[k] = (uint8_t)(h + k * 7 + (k >> 8));
		memcpy(d, &secs[i].addr, secs[i].size < 8 ? secs[i].size : 8);
		free((void *)secs[i].data);
		secs[i].data = d;
	}
}

static void secs_free(struct segment_section *secs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((void *)secs[i].data);
}

static int plan_and_add(const uint8_t *in, size_t size, struct segment_section *secs, size_t n,
                        uint8_t **out, size_t *out_size, struct error *e)
{
	int r = segment_plan(in, size, secs, n, e);

	if (r)
		return r;
	secs_fill(secs, n);
	return segment_add(&(struct segment_request){in, size, secs, n, NULL, NULL}, out, out_size, e);
}

static void promise(bool kept, const char *what)
{
	if (!kept) {
		fprintf(stderr, "broken: %s\n", what);
		exit(3);
	}
}

/* What holds after every success. */
static void check_again(const uint8_t *out, size_t out_size, struct segment_section *secs, size_t n)
{
	struct segment_found found;
	struct segment_section *copy = malloc(n * sizeof *copy);
	uint8_t *again, *built;
	size_t again_size, built_size;
	struct error e = {.text = ""};

	if (segment_find(out, out_size, &found, &e) != 1) {
		fprintf(stderr, "%s\n", e.text);
		promise(false, "the output has an etch segment");
	}
	promise(found.addr + found.first == secs[0].addr, "`first` is the first section");
	for (size_t i = 0; i < n; i++) {
		uint64_t at = found.offset + (secs[i].addr - found.addr);

		if (secs[i].unloaded) {
			promise(!secs[i].addr, "what is not loaded has no address");
			continue; /* test_segment.py looks for it by its name */
		}
		promise(at <= out_size && secs[i].size <= out_size - at, "the sections are in the file");
		promise(!memcmp(out + at, secs[i].data, secs[i].size), "contents are what was given");
	}
	if (plan_and_add(out, out_size, secs, n, &again, &again_size, &e)) {
		fprintf(stderr, "%s\n", e.text);
		promise(false, "the output can be processed again");
	}
	promise(again_size == out_size && !memcmp(again, out, out_size), "twice is the same as once");
	if (!copy)
		abort();
	memcpy(copy, secs, n * sizeof *copy);
	promise(!segment_build(&(struct segment_request){out, out_size, copy, n, NULL, NULL}, &built, &built_size, &e) &&
	        built_size == out_size && !memcmp(built, out, out_size), "segment_build does the same");
	free(built);
	free(copy);
	free(again);
}

/* ---- commands ------------------------------------------------------------------ */

static int cmd_add(int argc, char **argv)
{
	struct segment_section secs[MAX_SECS] = {{0}};
	size_t n = 0, size, out_size;
	uint8_t *in = file_load(argv[0], &size), *out = NULL;
	struct error e = {.text = ""};
	int r;

	for (int i = 2; i < argc && n < MAX_SECS; i++, n++) {
		char *colon = strchr(argv[i], ':');

		if (!colon)
			exit(2);
		*colon = 0;
		secs[n] = (struct segment_section){.name = argv[i], .type = SHT_PROGBITS, .align = 4};
		secs[n].size = strtoull(colon + 1, &colon, 0);
		if (*colon == ':')
			secs[n].align = strtoull(colon + 1, &colon, 0);
		secs[n].unloaded = !strcmp(colon, ":u");
	}
	r = plan_and_add(in, size, secs, n, &out, &out_size, &e);
	if (r) {
		fprintf(stderr, "%s: %s\n", argv[0], e.text);
	} else {
		check_again(out, out_size, secs, n);
		r = outfile_write(argv[1], out, out_size, argv[0], &e);
		if (r)
			fprintf(stderr, "%s\n", e.text);
	}
	for (size_t i = 0; i < n && !r; i++)
		printf("%s %llx %llx\n", secs[i].name, (unsigned long long)secs[i].addr,
		       (unsigned long long)secs[i].size);
	secs_free(secs, n);
	free(in);
	free(out);
	return r ? 1 : 0;
}

static int cmd_find(char **argv)
{
	struct segment_found found;
	struct error e = {.text = ""};
	size_t size;
	uint8_t *in = file_load(argv[0], &size);
	int r = segment_find(in, size, &found, &e);

	free(in);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], e.text);
		return 1;
	}
	if (r)
		printf("offset %llx address %llx size %llx first %llx\n", (unsigned long long)found.offset,
		       (unsigned long long)found.addr, (unsigned long long)found.size,
		       (unsigned long long)found.first);
	else
		printf("none\n");
	return 0;
}

static uint64_t seed;

static uint64_t rnd(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return n ? seed % n : 0;
}

/* A value that a field of n bytes is likely to be handled wrongly with. */
static uint64_t odd_value(size_t size)
{
	static const uint64_t odd[] = {
		0, 1, 7, 8, 0xff, 0xffff, 0xfffe, 0x7fffffff, 0x80000000, 0xffffffff, 4095, 4096,
		0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffff000, 1ull << 47,
	};

	switch (rnd(4)) {
	case 0: return rnd(size + 64);
	case 1: return size - rnd(size < 128 ? size : 128);
	case 2: return seed;
	default: return odd[rnd(sizeof odd / sizeof *odd)];
	}
}

static void mutate(uint8_t *d, size_t size)
{
	Elf64_Ehdr eh;

	memcpy(&eh, d, sizeof eh);
	for (uint64_t k = 1 + rnd(3); k; k--) {
		uint64_t at, v = odd_value(size);
		size_t width = 1u << rnd(4);

		switch (rnd(8)) {
		case 0: at = 16 + rnd(sizeof eh - 16); break;
		case 1: case 2: case 3: at = eh.e_phoff + rnd(eh.e_phnum) * 56 + rnd(8) * 8 % 56; break;
		case 4: case 5: case 6: at = eh.e_shoff + rnd(eh.e_shnum) * 64 + rnd(8) * 8; break;
		default: at = rnd(size); break;
		}
		if (rnd(4) == 0)
			at += rnd(8);
		if (at >= size)
			continue;
		if (width > size - at)
			width = 1;
		if (rnd(4) == 0 && at + 8 <= size) { /* a little off */
			memcpy(&v, d + at, 8);
			v += rnd(2) ? rnd(5000) : -rnd(5000);
			width = 8;
		}
		memcpy(d + at, &v, width);
	}
}

static int cmd_fuzz(char **argv)
{
	size_t size, done = 0, count = strtoull(argv[1], NULL, 0), with_size = 0;
	uint8_t *in = file_load(argv[0], &size), *with = NULL;
	struct segment_section first[] = {
		{.name = ".orc_unwind_ip", .type = SHT_PROGBITS, .align = 4, .size = 400},
		{.name = ".orc_unwind", .type = SHT_PROGBITS, .align = 2, .size = 602},
		{.name = ".etch.source", .type = SHT_PROGBITS, .size = 77, .unloaded = true},
	};
	struct error e = {.text = ""};

	seed = strtoull(argv[2], NULL, 0) * 2654435761u + 1;
	if (plan_and_add(in, size, first, 3, &with, &with_size, &e)) {
		fprintf(stderr, "%s: %s\n", argv[0], e.text);
		return 1;
	}
	for (size_t i = 0; i < count; i++) {
		struct segment_section secs[] = {
			{.name = ".orc_unwind", .type = SHT_PROGBITS, .align = 2, .size = 1 + rnd(900)},
			{.name = ".orc_lookup", .type = SHT_PROGBITS, .align = 64, .size = 1 + rnd(6000)},
			{.name = "__imv", .type = SHT_PROGBITS, .align = 4, .size = 12},
			{.name = ".etch.source", .type = SHT_PROGBITS, .size = 1 + rnd(300), .unloaded = true},
		};
		bool second = rnd(2);
		size_t n = 1 + rnd(4), from = second ? with_size : size;
		size_t cut = rnd(8) ? from : rnd(from + 1), out_size;
		/* Of exactly this size, so that the sanitizer sees the first byte after it. */
		uint8_t *bad = malloc(cut ? cut : 1), *out;

		if (!bad)
			abort();
		memcpy(bad, second ? with : in, cut);
		if (cut > 128 && (cut == from || rnd(2)))
			mutate(bad, cut);
		e.text[0] = 0;
		if (!plan_and_add(bad, cut, secs, n, &out, &out_size, &e)) {
			check_again(out, out_size, secs, n);
			free(out);
			done++;
		} else {
			promise(*e.text && !strchr(e.text, '\n'), "an error is one line");
		}
		free(bad);
		secs_free(secs, n);
	}
	printf("%zu mutants, %zu accepted\n", count, done);
	secs_free(first, 3);
	free(with);
	free(in);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "add"))
		return cmd_add(argc - 2, argv + 2);
	if (argc == 3 && !strcmp(argv[1], "find"))
		return cmd_find(argv + 2);
	if (argc == 5 && !strcmp(argv[1], "fuzz"))
		return cmd_fuzz(argv + 2);
	return 2;
}
