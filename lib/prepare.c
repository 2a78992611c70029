/* SPDX-License-Identifier: MIT */
/*
 * prepare.c: a block table (etch/orc.h) of a loaded module, made from its .eh_frame.
 *
 * Ordinary code: it maps memory and takes its time. Nothing of it runs in a signal
 * handler. Memory outside the module's readable segments is not touched.
 */
#include <string.h>
#include <sys/mman.h>

#include "eh_frame.h"
#include "sys.h"

/* ---- memory -------------------------------------------------------------------- */

/* An array that grows. Mapped memory starts as zeros. */
struct array {
	void *list;
	uint64_t count, room; /* of elements */
};

static void *array_add(struct array *a, uint64_t each)
{
	if (a->count == a->room) {
		uint64_t room = a->room ? 2 * a->room : 65536 / each;
		long p;

		if (a->list)
			p = sys_call6(SYS_mremap, (long)a->list, (long)(a->room * each), (long)(room * each), MREMAP_MAYMOVE, 0, 0);
		else
			p = (long)sys_map(room * each, 0);
		if (!p || (p < 0 && p > -4096))
			return NULL;
		a->list = (void *)p;
		a->room = room;
	}
	return (char *)a->list + a->count++ * each;
}

static void array_free(struct array *a, uint64_t each)
{
	if (a->list)
		sys_munmap(a->list, a->room * each);
}

/* Heap sort, unless it is sorted: tables of .eh_frame_hdr are. */
static void sort(uint64_t *v, uint64_t n)
{
	uint64_t i, start, end, t;

	for (i = 1; i < n && v[i - 1] <= v[i]; i++)
		;
	if (i >= n)
		return;
	for (start = n / 2, end = n; end > 1;) {
		uint64_t root, child;

		if (start) {
			start--;
		} else {
			end--;
			t = v[0], v[0] = v[end], v[end] = t;
		}
		for (root = start; (child = 2 * root + 1) < end; root = child) {
			if (child + 1 < end && v[child] < v[child + 1])
				child++;
			if (v[root] >= v[child])
				break;
			t = v[root], v[root] = v[child], v[child] = t;
		}
	}
}

/* ---- rows ------------------------------------------------------------------------ */

struct entry {
	uint32_t at, rule; /* offset from the first byte covered, index into rules */
};

struct ranked_rule {
	struct etch_rule rule;
	uint32_t uses, code; /* code: its number in the table's palette */
	uint32_t map_uses, map_code;
};

struct maker {
	uint64_t text, size;       /* link-time hull of the executable segments */
	struct etch_cfi cfi;
	struct array fdes;         /* uint64_t: offset of the code << 32 | offset of the FDE */
	struct array rows;         /* struct entry */
	struct array rules;        /* struct ranked_rule */
	bool gap;                  /* no FDE covers the byte before the one being read */
	uint32_t *granules;        /* rule of each granule of the map, + 1; 0 no call, MIXED: several, or none of the map */
	uint64_t granule_count;
	uint32_t slots[4096];      /* hash of rules: index + 1; full chains fall back on a new entry */
	bool failed;
};

#define NO_ID UINT32_MAX

