/* SPDX-License-Identifier: MIT */
/* Divides executable sections into functions at symbols and FDEs, and decodes functions. */
#include "analysis/addresses/function.h"

#include "analysis/facts/cfi_file.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

/* An address where a function may start. */
struct start {
	uint32_t section;
	bool fde; /* an FDE begins there */
	uint64_t addr;
};

struct starts {
	struct start *list;
	size_t count, capacity;
};

static void start_add(struct starts *s, uint32_t section, uint64_t addr, bool fde)
{
	mem_reserve(&s->list, &s->capacity, s->count, sizeof(*s->list));
	s->list[s->count++] = (struct start){section, fde, addr};
}

static int start_order(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* func_list_build() keeps the last start at an address, which is one with an FDE if there is any. */
	return x->fde - y->fde;
}

static bool is_code(const struct elf_section *s)
{
	return (s->sh.sh_flags & SHF_EXECINSTR) && (s->sh.sh_flags & SHF_ALLOC) && s->data;
}

static void starts_from_symbols(const struct elf_file *f, const struct elf_symbol *list, uint32_t n, struct starts *out)
{
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *s = &list[i];

		if ((s->type != STT_FUNC && s->type != STT_GNU_IFUNC) || !s->section || !is_code(&f->sections[s->section]))
			continue;
		start_add(out, s->section, s->value, false);
	}
}

static void starts_from_eh_frame(const struct elf_file *f, struct starts *out)
{
	struct code_space space = {0};
	struct cfi_file cfi;
	size_t i;

	space_build(f, &space);
	cfi_file_open(f, &space, &cfi);
	for (i = 0; i < cfi.count; i++) {
		uint64_t addr = cfi.fdes[i].start;
		uint32_t section = elf_section_at(f, addr);

		if (section && is_code(&f->sections[section]))
			start_add(out, section, addr, true);
	}
	cfi_file_close(&cfi);
	space_free(&space);
}

/* Adds the starts in the search table of .eh_frame_hdr. The table has pairs of (start of function, FDE), 4 bytes each,
 * relative to the section (LSB core, "exception frame header"). Only the encoding that all linkers write is read.
 * Static programs have no such section; for them, .eh_frame itself is read. */
static void starts_from_fdes(const struct elf_file *f, struct starts *out)
{
	uint32_t index = cfi_file_hdr(f), count, i, section;
	const struct elf_section *s = &f->sections[index];
	uint64_t addr;
	int32_t rel;

	if (!index || !s->data || s->sh.sh_size < 12) {
		starts_from_eh_frame(f, out);
		return;
	}
	if (s->data[0] != 1 || s->data[1] != 0x1b || s->data[2] != 0x03 || s->data[3] != 0x3b)
		return;
	memcpy(&count, s->data + 8, 4);
	if (count > (s->sh.sh_size - 12) / 8)
		return;
	for (i = 0; i < count; i++) {
		memcpy(&rel, s->data + 12 + 8 * (size_t)i, 4);
		addr = s->sh.sh_addr + (uint64_t)(int64_t)rel;
		section = elf_section_at(f, addr);
		if (section && is_code(&f->sections[section]))
			start_add(out, section, addr, true);
	}
}

bool func_symbols_lost(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->symbol_count; i++)
		if (f->symbols[i].bind == STB_LOCAL && f->symbols[i].section &&
		    (f->symbols[i].type == STT_OBJECT || f->symbols[i].type == STT_FUNC))
			return false;
	return !elf_is_object(f);
}

void func_list_build(const struct elf_file *f, struct func_list *out)
{
	struct starts s = {0};
	bool rel = elf_is_object(f), lost = func_symbols_lost(f);
	uint32_t i;
	size_t k;

	memset(out, 0, sizeof(*out));
	for (i = 1; i < f->section_count; i++)
		if (is_code(&f->sections[i]))
			start_add(&s, i, rel ? 0 : f->sections[i].sh.sh_addr, false);
	starts_from_symbols(f, f->symbols, f->symbol_count, &s);
	starts_from_symbols(f, f->dynsyms, f->dynsym_count, &s);
	if (!rel)
		starts_from_fdes(f, &s);
	if (s.count)
		qsort(s.list, s.count, sizeof(*s.list), start_order);
	out->funcs = mem_zero(s.count + 1, sizeof(*out->funcs));
	for (k = 0; k < s.count; k++) {
		struct elf_held held = elf_held(f, s.list[k].section, s.list[k].addr);
		uint64_t end = s.list[k].addr + held.size;
		struct func *fn = &out->funcs[out->count];

		if (!held.size || end <= s.list[k].addr)
			/* A symbol outside of its section, or a section that wraps around at the end of the address space. */
			continue;
		if (k + 1 < s.count && s.list[k + 1].section == s.list[k].section && s.list[k + 1].addr < end)
			end = s.list[k + 1].addr;
		if (end == s.list[k].addr)
			continue; /* another start at the same address */
		fn->section = s.list[k].section;
		fn->start = s.list[k].addr;
		fn->end = end;
		fn->bytes = held.bytes;
		fn->vague = lost && !s.list[k].fde;
		out->count++;
	}
	free(s.list);
}

