/* SPDX-License-Identifier: MIT */
#include "code/func.h"
#include "elf/search.h"

#include "code/cfi_file.h"

#include <stdlib.h>
#include <string.h>

struct start {
	uint32_t section;
	bool fde; /* one begins there */
	uint64_t addr;
};

struct starts {
	struct start *list;
	size_t count, room;
};

static int start_add(struct starts *s, uint32_t section, uint64_t addr, bool fde, struct error *e)
{
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 256;
		struct start *p = realloc(s->list, room * sizeof(*p));

		if (!p)
			return error_set(e, "out of memory");
		s->list = p;
		s->room = room;
	}
	s->list[s->count++] = (struct start){section, fde, addr};
	return 0;
}

static int start_order(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->fde - y->fde; /* the last one of an address counts */
}

static bool is_code(const struct elf_section *s)
{
	return (s->sh.sh_flags & SHF_EXECINSTR) && (s->sh.sh_flags & SHF_ALLOC) && s->data;
}

static int starts_from_symbols(const struct elf_file *f, const struct elf_symbol *list, uint32_t n,
                               struct starts *out, struct error *e)
{
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *s = &list[i];

		if ((s->type != STT_FUNC && s->type != STT_GNU_IFUNC) || !s->section ||
		    !is_code(&f->sections[s->section]))
			continue;
		if (start_add(out, s->section, s->value, false, e))
			return -1;
	}
	return 0;
}

static int starts_from_eh_frame(const struct elf_file *f, struct starts *out, struct error *e)
{
	struct code_space space = {0};
	struct cfi_file cfi = {0};
	int err = space_build(f, &space, e) || cfi_file_open(f, &space, &cfi, e) ? -1 : 0;
	size_t i;

	for (i = 0; i < cfi.count && !err; i++)
		err = start_add(out, elf_section_at(f, cfi.fdes[i].start), cfi.fdes[i].start, true, e);
	cfi_file_close(&cfi);
	space_free(&space);
	return err;
}

/* .eh_frame_hdr's search table: pairs of (start of function, FDE), 4 bytes each
 * relative to the section (LSB core, "exception frame header"). Only the
 * encoding that every linker writes is read. Static programs have no such section. */