static uint32_t rule_id(struct maker *m, const struct etch_rule *r)
{
	struct ranked_rule *rules = m->rules.list, *new;
	uint64_t w[2];
	uint32_t at, probe, size = sizeof(m->slots) / sizeof(m->slots[0]);

	memcpy(w, r, sizeof(w));
	at = (uint32_t)(((w[0] ^ w[1] * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u) >> 32) % size;
	for (probe = 0; probe < 64 && m->slots[at]; probe++, at = (at + 1) % size)
		if (etch_rule_equal(&rules[m->slots[at] - 1].rule, r))
			return m->slots[at] - 1;
	if (m->rules.count >= UINT32_MAX / 2)
		return NO_ID;
	new = array_add(&m->rules, sizeof(*new));
	if (!new)
		return NO_ID;
	new->rule = *r;
	if (!m->slots[at])
		m->slots[at] = (uint32_t)m->rules.count;
	return (uint32_t)m->rules.count - 1;
}

static void row_add(struct maker *m, uint64_t at, const struct etch_rule *r)
{
	struct entry *rows = m->rows.list, *row;
	uint32_t id = rule_id(m, r);

	if (m->rows.count && rows[m->rows.count - 1].at == at)
		m->rows.count--;
	if (id != NO_ID && m->rows.count && rows[m->rows.count - 1].rule == id)
		return;
	row = id == NO_ID || m->rows.count >= UINT32_MAX / 2 ? NULL : array_add(&m->rows, sizeof(*row));
	if (!row) {
		m->failed = true;
		return;
	}
	row->at = (uint32_t)at;
	row->rule = id;
}

static void cfi_row(void *ctx, const struct etch_cfi_row *row)
{
	struct maker *m = ctx;
	uint64_t at = row->start - m->text;

	/* The first address may be one that nobody called, and is then looked up by the
	 * byte before, as any return address. FDEs of signal frames begin there. */
	if (m->gap && row->rule.kind == ETCH_RULE_END)
		at--;
	m->gap = false;
	if (!m->failed)
		row_add(m, at, &row->rule);
}

static bool fde_add(struct maker *m, const struct etch_fde *fde)
{
	uint64_t at = fde->start - m->text, *new;

	if (at >= m->size || fde->end == fde->start || fde->at > UINT32_MAX)
		return true; /* costs itself only */
	new = array_add(&m->fdes, sizeof(*new));
	if (new)
		*new = at << 32 | fde->at;
	return new;
}

static bool fdes_find(struct maker *m, const struct etch_cfi_hdr *h)
{
	struct etch_fde fde;
	uint64_t i;

	for (i = 0; i < h->count; i++) {
		if (!etch_cfi_at(&m->cfi, etch_cfi_hdr_fde(h, i) - h->eh_frame, &fde))
			continue;
		m->cfi.cie = fde.cie;
		if (!fde_add(m, &fde))
			return false;
	}
	while (!h->count && etch_cfi_next(&m->cfi, &fde))
		if (!fde_add(m, &fde))
			return false;
	sort(m->fdes.list, m->fdes.count);
	return true;
}

/*
 * Whether a function begins with mov %reg,%rsp: what was on the stack when it was
 * entered, if anything, is no frame. So does glibc's __start_context, the first address
 * of which makecontext pushes as a return address; its FDE knows nothing of it.
 */
static bool starts_afresh(const struct prepare_image *im, uint64_t addr)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint64_t size = 0;
	const uint8_t *p = eh_segment_at(im, addr, &size);

	if (p && size >= 4 && !memcmp(p, endbr64, 4)) {
		p += 4;
		size -= 4;
	}
	if (!p || size < 3)
		return false;
	return ((p[0] & 0xfb) == 0x48 && p[1] == 0x89 && (p[2] & 0xc7) == 0xc4) || /* REX.W, .R: the source */
	       ((p[0] & 0xfe) == 0x48 && p[1] == 0x8b && (p[2] & 0xf8) == 0xe0);
}

/* As tool/code/cfi_file.c: of FDEs that overlap, the one that starts last counts; of
 * two with one start, the first. */
static bool rows_make(struct maker *m, const struct prepare_image *im)
{
	const uint64_t *v = m->fdes.list;
	uint64_t i, next, covered = 0;

	for (i = 0; i < m->fdes.count && !m->failed; i = next) {
		uint64_t at = v[i] >> 32, limit = m->size;
		struct etch_fde fde;

		for (next = i + 1; next < m->fdes.count && v[next] >> 32 == at; next++)
			;
		if (next < m->fdes.count)
			limit = v[next] >> 32;
		if (!etch_cfi_at(&m->cfi, (uint32_t)v[i], &fde))
			continue;
		m->cfi.cie = fde.cie;
		m->gap = at > covered;
		if (m->gap)
			row_add(m, covered, &etch_rule_undef);
		if (m->gap && starts_afresh(im, fde.start))
			row_add(m, at - 1, &(struct etch_rule){.kind = ETCH_RULE_END});
		if (fde.end - m->text > limit)
			fde.end = m->text + limit;
		etch_cfi_rows(&fde, 0, cfi_row, m);
		covered = fde.end - m->text;
	}
	if (m->rows.count && covered < m->size)
		row_add(m, covered, &etch_rule_undef);
	return !m->failed && m->rows.count;
}

/* ---- the return-address map ------------------------------------------------------------
 *
 * As docs/formats.md has it, but without exception units: where calls of one granule
 * differ, the full table answers.
 */

#define MAP_SHIFT 6u
#define MIXED UINT32_MAX

/* Bytes of the call that starts at p, or 0: E8 to the module's own code, or anywhere
 * with the prefix that etch gives calls of an ops table; FF /2 (Intel SDM 2, CALL;
 * tables 2-2 and 2-3). Data and the inside of other instructions may look so too; that
 * costs a granule its rule at most. */
