/* SPDX-License-Identifier: MIT */
/*
 * Writes unwind rows in the kernel's own format: .orc_unwind_ip and .orc_unwind, one pair per file. The kernel finds a
 * row by the address alone. Where code may be replaced at run time, one row therefore has to be right for each byte of
 * all versions of the code.
 */
#include "objtool/objtool.h"
#include "arch/x86/fast_decoder.h"
#include "objtool/prefix_symbols.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

/* struct orc_entry, little-endian (arch/x86/include/asm/orc_types.h). */
struct entry {
	int16_t sp_offset, bp_offset;
	uint16_t bits; /* 0-3 sp_reg, 4-7 bp_reg; 6.1: 8-9 type, 10 end; 6.4 and later: 8-10 type, 11 signal */
};
enum { ENTRY_SIZE = 6, TYPE_SHIFT = 8 };

/* The bits of an entry, by the kind of its rule. */
struct types {
	uint16_t end, call, regs, regs_partial, signal;
};
static const struct types types_6_1 = {.end = 1 << 10, .regs = 1 << TYPE_SHIFT, .regs_partial = 2 << TYPE_SHIFT};
static const struct types types_6_4 = {.end = 1 << TYPE_SHIFT,
                                       .call = 2 << TYPE_SHIFT,
                                       .regs = 3 << TYPE_SHIFT,
                                       .regs_partial = 4 << TYPE_SHIFT,
                                       .signal = 1 << 11};

struct maker {
	const struct linux_release *release;
	struct new_section *ip, *orc;
	size_t capacity, orc_capacity, lost;
};

/* Returns the number of the ORC register that is the base of a CFA, or 0 if ORC has none for it. */
static unsigned base_of(const struct etch_rule *r)
{
	static const uint8_t plain[16] = {[0] = ETCH_ORC_AX, [2] = ETCH_ORC_DX,   [4] = ETCH_ORC_SP,  [5] = ETCH_ORC_BP,
	                                  [7] = ETCH_ORC_DI, [10] = ETCH_ORC_R10, [13] = ETCH_ORC_R13};

	if (!(r->cfa & (ETCH_CFA_DEREF | ETCH_CFA_INDEX)))
		return plain[r->cfa & 15];
	if (r->cfa == (ETCH_REG_RSP | ETCH_CFA_DEREF) && !r->cfa_off)
		return ETCH_ORC_SP_IND;
	if (r->cfa == (ETCH_REG_RBP | ETCH_CFA_DEREF) && !r->cfa_add)
		return ETCH_ORC_BP_IND;
	return 0;
}

/* Encodes a rule. Returns false if no entry can express it. */
static bool entry_pack(const struct linux_release *release, const struct etch_rule *r, struct entry *out)
{
	const struct types *types = release->typed_rows ? &types_6_4 : &types_6_1;
	unsigned base = base_of(r);
	int32_t off = base == ETCH_ORC_SP_IND ? r->cfa_add : r->cfa_off, bp_off = 0;
	unsigned bp = ETCH_ORC_UNDEFINED, kind = r->kind & ~RULE_SIGNAL;
	uint16_t type = types->call;

	memset(out, 0, sizeof(*out));
	if (r->kind == ETCH_RULE_UNDEF)
		return true;
	if (r->kind == ETCH_RULE_END) {
		out->bits = types->end;
		return true;
	}
	if (kind == RULE_REGS || kind == RULE_REGS_PARTIAL) {
		type = kind == RULE_REGS ? types->regs : types->regs_partial;
		type |= r->kind & RULE_SIGNAL ? types->signal : 0;
	} else {
		if (r->kind != ETCH_RULE_CALL || r->ra != ETCH_RA_CFA)
			return false;
		if (r->bp == ETCH_BP_CFA)
			bp = ETCH_ORC_PREV_SP;
		else if (r->bp == ETCH_BP_RBP)
			bp = ETCH_ORC_BP;
		else if (r->bp != ETCH_BP_SAME && r->bp != ETCH_BP_UNDEF)
			return false; /* ORC cannot express that rbp is lost; only code that never returns clears rbp */
		bp_off = bp ? r->bp_off : 0;
	}
	if (!base || release->registers[base] == LINUX_ORC_NONE || off != (int16_t)off || bp_off != (int16_t)bp_off)
		return false;
	out->sp_offset = (int16_t)off;
	out->bp_offset = (int16_t)bp_off;
	out->bits = (uint16_t)(release->registers[base] | release->registers[bp] << 4 | type);
	return true;
}

