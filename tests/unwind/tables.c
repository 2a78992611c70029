/* SPDX-License-Identifier: MIT */
/*
 * tables.c: the unwind tables of etch/orc_lookup.h and tool/table/unwind_tables.c,
 * against the plain list of rows that they are made from. For test_unwind_tables.py
 * and scripts/fuzz_unwind.py.
 *
 *   lookup SEED LISTS    random lists of rows through both encodings, every byte looked up
 *   mutate SEED TABLES MUTANTS   damaged tables; built with sanitizers, in buffers of their size
 *   calls SEED BYTES [FILE...]   callsites.c against Zydis, on random bytes and on files
 *   canonical SEED LISTS unwind_rows_canonical()
 *   refuse 0             lists of rows that are none
 *   encode ROWS          encodes that many rows once (to be timed by hand)
 *
 * Prints what was done, "N lists, ..."; exit status 1 and a line at the first failure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <Zydis/Zydis.h>

#include <etch/orc_lookup.h>

#include "arch/x86/callsites.h"
#include "table/unwind_tables.h"

static uint64_t state;

static uint64_t rnd(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)((rnd() >> 32) * n >> 32);
}

static void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	exit(1);
}

static void check_error(int status, const struct error *e)
{
	if (status)
		fail("%s", e->text);
}

/* ---- random rows ----------------------------------------------------------------- */

static struct etch_rule rule_random(unsigned variety)
{
	static const int32_t offs[] = { 0, 8, -8, 127, 32760, 32768, -32768, 40000, 511 * 8, 512 * 8,
	                                -4096, 1 << 30, INT32_MIN };
	struct etch_rule r = { 0 };
	uint32_t what = below(100);

	r.kind = ETCH_RULE_CALL;
	if (what < 8 && variety < 1000) {
		r.kind = ETCH_RULE_UNDEF;
		return r;
	}
	if (what < 10) {
		r.kind = ETCH_RULE_SIGNAL;
		r.cfa = ETCH_REG_RSP | ETCH_CFA_DEREF;
		r.cfa_off = 160 + 8 * (int32_t)below(2);
		return r;
	}
	if (what < 12)
		r.kind = ETCH_RULE_END;
	r.cfa = below(4) ? ETCH_REG_RSP : ETCH_REG_RBP;
	r.cfa_off = 8 + 8 * (int32_t)below(variety);
	if (below(3)) {
		r.bp = ETCH_BP_CFA;
		r.bp_off = -16 - 8 * (int32_t)below(3);
	}
	if (below(12) == 0) { /* odd ones */
		r.cfa = (uint8_t)below(32);
		r.cfa_off = offs[below(sizeof(offs) / sizeof(*offs))];
		if (r.cfa & ETCH_CFA_DEREF)
			r.cfa_add = below(2) ? offs[below(sizeof(offs) / sizeof(*offs))] : 8 * (int32_t)below(70);
		if ((r.cfa & ETCH_CFA_DEREF) && (r.cfa & 15) != ETCH_REG_RSP && (r.cfa_off & 8))
			r.cfa |= ETCH_CFA_INDEX;
		r.bp = (uint8_t)below(ETCH_BP_UNDEF + 1);
		r.bp_off = 0;
		if (r.bp == ETCH_BP_CFA || r.bp == ETCH_BP_RBP || r.bp == ETCH_BP_RSP)
			r.bp_off = offs[below(sizeof(offs) / sizeof(*offs))];
		if (r.kind == ETCH_RULE_CALL && below(2))
			r.ra = (uint8_t)(ETCH_RA_REG | below(16));
	}
	return r;
}

struct sample {
	struct row_list rows;
	uint64_t text, size; /* text at a multiple of 256 */
	uint32_t *row_of;    /* of each byte: index in rows, or UINT32_MAX before the first */
	uint64_t *calls;
	size_t call_count;
};

