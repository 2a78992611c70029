/* SPDX-License-Identifier: MIT */
/*
 * tables.c: the unwind tables of etch/orc_lookup.h and tool/table/unwind_tables.c,
 * against the plain list of rows that they are made from. For test_unwind_tables.py
 * and scripts/fuzz.py.
 *
 *   lookup SEED LISTS    random lists of rows through both encodings, every byte looked up
 *   mutate SEED TABLES MUTANTS   damaged tables; built with sanitizers, in buffers of their size
 *   calls SEED BYTES [FILE...]   byte_scan.c against Zydis, on random bytes and on files
 *   canonical SEED LISTS unwind_rows_canonical()
 *   refuse 0             lists of rows that are none
 *   encode ROWS          encodes that many rows once (to be timed by hand)
 *
 * Prints what was done, "N lists, ..."; exit status 1 and a line at the first failure.
 */
#include <stdarg.h>
#include <time.h>

#include "tables.h"

static uint64_t state;

uint64_t rnd(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint32_t below(uint32_t n)
{
	return (uint32_t)((rnd() >> 32) * n >> 32);
}

void fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	exit(1);
}

void check_error(int status, const struct error *e)
{
	if (status)
		fail("%s", e->text);
}

/* ---- canonical rows ---------------------------------------------------------------------- */

/*
 * Random rows over a text that is padding where it pleases: at bytes that are not
 * padding the rule stays; what changed was UNDEF; equal neighbours are one.
 */
static void canonical(unsigned lists)
{
	uint64_t absorbed = 0, kept = 0, merged = 0, early = 0;
	unsigned i;

	for (i = 0; i < lists; i++) {
		struct sample s;
		struct row_list out;
		struct code_section section = { 0 };
		struct code_space space = { .list = &section, .count = 1 };
		uint8_t *bytes;
		size_t k, row;
		uint64_t at;

		sample_make(&s);
		bytes = malloc(s.size + 1);
		memset(bytes, 0x90, s.size);
		for (k = 0; k + 1 < s.rows.count; k++) /* one gap in three is code, from its first byte or its last */
			if (s.rows.rows[k].rule.kind == ETCH_RULE_UNDEF && below(3) == 0)
				bytes[below(2) ? s.rows.rows[k].addr - s.text : s.rows.rows[k + 1].addr - 1 - s.text] = 0x50;
		section.addr = s.text;
		section.size = s.size;
		section.bytes = bytes;
		unwind_rows_canonical(&s.rows, &space, &out);
		if ((out.rows[0].addr & 255) || out.rows[out.count - 1].addr != s.text + s.size ||
		    out.rows[out.count - 1].rule.kind != ETCH_RULE_UNDEF)
			fail("canonical: first or last row");
		for (k = 1; k + 1 < out.count; k++)
			if (out.rows[k].addr <= out.rows[k - 1].addr ||
			    (etch_rule_equal(&out.rows[k].rule, &out.rows[k - 1].rule) &&
			     (out.rows[k].source == out.rows[k - 1].source || out.rows[k].rule.kind == ETCH_RULE_UNDEF)))
				fail("canonical: row %zu", k);
		for (at = row = 0; at < s.size; at++) {
			const struct etch_rule *want = truth(&s, at), *got;
			const struct row *in = s.row_of[at] == UINT32_MAX ? NULL : &s.rows.rows[s.row_of[at]];
			const struct row *from = in, *to = in; /* the gap */

			while (row + 1 < out.count && out.rows[row + 1].addr <= s.text + at)
				row++;
			got = &out.rows[row].rule;
			if (etch_rule_equal(want, got)) {
				kept++;
				if (in && got->kind != ETCH_RULE_UNDEF && out.rows[row].source != in->source)
					fail("canonical: source at +0x%llx", (unsigned long long)at);
				continue;
			}
			if (want->kind != ETCH_RULE_UNDEF || !in)
				fail("canonical: rule at +0x%llx", (unsigned long long)at);
			while (from > s.rows.rows && from[-1].rule.kind == ETCH_RULE_UNDEF)
				from--;
			while (to->addr < s.text + s.size && to->rule.kind == ETCH_RULE_UNDEF)
				to++;
			/* The byte before code that is returned to without a call. */
			if (s.text + at == to->addr - 1 && (to->rule.kind == ETCH_RULE_END || to->rule.kind == ETCH_RULE_SIGNAL) &&
			    etch_rule_equal(got, &to->rule) &&
			    !memchr(bytes + (to[-1].addr - s.text), 0x50, to->addr - to[-1].addr)) {
				early++;
				continue;
			}
			if (to->addr - from->addr >= UNWIND_PADDING || memchr(bytes + (from->addr - s.text), 0x50, to->addr - from->addr) ||
			    from == s.rows.rows || !etch_rule_equal(got, &from[-1].rule))
				fail("canonical: rule at +0x%llx", (unsigned long long)at);
			absorbed++;
		}
		merged += s.rows.count > out.count ? s.rows.count - out.count : 0;
		row_list_free(&out);
		free(bytes);
		sample_free(&s);
	}
	printf("kept=%llu absorbed=%llu merged=%llu early=%llu\n", (unsigned long long)kept,
	       (unsigned long long)absorbed, (unsigned long long)merged, (unsigned long long)early);
}

