/* SPDX-License-Identifier: MIT */
/* Checks entries of exception tables against the code, and sorts the tables of linked files. */
#include "table/ex_table.h"
#include "shared/search.h"

#include "arch/x86/insn.h"
#include "analysis/discover/ranges.h"
#include "analysis/flow/flow.h"
#include "analysis/runtimes/runtimes.h"
#include "support/sort.h"
#include "elf/dynamic.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSN_MOST 15u /* longest instruction in bytes (SDM vol. 2, 2.3.11) */

/* An address in an entry, and what is known of the instruction there. */
struct probe {
	uint64_t addr;
	const char *why; /* the reason why no instruction begins there; null if one does */
	bool accesses;   /* the instruction reads or writes memory */
	char text[96];   /* the instruction's text, set if it does not access memory */
};

/* The state of the checks. */
struct check {
	const struct elf_file *f;
	const struct code_space *space;
	const struct fixups *x;
	struct findings *out;
	struct cfi_file cfi;
	struct code_ranges ranges;
	struct flow_env env;  /* used for range_at() only */
	struct probe *probes; /* sorted by address, each address once */
	size_t probe_count;
	uint64_t *called; /* sorted targets of direct calls; see `called_known` */
	size_t called_count;
	/* `called` has been computed, which is done on first use. */
	bool called_known;
};

const char *ex_type_name(uint32_t data)
{
	static const char *const names[] = {"plain", "efault", "zero", "len"};
	struct etch_ex x = {.data = data};

	return etch_ex_type(&x) <= ETCH_EX_TYPE_LAST ? names[etch_ex_type(&x)] : "?";
}

/* ---- instructions ---------------------------------------------------------------- */

/* A linear decoding of code, from its start. */
struct sweep {
	uint64_t start, at;
	uint64_t last[INSN_MOST]; /* ring buffer of the starts of the instructions before `at` */
	size_t count;             /* number of instructions decoded so far */
	bool lost;                /* some bytes did not decode, and may be data */
};

/* Returns the start of the code that contains addr: the start of its code range, or of the gap after a code range. */
static uint64_t sweep_start(const struct check *c, const struct code_section *code, uint64_t addr)
{
	const struct code_range *p = range_at(&c->env, addr);
	size_t lo;

	if (p)
		return p->start;
	lo = SEARCH(c->ranges.count, i, c->ranges.list[i].end <= addr);
	return lo && c->ranges.list[lo - 1].end > code->addr ? c->ranges.list[lo - 1].end : code->addr;
}

/* Returns the reason why no instruction begins at addr. Returns null if one does, or if that is open because bytes
 * before addr did not decode. */
static const char *probe_boundary(struct sweep *w, const struct code_section *code, uint64_t addr)
{
	struct insn in;
	size_t i;

	while (w->at < addr) {
		uint64_t off = w->at - code->addr;
		unsigned len = 1;

		if (insn_decode(code->bytes + off, code->size - off, w->at, &in))
			len = in.len;
		else
			w->lost = true;
		if (w->at + len > addr)
			break;
		w->last[w->count++ % INSN_MOST] = w->at;
		w->at += len;
	}
	if (w->at != addr)
		return w->lost ? NULL : "it is inside an instruction";
	/* Does an instruction of the second decoder extend over addr? */
	for (i = 0; i < w->count && i < INSN_MOST && !w->lost; i++) {
		uint64_t off = w->last[i] - code->addr;

		if (addr - w->last[i] < INSN_MOST &&
		    w->last[i] + insn_second_length(code->bytes + off, code->size - off, w->last[i]) > addr)
			return "the decoders disagree whether an instruction begins there";
	}
	return NULL;
}

static void probe_check(const struct check *c, struct sweep *w, struct probe *probe)
{
	const struct code_section *code = space_at(c->space, probe->addr);
	uint64_t start = sweep_start(c, code, probe->addr), off = probe->addr - code->addr;
	const uint8_t *bytes = code->bytes + off;
	struct insn in;

	if (start != w->start || probe->addr < w->at)
		*w = (struct sweep){.start = start, .at = start};
	probe->why = probe_boundary(w, code, probe->addr);
	if (probe->why)
		return;
	if (!insn_decode(bytes, code->size - off, probe->addr, &in))
		probe->why = "there is no instruction";
	else if (insn_second_length(bytes, code->size - off, probe->addr) != in.len)
		probe->why = "the decoders disagree about the instruction there";
	else if (insn_accesses_memory(bytes, in.len))
		probe->accesses = true;
	else
		insn_text(bytes, in.len, probe->addr, probe->text, sizeof(probe->text));
}

