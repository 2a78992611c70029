/* SPDX-License-Identifier: MIT */
/* Makes .eh_frame and .eh_frame_hdr. Decides which code gets an FDE, and builds the search table. */
#include "table/eh_frames.h"

#include "support/memory.h"
#include "support/sort.h"

#include <etch/orc_rule.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MOST 256 /* most states in one FDE, since an unwinder runs the program of an FDE from its start */

/* The state of making FDEs. All lists advance together with the address. */
struct writer {
	struct eh_frame *out;
	struct bytes b;
	struct frame_row *rows; /* rows of the FDE that is being made */
	size_t count, capacity;
	uint64_t end; /* end of the last of these rows */
	/* 1 + offset of the CIE for ordinary frames, and of that for signal frames; 0: it has not been made yet. */
	uint64_t cie[2];
	/* The save row that covers the current address, or null; the next one; the end of the list. */
	const struct save_row *save, *next, *last;
	uint64_t begin;                   /* start of the code range that contains `save` */
	const struct cfi_fde *fde, *fdes; /* the first FDE that ends after the current address; the end of the list */
	uint64_t covered;                 /* end of the FDE before `fde` */
	/* The first section of code that ends after the current address; the end of the list. */
	const struct code_section *section, *sections;
	bool debug; /* make .debug_frame */
	/* The last row added belongs to a PLT, whose entries share FDEs. */
	bool plt;
};

/* ---- FDEs --------------------------------------------------------------------- */

static bool is_signal(const struct frame_row *p) { return p->state.rule.kind == ETCH_RULE_SIGNAL; }

/* Appends the head of an FDE for [start, end). Its length is filled in later. */
static void fde_head(struct writer *w, bool signal, uint64_t start, uint64_t end)
{
	const uint64_t range[2] = {start, end - start}, cie = w->cie[signal] - 1;
	uint32_t head[4] = {0, (uint32_t)(w->debug ? cie : w->b.count + 4 - cie), 0, (uint32_t)range[1]};

	bytes_put(&w->b, head, w->debug ? 8 : 16);
	if (w->debug)
		bytes_put(&w->b, range, sizeof(range));
	if (signal || !w->debug)
		bytes_put(&w->b, "", 1); /* there are no augmentation data */
}

/* Appends the FDE for the rows that have been added, if any. */
static void fde_flush(struct writer *w)
{
	bool signal;
	size_t at;
	uint32_t length;

	if (!w->count)
		return;
	signal = is_signal(&w->rows[0]);
	if (!w->cie[signal]) {
		w->cie[signal] = w->b.count + 1;
		eh_cie_put(&w->b, signal, w->debug);
	}
	at = w->b.count;
	fde_head(w, signal, w->rows[0].addr, w->end);
	if (signal)
		eh_signal_put(&w->b, w->rows[0].state.rule.cfa_off);
	else
		eh_program_put(&w->b, w->rows, w->count, w->end);
	while (w->b.count & (w->debug ? 7 : 3))
		bytes_put(&w->b, "", 1); /* DW_CFA_nop */
	if (!w->debug)
		eh_pointer_add(w->out, at + 8, w->rows[0].addr, 4);
	eh_entry_add(w->out, w->rows[0].addr, at);
	length = (uint32_t)(w->b.count - at - 4);
	memcpy(w->b.list + at, &length, 4);
	w->out->filled += w->end - w->rows[0].addr;
	w->count = 0;
}

/* Does a row belong to the same FDE as the row before it, because that one begins one byte early, for a return address
 * that no call has pushed? */
static bool is_early(const struct writer *w, uint64_t addr, const struct etch_rule *rule)
{
	return w->count == 1 && w->rows[0].addr + 1 == addr && rule->kind == w->rows[0].state.rule.kind &&
	       (rule->kind == ETCH_RULE_END || rule->kind == ETCH_RULE_SIGNAL);
}

/* Makes the state of code with a rule, at the current address. */
static void state_of(const struct writer *w, const struct etch_rule *rule, struct frame_state *out)
{
	static const struct etch_rule entry = {.cfa = ETCH_REG_RSP, .cfa_off = 8, .kind = ETCH_RULE_END};
	static const struct etch_cfi_saves none;

	out->rule = rule->kind == ETCH_RULE_END && !rule->cfa && !rule->cfa_off ? entry : *rule;
	if (!w->save || rule->kind != ETCH_RULE_CALL) {
		out->saves = none;
		return;
	}
	out->saves = w->save->saves;
	if (w->save->bp && rule->bp == ETCH_BP_SAME) { /* as compilers do, so that an epilogue needs no row of its own */
		out->rule.bp = ETCH_BP_CFA;
		out->rule.bp_off = w->save->bp;
	}
}