static int starts_from_fdes(const struct elf_file *f, struct starts *out, struct error *e)
{
	uint32_t index = elf_section_find(f, ".eh_frame_hdr", 1), count, i, section;
	const struct elf_section *s = &f->sections[index];
	uint64_t addr;
	int32_t rel;

	if (!index || !s->data || s->sh.sh_size < 12)
		return starts_from_eh_frame(f, out, e);
	if (s->data[0] != 1 || s->data[1] != 0x1b || s->data[2] != 0x03 || s->data[3] != 0x3b)
		return 0;
	memcpy(&count, s->data + 8, 4);
	if (count > (s->sh.sh_size - 12) / 8)
		return 0;
	for (i = 0; i < count; i++) {
		memcpy(&rel, s->data + 12 + 8 * (size_t)i, 4);
		addr = s->sh.sh_addr + (uint64_t)(int64_t)rel;
		section = elf_section_at(f, addr);
		if (section && is_code(&f->sections[section]) && start_add(out, section, addr, true, e))
			return -1;
	}
	return 0;
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

int func_list_build(const struct elf_file *f, struct func_list *out, struct error *e)
{
	struct starts s = {0};
	bool rel = elf_is_object(f), lost = func_symbols_lost(f);
	uint32_t i;
	size_t k;
	int err = -1;

	memset(out, 0, sizeof(*out));
	for (i = 1; i < f->section_count; i++)
		if (is_code(&f->sections[i]) &&
		    start_add(&s, i, rel ? 0 : f->sections[i].sh.sh_addr, false, e))
			goto done;
	if (starts_from_symbols(f, f->symbols, f->symbol_count, &s, e) ||
	    starts_from_symbols(f, f->dynsyms, f->dynsym_count, &s, e) ||
	    (!rel && starts_from_fdes(f, &s, e)))
		goto done;
	if (s.count)
		qsort(s.list, s.count, sizeof(*s.list), start_order);
	out->funcs = calloc(s.count + 1, sizeof(*out->funcs));
	if (!out->funcs) {
		error_set(e, "out of memory");
		goto done;
	}
	for (k = 0; k < s.count; k++) {
		const struct elf_section *sec = &f->sections[s.list[k].section];
		uint64_t base = rel ? 0 : sec->sh.sh_addr, end = base + sec->sh.sh_size;
		struct func *fn = &out->funcs[out->count];

		if (s.list[k].addr < base || s.list[k].addr >= end)
			continue; /* a symbol outside its section */
		if (k + 1 < s.count && s.list[k + 1].section == s.list[k].section && s.list[k + 1].addr < end)
			end = s.list[k + 1].addr;
		if (end == s.list[k].addr)
			continue; /* the same start again */
		fn->section = s.list[k].section;
		fn->start = s.list[k].addr;
		fn->end = end;
		fn->bytes = sec->data + (fn->start - base);
		fn->vague = lost && !s.list[k].fde;
		out->count++;
	}
	err = 0;
done:
	free(s.list);
	return err;
}

void func_list_free(struct func_list *l)
{
	free(l->funcs);
	memset(l, 0, sizeof(*l));
}

const struct func *func_find(const struct func_list *l, uint32_t section, uint64_t addr)
{
	size_t lo = SEARCH(l->count, i, l->funcs[i].section < section || (l->funcs[i].section == section && l->funcs[i].end <= addr));

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

/* Zeros to the end of a function, where control does not come: gold fills gaps with them. */
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

/* Where a jump leads, an instruction begins; behind its lock prefix is as good. */
static bool target_settle(const struct func *fn, const struct func_code *code, struct insn *in)
{
	size_t k = func_insn_over(code, in->target);

	if (k == SIZE_MAX)
		return false;
	if (code->insns[k].addr + 1 == in->target && insn_is_locked(fn->bytes + (code->insns[k].addr - fn->start)))
		in->target = code->insns[k].addr;
	return code->insns[k].addr == in->target;
}

int func_decode(const struct func *fn, struct func_code *out, struct error *e)
{
	uint64_t size = fn->end - fn->start, at = 0;
	size_t room = size / 3 + 16, i;
	struct insn *p = realloc(out->insns, room * sizeof(*p));

	if (!p)
		return error_set(e, "out of memory");
	out->insns = p;
	out->count = 0;
	out->whole = true;
	while (at < size) {
		if (out->count == room) {
			room *= 2;
			p = realloc(out->insns, room * sizeof(*p));
			if (!p)
				return error_set(e, "out of memory");
			out->insns = p;
		}
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

		if ((in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH) && in->target >= fn->start && in->target < fn->end)
			out->whole &= target_settle(fn, out, in);
	}
	return 0;
}

void func_code_free(struct func_code *c)
{
	free(c->insns);
	memset(c, 0, sizeof(*c));
}

/* ---- what a call changes -------------------------------------------------- */

/* A chain of calls deeper than this is taken by the ABI alone. */
#define CLOBBER_DEPTH 8u

int func_clobbers_init(struct func_clobbers *c, const struct elf_file *f, const struct func_list *l, struct error *e)
{
	*c = (struct func_clobbers){.file = f, .list = l, .known = calloc(l->count + 1, 1),
	                            .vague = calloc(l->count + 1, sizeof(bool)),
	                            .lives = calloc(l->count + 1, sizeof(*c->lives)),
	                            .mask = calloc(l->count + 1, sizeof(uint16_t))};
	return c->known && c->vague && c->mask && c->lives ? 0 : error_set(e, "out of memory");
}

static void lives_free(struct func_lives *l);

void func_clobbers_free(struct func_clobbers *c)
{
	size_t i;

	for (i = 0; c->lives && i < c->list->count; i++)
		lives_free(c->lives[i]);
	free(c->lives);
	free(c->known);
	free(c->vague);
	free(c->mask);
	memset(c, 0, sizeof(*c));
}

uint16_t func_clobbers(struct func_clobbers *c, int32_t callee, struct error *e)
{
	const struct func *fn = &c->list->funcs[callee];
	struct func_code code = {0};
	uint16_t mask = 0, all = insn_call_clobbers();
	size_t i;

	if (c->known[callee] == 2)
		return c->mask[callee];
	if (c->known[callee] == 1 || c->depth >= CLOBBER_DEPTH)
		return all;
	c->known[callee] = 1;
	c->depth++;
	c->vague[callee] = fn->vague;
	if (func_decode(fn, &code, e) || !code.whole) {
		mask = all;
		c->vague[callee] = true;
	}
	for (i = 0; i < code.count && mask != all; i++) {
		const struct insn *in = &code.insns[i];
		bool pending = elf_is_object(c->file) && in->imm == 0; /* its relocation says where */
		const struct func *to;

		mask |= in->writes & all;
		if (in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND)
			mask = all;
		if (in->flow != FLOW_CALL && in->flow != FLOW_JUMP && in->flow != FLOW_BRANCH)
			continue;
		if (!pending && in->flow != FLOW_CALL && in->target >= fn->start && in->target < fn->end)
			continue;
		to = pending ? NULL
		     : func_find(c->list, elf_is_object(c->file) ? fn->section : elf_section_at(c->file, in->target),
		                 in->target);
		mask |= to && to->start == in->target ? func_clobbers(c, (int32_t)(to - c->list->funcs), e) : all;
		c->vague[callee] |= to && (to->vague || c->vague[to - c->list->funcs]);
	}
	c->depth--;
	c->known[callee] = 2;
	c->mask[callee] = mask;
	func_code_free(&code);
	return mask;
}

/* Everything an instruction may take from registers. */
static uint16_t uses(const struct insn *in)
{
	uint16_t mask = in->reads;

	if (in->base < 16)
		mask |= (uint16_t)(1u << in->base);
	if (in->index < 16)
		mask |= (uint16_t)(1u << in->index);
	return mask;
}

/* Live registers before instruction i, given those before all others. */
static uint16_t live_before(const struct func_clobbers *c, const struct func *fn, const struct func_code *code,
                            const uint16_t *live, size_t i)
{
	const struct insn *in = &code->insns[i];
	bool pending = elf_is_object(c->file) && in->imm == 0;
	uint16_t after = i + 1 < code->count ? live[i + 1] : 0xffff, there;
	uint16_t kept = (uint16_t)~insn_call_clobbers();
	bool inside = !pending && in->target >= fn->start && in->target < fn->end;
	size_t to = inside ? func_insn_at(code, in->target) : SIZE_MAX;

	switch (in->flow) {
	case FLOW_CALL:
	case FLOW_CALL_IND:
		return uses(in) | insn_call_arguments() | (after & kept);
	case FLOW_RETURN:
		return insn_return_values() | kept;
	case FLOW_STOP:
		return 0;
	case FLOW_JUMP_IND:
		return 0xffff;
	case FLOW_JUMP:
	case FLOW_BRANCH:
		there = to != SIZE_MAX ? live[to] : inside || in->flow == FLOW_BRANCH ? 0xffff
		        : insn_call_arguments() | kept;
		return uses(in) | there | (in->flow == FLOW_BRANCH ? after : 0);
	default:
		return uses(in) | (after & (uint16_t)~in->writes);
	}
}

/* Jumps within a function by where they lead to: those to instruction i are from[first[i]] up to from[first[i + 1]]. */
struct arrivals {
	uint32_t *first, *from;
};

static size_t leads_to(const struct func_clobbers *c, const struct func *fn, const struct func_code *code, size_t i)
{
	const struct insn *in = &code->insns[i];
	bool pending = elf_is_object(c->file) && in->imm == 0;

	if ((in->flow != FLOW_JUMP && in->flow != FLOW_BRANCH) || pending || in->target < fn->start || in->target >= fn->end)
		return SIZE_MAX;
	return func_insn_at(code, in->target);
}

static bool arrivals_find(const struct func_clobbers *c, const struct func *fn, const struct func_code *code,
                          struct arrivals *out)
{
	size_t i, to;

	out->first = calloc(code->count + 2, sizeof(*out->first));
	out->from = calloc(code->count + 1, sizeof(*out->from));
	if (!out->first || !out->from)
		return false;
	for (i = 0; i < code->count; i++)
		if ((to = leads_to(c, fn, code, i)) != SIZE_MAX)
			out->first[to + 2]++;
	for (i = 2; i < code->count + 2; i++)
		out->first[i] += out->first[i - 1];
	for (i = 0; i < code->count; i++)
		if ((to = leads_to(c, fn, code, i)) != SIZE_MAX)
			out->from[out->first[to + 1]++] = (uint32_t)i;
	return true;
}

/* Live registers before each instruction: from the last to the first, and where one has more than was known,
 * again what leads there. */
static bool live_solve(const struct func_clobbers *c, const struct func *fn, const struct func_code *code, uint16_t *live)
{
	struct arrivals by = {0};
	uint32_t *todo = calloc(code->count + 1, sizeof(*todo));
	bool *queued = calloc(code->count + 1, sizeof(*queued)), ok;
	size_t n = 0, i, k;

	ok = todo && queued && arrivals_find(c, fn, code, &by);
	for (i = 0; ok && i < code->count; i++) {
		todo[n++] = (uint32_t)i;
		queued[i] = true;
	}
	while (n) {
		uint16_t mask;

		i = todo[--n];
		queued[i] = false;
		mask = live[i] | live_before(c, fn, code, live, i);
		if (mask == live[i])
			continue;
		live[i] = mask;
		for (k = by.first[i]; k < by.first[i + 1]; k++)
			if (!queued[by.from[k]]) {
				queued[by.from[k]] = true;
				todo[n++] = by.from[k];
			}
		if (i && !queued[i - 1]) {
			queued[i - 1] = true;
			todo[n++] = (uint32_t)i - 1;
		}
	}
	free(todo);
	free(queued);
	free(by.first);
	free(by.from);
	return ok;
}

/* What func_live() has found out about a function. */
struct func_lives {
	size_t count;   /* 0: nothing is known */
	uint32_t *at;   /* offsets of its instructions */
	uint16_t *live; /* before them */
};

static void lives_free(struct func_lives *l)
{
	if (l) {
		free(l->at);
		free(l->live);
	}
	free(l);
}

static struct func_lives *lives_find(const struct func_clobbers *c, const struct func *fn, struct error *e)
{
	struct func_lives *l = calloc(1, sizeof(*l));
	struct func_code code = {0};
	bool ok = l != NULL;
	size_t i;

	if (ok && !func_decode(fn, &code, e) && code.whole && fn->end - fn->start <= UINT32_MAX) {
		l->at = calloc(code.count + 1, sizeof(*l->at));
		l->live = calloc(code.count + 1, sizeof(*l->live));
		ok = l->at && l->live && live_solve(c, fn, &code, l->live);
		for (i = 0; ok && i < code.count; i++)
			l->at[i] = (uint32_t)(code.insns[i].addr - fn->start);
		l->count = code.count;
	}
	func_code_free(&code);
	if (ok)
		return l;
	lives_free(l);
	error_set(e, "out of memory");
	return NULL;
}

uint16_t func_live(const struct func_clobbers *c, int32_t number, uint64_t addr, struct error *e)
{
	const struct func *fn = &c->list->funcs[number];
	struct func_lives *l = c->lives[number];
	size_t lo = 0, hi;

	if (!l)
		l = c->lives[number] = lives_find(c, fn, e);
	hi = l ? l->count : 0;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (fn->start + l->at[mid] < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return l && lo < l->count && fn->start + l->at[lo] == addr ? l->live[lo] : 0xffff;
}
