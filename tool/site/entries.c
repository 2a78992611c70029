/* SPDX-License-Identifier: MIT */
/* Collects the entries of functions from operands, jump tables and data words. */
#include "site/entries_internal.h"
#include "shared/search.h"
#include "support/memory.h"

#include <etch/format.h>
#include <stdlib.h>
#include <string.h>

/*
 * Records a function in which code may do arithmetic on the address of a label, as in goto *(&&a + table[i]) with
 * constants in the table. Control may then reach every instruction of the function from elsewhere.
 */
static void label_func_add(struct builder *b, uint32_t section, uint64_t addr)
{
	struct entries *x = b->out;

	mem_reserve(&x->label_funcs, &x->label_func_capacity, x->label_func_count, sizeof(*x->label_funcs));
	x->label_funcs[x->label_func_count++] = (struct entry){section, addr, false, false};
}

void entry_append(struct entry **list, size_t *count, size_t *capacity, const struct entry *x)
{
	mem_reserve(list, capacity, *count, sizeof(**list));
	(*list)[(*count)++] = *x;
}

int entry_order(const void *a, const void *b)
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
		qsort(x->list, x->count, sizeof(*x->list), entry_order);
	for (i = 0; i < x->count; i++) {
		if (!n || entry_order(&x->list[n - 1], &x->list[i]))
			x->list[n++] = x->list[i];
		x->list[n - 1].by_table &= x->list[i].by_table;
		x->list[n - 1].by_jump &= x->list[i].by_jump;
	}
	x->count = n;
}

/* Returns the index of the first entry of x at or after (section, addr). */
static size_t place_from(const struct entries *x, uint32_t section, uint64_t addr)
{
	struct entry key = {section, addr, false, false};
	return SEARCH(x->count, i, entry_order(&x->list[i], &key) < 0);
}

static bool is_code(const struct builder *b, uint32_t section)
{
	return section && (b->f->sections[section].sh.sh_flags & SHF_EXECINSTR);
}

void entry_add(struct builder *b, uint32_t section, uint64_t addr, bool by_table)
{
	const struct func *fn = is_code(b, section) ? func_find(b->funcs, section, addr) : NULL;
	struct entry x = {section, addr, by_table, false};

	part_open(b, section, addr);
	if (fn && fn->start != addr)
		entry_append(&b->out->list, &b->out->count, &b->out->capacity, &x);
}

/* ---- jump tables that belong to one function, by the operands that refer to their starts ---- */

static void base_ref_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section,
                         uint64_t addr)
{
	struct entry base = {section, addr, false, false};

	mem_reserve(&b->refs, &b->ref_capacity, b->ref_count, sizeof(*b->refs));
	b->refs[b->ref_count++] = (struct base_ref){base, fn, in->addr, in->move == MOVE_ADDRESS};
	entry_append(&b->bases.list, &b->bases.count, &b->bases.capacity, &base);
}

static int ref_order(const void *a, const void *b)
{
	const struct base_ref *x = a, *y = b;

	return entry_order(&x->base, &y->base);
}

static void base_refs_sort(struct builder *b)
{
	if (b->ref_count)
		qsort(b->refs, b->ref_count, sizeof(*b->refs), ref_order);
}

/* Returns the index of the first operand that refers to a base. */
static size_t refs_from(const struct builder *b, const struct entry *base)
{
	return SEARCH(b->ref_count, i, entry_order(&b->refs[i].base, base) < 0);
}

/* Returns the function that refers to a base, if there is only one and it only loads the address; otherwise null. */
static const struct func *base_owner(const struct builder *b, const struct entry *base)
{
	size_t i, first = refs_from(b, base);

	for (i = first; i < b->ref_count && !entry_order(&b->refs[i].base, base); i++)
		if (!b->refs[i].lea || b->refs[i].fn != b->refs[first].fn)
			return NULL;
	return i > first ? b->refs[first].fn : NULL;
}

