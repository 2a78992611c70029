/* SPDX-License-Identifier: MIT */
/*
 * What shared/cfi.h and analysis/facts/cfi_file.c read from a file, as text for
 * tests/analysis/test_cfi.py.
 *
 *   cfi_dump rows FILE   the columns of `etch inspect orc --format tsv`, source = why
 *   cfi_dump saves FILE  start, end, then rbx r12 r13 r14 r15
 *   cfi_dump fdes FILE   start, end, signal; then its call sites: start, end, pad
 *   cfi_dump functions FILE  section and offset, size; rows relative to it; its call
 *                        sites likewise, and section and offset of their pads
 *   cfi_dump time FILE   rows, and nanoseconds a row (not for a test)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/facts/cfi_file.h"

static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static uint64_t last, base;
static const struct code_space *code;

static void check_order(const struct etch_cfi_row *row)
{
	if (row->start >= row->end || (last && row->start != last)) {
		fprintf(stderr, "row %" PRIx64 "-%" PRIx64 " does not continue %" PRIx64 "\n", row->start, row->end, last);
		exit(3);
	}
	last = row->end;
}

static void slot_print(unsigned how, int32_t off)
{
	if (how == ETCH_BP_SAME)
		printf("same");
	else if (how == ETCH_BP_CFA)
		printf("cfa%+d", off);
	else if (how == ETCH_BP_UNDEF)
		printf("undef");
	else
		printf("*(%s%+d)", how == ETCH_BP_RBP ? "rbp" : "rsp", off);
}

/* "cfa-8", "cfa-24", or a register. */
static const char *ra_text(const struct etch_rule *r)
{
	static char at[24];

	if (r->ra & ETCH_RA_REG)
		return names[r->ra & 15];
	snprintf(at, sizeof(at), "cfa%+d", r->ra == ETCH_RA_SLOT ? r->cfa_add : -8);
	return at;
}

static void row_print(void *ctx, const struct etch_cfi_row *row)
{
	static const char *const kinds[] = {"undef", "call", "signal", "end"};
	const struct etch_rule *r = &row->rule;
	const char *reg = names[r->cfa & 15];

	(void)ctx;
	check_order(row);
	printf("%" PRIx64 "\t%" PRIx64 "\t", row->start - base, row->end - row->start);
	if (r->kind == ETCH_RULE_UNDEF || (r->kind == ETCH_RULE_END && !r->cfa))
		printf("undef\tundef\tundef\t");
	else {
		if (r->cfa & ETCH_CFA_INDEX)
			printf("*(rsp+8*%s%+d)%+d\t", reg, r->cfa_off, r->cfa_add);
		else if (r->cfa & ETCH_CFA_DEREF)
			printf("*(%s%+d)%+d\t", reg, r->cfa_off, r->cfa_add);
		else
			printf("%s%+d\t", reg, r->cfa_off);
		slot_print(r->bp, r->bp_off);
		printf("\t%s\t", ra_text(r));
	}
	printf("%s\t%s\n", kinds[r->kind], row->why ? row->why : "cfi");
}

static void saves_print(void *ctx, const struct etch_cfi_row *row)
{
	unsigned i;

	(void)ctx;
	check_order(row);
	printf("%" PRIx64 "\t%" PRIx64, row->start, row->end);
	for (i = 0; i < 5; i++) {
		putchar('\t');
		slot_print(row->rule.kind == ETCH_RULE_CALL ? row->saves.how[i] : ETCH_BP_UNDEF, row->saves.off[i]);
	}
	putchar('\n');
}

static void site_print(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	(void)ctx;
	printf(" %" PRIx64 "\t%" PRIx64 "\t%" PRIx64 "\n", start, end, pad);
}

static void place_print(uint64_t addr)
{
	const struct code_section *s = space_at(code, addr);

	if (s)
		printf("%u\t%" PRIx64, s->section, addr - s->addr);
	else
		printf("-\t%" PRIx64, addr);
}

static void site_place_print(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	(void)ctx;
	printf("C\t%" PRIx64 "\t%" PRIx64 "\t", start - base, end - base);
	place_print(pad);
	putchar('\n');
}

static void row_count(void *ctx, const struct etch_cfi_row *row) { *(uint64_t *)ctx += row->start != row->end; }

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	struct elf_file f;
	struct code_space space;
	struct cfi_file cfi;
	struct error e;
	uint64_t rows = 0;
	double begin, opened;
	size_t i;

	if (argc != 3)
		return 2;
	if (elf_open(&f, argv[2], &e)) {
		fprintf(stderr, "%s\n", e.text);
		elf_close(&f);
		return 2;
	}
	space_build(&f, &space);
	code = &space;
	begin = seconds();
	cfi_file_open(&f, &space, &cfi);
	opened = seconds();
	if (!strcmp(argv[1], "rows"))
		printf("address\tsize\tcfa\tbp\tra\tkind\tsource\n");
	for (i = 0; i < cfi.count; i++) {
		const struct cfi_fde *fde = &cfi.fdes[i];

		last = 0;
		if (i && fde->start < cfi.fdes[i - 1].end)
			return 3;
		if (cfi_file_at(&cfi, fde->start) != (long)i || cfi_file_at(&cfi, fde->end - 1) != (long)i)
			return 4;
		if (!strcmp(argv[1], "rows")) {
			cfi_file_rows(&cfi, i, 0, row_print, NULL);
		} else if (!strcmp(argv[1], "saves")) {
			cfi_file_rows(&cfi, i, ETCH_CFI_SAVES, saves_print, NULL);
		} else if (!strcmp(argv[1], "functions")) {
			printf("F\t");
			place_print(fde->start);
			printf("\t%" PRIx64 "\n", fde->end - fde->start);
			base = fde->start;
			cfi_file_rows(&cfi, i, 0, row_print, NULL);
			if (lsda_call_sites(&f, &cfi, i, site_place_print, NULL) < 0)
				printf("C\tbad\n");
		} else if (!strcmp(argv[1], "fdes")) {
			printf("%" PRIx64 "\t%" PRIx64 "\t%d\n", fde->start, fde->end, fde->signal);
			if (lsda_call_sites(&f, &cfi, i, site_print, NULL) < 0)
				printf(" bad\n");
		} else {
			cfi_file_rows(&cfi, i, 0, row_count, &rows);
		}
		if (last && last != fde->end)
			return 5;
	}
	if (!strcmp(argv[1], "time"))
		printf("%zu FDEs in %.0f ns each, %" PRIu64 " rows in %.0f ns each\n", cfi.count,
		       (opened - begin) * 1e9 / (double)(cfi.count + !cfi.count), rows,
		       (seconds() - opened) * 1e9 / (double)(rows + !rows));
	else
		fprintf(stderr, "bad %zu dropped %zu\n", cfi.bad, cfi.dropped);
	cfi_file_close(&cfi);
	space_free(&space);
	elf_close(&f);
	return 0;
}