void func_list_free(struct func_list *l)
{
	func_codes_drop(l);
	free(l->funcs);
	memset(l, 0, sizeof(*l));
}

const struct func *func_find(const struct func_list *l, uint32_t section, uint64_t addr)
{
	size_t lo = SEARCH(l->count, i,
	                   l->funcs[i].section < section || (l->funcs[i].section == section && l->funcs[i].end <= addr));

	if (lo == l->count || l->funcs[lo].section != section || l->funcs[lo].start > addr)
		return NULL;
	return &l->funcs[lo];
}

size_t func_insn_over(const struct func_code *c, uint64_t addr)
{
	size_t lo = SEARCH(c->count, i, c->insns[i].addr + c->insns[i].len <= addr);

	return lo < c->count && c->insns[lo].addr <= addr ? lo : SIZE_MAX;
}

size_t func_insn_at(const struct func_code *c, uint64_t addr)
{
	size_t i = func_insn_over(c, addr);

	return i != SIZE_MAX && c->insns[i].addr == addr ? i : SIZE_MAX;
}

/* Are the bytes from offset `at` to the end of the function zeros that control cannot reach? gold fills gaps with
 * zeros. */
static bool is_filling(const struct func *fn, uint64_t at, const struct func_code *code)
{
	size_t last = code->count;

	while (last && code->insns[last - 1].padding)
		last--;
	if (!last || (code->insns[last - 1].flow != FLOW_JUMP && code->insns[last - 1].flow != FLOW_RETURN))
		return false;
	while (at < fn->end - fn->start && !fn->bytes[at])
		at++;
	return at == fn->end - fn->start;
}

/* Does a jump lead to the start of an instruction? If it leads past the lock prefix of an instruction, its target is
 * changed to the start of that instruction. */
static bool target_settle(const struct func *fn, const struct func_code *code, struct insn *in)
{
	size_t k = func_insn_over(code, in->target);

	if (k == SIZE_MAX)
		return false;
	if (code->insns[k].addr + 1 == in->target && insn_is_locked(func_bytes_of(fn, &code->insns[k])))
		in->target = code->insns[k].addr;
	return code->insns[k].addr == in->target;
}

void func_decode(const struct func *fn, struct func_code *out)
{
	uint64_t size = fn->end - fn->start, at = 0;
	size_t capacity = size / 3 + 16, i;

	out->insns = mem_resize(out->insns, capacity, sizeof(*out->insns));
	out->count = 0;
	out->whole = true;
	while (at < size) {
		mem_reserve(&out->insns, &capacity, out->count, sizeof(*out->insns));
		if (!fn->bytes[at] && is_filling(fn, at, out))
			break;
		if (!insn_decode(fn->bytes + at, size - at, fn->start + at, &out->insns[out->count])) {
			out->whole = false;
			break;
		}
		at += out->insns[out->count++].len;
	}
	for (i = 0; i < out->count; i++) {
		struct insn *in = &out->insns[i];

		if (func_is_jump(in) && func_holds(fn, in->target))
			out->whole &= target_settle(fn, out, in);
	}
}

const struct func_code *func_code_of(struct func_list *l, size_t i, struct func_code *spare)
{
	struct func_code *c;

	if (!l->codes)
		l->codes = mem_zero(l->count, sizeof(*l->codes));
	c = &l->codes[i];
	if (c->insns)
		return c;
	if (l->held >= FUNC_HELD_MOST) {
		func_decode(&l->funcs[i], spare);
		return spare;
	}
	func_decode(&l->funcs[i], c);
	c->insns = mem_resize(c->insns, c->count, sizeof(*c->insns)); /* give the unused space back */
	l->held += c->count * sizeof(*c->insns);
	return c;
}

void func_codes_drop(struct func_list *l)
{
	size_t i;

	for (i = 0; l->codes && i < l->count; i++)
		free(l->codes[i].insns);
	free(l->codes);
	l->codes = NULL;
	l->held = 0;
}

void func_code_copy(const struct func_code *from, struct func_code *out)
{
	out->insns = mem_resize(out->insns, from->count, sizeof(*out->insns));
	if (from->count)
		memcpy(out->insns, from->insns, from->count * sizeof(*out->insns));
	out->count = from->count;
	out->whole = from->whole;
}

void func_code_free(struct func_code *c)
{
	free(c->insns);
	memset(c, 0, sizeof(*c));
}
