/* SPDX-License-Identifier: MIT */
#include "site/entries.h"
#include "elf/search.h"

#include "code/fixups.h"
#include "code/lsda.h"

#include <etch/format.h>
#include <stdlib.h>
#include <string.h>

struct builder {
	struct entries *out;
	const struct elf_file *f;
	const struct func_list *funcs;
	uint64_t got;         /* linked: what _GLOBAL_OFFSET_TABLE_ is; 0 = none */
	struct entries bases; /* data that code refers to: where jump tables may begin */
	struct error *e;
};

/*
 * Code that takes the address of a label may reckon with it: goto *(&&a + table[i]), the
 * table having constants in it. Then any place of the function is an entry.
 */
static int loose_add(struct builder *b, uint32_t section, uint64_t addr)
{
	struct entries *x = b->out;

	if (x->loose_count == x->loose_room) {
		size_t room = x->loose_room ? 2 * x->loose_room : 16;
		struct entry *p = realloc(x->loose, room * sizeof(*p));

		if (!p)
			return error_set(b->e, "out of memory");
		x->loose = p;
		x->loose_room = room;
	}
	x->loose[x->loose_count++] = (struct entry){section, addr};
	return 0;
}

static int place_add(struct builder *b, struct entries *x, uint32_t section, uint64_t addr)
{
	if (x->count == x->room) {
		size_t room = x->room ? 2 * x->room : 256;
		struct entry *p = realloc(x->list, room * sizeof(*p));

		if (!p)
			return error_set(b->e, "out of memory");
		x->list = p;
		x->room = room;
	}
	x->list[x->count++] = (struct entry){section, addr};
	return 0;
}

static int place_order(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void places_sort(struct entries *x)
{
	size_t i, n = 0;

	if (x->count)
		qsort(x->list, x->count, sizeof(*x->list), place_order);
	for (i = 0; i < x->count; i++)
		if (!n || place_order(&x->list[n - 1], &x->list[i]))
			x->list[n++] = x->list[i];
	x->count = n;
}

/* The first place of x that is not before (section, addr). */
static size_t place_from(const struct entries *x, uint32_t section, uint64_t addr)
{
	struct entry key = {section, addr};
	return SEARCH(x->count, i, place_order(&x->list[i], &key) < 0);
}

static bool is_code(const struct builder *b, uint32_t section)
{
	return section && (b->f->sections[section].sh.sh_flags & SHF_EXECINSTR);
}

/* Something leads to (section, addr): an entry where that is inside of a function. */
static int entry_add(struct builder *b, uint32_t section, uint64_t addr)
{
	const struct func *fn = is_code(b, section) ? func_find(b->funcs, section, addr) : NULL;

	return fn && fn->start != addr ? place_add(b, b->out, section, addr) : 0;
}

/* An operand of `own` refers to (section, addr). */
static int operand_add(struct builder *b, const struct func *own, uint32_t section, uint64_t addr)
{
	const struct func *fn;

	if (!is_code(b, section))
		return section ? place_add(b, &b->bases, section, addr) : 0;
	if (!strncmp(b->f->sections[section].name, ".plt", 4))
		return 0; /* a function of another module, no label */
	fn = func_find(b->funcs, section, addr);
	if (!fn || fn->start == addr)
		return 0;
	if (loose_add(b, fn->section, fn->start) || (fn != own && loose_add(b, own->section, own->start)))
		return -1;
	return entry_add(b, section, addr);
}

/* A direct jump, branch or call of `fn`. */
static int jump_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t to)
{
	if (in->flow != FLOW_CALL && section == fn->section && to >= fn->start && to < fn->end)
		return 0;
	return entry_add(b, section, to);
}

static bool is_direct(const struct insn *in)
{
	return in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH || in->flow == FLOW_CALL;
}

