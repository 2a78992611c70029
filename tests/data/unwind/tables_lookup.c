/* SPDX-License-Identifier: MIT */
/*
 * Both encodings, every byte looked up: for tables.c.
 */
#include "tables.h"

struct totals {
	uint64_t bytes, rows, calls, answered, packable, escapes, long_blocks, orc_rows, orc_unfit, chains, runs, in_runs;
};

/* Who reads version 1 alone refuses a table that has an index or a moved return address, and no other one. */
static void version_check(const struct sample *s, uint8_t *table, size_t size)
{
	struct etch_unwind *u = (void *)table;
	uint16_t version;
	bool index = false, slot = false;
	size_t i;

	for (i = 0; i < s->rows.count; i++) {
		index |= s->rows.rows[i].rule.cfa & ETCH_CFA_INDEX;
		slot |= s->rows.rows[i].rule.ra == ETCH_RA_SLOT;
	}
	version = index ? ETCH_UNWIND_VERSION_INDEX : ETCH_UNWIND_VERSION;
	if (slot)
		version = ETCH_UNWIND_VERSION_SLOT;
	if (u->map_first == ETCH_MAP_STEPS)
		version = ETCH_UNWIND_VERSION_STEPS;
	if (u->version != version)
		fail("version %u, expected %u", u->version, version);
	for (i = 0; i < 6; i++) {
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
		struct etch_map_rule m;
		struct etch_rule r;

		t->calls++;
		t->packable += (uint64_t)etch_map_rule_pack(truth(s, offset - 1), &packed);
		if (!etch_map_find(u, offset, &m))
			continue;
		t->answered++;
		etch_map_rule_unpack(&m, &r);
		rule_same(s, &r, offset - 1, "map");
	}
	/* Signal and outermost frames are returned to without a call. */
	for (i = 0; i + 1 < s->rows.count; i++) {
		const struct row *row = &s->rows.rows[i];
		uint64_t offset;

		if (row->rule.kind == ETCH_RULE_SIGNAL || row->rule.kind == ETCH_RULE_END)
			for (offset = row->addr - s->text; offset <= row[1].addr - s->text; offset++)
				if (etch_map_find(u, offset, &packed))
					fail("the map answers in a frame that nobody called");
	}
	if (etch_map_find(u, s->size + 1, &packed) || etch_map_find(u, ~0ull, &packed))
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

	unwind_sources_encode(&s->rows, &sources, &sources_size);
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

void lookup(unsigned lists)
{
	struct totals t = { 0 };
	unsigned i, k;

	orc_bits_check();
	for (i = 0; i < lists; i++) {
		static const unsigned shifts[] = { 0, 6, 7 };
		struct sample s;

		sample_make(&s);
		for (k = 0; k < 3; k++) {
			const struct unwind_kind kind = {.map_shift = shifts[k], .calls = s.calls, .call_count = s.call_count};
			uint8_t *table, *again;
			size_t size, size2;
			struct error e;

			check_error(unwind_block_encode(&s.rows, &kind, &table, &size, &e), &e);
			check_error(unwind_block_encode(&s.rows, &kind, &again, &size2, &e), &e);
			if (size != size2 || memcmp(table, again, size))
				fail("the same rows became two tables");
			version_check(&s, table, size);
			block_check(&s, table, size, &t);
			if (kind.map_shift) {
				uint8_t *old = table_old(table, size, &size2);

				version_check(&s, old, size2);
				block_check(&s, old, size2, &t);
				free(old);
			}
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
