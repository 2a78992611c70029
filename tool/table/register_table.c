/* SPDX-License-Identifier: MIT */
/* Makes and decodes the register table. */
#include "table/register_table.h"

#include "support/memory.h"
#include "table/unwind_tables.h"

#include <etch/orc_registers.h>
#include <stdlib.h>
#include <string.h>

#define REGISTERS 5
#define UNIT      8 /* unit of the offsets in etch_saves, in bytes */

/* ---- packing ------------------------------------------------------------------- */

static struct etch_saves pack(const struct etch_cfi_saves *s, size_t *lost)
{
	static const uint8_t how[] = {
		[ETCH_SAVE_SAME] = ETCH_SAVES_SAME, [ETCH_SAVE_CFA] = ETCH_SAVES_CFA,       [ETCH_SAVE_RBP] = ETCH_SAVES_RBP,
		[ETCH_SAVE_RSP] = ETCH_SAVES_RSP,   [ETCH_SAVE_OTHER] = ETCH_SAVES_UNKNOWN,
	};
	struct etch_saves p = {{0}, {0}, 0};
	unsigned i;

	for (i = 0; i < REGISTERS; i++) {
		int32_t at = s->off[i] / UNIT;

		p.how[i] = how[s->how[i]];
		if (p.how[i] < ETCH_SAVES_CFA)
			continue;
		p.at[i] = (int16_t)at;
		if (s->off[i] % UNIT || p.at[i] != at) {
			p.how[i] = ETCH_SAVES_UNKNOWN;
			p.at[i] = 0;
			++*lost;
		}
	}
	return p;
}

static struct etch_cfi_saves unpack(const struct etch_saves *p)
{
	static const uint8_t how[] = {ETCH_SAVE_OTHER, ETCH_SAVE_SAME, ETCH_SAVE_CFA, ETCH_SAVE_RBP, ETCH_SAVE_RSP};
	struct etch_cfi_saves s;
	unsigned i;

	memset(&s, 0, sizeof(s));
	for (i = 0; i < REGISTERS; i++) {
		s.how[i] = how[p->how[i]];
		s.off[i] = p->at[i] * UNIT;
	}
	return s;
}

/* ---- rows ---------------------------------------------------------------------- */

/* A row of .eh_frame: code in which the places of registers are the same. */
struct cfi_row {
	uint64_t start, end;
	struct etch_cfi_saves saves;
};

/* The state of making a table. */
struct maker {
	const struct register_sources *in;
	struct cfi_row *cfi;
	size_t cfi_count, cfi_capacity;
	size_t cfi_at; /* index of the first row of .eh_frame that ends after the current address */
	/* Indexes of the row of in->saves that applies to that address, and of the next one. */
	size_t save, save_next;
	struct row_list out; /* the rows of the table, with etch_saves in place of rules */
	size_t lost;
};

static void cfi_row_add(void *ctx, const struct etch_cfi_row *row)
{
	struct maker *m = ctx;

	mem_reserve(&m->cfi, &m->cfi_capacity, m->cfi_count, sizeof(*m->cfi));
	m->cfi[m->cfi_count++] = (struct cfi_row){row->start, row->end, row->saves};
}

/* Advances both lists to `addr`. Returns the address up to which their current elements apply, but at most `end`. */
static uint64_t lists_advance(struct maker *m, uint64_t addr, uint64_t end)
{
	const struct save_list *saves = m->in->saves;

	while (m->save_next < saves->count && saves->rows[m->save_next].addr <= addr)
		m->save = m->save_next++;
	if (m->save_next < saves->count && saves->rows[m->save_next].addr < end)
		end = saves->rows[m->save_next].addr;
	while (m->cfi_at < m->cfi_count && m->cfi[m->cfi_at].end <= addr)
		m->cfi_at++;
	if (m->cfi_at < m->cfi_count) {
		const struct cfi_row *c = &m->cfi[m->cfi_at];
		uint64_t change = c->start > addr ? c->start : c->end;

		end = change < end ? change : end;
	}
	return end;
}

static bool knows_none(const struct etch_cfi_saves *s)
{
	unsigned i;

	for (i = 0; i < REGISTERS && s->how[i] == ETCH_SAVE_OTHER; i++)
		;
	return i == REGISTERS;
}

/*
 * Returns where the registers are at `addr`, in code with this row. What the code proves is used first. If the code
 * does not show where a register is, but .eh_frame gives a slot, that is used, since a compiler has stated it. If
 * .eh_frame says nothing about a register, the register counts as unchanged only if the row is not proven from the
 * code, and if the code keeps registers by the psABI's convention.
 */