/* Tables of addresses that no jump goes by, and that etch itself changes. */
static bool is_other_table(const char *name)
{
	static const char *const begin[] = {"__etch_", ".etch", ".orc", ".eh_frame", ".gcc_except_table", "__ex_table",
	                                    ETCH_SEC_IMV, ETCH_SEC_PV, ETCH_SEC_NATIVE, ETCH_SEC_INLINE,
	                                    ETCH_SEC_OBJECT};
	size_t i;

	for (i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		if (!strncmp(name, begin[i], strlen(begin[i])))
			return true;
	return false;
}

/* ---- linked files -------------------------------------------------------- */

static int linked_insn(struct builder *b, const struct func *fn, const struct insn *in)
{
	const struct elf_section *own = &b->f->sections[fn->section];
	bool absolute = b->f->eh.e_type == ET_EXEC;
	uint64_t at;

	if (is_direct(in)) {
		if (in->target >= fn->start && in->target < fn->end && in->flow != FLOW_CALL)
			return 0;
		return jump_add(b, fn, in, in->target - own->sh.sh_addr < own->sh.sh_size
		                ? fn->section : elf_section_at(b->f, in->target), in->target);
	}
	if (in->mem != MEM_NONE && in->disp_len == 4 && !in->segment && (in->base == INSN_PC_REG || absolute)) {
		at = in->base == INSN_PC_REG ? in->addr + in->len + (uint64_t)in->disp : (uint64_t)in->disp;
		if (operand_add(b, fn, elf_section_at(b->f, at), at))
			return -1;
	}
	/* The large code model has places relative to the GOT. */
	if (in->imm_len == 8 && b->got) {
		at = (uint64_t)in->imm + b->got;
		if (operand_add(b, fn, elf_section_at(b->f, at), at))
			return -1;
	}
	/* What a mask or a compare has in it is no address. */
	if (absolute && in->imm_len >= 4 && in->flow == FLOW_NEXT &&
	    (in->move == MOVE_IMM || in->move == MOVE_ADD || in->mem == MEM_WRITE))
		return operand_add(b, fn, elf_section_at(b->f, (uint64_t)in->imm), (uint64_t)in->imm);
	return 0;
}

/* Entries of `width` bytes that are relative to the table. Absolute ones are words. */
static int linked_tables(struct builder *b, unsigned width)
{
	size_t i;

	for (i = 0; i < b->bases.count; i++) {
		const struct entry *x = &b->bases.list[i];
		const struct elf_section *s = &b->f->sections[x->section];
		uint64_t off = x->addr - s->sh.sh_addr, stop = s->sh.sh_size, at;

		if (!s->data || is_other_table(s->name))
			continue;
		if (i + 1 < b->bases.count && x[1].section == x->section)
			stop = x[1].addr - s->sh.sh_addr;
		for (at = off; at + width <= stop; at += width) {
			uint64_t to;
			uint32_t section;
			int32_t rel4;
			int64_t rel;

			memcpy(&rel4, s->data + at, 4);
			rel = rel4;
			if (width == 8)
				memcpy(&rel, s->data + at, 8);
			to = x->addr + (uint64_t)rel;
			section = elf_section_at(b->f, to);
			if (!is_code(b, section))
				break;
			if (entry_add(b, section, to))
				return -1;
		}
	}
	return 0;
}

static int linked_build(struct builder *b, const uint64_t *words, size_t count)
{
	uint32_t got = elf_section_find(b->f, ".got.plt", 1);
	struct func_code code = {0};
	size_t k, i;
	int err = 0;

	if (!got)
		got = elf_section_find(b->f, ".got", 1);
	b->got = b->f->sections[got].sh.sh_addr;
	for (k = 0; k < b->funcs->count && !err; k++) {
		const struct func *fn = &b->funcs->funcs[k];

		err = func_decode(fn, &code, b->e);
		for (i = 0; i < code.count && !err; i++)
			err = linked_insn(b, fn, &code.insns[i]);
	}
	func_code_free(&code);
	for (i = 0; i < count && !err; i++)
		err = entry_add(b, elf_section_at(b->f, words[i]), words[i]);
	places_sort(&b->bases);
	return err || linked_tables(b, 4) || linked_tables(b, 8) ? -1 : 0;
}

/* ---- object files -------------------------------------------------------- */

static bool is_relative(uint32_t type)
{
	return type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_PC64;
}

static bool is_absolute(uint32_t type)
{
	return type == R_X86_64_GOTOFF64 || type == R_X86_64_64 || type == R_X86_64_32 || type == R_X86_64_32S;
}

/* One instruction; its relocations are [r, end). */
static int object_insn(struct builder *b, const struct func *fn, const struct insn *in, const struct elf_reloc *r,
                       const struct elf_reloc *end)
{
	bool pending = false;

	for (; r < end && r->offset < in->addr + in->len; r++) {
		const struct elf_symbol *y = &b->f->symbols[r->symbol];
		uint64_t at = y->value + (uint64_t)r->addend, by = in->addr + in->len - r->offset;

		pending = true;
		if (!y->section)
			continue;
		if (is_direct(in) ? jump_add(b, fn, in, y->section, at + by)
		    : is_relative(r->type) ? operand_add(b, fn, y->section, at + by)
		    : is_absolute(r->type) ? operand_add(b, fn, y->section, at) : 0)
			return -1;
	}
	if (pending)
		return 0;
	if (is_direct(in))
		return jump_add(b, fn, in, fn->section, in->target);
	if (in->mem != MEM_NONE && in->base == INSN_PC_REG)
		return operand_add(b, fn, fn->section, in->addr + in->len + (uint64_t)in->disp);
	return 0;
}

static int object_code(struct builder *b, uint32_t section, const struct elf_reloc *r, const struct elf_reloc *end)
{
	struct func_code code = {0};
	size_t k, i;
	int err = 0;

	for (k = 0; k < b->funcs->count && !err; k++) {
		const struct func *fn = &b->funcs->funcs[k];

		if (fn->section != section)
			continue;
		err = func_decode(fn, &code, b->e);
		for (i = 0; i < code.count && !err; i++) {
			while (r < end && r->offset < code.insns[i].addr)
				r++;
			err = object_insn(b, fn, &code.insns[i], r, end);
		}
	}
	func_code_free(&code);
	return err;
}

/* Addresses of code in data. One that is relative is so to its place, or, in a jump
 * table, to the table's start: symbol + addend is the target and the way from there. */
static int object_data(struct builder *b, uint32_t section, const struct elf_reloc *r, const struct elf_reloc *end)
{
	for (; r < end; r++) {
		const struct elf_symbol *y = &b->f->symbols[r->symbol];
		uint64_t at = y->value + (uint64_t)r->addend;
		size_t i;

		if (!is_code(b, y->section))
			continue;
		i = is_relative(r->type) ? place_from(&b->bases, section, r->offset + 1) : 0;
		if (i && b->bases.list[i - 1].section == section)
			at -= r->offset - b->bases.list[i - 1].addr;
		if (entry_add(b, y->section, at))
			return -1;
	}
	return 0;
}

static int object_sections(struct builder *b, bool code)
{
	uint32_t i;

	for (i = 1; i < b->f->section_count; i++) {
		const struct elf_section *s = &b->f->sections[i];
		struct elf_reloc *r = NULL;
		uint32_t rel;
		long n = 0;
		int err;

		if (!(s->sh.sh_flags & SHF_ALLOC) || code != !!(s->sh.sh_flags & SHF_EXECINSTR) || is_other_table(s->name))
			continue;
		rel = elf_section_rela(b->f, i, 1);
		if (rel && b->f->sections[rel].sh.sh_link == b->f->symtab)
			n = elf_relocs(b->f, rel, &r, b->e);
		if (n < 0)
			return -1;
		err = code ? object_code(b, i, r, r + n) : object_data(b, i, r, r + n);
		free(r);
		if (err)
			return -1;
	}
	if (code)
		places_sort(&b->bases);
	return 0;
}

/* ---- both ---------------------------------------------------------------- */

/* From the address space back to a place in the file. */
static bool place_of(const struct builder *b, const struct code_space *space, uint64_t addr, struct entry *out)
{
	const struct code_section *code = space_at(space, addr);

	if (!code)
		return false;
	out->section = code->section;
	out->addr = addr - code->addr + (elf_is_object(b->f) ? 0 : b->f->sections[code->section].sh.sh_addr);
	return true;
}

struct pads {
	struct builder *b;
	const struct code_space *space;
	int err;
};

static void pad_take(void *ctx, uint64_t start, uint64_t end, uint64_t pad)
{
	struct pads *p = ctx;
	struct entries *x = p->b->out;
	const struct func *from_in, *to_in;
	struct entry from, to;

	if (!pad || p->err || !place_of(p->b, p->space, start, &from) || !place_of(p->b, p->space, pad, &to))
		return;
	if (x->pad_count == x->pad_room) {
		size_t room = x->pad_room ? 2 * x->pad_room : 256;
		struct track_pad *list = realloc(x->pads, room * sizeof(*list));

		if (!list) {
			p->err = error_set(p->b->e, "out of memory");
			return;
		}
		x->pads = list;
		x->pad_room = room;
	}
	/* In the cold part, mostly: an address that is not in the function says "outside". */
	x->pads[x->pad_count++] = (struct track_pad){from.section, from.addr, from.addr + (end - start),
	                                             from.section == to.section ? to.addr : UINT64_MAX};
	from_in = func_find(p->b->funcs, from.section, from.addr);
	to_in = func_find(p->b->funcs, to.section, to.addr);
	if (from_in != to_in)
		p->err = entry_add(p->b, to.section, to.addr);
}

static int pad_order(const void *a, const void *b)
{
	const struct track_pad *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->pad < y->pad ? -1 : x->pad > y->pad;
}

static int fault_order(const void *a, const void *b)
{
	const struct track_fault *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->insn != y->insn)
		return x->insn < y->insn ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

/* A fixup is an entry too: a register may hold the error by then. */
static int faults_build(struct builder *b, const struct code_space *space)
{
	struct entries *x = b->out;
	struct fixups fix = {0};
	struct error ignored;
	struct entry from, to;
	int err = 0;
	size_t i;

	if (fixups_read(b->f, space, &fix, &ignored)) { /* no table of etch's */
		fixups_free(&fix);
		return 0;
	}
	x->faults = calloc(fix.count + 1, sizeof(*x->faults));
	if (!x->faults)
		err = error_set(b->e, "out of memory");
	for (i = 0; i < fix.count && !err; i++) {
		if (fix.list[i].insn_in != PLACE_CODE || fix.list[i].to_in != PLACE_CODE ||
		    !place_of(b, space, fix.list[i].insn, &from) || !place_of(b, space, fix.list[i].to, &to))
			continue;
		x->faults[x->fault_count++] = (struct track_fault){
			from.section, from.addr, from.section == to.section ? to.addr : UINT64_MAX};
		err = entry_add(b, to.section, to.addr);
	}
	fixups_free(&fix);
	if (x->fault_count)
		qsort(x->faults, x->fault_count, sizeof(*x->faults), fault_order);
	return err;
}

static int pads_build(struct builder *b)
{
	struct code_space space = {0};
	struct cfi_file cfi = {0};
	struct pads p = {b, &space, 0};
	size_t i;

	p.err = space_build(b->f, &space, b->e) || cfi_file_open(b->f, &space, &cfi, b->e) ? -1 : 0;
	for (i = 0; i < cfi.count && !p.err; i++)
		lsda_call_sites(b->f, &cfi, i, pad_take, &p);
	if (!p.err)
		p.err = faults_build(b, &space);
	cfi_file_close(&cfi);
	space_free(&space);
	if (b->out->pad_count)
		qsort(b->out->pads, b->out->pad_count, sizeof(*b->out->pads), pad_order);
	return p.err;
}

/* The first call of a section that lands somewhere and lies at or behind `addr`. */
static size_t pads_from(const struct entries *x, uint32_t section, uint64_t addr)
{
	return SEARCH(x->pad_count, i, x->pads[i].section < section || (x->pads[i].section == section && x->pads[i].start < addr));
}

static size_t faults_from(const struct entries *x, uint32_t section, uint64_t addr)
{
	return SEARCH(x->fault_count, i, x->faults[i].section < section || (x->faults[i].section == section && x->faults[i].insn < addr));
}

int entries_build(struct entries *x, const struct elf_file *f, const struct func_list *funcs, const uint64_t *words,
                  size_t word_count, struct error *e)
{
	struct builder b = {.out = x, .f = f, .funcs = funcs, .e = e};
	size_t i;
	int err;

	err = elf_is_object(f) ? object_sections(&b, true) || object_sections(&b, false)
	                       : linked_build(&b, words, word_count);
	free(b.bases.list);
	if (err || pads_build(&b))
		return -1;
	places_sort(x);
	if (x->loose_count)
		qsort(x->loose, x->loose_count, sizeof(*x->loose), place_order);
	x->addrs = malloc((x->count + 1) * sizeof(*x->addrs));
	if (!x->addrs)
		return error_set(e, "out of memory");
	for (i = 0; i < x->count; i++)
		x->addrs[i] = x->list[i].addr;
	x->built = true;
	return 0;
}

struct track_entries entries_of(const struct entries *x, const struct func *fn, const struct func_code *code)
{
	struct entry key = {fn->section, fn->start};
	struct track_entries t = {.anywhere = !code->whole};
	size_t first = place_from(x, fn->section, fn->start + 1);

	t.anywhere |= x->loose_count && bsearch(&key, x->loose, x->loose_count, sizeof(key), place_order);
	t.list = x->addrs + first;
	t.count = place_from(x, fn->section, fn->end) - first;
	first = pads_from(x, fn->section, fn->start);
	t.pads = x->pads + first;
	t.pad_count = pads_from(x, fn->section, fn->end) - first;
	first = faults_from(x, fn->section, fn->start);
	t.faults = x->faults + first;
	t.fault_count = faults_from(x, fn->section, fn->end) - first;
	return t;
}

void entries_free(struct entries *x)
{
	free(x->list);
	free(x->addrs);
	free(x->pads);
	free(x->faults);
	free(x->loose);
	memset(x, 0, sizeof(*x));
}