static void sample_free(struct sample *s)
{
	row_list_free(&s->rows);
	free(s->row_of);
	free(s->calls);
}

static void sample_make(struct sample *s)
{
	static const uint32_t varieties[] = { 2, 10, 100, 5000 };
	static const uint32_t gaps[] = { 1, 3, 12, 40, 300, 3000, 40000 };
	struct { uint32_t n; struct etch_rule rule[12]; uint8_t gap[12]; } motif[6];
	unsigned variety = varieties[below(4)], motifs;
	uint32_t size = below(8) ? 1 + below(60000) : 1 + below(700), gap = gaps[below(7)], at, i, n, limit;

	memset(s, 0, sizeof(*s));
	s->text = (uint64_t)below(1u << 30) << 8;
	s->size = size;
	s->rows.rows = malloc((size + 1) * sizeof(*s->rows.rows));
	s->row_of = malloc(size * sizeof(*s->row_of));
	s->calls = malloc((size + 1) * sizeof(*s->calls));
	if (below(20) == 0) { /* a list of an end and nothing else */
		s->size = size = 0;
		goto end;
	}
	for (i = 0; i < 6; i++) {
		motif[i].n = 2 + below(11);
		for (n = 0; n < motif[i].n; n++) {
			motif[i].rule[n] = rule_random(variety);
			motif[i].gap[n] = (uint8_t)(1 + below(below(4) ? 2 : 15));
		}
	}
	motifs = below(3) ? 1 + below(30) : 0;
	at = below(2) ? 0 : below(size < 256 ? size : 256);
	for (i = 0; i < at; i++)
		s->row_of[i] = UINT32_MAX;
	limit = gap;
	for (n = 0; at < size; n++) {
		uint32_t next;

		if (motifs && below(motifs) == 0) { /* what repeats, as prologues do */
			uint32_t m = below(6), k;

			for (k = 0; k < motif[m].n && at + motif[m].gap[k] < size; k++, n++) {
				s->rows.rows[n] = (struct row){ s->text + at, motif[m].rule[k], (uint8_t)below(4) };
				for (next = at + motif[m].gap[k]; at < next; at++)
					s->row_of[at] = n;
			}
		}
		if (below(40) == 0) /* dense and empty stretches in one list */
			limit = below(2) ? 1 : gaps[below(7)];
		next = at + 1 + below(limit);
		if (next > size)
			next = size;
		s->rows.rows[n] = (struct row){ s->text + at, rule_random(variety), (uint8_t)below(4) };
		for (; at < next; at++)
			s->row_of[at] = n;
	}
	s->rows.count = n;
end:
	s->rows.rows[s->rows.count++] = (struct row){ .addr = s->text + size };
	n = 1 + below(60);
	for (i = 1; i <= size; i += 1 + below(n))
		s->calls[s->call_count++] = s->text + i;
}

static const struct etch_rule *truth(const struct sample *s, uint64_t offset)
{
	if (offset >= s->size || s->row_of[offset] == UINT32_MAX)
		return &etch_rule_undef;
	return &s->rows.rows[s->row_of[offset]].rule;
}

static void rule_same(const struct sample *s, const struct etch_rule *got, uint64_t offset, const char *who)
{
	char a[64], b[64];

	if (etch_rule_equal(got, truth(s, offset)))
		return;
	rule_cfa_text(got, a, sizeof(a));
	rule_cfa_text(truth(s, offset), b, sizeof(b));
	fail("%s at +0x%llx: %s, expected %s", who, (unsigned long long)offset, a, b);
}

/* ---- lookup ------------------------------------------------------------------------ */

struct totals {
	uint64_t bytes, rows, calls, answered, packable, escapes, long_blocks, orc_rows, orc_unfit, chains, runs, in_runs;
};