/* ---- lists that are none -------------------------------------------------------------------- */

static void refuse_one(struct row *rows, size_t count, const char *why)
{
	struct row_list list = { rows, count, count };
	struct error e;
	uint8_t *table;
	size_t size;

	if (!unwind_block_encode(&list, &(struct unwind_kind){.map_shift = 6}, &table, &size, &e) || !strstr(e.text, why))
		fail("not refused: %s", why);
	if (table)
		fail("refused, and a table");
	printf("%s\n", e.text);
}

static void refuse(void)
{
	const struct etch_rule call = { .cfa = ETCH_REG_RSP, .cfa_off = 8, .kind = ETCH_RULE_CALL };
	struct etch_rule odd = call;

	odd.cfa_add = 8; /* without DEREF */
	refuse_one((struct row[]){ { .addr = 0x1000, .rule = call }, { .addr = 0x1000 } }, 2, "0x1000 is out of order");
	refuse_one((struct row[]){ { .addr = 0x1008, .rule = call }, { .addr = 0x1000, .rule = call }, { .addr = 0x2000 } }, 3,
	           "0x1000 is out of order");
	refuse_one((struct row[]){ { .addr = 0x1000, .rule = odd }, { .addr = 0x2000 } }, 2,
	           "0x1000 is out of order or malformed");
	refuse_one((struct row[]){ { .addr = 0x1000, .rule = call } }, 1, "0x1000 is not the end");
	refuse_one((struct row[]){ { .addr = 0x1000, .rule = call }, { .addr = 0x100001000 } }, 2, "at most 4 GiB");
	refuse_one((struct row[]){ { .addr = 0, .rule = call }, { .addr = UINT64_MAX } }, 2, "at most 4 GiB");
}

/* ---- a large list ------------------------------------------------------------------------- */

static void encode(unsigned count)
{
	struct row_list rows = { calloc(count + 1, sizeof(struct row)), count + 1, count + 1 };
	uint64_t *list = malloc(count * sizeof(*list)), at = 0x400000;
	unsigned shift, i;

	for (i = 0; i < count; i++) {
		rows.rows[i] = (struct row){ .addr = at, .rule = rule_random(100), .source = ETCH_SOURCE_BOTH };
		at += 1 + below(95);
		list[i] = at;
	}
	rows.rows[count] = (struct row){ .addr = at };
	for (shift = 0; shift <= 7; shift += shift ? 1 : 6) {
		struct timespec a, b;
		struct error e;
		uint8_t *table;
		size_t size;

		clock_gettime(CLOCK_MONOTONIC, &a);
		check_error(unwind_block_encode(&rows, &(struct unwind_kind){.map_shift = shift, .calls = list, .call_count = count},
		                                &table, &size, &e), &e);
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("shift=%u bytes=%zu encode_ms=%.1f", shift, size,
		       (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
		a = b;
		if (!etch_unwind_valid(table, size))
			fail("refused");
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf(" valid_ms=%.1f\n", (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
		free(table);
	}
	free(rows.rows);
	free(list);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	unsigned a = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : 0;

	state = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	if (!strcmp(mode, "lookup") && argc == 4)
		lookup(a);
	else if (!strcmp(mode, "mutate") && argc == 5)
		mutate(a, (unsigned)strtoul(argv[4], NULL, 0));
	else if (!strcmp(mode, "calls") && argc >= 4)
		calls(a, argv + 4);
	else if (!strcmp(mode, "canonical") && argc == 4)
		canonical(a);
	else if (!strcmp(mode, "refuse") && argc == 3)
		refuse();
	else if (!strcmp(mode, "encode") && argc == 3)
		encode((unsigned)state);
	else
		return 2;
	return 0;
}