static void entry_add(struct maker *m, uint32_t section, uint64_t at, const struct entry *entry)
{
	size_t n = m->ip->reloc_count;

	mem_reserve(&m->ip->relocs, &m->capacity, n, sizeof(*m->ip->relocs));
	mem_reserve(&m->orc->data, &m->orc_capacity, n, ENTRY_SIZE);
	memcpy(m->orc->data + ENTRY_SIZE * n, entry, ENTRY_SIZE);
	m->ip->relocs[n] = (struct new_reloc){
		.offset = 4 * n, .addend = (int64_t)at, .type = R_X86_64_PC32, .index = section, .to = TO_SECTION};
	m->ip->reloc_count = n + 1;
}

/* True unless the code of the section runs only as a copy at another place, as replacements do. */
static bool has_rows(const struct elf_section *s)
{
	return strcmp(s->name, ".altinstr_replacement") && strcmp(s->name, ".altinstr_aux") &&
	       strncmp(s->name, ".discard.", 9);
}

/* Adds the rows of one section. *row is the index of the last row that begins at or before the section. */
static void section_add(struct maker *m, const struct code_section *c, const struct row_list *rows, size_t *row)
{
	static const struct entry none;
	struct entry last = none, now;
	bool empty = true;
	size_t i;

	while (*row + 1 < rows->count && rows->rows[*row + 1].addr <= c->addr)
		(*row)++;
	for (i = *row; i < rows->count && rows->rows[i].addr < c->addr + c->size; i++) {
		const struct row *r = &rows->rows[i];

		if (!entry_pack(m->release, &r->rule, &now)) {
			m->lost++;
			now = none;
		}
		if (!memcmp(&now, &last, sizeof(now)))
			continue;
		entry_add(m, c->section, r->addr > c->addr ? r->addr - c->addr : 0, &now);
		last = now;
		empty = false;
	}
	if (!empty)
		entry_add(m, c->section, c->size, &none);
}

/* ---- one row for each byte of code that may be replaced ---------------------------------- */

static const struct row *row_at(const struct row_list *l, uint64_t addr)
{
	size_t i = SEARCH(l->count, k, l->rows[k].addr <= addr);

	return i ? &l->rows[i - 1] : NULL;
}

/* The rules for the bytes of one original. `has`: in some version, an instruction begins at the byte. */
struct merged {
	struct etch_rule rule[256]; /* the length of an original is at most 255, since it is stored in one byte */
	bool has[256];
};

/* Adds the rules of one version of the code to those of the bytes of the original. */
static void version_add(struct merged *m, const struct row_list *rows, const struct code_space *space,
                        const struct replacement *x)
{
	uint64_t from = x->from, size = x->size;
	const struct code_section *c = size ? space_at(space, from) : NULL;
	uint64_t i;
	struct step s;

	for (i = 0; c && i < size; i += s.len) {
		const struct row *r = row_at(rows, from + i);

		if (!step_decode(NULL, c->bytes + (from + i - c->addr), size - i, from + i, &s))
			return;
		if (m->has[i] || !r || r->rule.kind == ETCH_RULE_UNDEF)
			continue;
		m->has[i] = true;
		m->rule[i] = r->rule;
	}
}

/*
 * Adds the rule for the nops that follow a replacement which is shorter than the original. If the replacement continues
 * into the nops, bytes at which no version has an instruction get the rule that follows the original.
 */