/* Who reads version 1 alone refuses a table that has an index; and no other one. */
static void version_check(const struct sample *s, uint8_t *table, size_t size)
{
	struct etch_unwind *u = (void *)table;
	uint16_t version = ETCH_UNWIND_VERSION;
	size_t i;

	for (i = 0; i < s->rows.count; i++)
		if (s->rows.rows[i].rule.cfa & ETCH_CFA_INDEX)
			version = ETCH_UNWIND_VERSION_INDEX;
	if (u->version != version)
		fail("version %u, expected %u", u->version, version);
	for (i = 0; i < 4; i++) {
		u->version = (uint16_t)i;
		if (etch_unwind_valid(table, size) != (i == version))
			fail("version %zu in place of %u", i, version);
	}
	u->version = version;
}

static void block_check(const struct sample *s, const uint8_t *table, size_t size, struct totals *t)
{
	const struct etch_unwind *u = (const void *)table;
	struct etch_block block;
	struct etch_map_rule packed;
	uint64_t i;

	if (!etch_unwind_header_valid(table, size) || !etch_unwind_valid(table, size))
		fail("a table of the encoder is refused");
	if (etch_unwind_valid(table, size - 1) || (s->size && u->text != s->text))
		fail("wrong size or text");
	etch_block_open(u, &block);
	for (i = 0; i < s->size + 300; i++) {
		rule_same(s, etch_block_find(u, i), i, "block");
		rule_same(s, etch_block_find_scalar(u, i), i, "block, scalar");
	}
	rule_same(s, etch_block_find(u, ~0ull), ~0ull, "block");
	t->escapes += u->escape_count;
	t->runs += u->run_count;
	t->in_runs += u->rows - 1 - (u->pool_size - ETCH_POOL_TAIL - 1) / 2;
	for (i = 0; i < (s->size + 255) / 256; i++)
		t->long_blocks += etch_block_record(&block, i + 1) - etch_block_record(&block, i) > 32;
	if (!u->map_shift)
		return;
	for (i = 0; i < s->call_count; i++) {
		uint64_t offset = s->calls[i] - s->text;
		const struct etch_map_rule *m = etch_map_find(u, offset);
		struct etch_rule r;

		t->calls++;
		t->packable += (uint64_t)etch_map_rule_pack(truth(s, offset - 1), &packed);
		if (!m)
			continue;
		t->answered++;
		etch_map_rule_unpack(m, &r);
		rule_same(s, &r, offset - 1, "map");
	}
	/* Signal and outermost frames are returned to without a call. */
	for (i = 0; i + 1 < s->rows.count; i++) {
		const struct row *row = &s->rows.rows[i];
		uint64_t offset;

		if (row->rule.kind == ETCH_RULE_SIGNAL || row->rule.kind == ETCH_RULE_END)
			for (offset = row->addr - s->text; offset <= row[1].addr - s->text; offset++)
				if (etch_map_find(u, offset))
					fail("the map answers in a frame that nobody called");
	}
	if (etch_map_find(u, s->size + 1) || etch_map_find(u, ~0ull))
		fail("the map answers outside of text");
	for (i = 0; i < etch_map_bytes(u); i++)
		t->chains += block.map[i] >= ETCH_MAP_CODES && block.map[i] != ETCH_MAP_FULL;
}