/* Sets p->brief by comparing the row *p with the row before it. Returns whether both have the same state. */
static bool row_compare(const struct frame_row *was, struct frame_row *p)
{
	struct etch_rule rule = was->state.rule;

	rule.cfa_off = p->state.rule.cfa_off;
	p->brief = false;
	if (memcmp(&rule, &p->state.rule, sizeof(rule)) ||
	    memcmp(&was->state.saves, &p->state.saves, sizeof(p->state.saves)))
		return false;
	p->brief = !(rule.cfa & ETCH_CFA_DEREF) && (uint32_t)rule.cfa_off < 128 && was->state.rule.cfa_off >= 0;
	return was->state.rule.cfa_off == rule.cfa_off;
}

/* Adds a row for code with one state, given by the rule and by w->save. `begins`: an FDE of its own begins here. */
static void row_add(struct writer *w, uint64_t addr, const struct etch_rule *rule, uint64_t end, bool begins)
{
	struct frame_row *p;

	if (w->count && (w->end != addr || begins || (w->count >= ROWS_MOST && !w->plt) ||
	                 (rule->kind == ETCH_RULE_SIGNAL) != is_signal(w->rows)))
		fde_flush(w);
	w->end = end;
	mem_reserve(&w->rows, &w->capacity, w->count, sizeof(*w->rows));
	p = &w->rows[w->count];
	p->addr = addr;
	state_of(w, rule, &p->state);
	w->count += !w->count || !row_compare(p - 1, p);
}

/* Advances to the section at `addr`. Returns the end of that section, or of the gap in front of the next section, but
 * at most `end`. */
static uint64_t section_advance(struct writer *w, uint64_t addr, uint64_t end)
{
	const struct code_section *s;

	while (w->section < w->sections && w->section->addr + w->section->size <= addr)
		w->section++;
	s = w->section;
	if (s == w->sections)
		return end;
	if (s->addr > addr)
		return s->addr < end ? s->addr : end;
	return s->addr + s->size < end ? s->addr + s->size : end;
}

/* Is an address in no section of code? Such bytes are padding that the linker has added, over which the row before
 * extends. */
static bool is_gap(const struct writer *w, uint64_t addr)
{
	return w->section == w->sections || w->section->addr > addr;
}

/* Advances all lists to `addr`. Returns the address up to which their current elements apply, but at most `end`. */
static uint64_t lists_advance(struct writer *w, uint64_t addr, uint64_t end)
{
	while (w->next < w->last && w->next->addr <= addr) {
		w->save = w->next++;
		if (w->save->begins)
			w->begin = w->save->addr;
	}
	while (w->fde < w->fdes && w->fde->end <= addr)
		w->covered = w->fde++->end;
	if (w->next < w->last && w->next->addr < end)
		end = w->next->addr;
	if (w->fde < w->fdes && w->fde->start > addr && w->fde->start < end)
		end = w->fde->start;
	return section_advance(w, addr, end);
}

/*
 * Adds the code of a row that ends at `end`. It is divided where registers are saved, and where a code range or a
 * section begins; code with an FDE of the linker is left out. Padding after such an FDE, over which the row of the
 * FDE's code extends, is left out too: it is in no code range that begins outside of an FDE.
 */
static void row_split(struct writer *w, const struct row *row, uint64_t end)
{
	bool plt = row->source == ETCH_SOURCE_PLT;
	uint64_t addr, to;

	for (addr = row->addr; addr < end; addr = to) {
		bool early, begins;

		to = lists_advance(w, addr, end);
		if (w->fde < w->fdes && w->fde->start <= addr) { /* this is an FDE of the linker */
			to = w->fde->end;
			continue;
		}
		early = (row->rule.kind == ETCH_RULE_END || row->rule.kind == ETCH_RULE_SIGNAL) && w->next < w->last &&
		        w->next->begins && w->next->addr == addr + 1;
		if (row->rule.kind == ETCH_RULE_UNDEF || (!early && (is_gap(w, addr) || !w->save || w->begin < w->covered)))
			continue;
		begins = early || addr == w->section->addr ||
		         (w->begin == addr && !w->save->part && !is_early(w, addr, &row->rule) && !(plt && w->plt));
		row_add(w, addr, &row->rule, to, begins);
		w->plt = plt;
	}
}

/* ---- complete sections --------------------------------------------------------- */