static int probe_order(const void *a, const void *b)
{
	const struct probe *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void probes_find(struct check *c)
{
	struct sweep w = {.start = UINT64_MAX};
	size_t i, n = 0;

	c->probes = mem_zero(2 * c->x->count + 1, sizeof(*c->probes));
	for (i = 0; i < c->x->count; i++) {
		if (c->x->list[i].insn_in == PLACE_CODE)
			c->probes[n++].addr = c->x->list[i].insn;
		if (c->x->list[i].to_in == PLACE_CODE)
			c->probes[n++].addr = c->x->list[i].to;
	}
	if (n)
		qsort(c->probes, n, sizeof(*c->probes), probe_order);
	for (i = 0; i < n; i++)
		if (!i || c->probes[i].addr != c->probes[c->probe_count - 1].addr)
			c->probes[c->probe_count++] = c->probes[i];
	for (i = 0; i < c->probe_count; i++)
		probe_check(c, &w, &c->probes[i]);
}

static const struct probe *probe_of(const struct check *c, uint64_t addr)
{
	struct probe key = {.addr = addr};

	return bsearch(&key, c->probes, c->probe_count, sizeof(key), probe_order);
}

/* ---- entries --------------------------------------------------------------------- */

/* Writes an address as text, relative to its symbol or section. `in` says where the address is (PLACE_*). */
static void describe(const struct check *c, uint64_t addr, uint8_t in, char *out, size_t size)
{
	const struct code_section *code = in == PLACE_CODE ? space_at(c->space, addr) : NULL;

	if (code)
		elf_describe(c->f, code->section, elf_is_object(c->f) ? addr - code->addr : addr, out, size);
	else if (!elf_is_object(c->f) && elf_section_at(c->f, addr))
		elf_describe(c->f, elf_section_at(c->f, addr), addr, out, size);
	else
		snprintf(out, size, "0x%" PRIx64, addr);
}

/* Adds a finding about an entry, at the address of its instruction if that is code, otherwise at the entry. */
static void entry_finding(struct check *c, const struct fixup *x, const char *id, const char *text)
{
	const struct code_section *code = x->insn_in == PLACE_CODE ? space_at(c->space, x->insn) : NULL;

	if (code)
		finding_add(c->out, id, code->section, elf_is_object(c->f) ? x->insn - code->addr : x->insn, "%s", text);
	else
		finding_add(c->out, id, c->x->tables[x->table].section, x->at, "%s", text);
}

static void target_finding(struct check *c, const struct fixup *x, const char *id, const char *format, const char *why)
{
	char text[256], to[160];

	describe(c, x->to, x->to_in, to, sizeof(to));
	snprintf(text, sizeof(text), format, to, why);
	entry_finding(c, x, id, text);
}

/* Collects the targets of all direct calls. Every byte is taken for a possible start of an instruction, so the set may
 * contain too many addresses, but lacks none. */
static void calls_find(struct check *c)
{
	size_t capacity = 0, i;
	uint64_t at, target;

	for (i = 0; i < c->space->count; i++) {
		const struct code_section *code = &c->space->list[i];

		for (at = 0; at + 5 <= code->size; at++) {
			target = insn_call_target(code->bytes + at, code->addr + at);
			if (!target || !space_at(c->space, target))
				continue;
			mem_reserve(&c->called, &capacity, c->called_count, sizeof(*c->called));
			c->called[c->called_count++] = target;
		}
	}
	c->called_count = words_unique(c->called, c->called_count);
	c->called_known = true;
}

/* Does the fixup lie where it may be: in the function of the instruction, in a part of a function, or in code that
 * serves only as a fixup? The alternative is that it lies inside another function. */
static bool is_own(struct check *c, const struct fixup *x)
{
	const struct code_range *from = range_at(&c->env, x->insn), *to = range_at(&c->env, x->to);

	if (!to || !from || to == from || !to->named)
		return true;
	if (x->to != to->start || elf_is_object(c->f)) /* in object files, the targets of calls are in relocations */
		return x->to == to->start;
	if (!c->called_known)
		calls_find(c);
	return !word_has(c->called, c->called_count, x->to);
}

/* Returns the reason why execution cannot continue at the fixup of an entry; null if it can. */
static const char *fixup_fault(struct check *c, const struct fixup *x)
{
	const struct probe *to = x->to_in == PLACE_CODE ? probe_of(c, x->to) : NULL;

	if (!to)
		return "there is no code, so libetch ignores the table";
	if (to->why)
		return to->why;
	if (x->to == x->insn)
		return "that is where it faulted, an endless loop";
	return is_own(c, x) ? NULL : "that is inside another function";
}

/* Checks one entry. `before` is the entry before it in order of address; null: it is the first. */
static void entry_check(struct check *c, const struct fixup *x, const struct fixup *before)
{
	struct etch_ex raw = {.data = x->data};
	const struct probe *insn;
	const char *why;
	char text[256];

	if (x->insn_in == PLACE_NONE || !etch_ex_valid(&raw))
		return;
	if (x->insn_in == PLACE_DATA) {
		entry_finding(c, x, "ETCH-X003", "the faulting address is not an instruction: it is data");
		return;
	}
	insn = probe_of(c, x->insn);
	if (insn->why) {
		snprintf(text, sizeof(text), "the faulting address is not an instruction: %s", insn->why);
		entry_finding(c, x, "ETCH-X003", text);
		return;
	}
	if (!insn->accesses) {
		snprintf(text, sizeof(text), "the instruction that may fault accesses no memory: %s", insn->text);
		entry_finding(c, x, "ETCH-X004", text);
	}
	if (before && before->insn_in == PLACE_CODE && before->insn == x->insn)
		target_finding(c, x, "ETCH-X007", "a second entry for the same instruction, to %s: %s",
		               before->to == x->to && before->data == x->data ? "the same as the first"
		                                                              : "the first one counts");
	if (etch_ex_type(&raw) != ETCH_EX_TYPE_PLAIN && insn_is_stack_register(etch_ex_reg(&raw)))
		entry_finding(c, x, "ETCH-X006", "the entry uses the stack pointer as its value register");
	if (x->to_in == PLACE_NONE && elf_is_object(c->f))
		return; /* the fixup is defined in another file, so the link step checks it */
	why = fixup_fault(c, x);
	if (why)
		target_finding(c, x, "ETCH-X005", "continues at %s: %s", why);
}

/* Adds one finding for a table with malformed entries, since libetch searches none of its entries. */
static void malformed_finding(struct check *c, uint32_t table)
{
	char text[256];
	size_t i;

	for (i = 0; i < c->x->count; i++) {
		struct etch_ex raw = {.data = c->x->list[i].data};

		if (c->x->list[i].table != table || etch_ex_valid(&raw))
			continue;
		snprintf(text, sizeof(text),
		         "libetch ignores this exception table, and it is not sorted: %zu of %zu entries are malformed, the "
		         "first with data 0x%x",
		         c->x->tables[table].bad, c->x->tables[table].count, raw.data);
		entry_finding(c, &c->x->list[i], "ETCH-X001", text);
		return;
	}
}

static void tables_check(struct check *c)
{
	uint32_t i;

	for (i = 0; i < c->x->table_count; i++) {
		const struct fixup_table *t = &c->x->tables[i];
		const struct elf_section *sec = &c->f->sections[t->section];
		const char *why = t->other_format || t->bad ? NULL : ex_table_fixed(c->f, t);

		if (t->bad)
			malformed_finding(c, i);
		else if (t->other_format)
			finding_add(c->out, "ETCH-X002", 0, 0, "section %s is not an etch table and is left alone: %s", sec->name,
			            t->other_format);
		else if (why)
			finding_add(c->out, "ETCH-X002", 0, 0, "section %s is left alone: %s", sec->name, why);
		else if (!elf_is_object(c->f) && (sec->sh.sh_addr & 3))
			finding_add(c->out, "ETCH-X001", t->section, sec->sh.sh_addr,
			            "the exception table is not aligned to 4 bytes: libetch ignores it");
	}
}

int ex_table_check(const struct elf_file *f, const struct code_space *space, const struct fixups *x,
                   struct findings *out, struct error *e)
{
	struct check c = {.f = f, .space = space, .x = x, .out = out};
	size_t i;
	int err;

	tables_check(&c);
	if (!x->count)
		return 0;
	cfi_file_open(f, space, &c.cfi);
	err = runtimes_ranges(f, space, &c.cfi, &c.ranges, e);
	c.env = (struct flow_env){.ranges = c.ranges.list, .range_count = c.ranges.count};
	if (!err)
		probes_find(&c);
	for (i = 0; i < x->count && !err; i++)
		entry_check(&c, &x->list[i], i ? &x->list[i - 1] : NULL);
	free(c.probes);
	free(c.called);
	ranges_free(&c.ranges);
	cfi_file_close(&c.cfi);
	return err;
}

/* ---- sorting ---------------------------------------------------------------------- */

const char *ex_table_fixed(const struct elf_file *f, const struct fixup_table *t)
{
	const struct elf_section *s = &f->sections[t->section];
	struct dynamic_reloc *r;
	struct error e;
	size_t n = 0;

	if (elf_is_object(f))
		return NULL;
	if (t->bad)
		return "an entry is malformed";
	if (elf_section_rela(f, t->section, 1))
		return "the file keeps the relocations of its entries (--emit-relocs), which sorting would invalidate";
	if (dynamic_relocs_read(f, s->sh.sh_addr, s->sh.sh_addr + s->sh.sh_size, &r, &n, &e))
		return "its dynamic relocations are malformed";
	free(r);
	return n ? "the dynamic linker changes it" : NULL;
}

static int live_order(const void *a, const void *b)
{
	const struct fixup *x = a, *y = b;

	if (x->insn != y->insn)
		return x->insn < y->insn ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorts one table in place, and adds the number of its empty entries to *dropped. */
static int table_sort(struct elf_file *f, const struct fixups *x, uint32_t index, size_t *dropped, struct error *e)
{
	const struct fixup_table *t = &x->tables[index];
	const struct elf_section *s = &f->sections[t->section];
	struct fixup *live;
	struct etch_ex *out;
	size_t n = 0, i, gap = 0, dead;
	int err = 0;

	if (elf_section_alone(f, t->section, e))
		return -1;
	live = mem_alloc(t->count, sizeof(*live));
	out = mem_zero(t->count, sizeof(*out));
	for (i = 0; i < x->count; i++)
		if (x->list[i].table == index && x->list[i].insn_in != PLACE_NONE)
			live[n++] = x->list[i];
	if (n)
		qsort(live, n, sizeof(*live), live_order);
	dead = t->count - n;
	while (gap < n && live[gap].insn < s->sh.sh_addr)
		gap++; /* empty entries are placed where their own addresses belong in the order */
	for (i = 0; i < n && !err; i++) {
		uint64_t at = s->sh.sh_addr + (i < gap ? i : i + dead) * sizeof(*out);
		struct etch_ex *p = &out[i < gap ? i : i + dead];
		int64_t insn = (int64_t)(live[i].insn - at);
		int64_t to = (int64_t)(live[i].to - at - offsetof(struct etch_ex, fixup));

		*p = (struct etch_ex){.insn = (int32_t)insn, .fixup = (int32_t)to, .data = live[i].data};
		if (p->insn != insn || p->fixup != to)
			err = error_set(e, "section %s: more than 2 GiB away from the code", s->name);
	}
	if (!err && t->count)
		memcpy((uint8_t *)s->data, out, t->count * sizeof(*out));
	*dropped += dead;
	free(live);
	free(out);
	return err;
}

int ex_table_sort(struct elf_file *f, const struct fixups *x, size_t *dropped, struct error *e)
{
	uint32_t i;

	*dropped = 0;
	for (i = 0; i < x->table_count; i++)
		if (!x->tables[i].other_format && !ex_table_fixed(f, &x->tables[i]) && table_sort(f, x, i, dropped, e))
			return -1;
	return 0;
}