/* The kernel's arrays, as the object step and the linker leave them. */
static void orc_check(const struct sample *s, struct totals *t)
{
	uint32_t n = (uint32_t)s->rows.count, blocks = (uint32_t)((s->size + 255) / 256), i, b = 0;
	int32_t *ip = malloc(n * sizeof(*ip));
	struct etch_orc *orc = malloc(n * sizeof(*orc));
	uint32_t *lookup = malloc((blocks + 1) * sizeof(*lookup));
	uint64_t base = s->text + (below(2) ? 0x20000000 : -0x1000000ull), at;
	struct etch_orc_table table = { ip, orc, lookup, n, base, s->text, s->size };

	for (i = 0; i < n; i++) {
		const struct row *r = &s->rows.rows[i];
		struct etch_rule back;
		bool fits = unwind_orc_pack(&r->rule, r->source, &orc[i]);

		ip[i] = (int32_t)(r->addr - (base + 4 * i));
		if (!etch_orc_unpack(&orc[i], &back))
			fail("an entry of the encoder is refused");
		if (fits ? !etch_rule_equal(&back, &r->rule) : back.kind != ETCH_RULE_UNDEF)
			fail("an entry says something else");
		if ((orc[i].bits >> 12 & 3) != r->source)
			fail("an entry has another source");
		t->orc_rows++;
		t->orc_unfit += !fits;
		for (; b <= blocks && s->text + 256ull * b < r->addr; b++)
			lookup[b] = i ? i - 1 : 0;
	}
	for (; b <= blocks; b++)
		lookup[b] = n - 1;
	if (!etch_orc_valid(&table))
		fail("orc arrays are refused");
	for (at = 0; at < s->size + 300; at++) {
		int64_t row = etch_orc_find(&table, at), want = at < s->size ? (int64_t)s->row_of[at] : -1;

		if (want == UINT32_MAX)
			want = -1;
		if (row != want)
			fail("orc at +0x%llx: row %lld, expected %lld", (unsigned long long)at, (long long)row,
			     (long long)want);
	}
	/* Damage: the lookup stays inside, and the validator sees what is out of order. */
	for (i = 0; i < 8; i++) {
		uint32_t *damage = below(2) ? &lookup[below(blocks + 1)] : (uint32_t *)&ip[below(n)], was = *damage;

		*damage = below(2) ? (uint32_t)rnd() : was + 1;
		for (at = 0; at < s->size; at += 1 + below(64))
			if (etch_orc_find(&table, at) >= n)
				fail("orc: a row that is none");
		if (damage >= lookup && damage <= lookup + blocks && etch_orc_valid(&table))
			fail("orc: a wrong lookup entry is accepted");
		*damage = was;
	}
	free(ip);
	free(orc);
	free(lookup);
}

/* Every value of `bits`: what is accepted is a rule, and has one entry. */
static void orc_bits_check(void)
{
	static const int16_t off[] = { 0, 8, -8, 63, -32768, 32767 };
	uint32_t bits, i, accepted = 0;

	for (bits = 0; bits <= 0xffff; bits++)
		for (i = 0; i < 36; i++) {
			struct etch_orc o = { off[i % 6], off[i / 6], (uint16_t)bits }, again;
			struct etch_rule rule;

			if (!etch_orc_unpack(&o, &rule)) {
				if (rule.kind != ETCH_RULE_UNDEF)
					fail("orc bits %x: refused, and yet a rule", bits);
				continue;
			}
			accepted++;
			if (!etch_rule_valid(&rule) || bits >> 14)
				fail("orc bits %x: malformed, and accepted", bits);
			/* END with rax + 0 is END without a CFA. */
			if (!etch_orc_pack(&rule, bits >> 12 & 3, &again) ||
			    (memcmp(&o, &again, sizeof(o)) && (rule.kind != ETCH_RULE_END || rule.cfa || rule.cfa_off)))
				fail("orc bits %x: another entry comes back", bits);
		}
	if (accepted < 4 * 12 * 36)
		fail("only %u orc entries are accepted", accepted);
}

static void decode_check(const struct sample *s, const uint8_t *table, size_t size)
{
	uint8_t *sources;
	size_t sources_size, i, lead = s->size && (s->rows.rows[0].addr & 255) != 0;
	struct row_list back;
	struct error e;

	check_error(unwind_sources_encode(&s->rows, &sources, &sources_size, &e), &e);
	check_error(unwind_block_decode(table, size, sources, sources_size, &back, &e), &e);
	if (back.count != s->rows.count + lead)
		fail("%zu rows decoded, expected %zu", back.count, s->rows.count + lead);
	if (lead && (back.rows[0].addr != s->text || back.rows[0].rule.kind != ETCH_RULE_UNDEF))
		fail("decoded: the row before the first");
	for (i = 0; i < s->rows.count; i++) {
		const struct row *a = &back.rows[i + lead], *b = &s->rows.rows[i];

		if (a->addr != b->addr || !etch_rule_equal(&a->rule, &b->rule) ||
		    (i + 1 < s->rows.count && a->source != b->source))
			fail("row %zu is decoded as something else", i);
	}
	row_list_free(&back);
	free(sources);
}