static int entry_order(const void *a, const void *b)
{
	const struct eh_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void new_fdes(struct writer *w, const struct row_list *rows, const struct save_list *saves)
{
	size_t i;

	w->next = saves->rows;
	w->last = saves->rows + saves->count;
	for (i = 0; i + 1 < rows->count; i++)
		row_split(w, &rows->rows[i], rows->rows[i + 1].addr);
	fde_flush(w);
}

static int hdr_make(struct eh_frame *out, struct error *e)
{
	/* The bytes are: version 1; pointer to .eh_frame: pcrel | sdata4; number of entries: udata4; entries: datarel |
	 * sdata4. */
	static const uint8_t head[4] = {1, 0x1b, 0x03, 0x3b};
	uint32_t count = (uint32_t)out->count;

	if (out->count > UINT32_MAX / 8 || out->frame_size > INT32_MAX)
		return error_set(e, "its .eh_frame would be too large");
	sort_by_address_if_needed(out->entries, out->count, sizeof(*out->entries), entry_order);
	out->hdr_size = 12 + 8 * out->count;
	out->hdr = mem_zero(1, out->hdr_size);
	memcpy(out->hdr, head, sizeof(head));
	memcpy(out->hdr + 8, &count, sizeof(count));
	return 0;
}

static struct writer writer_make(const struct cfi_file *cfi, const struct code_space *space, struct eh_frame *out)
{
	const struct writer w = {.out = out,
	                         .fde = cfi->fdes,
	                         .fdes = cfi->fdes + cfi->count,
	                         .section = space->list,
	                         .sections = space->list + space->count};

	memset(out, 0, sizeof(*out));
	return w;
}

/* Makes the writer see only the FDEs that stay. Returns the list of these, which the caller frees; null if all FDEs
 * stay. */
static struct cfi_fde *fdes_stay(struct writer *w, const struct eh_replaced *replaced)
{
	size_t count = (size_t)(w->fdes - w->fde), n = 0, i;
	struct cfi_fde *list;

	if (!replaced->count)
		return NULL;
	list = mem_alloc(count, sizeof(*list));
	for (i = 0; i < count; i++)
		if (!(replaced->fde[i] & EH_FDE_REPLACED))
			list[n++] = w->fde[i];
	w->fde = list;
	w->fdes = list + n;
	return list;
}

/* Ends the encoding, and passes the bytes on to the output. */
static void writer_end(struct writer *w)
{
	w->out->frame = w->b.list;
	w->out->frame_size = w->b.count;
	free(w->rows);
}

int eh_frame_encode(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                    struct eh_frame *out, struct error *e)
{
	struct writer w = writer_make(cfi, space, out);
	struct cfi_fde *stay;
	int err = 0;
	uint32_t i;

	eh_replace_find(cfi, rows, &out->replaced);
	stay = fdes_stay(&w, &out->replaced);
	for (i = 0; i < cfi->part_count && !err; i++)
		err = eh_frame_copy(cfi, i, &w.b, out, e);
	if (!err)
		new_fdes(&w, rows->rows, rows->saves);
	bytes_put(&w.b, "\0\0\0", 4); /* the terminator */
	free(stay);
	writer_end(&w);
	return err ? -1 : hdr_make(out, e);
}

void debug_frame_encode(const struct cfi_file *cfi, const struct code_space *space, const struct eh_rows *rows,
                        struct eh_frame *out)
{
	struct writer w = writer_make(cfi, space, out);

	w.debug = true;
	new_fdes(&w, rows->rows, rows->saves);
	writer_end(&w);
}

static bool put_relative(uint8_t *at, unsigned size, uint64_t value)
{
	int64_t v = (int64_t)value;

	memcpy(at, &v, size);
	return size == 8 || (size == 4 ? v == (int32_t)v : v == (int16_t)v);
}

int eh_frame_place(struct eh_frame *x, uint64_t frame, uint64_t hdr, struct error *e)
{
	bool fits = put_relative(x->hdr + 4, 4, frame - (hdr + 4));
	size_t i;

	for (i = 0; i < x->pointer_count && fits; i++)
		fits = put_relative(x->frame + x->pointers[i].at, x->pointers[i].size,
		                    x->pointers[i].target - (frame + x->pointers[i].at));
	for (i = 0; i < x->count && fits; i++)
		fits = put_relative(x->hdr + 12 + 8 * i, 4, x->entries[i].start - hdr) &&
		       put_relative(x->hdr + 16 + 8 * i, 4, frame + x->entries[i].at - hdr);
	return fits ? 0 : error_set(e, ".eh_frame: the code is more than 2 GiB away");
}

void eh_frame_free(struct eh_frame *x)
{
	free(x->frame);
	free(x->hdr);
	free(x->pointers);
	free(x->entries);
	eh_replaced_free(&x->replaced);
	memset(x, 0, sizeof(*x));
}