static struct etch_cfi_saves saves_at(const struct maker *m, const struct row *row, uint64_t addr)
{
	static const struct etch_cfi_saves same,
		unknown = {.how = {ETCH_SAVE_OTHER, ETCH_SAVE_OTHER, ETCH_SAVE_OTHER, ETCH_SAVE_OTHER, ETCH_SAVE_OTHER}};
	const struct save_list *saves = m->in->saves;
	const struct cfi_row *cfi = m->cfi_at < m->cfi_count && m->cfi[m->cfi_at].start <= addr ? &m->cfi[m->cfi_at] : NULL;
	struct etch_cfi_saves s = m->save < saves->count ? saves->rows[m->save].saves : unknown;
	bool proven = row->source == ETCH_SOURCE_CODE || (row->source == ETCH_SOURCE_BOTH && !row->inferred);
	bool may_be_same = !proven && !knows_none(&s);
	unsigned i;

	if (row->source == ETCH_SOURCE_PLT)
		return same;
	if (!proven)
		s = unknown;
	for (i = 0; cfi && row->source != ETCH_SOURCE_CODE && i < REGISTERS; i++)
		if (s.how[i] == ETCH_SAVE_OTHER && (cfi->saves.how[i] != ETCH_SAVE_SAME || may_be_same)) {
			s.how[i] = cfi->saves.how[i];
			s.off[i] = cfi->saves.off[i];
		}
	return s;
}

static void row_put(struct maker *m, uint64_t addr, const struct etch_saves *s)
{
	struct row row = {.addr = addr};

	memcpy(&row.rule, s, sizeof(row.rule));
	if (m->out.count && !memcmp(&m->out.rows[m->out.count - 1].rule, &row.rule, sizeof(row.rule)))
		return;
	mem_reserve(&m->out.rows, &m->out.capacity, m->out.count, sizeof(*m->out.rows));
	m->out.rows[m->out.count++] = row;
}

/* Makes the rows of the table. Where the unwind rule is not of kind CALL, readers do not look at this table, and the
 * row before extends. */
static void rows_put(struct maker *m)
{
	static const struct etch_saves unknown;
	const struct row_list *rows = m->in->rows;
	struct row end = {.addr = 0};
	size_t i;

	row_put(m, rows->rows[0].addr, &unknown);
	for (i = 0; i + 1 < rows->count; i++) {
		const struct row *r = &rows->rows[i];
		uint64_t addr, to;

		for (addr = r->addr; addr < r[1].addr; addr = to) {
			to = lists_advance(m, addr, r[1].addr);
			if (r->rule.kind == ETCH_RULE_CALL) {
				struct etch_cfi_saves s = saves_at(m, r, addr);
				struct etch_saves p = pack(&s, &m->lost);

				if (addr == m->out.rows[0].addr)
					m->out.count = 0;
				row_put(m, addr, &p);
			}
		}
	}
	end.addr = rows->rows[rows->count - 1].addr;
	mem_reserve(&m->out.rows, &m->out.capacity, m->out.count, sizeof(*m->out.rows));
	m->out.rows[m->out.count++] = end;
}

int register_table_make(const struct register_sources *in, uint8_t **out, size_t *size, size_t *lost, struct error *e)
{
	static const struct unwind_kind kind = {.encoding = ETCH_ENCODING_REGISTERS};
	struct maker m = {.in = in, .save = in->saves->count};
	size_t i;
	int err;

	for (i = 0; in->cfi && i < in->cfi->count; i++)
		cfi_file_rows(in->cfi, i, ETCH_CFI_SAVES, cfi_row_add, &m);
	rows_put(&m);
	err = unwind_block_encode(&m.out, &kind, out, size, e);
	*lost = m.lost;
	free(m.cfi);
	row_list_free(&m.out);
	return err ? -1 : 0;
}

/* ---- decoding ------------------------------------------------------------------ */

int register_table_decode(const uint8_t *table, size_t size, struct register_list *out, struct error *e)
{
	struct row_list rows;
	size_t i;

	memset(out, 0, sizeof(*out));
	if (unwind_block_decode(table, size, NULL, 0, &rows, e))
		return -1;
	out->rows = mem_zero(rows.count, sizeof(*out->rows));
	for (i = 0; i < rows.count; i++) {
		struct etch_saves s;

		memcpy(&s, &rows.rows[i].rule, sizeof(s));
		out->rows[i].addr = rows.rows[i].addr;
		out->rows[i].saves = unpack(&s);
	}
	out->count = rows.count;
	row_list_free(&rows);
	return 0;
}

void register_list_free(struct register_list *l)
{
	free(l->rows);
	memset(l, 0, sizeof(*l));
}