static void lookup(unsigned lists)
{
	struct totals t = { 0 };
	unsigned i, k;

	orc_bits_check();
	for (i = 0; i < lists; i++) {
		static const unsigned shifts[] = { 0, 6, 7 };
		struct sample s;

		sample_make(&s);
		for (k = 0; k < 3; k++) {
			uint8_t *table, *again;
			size_t size, size2;
			struct error e;

			check_error(unwind_block_encode(&s.rows, s.calls, s.call_count, shifts[k], &table, &size, &e), &e);
			check_error(unwind_block_encode(&s.rows, s.calls, s.call_count, shifts[k], &again, &size2, &e), &e);
			if (size != size2 || memcmp(table, again, size))
				fail("the same rows became two tables");
			version_check(&s, table, size);
			block_check(&s, table, size, &t);
			decode_check(&s, table, size);
			free(table);
			free(again);
		}
		orc_check(&s, &t);
		t.bytes += s.size;
		t.rows += s.rows.count;
		sample_free(&s);
	}
	printf("lists=%u bytes=%llu rows=%llu calls=%llu packable=%llu answered=%llu exceptions=%llu escapes=%llu "
	       "long_blocks=%llu runs=%llu in_runs=%llu orc_rows=%llu orc_unfit=%llu\n",
	       lists, (unsigned long long)t.bytes, (unsigned long long)t.rows, (unsigned long long)t.calls,
	       (unsigned long long)t.packable, (unsigned long long)t.answered, (unsigned long long)t.chains,
	       (unsigned long long)t.escapes, (unsigned long long)t.long_blocks, (unsigned long long)t.runs,
	       (unsigned long long)t.in_runs, (unsigned long long)t.orc_rows, (unsigned long long)t.orc_unfit);
}

/* ---- mutants ------------------------------------------------------------------------ */

/* A number that hurts, for a field of `bytes` bytes. */
static uint64_t number(unsigned bytes, uint64_t was)
{
	static const uint64_t odd[] = { 0, 1, 2, 3, 31, 32, 33, 255, 256, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
	                                1ull << 32, 1ull << 63, ~0ull };
	uint64_t n;

	switch (below(4)) {
	case 0:
		n = odd[below(sizeof(odd) / sizeof(*odd))];
		break;
	case 1:
		n = was + below(9) - 4;
		break;
	case 2:
		n = was ^ 1ull << below(bytes * 8);
		break;
	default:
		n = rnd() >> below(60);
	}
	return n;
}