static void filling_add(struct merged *m, const struct row_list *rows, const struct code_space *space,
                        const struct replacement *x, uint64_t end)
{
	const struct code_section *c = x->size ? space_at(space, x->from) : NULL;
	struct step s = {.flow = FLOW_NEXT};
	const struct row *r = row_at(rows, end);
	uint64_t i;

	for (i = 0; c && i < x->size; i += s.len)
		if (!step_decode(NULL, c->bytes + (x->from + i - c->addr), x->size - i, x->from + i, &s))
			return;
	if (x->size >= end - x->at || m->has[x->size] || !r || r->rule.kind == ETCH_RULE_UNDEF ||
	    (s.flow != FLOW_NEXT && s.flow != FLOW_CALL && s.flow != FLOW_CALL_IND))
		return;
	m->has[x->size] = true;
	m->rule[x->size] = r->rule;
}

static void row_put(struct row_list *l, uint64_t addr, const struct etch_rule *rule)
{
	mem_reserve(&l->rows, &l->capacity, l->count, sizeof(*l->rows));
	l->rows[l->count++] = (struct row){.addr = addr, .rule = *rule};
}

/* Appends those rows from *next on that begin before an address, and moves *next past them. */
static void rows_copy(struct row_list *out, const struct row_list *rows, size_t *next, uint64_t before)
{
	for (; *next < rows->count && rows->rows[*next].addr < before; ++*next)
		row_put(out, rows->rows[*next].addr, &rows->rows[*next].rule);
}

/* Replaces the list `rows` by `out`, to which its rows from `next` on have been appended. */
static void rows_replace(struct row_list *rows, struct row_list *out, size_t next)
{
	rows_copy(out, rows, &next, UINT64_MAX);
	free(rows->rows);
	*rows = *out;
}

/* Makes an empty list with a capacity for slightly more rows than another list has. */
static struct row_list rows_like(const struct row_list *l)
{
	struct row_list out = {.capacity = l->count + l->count / 16 + 16};

	out.rows = mem_alloc(out.capacity, sizeof(*out.rows));
	return out;
}

/* Appends the rows for the bytes from `at` up to `end`. */
static void merged_put(const struct merged *m, struct row_list *out, uint64_t at, uint64_t end)
{
	uint64_t i;

	for (i = 0; i < end - at; i++)
		if (m->has[i])
			row_put(out, at + i, &m->rule[i]);
}

/*
 * Replaces the rows of code with alternatives by merged ones. If versions have different rules for a byte, that of a
 * replacement is taken, since the original mostly consists of nops there.
 */
static void rows_merge(struct row_list *rows, const struct notes *n, const struct code_space *space)
{
	struct row_list out = rows_like(rows);
	size_t i, k, v, next = 0;

	for (i = 0; i < n->replacement_count; i = k) {
		uint64_t at = n->replacements[i].at, end = n->replacements[i].end;
		struct merged m;
		const struct row *after;

		memset(&m, 0, sizeof(m));
		/* If alternatives are nested, the outer one has the longer original. */
		for (k = i + 1; k < n->replacement_count && n->replacements[k].at == at; k++)
			end = n->replacements[k].end > end ? n->replacements[k].end : end;
		if (end - at > sizeof(m.has) || (out.count && out.rows[out.count - 1].addr >= at))
			continue; /* it overlaps the previous one */
		version_add(&m, rows, space, &n->replacements[k - 1]);
		version_add(&m, rows, space, &(struct replacement){at, end, at, end - at, 0});
		for (v = k - 1; v-- > i;)
			version_add(&m, rows, space, &n->replacements[v]);
		for (v = k; v-- > i;)
			filling_add(&m, rows, space, &n->replacements[v], end);
		rows_copy(&out, rows, &next, at);
		after = row_at(rows, end);
		merged_put(&m, &out, at, end);
		if (after)
			row_put(&out, end, &after->rule);
		while (next < rows->count && rows->rows[next].addr <= end)
			next++;
	}
	rows_replace(rows, &out, next);
}

