/* SPDX-License-Identifier: MIT */
/*
 * Random lists of rows, for tables.c.
 */
#include "tables.h"

struct etch_rule rule_random(unsigned variety)
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
		r.bp_off = -16 - 8 * (int32_t)below(5);
	}
	if (variety > 1000 ? below(2) : below(16)) { /* as most frames are: a multiple of 16 */
		r.cfa_off = 16 + 16 * (int32_t)below(variety < 32 ? variety : 32);
		if (r.cfa == ETCH_REG_RBP) {
			r.cfa_off = 16;
			r.bp = ETCH_BP_CFA;
			r.bp_off = -16;
		}
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
		else if (r.kind == ETCH_RULE_CALL && !(r.cfa & ETCH_CFA_DEREF) && (r.cfa & 1)) {
			r.ra = ETCH_RA_SLOT;
			r.cfa_add = -16 - 8 * (r.cfa_off & 63);
		}
	}
	return r;
}

void sample_free(struct sample *s)
{
	row_list_free(&s->rows);
	free(s->row_of);
	free(s->calls);
}

void sample_make(struct sample *s)
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
	at = 0;
	if (!below(2))
		at = below(size < 256 ? size : 256);
	for (i = 0; i < at; i++)
		s->row_of[i] = UINT32_MAX;
	limit = gap;
	for (n = 0; at < size; n++) {
		uint32_t next;

		if (motifs && below(motifs) == 0) { /* what repeats, as prologues do */
			uint32_t m = below(6), k;

			for (k = 0; k < motif[m].n && at + motif[m].gap[k] < size; k++, n++) {
				s->rows.rows[n] = (struct row){
					.addr = s->text + at, .rule = motif[m].rule[k], .source = (uint8_t)below(4) };
				for (next = at + motif[m].gap[k]; at < next; at++)
					s->row_of[at] = n;
			}
		}
		if (below(40) == 0) /* dense and empty stretches in one list */
			limit = below(2) ? 1 : gaps[below(7)];
		next = at + 1 + below(limit);
		if (next > size)
			next = size;
		s->rows.rows[n] = (struct row){
			.addr = s->text + at, .rule = rule_random(variety), .source = (uint8_t)below(4) };
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

const struct etch_rule *truth(const struct sample *s, uint64_t offset)
{
	if (offset >= s->size || s->row_of[offset] == UINT32_MAX)
		return &etch_rule_undef;
	return &s->rows.rows[s->row_of[offset]].rule;
}

void rule_same(const struct sample *s, const struct etch_rule *got, uint64_t offset, const char *who)
{
	char a[64], b[64];

	if (etch_rule_equal(got, truth(s, offset)))
		return;
	rule_cfa_text(got, a, sizeof(a));
	rule_cfa_text(truth(s, offset), b, sizeof(b));
	fail("%s at +0x%llx: %s, expected %s", who, (unsigned long long)offset, a, b);
}