static void mutate_one(uint8_t *table, size_t size)
{
	struct etch_unwind *u = (void *)table;
	uint32_t n = 1 + below(4), where = below(12);

	/* The last entry of a record: a run at the end of its block. */
	if (below(12) == 0 && etch_unwind_header_valid(table, size) && u->run_count && u->text_size > 256) {
		uint32_t b = below((uint32_t)(u->text_size >> ETCH_BLOCK_SHIFT)), s, e;
		struct etch_block t;

		etch_block_open(u, &t);
		s = etch_block_record(&t, b);
		e = etch_block_record(&t, b + 1);
		if (s > e || e > t.pool_end || e - s < 2)
			return;
		table[u->pool + s + (e - s) / 2 - 1] = (uint8_t)(255 - below(12));
		table[u->pool + e - 1] = (uint8_t)(254 - below(u->run_count));
		return;
	}

	while (n--) {
		size_t at;
		uint64_t v = 0;
		unsigned bytes = 1u << below(4);

		if (where < 4 && size >= sizeof(*u)) /* the header */
			at = below(sizeof(*u));
		else if (where == 4 && size > sizeof(*u) && size > u->palette && u->base < u->palette) /* base and hd */
			at = u->base + below(u->palette - u->base);
		else if (where < 8 && size > sizeof(*u) && size > u->pool && u->pool > sizeof(*u)) { /* a record */
			at = u->pool + below((uint32_t)size - u->pool);
			table[at] = (uint8_t)(below(2) ? 255 - below(u->run_count + 2) : table[at] + below(5) - 2);
			continue;
		} else
			at = below((uint32_t)size);
		if (where < 5)
			at &= ~(size_t)(bytes - 1);
		if (at + bytes > size)
			bytes = 1;
		memcpy(&v, table + at, bytes);
		v = number(bytes, v);
		memcpy(table + at, &v, bytes);
	}
}

static uint64_t spend; /* so that no lookup is optimized away */

static void mutant_lookups(const uint8_t *table, uint64_t *agree)
{
	const struct etch_unwind *u = (const void *)table;
	uint64_t i, step = u->text_size > 20000 ? u->text_size / 8000 : 1;

	for (i = 0; i < u->text_size + 600; i += step > 1 ? 1 + rnd() % (2 * step) : 1) {
		const struct etch_rule *a = etch_block_find(u, i), *b = etch_block_find_scalar(u, i);
		const struct etch_map_rule *m = etch_map_find(u, i);

		spend += (uint64_t)a->cfa_off + b->kind + (m ? m->flags : 0u);
		*agree += a == b;
	}
}

/* What the complete validator accepts must be the same for every reader. */
static void accepted_check(const uint8_t *table, size_t size)
{
	const struct etch_unwind *u = (const void *)table;
	struct row_list rows;
	struct error e;
	uint64_t i;
	size_t row = 0;

	check_error(unwind_block_decode(table, size, NULL, 0, &rows, &e), &e);
	if (rows.count != (u->text_size ? u->rows + 1 : 1))
		fail("%zu rows in a table of %u", rows.count, u->rows);
	for (i = 1; i < rows.count; i++)
		if (rows.rows[i].addr <= rows.rows[i - 1].addr && u->text_size)
			fail("rows of an accepted table are out of order");
	for (i = 0; i < u->text_size && i < 200000; i++) {
		const struct etch_rule *a = etch_block_find(u, i);

		while (row + 1 < rows.count && rows.rows[row + 1].addr <= u->text + i)
			row++;
		if (!etch_rule_equal(a, &rows.rows[row].rule) || !etch_rule_equal(a, etch_block_find_scalar(u, i)))
			fail("an accepted table says two things at +0x%llx", (unsigned long long)i);
	}
	row_list_free(&rows);
}

static void mutate(unsigned tables, unsigned mutants)
{
	uint64_t safe = 0, accepted = 0, refused = 0, agree = 0;
	unsigned i, k;

	for (i = 0; i < tables; i++) {
		struct sample s;
		uint8_t *table;
		size_t size;
		struct error e;

		do {
			sample_make(&s);
			if (s.size <= 9000)
				break;
			sample_free(&s);
		} while (1);
		check_error(unwind_block_encode(&s.rows, s.calls, s.call_count, below(3) ? 5 + 1 + below(2) : 0, &table, &size,
		                                &e), &e);
		sample_free(&s);
		for (k = 0; k < mutants; k++) {
			size_t length = below(20) ? size : below((uint32_t)size);
			uint8_t *m = malloc(length ? length : 1);

			memcpy(m, table, length);
			if (length < size && length >= sizeof(struct etch_unwind) && below(2))
				((struct etch_unwind *)(void *)m)->bytes = length;
			if (length && (length == size || below(2)))
				mutate_one(m, length);
			if (!etch_unwind_header_valid(m, length)) {
				if (etch_unwind_valid(m, length))
					fail("valid without a valid header");
				refused++;
			} else if (((struct etch_unwind *)(void *)m)->encoding == ETCH_ENCODING_BLOCK) {
				mutant_lookups(m, &agree);
				safe++;
				if (etch_unwind_valid(m, length)) {
					accepted_check(m, length);
					accepted++;
				}
			}
			free(m);
		}
		free(table);
	}
	printf("mutants=%llu refused=%llu looked_up=%llu accepted=%llu\n", (unsigned long long)(refused + safe),
	       (unsigned long long)refused, (unsigned long long)safe, (unsigned long long)accepted);
}