/* Is the target an address inside the function other than its start? */
static bool target_is_inside(const struct func *fn, uint32_t section, uint64_t to)
{
	return section == fn->section && to > fn->start && to < fn->end;
}

/* Records the instructions that load the address of a table, all of whose entries lead into the table's owner. */
static void base_leas_add(struct builder *b, const struct entry *base)
{
	struct entries *x = b->out;
	size_t i;

	for (i = refs_from(b, base); i < b->ref_count && !entry_order(&b->refs[i].base, base); i++) {
		struct entry lea = {b->refs[i].fn->section, b->refs[i].insn, false, false};

		entry_append(&x->lea_list, &x->lea_count, &x->lea_capacity, &lea);
	}
}

/* ---- operands and jumps ---- */

/* Handles an operand of instruction `in` of function `own` that refers to (section, addr). */
static void operand_add(struct builder *b, const struct func *own, const struct insn *in, uint32_t section,
                        uint64_t addr)
{
	const struct func *fn;

	if (!is_code(b, section)) {
		if (section)
			base_ref_add(b, own, in, section, addr);
		return;
	}
	if (!strncmp(b->f->sections[section].name, ".plt", 4))
		return; /* a PLT entry is a function, not a label */
	part_open(b, section, addr);
	fn = func_find(b->funcs, section, addr);
	if (!fn || fn->start == addr)
		return;
	label_func_add(b, fn->section, fn->start);
	if (fn != own)
		label_func_add(b, own->section, own->start);
	entry_add(b, section, addr, false);
}

/* Handles a direct jump, branch or call in `fn`. */
static void jump_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t to)
{
	if (in->flow == FLOW_CALL)
		entry_add(b, section, to, false);
	else if (section != fn->section || to < fn->start || to >= fn->end)
		part_jump_add(b, fn, in, section, to);
}