static unsigned call_length(const struct maker *m, const uint8_t *p, uint64_t avail, uint64_t offset, bool prefixed)
{
	unsigned mod, rm, n = 2;
	int32_t to;

	if (avail >= 5 && *p == 0xe8) {
		memcpy(&to, p + 1, 4);
		return prefixed || offset + 5 + (uint64_t)(int64_t)to < m->size ? 5 : 0;
	}
	if (avail < 2 || *p != 0xff || (p[1] >> 3 & 7) != 2)
		return 0;
	mod = p[1] >> 6;
	rm = p[1] & 7;
	if (mod != 3 && rm == 4) {
		n = 3;
		if (!mod && avail >= 3 && (p[2] & 7) == 5)
			n = 7;
	} else if (!mod && rm == 5) {
		n = 6;
	}
	if (mod == 1)
		n += 1;
	else if (mod == 2)
		n += 4;
	return n <= avail ? n : 0;
}

/* A granule in which the address behind a call has this rule; NO_ID: none of the map. */
static void granule_note(struct maker *m, uint64_t offset, uint32_t rule)
{
	uint32_t *g = &m->granules[offset >> MAP_SHIFT];

	if (rule == NO_ID || (*g && *g != rule + 1))
		*g = MIXED;
	else
		*g = rule + 1;
}

/* The calls of one segment. Rows are looked up by the address before, as for any
 * return address. */
static void calls_note(struct maker *m, const uint8_t *code, uint64_t size, uint64_t offset)
{
	const struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	const __m128i e8 = _mm_set1_epi8((char)0xe8), ff = _mm_set1_epi8((char)0xff);
	struct etch_map_rule unused;
	uint64_t i, row = 0;

	for (i = 0; i < size; i++) {
		unsigned n;
		uint64_t last;

		while (size - i > 16) { /* most bytes begin nothing */
			__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(code + i));
			unsigned hits = (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, e8), _mm_cmpeq_epi8(v, ff)));

			if (hits) {
				i += (unsigned)__builtin_ctz(hits);
				break;
			}
			i += 16;
		}
		if (code[i] != 0xe8 && code[i] != 0xff)
			continue;
		n = call_length(m, code + i, size - i, offset + i, i && code[i - 1] == 0x67);
		if (!n)
			continue;
		last = offset + i + n - 1;
		while (row + 1 < m->rows.count && rows[row + 1].at <= last)
			row++;
		while (rows[row].at > last) /* the last call looked at was the longer one */
			row--;
		granule_note(m, last + 1, etch_map_rule_pack(&rules[rows[row].rule].rule, &unused) ? rows[row].rule : NO_ID);
	}
}

/*
 * Return addresses that no call pushed: a signal's restorer, and the first address of
 * a thread or a context (clone, makecontext), which is where its trace ends.
 */
static void uncalled_note(struct maker *m)
{
	const struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	uint64_t i, at;

	for (i = 0; i < m->rows.count; i++) {
		uint64_t end = i + 1 < m->rows.count ? rows[i + 1].at : m->size;
		uint8_t kind = rules[rows[i].rule].rule.kind;

		if (kind == ETCH_RULE_SIGNAL || kind == ETCH_RULE_END)
			for (at = rows[i].at; at >> MAP_SHIFT <= end >> MAP_SHIFT; at += 1u << MAP_SHIFT)
				granule_note(m, at, NO_ID);
	}
}

/* Whether the dynamic linker changed the code: calls may then lead anywhere. */
static bool is_relocated(const struct prepare_image *im)
{
	unsigned i;

	for (i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		const uint8_t *bytes;
		uint64_t room, at;
		Elf64_Dyn d;

		if (p->p_type != PT_DYNAMIC)
			continue;
		bytes = eh_segment_at(im, p->p_vaddr, &room);
		for (at = 0; bytes && at + sizeof(d) <= room; at += sizeof(d)) {
			memcpy(&d, bytes + at, sizeof(d));
			if (d.d_tag == DT_NULL)
				break;
			if (d.d_tag == DT_TEXTREL || (d.d_tag == DT_FLAGS && (d.d_un.d_val & DF_TEXTREL)))
				return true;
		}
	}
	return false;
}

/* Without memory for it, or code that may not be read, there is no map. */
static void map_make(struct maker *m, const struct prepare_image *im)
{
	uint64_t count = (m->size >> MAP_SHIFT) + 1;
	unsigned i;

	for (i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_LOAD && (im->phdr[i].p_flags & (PF_X | PF_R)) == PF_X)
			return;
	if (is_relocated(im))
		return;
	m->granules = sys_map(count * sizeof(*m->granules), 0);
	if (!m->granules)
		return;
	m->granule_count = count;
	for (i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X))
			calls_note(m, (const uint8_t *)(im->bias + p->p_vaddr), p->p_filesz, p->p_vaddr - m->text);
	}
	uncalled_note(m);
}