/* ---- calls ---------------------------------------------------------------------------- */

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct call_totals {
	uint64_t calls, found, indirect;
};

/* Every call that Zydis sees at any byte must be in the list; of what is in the list,
 * each must be the end of some E8 or FF. */
static void calls_check(const uint8_t *bytes, size_t size, uint64_t addr, uint64_t lo, uint64_t hi,
                        struct call_totals *t)
{
	ZydisDecoder decoder;
	uint64_t *list = NULL;
	size_t count = 0, i, half = size / 3;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (callsites_find(bytes, size, addr, lo, hi, &list, &count))
		fail("out of memory");
	for (i = 0; i < count; i++)
		if (list[i] <= addr || list[i] > addr + size || (i && list[i] <= list[i - 1]))
			fail("the list is out of order");
	for (i = 0; i < size; i++) {
		ZydisDecodedInstruction z;
		uint64_t end, target;

		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes + i, size - i, &z)) ||
		    z.mnemonic != ZYDIS_MNEMONIC_CALL || z.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
			continue;
		end = addr + i + z.length;
		if (z.meta.category != ZYDIS_CATEGORY_CALL)
			fail("no call");
		if (z.opcode == 0xe8) {
			target = end + (uint64_t)z.raw.imm[0].value.s;
			if (target - lo >= hi - lo)
				continue;
		} else {
			t->indirect++;
		}
		t->calls++;
		if (!count || !bsearch(&end, list, count, sizeof(*list), u64_compare))
			fail("the call at 0x%llx, %u bytes, is missing", (unsigned long long)(addr + i), z.length);
	}
	t->found += count;
	/* In two ranges, as sections are: what does not straddle must be there again. */
	{
		uint64_t *two = NULL;
		size_t n = 0, k;

		if (callsites_find(bytes, half, addr, lo, hi, &two, &n) ||
		    callsites_find(bytes + half, size - half, addr + half, lo, hi, &two, &n))
			fail("out of memory");
		for (i = k = 0; i < count; i++) {
			while (k < n && two[k] < list[i])
				k++;
			if ((k == n || two[k] != list[i]) && (list[i] <= addr + half || list[i] > addr + half + 7))
				fail("0x%llx is lost when the range is cut", (unsigned long long)list[i]);
		}
		free(two);
	}
	free(list);
}

/* Every form of FF /2, with and without REX, as the last bytes of a section. */
static void calls_forms(struct call_totals *t)
{
	ZydisDecoder decoder;
	unsigned rex, modrm, sib;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (rex = 0x3f; rex < 0x50; rex++)
		for (modrm = 0; modrm < 256; modrm++)
			for (sib = 0; sib < 256; sib++) {
				uint8_t all[8] = { (uint8_t)rex, 0xff, (uint8_t)modrm, (uint8_t)sib }, *bytes, *p = all;
				ZydisDecodedInstruction z;

				if (rex == 0x3f)
					p++;
				if ((modrm >> 3 & 7) != 2 ||
				    !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, p, (size_t)(all + 8 - p), &z)))
					continue;
				bytes = malloc(z.length);
				memcpy(bytes, p, z.length);
				calls_check(bytes, z.length, 0x1000, 0x1000, 0x2000, t);
				free(bytes);
			}
}