/* Removes the rows of functions that the file exempts (STACK_FRAME_NON_STANDARD). */
static void rows_ignore(struct row_list *rows, const struct notes *n)
{
	static const struct etch_rule none;
	struct row_list out = rows_like(rows);
	size_t next = 0, k, m;

	for (k = 0; k < n->count; k = m) {
		uint64_t from = n->list[k].at, to = n->list[k].to;
		const struct row *after;

		m = k + 1;
		if (n->list[k].kind != NOTE_IGNORE)
			continue;
		for (; m < n->count && n->list[m].at <= to; m++) /* functions may overlap */
			if (n->list[m].kind == NOTE_IGNORE && n->list[m].to > to)
				to = n->list[m].to;
		after = row_at(rows, to);
		if (!after)
			continue;
		rows_copy(&out, rows, &next, from);
		row_put(&out, from, &none);
		row_put(&out, to, &after->rule);
		while (next < rows->count && rows->rows[next].addr <= to)
			next++;
	}
	rows_replace(rows, &out, next);
}

/* Gives the bytes before functions (--prefix) the row of the first instruction of the function that follows. */
static void rows_prefix(struct row_list *rows, const struct prefixes *p, const struct code_space *space)
{
	struct row_list out = {.capacity = rows->count + p->count + 1};
	size_t next = 0, i;

	out.rows = mem_alloc(out.capacity, sizeof(*out.rows));
	for (i = 0; i < p->count; i++) {
		uint64_t from = space_of(space, p->list[i].section)->addr + p->list[i].value, start = from + p->list[i].size;
		size_t k = SEARCH(rows->count, n, rows->rows[n].addr <= start);

		if (!k || rows->rows[k - 1].rule.kind == ETCH_RULE_UNDEF || (out.count && out.rows[out.count - 1].addr >= from))
			continue; /* there is no row, or this is another name of the same function */
		rows_copy(&out, rows, &next, from);
		row_put(&out, from, &rows->rows[k - 1].rule);
		/* skips the rows that were there, and the first row of the function, which is the same */
		next = k > next ? k : next;
	}
	rows_replace(rows, &out, next);
}

long orc_sections(const struct elf_file *f, const struct linux_release *release, const struct prefixes *prefixes,
                  struct frames *frames, struct new_section *out, size_t *count, struct error *e)
{
	struct new_section *pair = &out[*count];
	struct maker m = {.release = release, .ip = &pair[1], .orc = &pair[0]};
	size_t i, row = 0;

	if (elf_section_find(f, ETCH_SEC_ORC, 1))
		return error_set(e, "already has a section " ETCH_SEC_ORC);
	rows_merge(&frames->rows, &frames->notes, &frames->space);
	rows_ignore(&frames->rows, &frames->notes);
	if (prefixes->count)
		rows_prefix(&frames->rows, prefixes, &frames->space);
	pair[0] = (struct new_section){.name = ETCH_SEC_ORC, .flags = SHF_ALLOC, .align = 1, .entry = ENTRY_SIZE};
	pair[1] = (struct new_section){.name = ETCH_SEC_ORC_IP, .flags = SHF_ALLOC, .align = 1, .entry = 4};
	m.capacity = m.orc_capacity = frames->rows.count + 1;
	m.ip->relocs = mem_alloc(m.capacity, sizeof(*m.ip->relocs));
	m.orc->data = mem_alloc(m.orc_capacity, ENTRY_SIZE);
	for (i = 0; i < frames->space.count && frames->rows.count; i++)
		if (has_rows(&f->sections[frames->space.list[i].section]))
			section_add(&m, &frames->space.list[i], &frames->rows, &row);
	if (!m.ip->reloc_count)
		return (long)m.lost;
	m.ip->size = 4 * m.ip->reloc_count;
	m.ip->data = mem_zero(m.ip->reloc_count, 4);
	m.orc->size = ENTRY_SIZE * m.ip->reloc_count;
	*count += 2;
	return (long)m.lost;
}