/* ---- the table ----------------------------------------------------------------------- */

/* Numbers the rules, the most frequent first: by rows, and by granules of the map. */
static void rules_rank(struct maker *m, bool of_map)
{
	struct ranked_rule *rules = m->rules.list;
	struct array order = {0}; /* uint64_t: rank << 32 | index */
	uint64_t i, *v;

	for (i = 0; i < m->rules.count; i++) {
		v = array_add(&order, sizeof(*v));
		if (!v) {
			m->failed = true;
			break;
		}
		*v = (uint64_t)(UINT32_MAX - (of_map ? rules[i].map_uses : rules[i].uses)) << 32 | i;
	}
	v = order.list;
	sort(v, order.count);
	for (i = 0; i < order.count; i++) {
		struct ranked_rule *r = &rules[(uint32_t)v[i]];

		if (of_map)
			r->map_code = i < ETCH_MAP_CODES && r->map_uses ? (uint32_t)i : ETCH_MAP_FULL;
		else
			r->code = (uint32_t)i;
	}
	array_free(&order, sizeof(*v));
}

static void rules_number(struct maker *m)
{
	struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	uint64_t i;

	for (i = 0; i < m->rows.count; i++)
		rules[rows[i].rule].uses++;
	for (i = 0; i < m->granule_count; i++)
		if (m->granules[i] && m->granules[i] != MIXED)
			rules[m->granules[i] - 1].map_uses++;
	rules_rank(m, false);
	rules_rank(m, true);
}

/* Numbers the rules of the map again: those that count from rbp last. Returns the first
 * of them. */
static uint32_t map_codes_split(struct maker *m)
{
	struct ranked_rule *rules = m->rules.list;
	uint32_t n = 0, split = 0, rbp;
	uint64_t i;

	for (rbp = 0; rbp < 2; rbp++) {
		for (i = 0; i < m->rules.count; i++)
			if (rules[i].map_code != ETCH_MAP_FULL && (rules[i].rule.cfa == ETCH_REG_RBP) == rbp)
				rules[i].map_code = n++;
		if (!rbp)
			split = n;
	}
	return split;
}

static uint32_t place(uint64_t *end, uint64_t bytes)
{
	uint64_t at = (*end + 3) & ~(uint64_t)3;

	*end = at + bytes;
	return (uint32_t)at;
}

static void idx_put(uint8_t *pool, uint32_t at, uint32_t code, struct etch_escape **escape)
{
	pool[at] = (uint8_t)(code < ETCH_IDX_ESCAPE ? code : ETCH_IDX_ESCAPE);
	if (code >= ETCH_IDX_ESCAPE)
		*(*escape)++ = (struct etch_escape){at, code};
}

static void records_write(const struct maker *m, struct etch_unwind *u)
{
	const struct ranked_rule *rules = m->rules.list;
	const struct entry *rows = m->rows.list;
	uint64_t blocks = (m->size + 255) >> ETCH_BLOCK_SHIFT, b, row = 1, end, i;
	uint32_t *base = (void *)((char *)u + u->base), at = 0;
	uint16_t *hd = (void *)((char *)u + u->hd);
	struct etch_escape *escape = (void *)((char *)u + u->escape);
	uint8_t *pool = (uint8_t *)u + u->pool;

	idx_put(pool, at++, rules[rows[0].rule].code, &escape);
	for (b = 0; b <= blocks; b++) {
		if (!(b & ((1u << ETCH_GROUP_SHIFT) - 1)))
			base[b >> ETCH_GROUP_SHIFT] = at;
		hd[b] = (uint16_t)(at - base[b >> ETCH_GROUP_SHIFT]);
		for (end = row; end < m->rows.count && rows[end].at >> ETCH_BLOCK_SHIFT == b; end++)
			pool[at++] = (uint8_t)rows[end].at;
		for (i = row; i < end; i++)
			idx_put(pool, at++, rules[rows[i].rule].code, &escape);
		row = end;
	}
}

static void map_write(const struct maker *m, struct etch_unwind *u)
{
	const struct ranked_rule *rules = m->rules.list;
	uint8_t *map = (uint8_t *)u + u->map;
	uint64_t i;

	for (i = 0; i < m->granule_count; i++) {
		uint32_t g = m->granules[i];

		map[i] = (uint8_t)(g && g != MIXED ? rules[g - 1].map_code : ETCH_MAP_FULL);
	}
}