static void calls(unsigned size, char **files)
{
	struct call_totals t = { 0 };
	uint8_t *bytes = malloc(size);
	unsigned i, round;

	calls_forms(&t);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < size; i++) {
			bytes[i] = (uint8_t)rnd();
			if (round && below(6) == 0)
				bytes[i] = below(2) ? 0xff : 0xe8;
			if (round == 2 && i && bytes[i - 1] == 0xff && below(4))
				bytes[i] = (uint8_t)((bytes[i] & 0xc7) | 2 << 3);
			if (round == 2 && i >= 4 && bytes[i - 4] == 0xe8) /* targets near by */
				bytes[i] = bytes[i - 1] = below(2) ? 0 : 0xff;
		}
		for (i = 0; i < 9; i++) { /* ends: nothing behind the last byte may be read */
			uint8_t *tail = malloc(i + 1);

			memcpy(tail, bytes + size - i - 1, i + 1);
			calls_check(tail, i + 1, 0x400000, 0x3f0000, 0x410000, &t);
			free(tail);
		}
		calls_check(bytes, size, 0x400000, 0x400000, 0x400000 + size, &t);
		calls_check(bytes, size, 0xffffffff00000000ull, 0xffffffff00000000ull, 0xffffffff00000000ull + size, &t);
	}
	free(bytes);
	for (; *files; files++) {
		FILE *f = fopen(*files, "rb");
		long n;

		if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0)
			fail("%s: cannot be read", *files);
		rewind(f);
		bytes = malloc((size_t)n + 1);
		if (fread(bytes, 1, (size_t)n, f) != (size_t)n)
			fail("%s: cannot be read", *files);
		fclose(f);
		calls_check(bytes, (size_t)n, 0, 0, (uint64_t)n, &t);
		free(bytes);
	}
	printf("calls=%llu indirect=%llu candidates=%llu\n", (unsigned long long)t.calls, (unsigned long long)t.indirect,
	       (unsigned long long)t.found);
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
		struct error e;
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
		check_error(unwind_rows_canonical(&s.rows, &space, &out, &e), &e);
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

	if (!unwind_block_encode(&list, NULL, 0, 6, &table, &size, &e) || !strstr(e.text, why))
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
	refuse_one((struct row[]){ { 0x1000, call, 0 }, { 0x1000, { 0 }, 0 } }, 2, "0x1000 is out of order");
	refuse_one((struct row[]){ { 0x1008, call, 0 }, { 0x1000, call, 0 }, { 0x2000, { 0 }, 0 } }, 3,
	           "0x1000 is out of order");
	refuse_one((struct row[]){ { 0x1000, odd, 0 }, { 0x2000, { 0 }, 0 } }, 2, "0x1000 is out of order or malformed");
	refuse_one((struct row[]){ { 0x1000, call, 0 } }, 1, "0x1000 is not the end");
	refuse_one((struct row[]){ { 0x1000, call, 0 }, { 0x100001000, { 0 }, 0 } }, 2, "at most 4 GiB");
	refuse_one((struct row[]){ { 0, call, 0 }, { UINT64_MAX, { 0 }, 0 } }, 2, "at most 4 GiB");
}

/* ---- a large list ------------------------------------------------------------------------- */

static void encode(unsigned count)
{
	struct row_list rows = { calloc(count + 1, sizeof(struct row)), count + 1, count + 1 };
	uint64_t *list = malloc(count * sizeof(*list)), at = 0x400000;
	unsigned shift, i;

	for (i = 0; i < count; i++) {
		rows.rows[i] = (struct row){ at, rule_random(100), ETCH_SOURCE_BOTH };
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
		check_error(unwind_block_encode(&rows, list, count, shift, &table, &size, &e), &e);
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