/* Is this a table of addresses of code that no jump uses, or one that etch itself changes? */
static bool is_other_table(const char *name)
{
	static const char *const begin[] = {"__etch_",           ".etch",         ".orc",          ".eh_frame",
	                                    ".gcc_except_table", "__ex_table",    ETCH_SEC_IMV,    ETCH_SEC_PV,
	                                    ETCH_SEC_NATIVE,     ETCH_SEC_INLINE, ETCH_SEC_OBJECT, ".sframe"};
	size_t i;

	for (i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		if (!strncmp(name, begin[i], strlen(begin[i])))
			return true;
	return false;
}

/* ---- linked files -------------------------------------------------------- */

/* Adds the immediate of an instruction of a linked file if it may be an entry. */
static void linked_immediate(struct builder *b, const struct func *fn, const struct insn *in)
{
	uint64_t at = (uint64_t)in->imm;

	/* In the large code model, addresses are 64-bit immediates relative to the GOT. */
	if (in->imm_len == 8 && b->got)
		operand_add(b, fn, in, elf_section_at(b->f, at + b->got), at + b->got);
	if (b->f->eh.e_type != ET_EXEC || in->imm_len < 4)
		return;
	part_open(b, elf_section_at(b->f, at), at);
	/* The immediate of a mask or compare is not an address, so only moves, additions and stores count. */
	if (in->flow == FLOW_NEXT && (in->move == MOVE_IMM || in->move == MOVE_ADD || in->mem == MEM_WRITE))
		operand_add(b, fn, in, elf_section_at(b->f, at), at);
}

/* Adds the addresses in the operands of an instruction of a linked file that may be entries. */
static void linked_insn(struct builder *b, const struct func *fn, const struct insn *in)
{
	const struct elf_section *own = &b->f->sections[fn->section];
	bool absolute = b->f->eh.e_type == ET_EXEC;
	uint64_t at;

	if (flow_is_direct(in->flow)) {
		if (in->target < fn->start || in->target >= fn->end || in->flow == FLOW_CALL)
			jump_add(b, fn, in,
			         in->target - own->sh.sh_addr < own->sh.sh_size ? fn->section : elf_section_at(b->f, in->target),
			         in->target);
		return;
	}
	if (in->mem != MEM_NONE && in->disp_len == 4 && !in->segment && (in->base == INSN_PC_REG || absolute)) {
		at = in->base == INSN_PC_REG ? in->addr + in->len + (uint64_t)in->disp : (uint64_t)in->disp;
		operand_add(b, fn, in, elf_section_at(b->f, at), at);
	}
	linked_immediate(b, fn, in);
}

/*
 * Finds the target of entry k of the jump table at base i. Entries have `width` bytes, and are relative to the table.
 * Returns false if the table has ended.
 */
static bool linked_entry(const struct builder *b, size_t i, size_t k, unsigned width, struct entry *out)
{
	const struct entry *x = &b->bases.list[i];
	const struct elf_section *s = &b->f->sections[x->section];
	uint64_t at = x->addr - s->sh.sh_addr + k * width, stop = s->sh.sh_size;
	int32_t rel4;
	int64_t rel;

	if (i + 1 < b->bases.count && x[1].section == x->section)
		stop = x[1].addr - s->sh.sh_addr;
	if (!s->data || is_other_table(s->name) || at + width > stop)
		return false;
	memcpy(&rel4, s->data + at, 4);
	rel = rel4;
	if (width == 8)
		memcpy(&rel, s->data + at, 8);
	out->addr = x->addr + (uint64_t)rel;
	out->section = elf_section_at(b->f, out->addr);
	return is_code(b, out->section);
}

/* Reads the jump tables with relative entries. Absolute entries have been found among the data words. */
static void linked_tables(struct builder *b, unsigned width)
{
	size_t i, k;

	for (i = 0; i < b->bases.count; i++) {
		const struct func *own = width == 4 ? base_owner(b, &b->bases.list[i]) : NULL;
		struct entry to;

		for (k = 0; own && linked_entry(b, i, k, width, &to); k++)
			if (!target_is_inside(own, to.section, to.addr))
				own = NULL;
		if (own && k)
			base_leas_add(b, &b->bases.list[i]);
		for (k = 0; linked_entry(b, i, k, width, &to); k++)
			entry_add(b, to.section, to.addr, own != NULL);
	}
}

static void linked_build(struct builder *b, const uint64_t *words, size_t count)
{
	uint32_t got = elf_section_find(b->f, ".got.plt", 1);
	struct func_code spare = {0};
	size_t k, i;

	b->open = mem_zero(b->funcs->count + 1, sizeof(*b->open));
	if (!got)
		got = elf_section_find(b->f, ".got", 1);
	b->got = b->f->sections[got].sh.sh_addr;
	for (k = 0; k < b->funcs->count; k++) {
		const struct func_code *code = func_code_of(b->funcs, k, &spare);

		for (i = 0; i < code->count; i++)
			linked_insn(b, &b->funcs->funcs[k], &code->insns[i]);
	}
	func_code_free(&spare);
	for (i = 0; i < count; i++)
		entry_add(b, elf_section_at(b->f, words[i]), words[i], false);
	places_sort(&b->bases);
	base_refs_sort(b);
	linked_tables(b, 4);
	linked_tables(b, 8);
}

/* ---- object files -------------------------------------------------------- */

static bool is_absolute(uint32_t type)
{
	return type == R_X86_64_GOTOFF64 || type == R_X86_64_64 || type == R_X86_64_32 || type == R_X86_64_32S;
}

/* Handles one instruction of an object file. [r, end) are the relocations from the start of the instruction on. */
static void object_insn(struct builder *b, const struct func *fn, const struct insn *in, const struct elf_reloc *r,
                        const struct elf_reloc *end)
{
	bool pending = false;

	for (; r < end && r->offset < in->addr + in->len; r++) {
		const struct elf_symbol *y = &b->f->symbols[r->symbol];
		uint64_t at = y->value + (uint64_t)r->addend, by = in->addr + in->len - r->offset;

		pending = true;
		if (!y->section)
			continue;
		if (flow_is_direct(in->flow))
			jump_add(b, fn, in, y->section, at + by);
		else if (elf_reloc_is_relative(r->type))
			operand_add(b, fn, in, y->section, at + by);
		else if (is_absolute(r->type))
			operand_add(b, fn, in, y->section, at);
	}
	if (pending)
		return;
	if (flow_is_direct(in->flow))
		jump_add(b, fn, in, fn->section, in->target);
	else if (in->mem != MEM_NONE && in->base == INSN_PC_REG)
		operand_add(b, fn, in, fn->section, in->addr + in->len + (uint64_t)in->disp);
}

static void object_code(struct builder *b, uint32_t section, const struct elf_reloc *r, const struct elf_reloc *end)
{
	struct func_code spare = {0};
	size_t k, i;

	for (k = 0; k < b->funcs->count; k++) {
		const struct func *fn = &b->funcs->funcs[k];
		const struct func_code *code;

		if (fn->section != section)
			continue;
		code = func_code_of(b->funcs, k, &spare);
		for (i = 0; i < code->count; i++) {
			while (r < end && r->offset < code->insns[i].addr)
				r++;
			object_insn(b, fn, &code->insns[i], r, end);
		}
	}
	func_code_free(&spare);
}

/*
 * Returns the index of the last base at or before a data word with a relative relocation `r`, or SIZE_MAX if there is
 * none.
 */
static size_t object_base(const struct builder *b, uint32_t section, const struct elf_reloc *r)
{
	size_t i = elf_reloc_is_relative(r->type) ? place_from(&b->bases, section, r->offset + 1) : 0;

	return i && b->bases.list[i - 1].section == section ? i - 1 : SIZE_MAX;
}

/* Finds the address of code that a word of data holds. A relative word is relative to its own address or, in a jump
 * table, to the start of the table; in a table, symbol + addend is the target plus the word's offset in the table.
 * Returns false if the address is not one of code. */
static bool object_entry(const struct builder *b, const struct elf_reloc *r, size_t base, struct entry *out)
{
	const struct elf_symbol *y = &b->f->symbols[r->symbol];

	out->section = y->section;
	out->addr = y->value + (uint64_t)r->addend;
	if (base != SIZE_MAX)
		out->addr -= r->offset - b->bases.list[base].addr;
	return is_code(b, y->section);
}

/* Collects the addresses of code in data words; [r, end) are the words' relocations, in ascending order. */
static void object_data(struct builder *b, uint32_t section, const struct elf_reloc *r, const struct elf_reloc *end)
{
	const struct elf_reloc *next;
	struct entry to;

	for (; r < end; r = next) {
		size_t base = object_base(b, section, r), words = 0;
		const struct func *own = base == SIZE_MAX ? NULL : base_owner(b, &b->bases.list[base]);

		for (next = r; next < end && object_base(b, section, next) == base; next++) {
			words += object_entry(b, next, base, &to);
			if (own && (next->type != R_X86_64_PC32 || !target_is_inside(own, to.section, to.addr)))
				own = NULL;
		}
		if (own && words)
			base_leas_add(b, &b->bases.list[base]);
		for (; r < next; r++)
			if (object_entry(b, r, base, &to))
				entry_add(b, to.section, to.addr, own != NULL);
	}
}

/* Handles all sections of code, or all sections of data, of an object file. */
static int object_sections(struct builder *b, bool code)
{
	uint32_t i;

	for (i = 1; i < b->f->section_count; i++) {
		const struct elf_section *s = &b->f->sections[i];
		struct elf_reloc *r = NULL;
		uint32_t rel;
		long n = 0;

		if (!(s->sh.sh_flags & SHF_ALLOC) || code != !!(s->sh.sh_flags & SHF_EXECINSTR) || is_other_table(s->name))
			continue;
		rel = elf_section_rela(b->f, i, 1);
		if (rel && b->f->sections[rel].sh.sh_link == b->f->symtab)
			n = elf_relocs(b->f, rel, &r, b->e);
		if (n < 0)
			return -1;
		if (code)
			object_code(b, i, r, r + n);
		else
			object_data(b, i, r, r + n);
		free(r);
	}
	if (code) {
		places_sort(&b->bases);
		base_refs_sort(b);
	}
	return 0;
}

/* ---- both kinds of files ------------------------------------------------------ */

int entries_build(struct entries *x, const struct elf_file *f, struct func_list *funcs, const uint64_t *words,
                  size_t word_count, struct error *e)
{
	struct builder b = {.out = x, .f = f, .funcs = funcs, .e = e};
	size_t i;
	int err = 0;

	if (elf_is_object(f))
		err = object_sections(&b, true) || object_sections(&b, false);
	else
		linked_build(&b, words, word_count);
	free(b.bases.list);
	free(b.refs);
	err = err || pads_build(&b);
	places_sort(x);
	parts_build(&b);
	free(b.open);
	free(b.jumps);
	if (err)
		return -1;
	if (x->label_func_count)
		qsort(x->label_funcs, x->label_func_count, sizeof(*x->label_funcs), entry_order);
	x->addrs = mem_alloc(x->count + 1, sizeof(*x->addrs));
	x->by_table = mem_alloc(x->count + 1, sizeof(*x->by_table));
	x->leas = mem_alloc(x->lea_count + 1, sizeof(*x->leas));
	for (i = 0; i < x->count; i++) {
		x->addrs[i] = x->list[i].addr;
		x->by_table[i] = x->list[i].by_table;
	}
	if (x->lea_count)
		qsort(x->lea_list, x->lea_count, sizeof(*x->lea_list), entry_order);
	for (i = 0; i < x->lea_count; i++)
		x->leas[i] = x->lea_list[i].addr;
	x->built = true;
	return 0;
}

struct track_entries entries_of(const struct entries *x, const struct func *fn, const struct func_code *code)
{
	struct entry key = {fn->section, fn->start, false, false}, last = {fn->section, fn->end, false, false};
	struct track_entries t = {.anywhere = !code->whole};
	size_t first = place_from(x, fn->section, fn->start + 1);

	t.anywhere |= x->label_func_count && bsearch(&key, x->label_funcs, x->label_func_count, sizeof(key), entry_order);
	t.list = x->addrs + first;
	t.by_table = x->by_table + first;
	t.by_part = x->by_part + first;
	t.count = place_from(x, fn->section, fn->end) - first;
	first = SEARCH(x->lea_count, i, entry_order(&x->lea_list[i], &key) < 0);
	t.leas = x->leas + first;
	t.lea_count = SEARCH(x->lea_count, i, entry_order(&x->lea_list[i], &last) < 0) - first;
	first = pads_from(x, fn->section, fn->start);
	t.pads = x->pads + first;
	t.pad_count = pads_from(x, fn->section, fn->end) - first;
	first = faults_from(x, fn->section, fn->start);
	t.faults = x->faults + first;
	t.fault_count = faults_from(x, fn->section, fn->end) - first;
	first = SEARCH(x->return_count, i, x->returns[i].to < fn->start);
	t.returns = x->returns + first;
	t.return_count = SEARCH(x->return_count, i, x->returns[i].to < fn->end) - first;
	t.ways = x->ways;
	return t;
}

void entries_free(struct entries *x)
{
	free(x->list);
	free(x->addrs);
	free(x->by_table);
	free(x->by_part);
	free(x->returns);
	free(x->ways);
	free(x->leas);
	free(x->lea_list);
	free(x->pads);
	free(x->faults);
	free(x->label_funcs);
	memset(x, 0, sizeof(*x));
}