static struct etch_unwind *table_make(struct maker *m, uint64_t *size)
{
	uint64_t end = sizeof(struct etch_unwind), blocks = (m->size + 255) >> ETCH_BLOCK_SHIFT, rows = m->rows.count, i;
	const struct ranked_rule *rules = m->rules.list;
	struct etch_unwind u, *out;
	struct etch_map_rule *map_palette;
	struct etch_rule *palette;

	memset(&u, 0, sizeof(u));
	rules_number(m);
	for (i = 0; i < m->rules.count; i++) {
		if (rules[i].code >= ETCH_IDX_ESCAPE)
			u.escape_count += rules[i].uses;
		u.map_palette_count += rules[i].map_code != ETCH_MAP_FULL;
	}
	u.magic = ETCH_UNWIND_MAGIC;
	u.version = ETCH_UNWIND_VERSION;
	u.size = sizeof(u);
	u.encoding = ETCH_ENCODING_BLOCK;
	u.rows = (uint32_t)rows;
	u.text = m->text;
	u.text_size = m->size;
	u.base = place(&end, ((blocks >> ETCH_GROUP_SHIFT) + 1) * 4);
	u.hd = place(&end, (blocks + 1) * 2);
	u.palette = place(&end, m->rules.count * sizeof(struct etch_rule));
	u.palette_count = (uint32_t)m->rules.count;
	u.escape = place(&end, u.escape_count * sizeof(struct etch_escape));
	if (m->granules) {
		u.map_shift = MAP_SHIFT;
		u.map_rbp = map_codes_split(m);
		u.map_palette = place(&end, u.map_palette_count * sizeof(struct etch_map_rule));
		u.map_page_count = (uint32_t)((m->granule_count - 1) >> etch_map_page_shift(MAP_SHIFT)) + 1;
		u.map_page = place(&end, u.map_page_count * 4); /* zeros: no exception units */
		u.map = place(&end, m->granule_count);
		u.map_unit = place(&end, 0);
	}
	u.pool_size = (uint32_t)(1 + 2 * (rows - 1) + ETCH_POOL_TAIL);
	u.pool = place(&end, u.pool_size);
	u.bytes = end = (end + 7) & ~(uint64_t)7;
	out = m->failed || end > UINT32_MAX ? NULL : sys_map(end, 0);
	if (!out)
		return NULL;
	*out = u;
	palette = (void *)((char *)out + u.palette);
	map_palette = (void *)((char *)out + u.map_palette);
	for (i = 0; i < m->rules.count; i++) {
		palette[rules[i].code] = rules[i].rule;
		if (rules[i].map_code != ETCH_MAP_FULL)
			etch_map_rule_pack(&rules[i].rule, &map_palette[rules[i].map_code]);
	}
	out->version = etch_rules_version(palette, out->palette_count);
	records_write(m, out);
	if (m->granules)
		map_write(m, out);
	sys_mprotect((uint64_t)out, end, PROT_READ);
	*size = end;
	return out;
}

/* ---- a module --------------------------------------------------------------------------- */

const struct etch_unwind *prepare_table(const struct prepare_image *im, uint64_t *size)
{
	uint64_t lo = UINT64_MAX, hi = 0;
	struct etch_unwind *table = NULL;
	struct etch_cfi_hdr h;
	struct etch_cfi cfi;
	struct maker *m;
	unsigned i;

	*size = 0;
	for (i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && p->p_memsz && p->p_vaddr + p->p_memsz > p->p_vaddr) {
			lo = p->p_vaddr < lo ? p->p_vaddr : lo;
			hi = p->p_vaddr + p->p_memsz > hi ? p->p_vaddr + p->p_memsz : hi;
		}
	}
	lo &= ~(uint64_t)255;
	if (lo >= hi || hi - lo > UINT32_MAX || !eh_frame_open(im, &h, &cfi))
		return NULL;
	m = sys_map(sizeof(*m), 0);
	if (!m)
		return NULL;
	m->text = lo;
	m->size = hi - lo;
	m->cfi = cfi;
	if (fdes_find(m, &h) && rows_make(m, im)) {
		map_make(m, im);
		table = table_make(m, size);
	}
	if (m->granules)
		sys_munmap(m->granules, m->granule_count * sizeof(*m->granules));
	array_free(&m->fdes, sizeof(uint64_t));
	array_free(&m->rows, sizeof(struct entry));
	array_free(&m->rules, sizeof(struct ranked_rule));
	sys_munmap(m, sizeof(*m));
	return table;
}

void prepare_table_free(const struct etch_unwind *t, uint64_t size)
{
	sys_munmap((void *)t, size);
}
