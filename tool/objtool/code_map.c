/* SPDX-License-Identifier: MIT */
/* Builds the map of an object's code and answers questions about its branches (code_map.h). */
#include "objtool/code_map.h"
#include "kernel/linux_kernel.h"
#include "support/memory.h"
#include "support/sort.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

enum ends { ENDS_UNKNOWN, ENDS_DEAD, ENDS_OTHERWISE };

static bool is_label(const struct elf_file *f, const struct elf_symbol *y)
{
	(void)f;
	return y->section && y->type != STT_SECTION && y->type != STT_FILE && y->name[0];
}

const struct part *part_at(const struct code_map *m, uint64_t addr)
{
	const struct code_section *c = space_at(&m->space, addr);

	return c ? &m->parts[c - m->space.list] : NULL;
}

/* Returns the function that contains an address, or null; *k is set to its index. */
const struct elf_symbol *function_at(const struct code_map *m, uint64_t addr, size_t *k)
{
	const struct code_section *c = space_at(&m->space, addr);
	const struct elf_symbol *y = c ? symbol_index_find(&m->functions, c->section, addr - c->addr) : NULL;

	*k = y ? symbol_index_above(&m->functions, y->section, y->value) - 1 : 0;
	return y;
}

uint64_t decoding_resumes(const struct code_map *m, uint32_t section, uint64_t off)
{
	const struct symbol_index *x = &m->functions;
	size_t k = symbol_index_above(x, section, off);

	return k < x->count && x->list[k]->section == section ? x->list[k]->value : m->f->sections[section].sh.sh_size;
}

const struct elf_reloc *reloc_in(const struct code_map *m, const struct part *p, uint64_t off, unsigned len)
{
	size_t *near = &m->parts[p - m->parts].near, k = *near, step;
	uint64_t at = p->code->addr + off - m->space.first, bits = m->fields[at / 64] >> at % 64;

	if (at % 64)
		bits |= m->fields[at / 64 + 1] << (64 - at % 64);
	if (!(bits & (((uint64_t)1 << len) - 1)))
		return NULL;
	if (p->relocs[k].offset >= off) { /* usually it follows soon after the one that the last search found */
		k = SEARCH(k, n, p->relocs[n].offset < off);
	} else {
		for (step = 1; k + step < p->count && p->relocs[k + step].offset < off; step *= 2)
			k += step;
		k = SEARCH_IN(k, k + step < p->count ? k + step : p->count, n, p->relocs[n].offset < off);
	}
	*near = k < p->count ? k : 0;
	return k < p->count && p->relocs[k].offset < off + len ? &p->relocs[k] : NULL;
}

const struct elf_symbol *symbol_in(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s)
{
	const struct elf_reloc *r = reloc_in(m, p, at - p->code->addr, s->len);

	return r && r->symbol < m->f->symbol_count ? &m->f->symbols[r->symbol] : NULL;
}

struct target target_of(const struct code_map *m, const struct part *p, uint64_t at, const struct step *s)
{
	uint64_t off = at - p->code->addr;
	const struct elf_reloc *r = reloc_in(m, p, off, s->len);
	const struct elf_symbol *y = r && r->symbol < m->f->symbol_count ? &m->f->symbols[r->symbol] : NULL;
	const struct code_section *c = y && y->section ? space_of(&m->space, y->section) : NULL;
	struct target t = {.at = r ? 0 : (uint64_t)s->imm, .name = y ? y->name : NULL};
	bool begins;

	if (c) /* the displacement counts from the end of the instruction, while the relocation counts from its field */
		t.at = c->addr + y->value + (uint64_t)r->addend + (off + s->len - r->offset);
	if (!t.at)
		return t;
	begins = c && t.at == c->addr + y->value;
	if (begins && m->known[r->symbol].at)
		return m->known[r->symbol];
	t.name = NULL;
	t.label = begins && y->type != STT_SECTION && y->name[0] ? y->name : NULL;
	if (t.at - m->space.first > m->space.span || (s->flow != FLOW_CALL && !bit_has(m->entries, t.at - m->space.first)))
		return t;
	c = space_at(&m->space, t.at);
	t.function = function_at(m, t.at, &t.number);
	if (t.function && t.at == c->addr + t.function->value)
		t.name = t.function->name;
	if (begins)
		m->known[r->symbol] = t;
	return t;
}

static bool dead_within(const struct code_map *m, const struct target *t, unsigned depth);

/*
 * True if a local function ends only in functions that do not return, as far as its instructions show. A jump to a
 * symbol that is not a function, as in assembly, is assumed to lead to code that returns.
 */
static bool function_ends_dead(const struct code_map *m, const struct elf_symbol *y, const struct part *p,
                               unsigned depth)
{
	uint64_t start = p->code->addr + y->value, at;
	uint64_t end = p->code->addr + (y->size < p->code->size - y->value ? y->value + y->size : p->code->size);
	struct step s;

	for (at = start; at < end; at += s.len) {
		struct target to;

		if (!step_decode(m->cache, p->code->bytes + (at - p->code->addr), end - at, at, &s) || s.flow == FLOW_RETURN ||
		    /*
		     * An indirect jump is treated like a tail call to another file, since the jump tables have not been read
		     * yet.
		     */
		    s.flow == FLOW_JUMP_IND)
			return false;
		if (s.flow != FLOW_JUMP && s.flow != FLOW_BRANCH)
			continue;
		to = target_of(m, p, at, &s);
		if (to.at != start && (to.name ? !dead_within(m, &to, depth + 1) : to.label != NULL))
			return false;
	}
	return true;
}

/*
 * True if the callee does not return. As in objtool, the name decides for a global function, and the instructions for a
 * local one; tail calls are followed up to DEPTH_MOST times.
 */
#define DEPTH_MOST 5

/* True if a name, which may be null, is that of a function that does not return. */
static bool is_dead_name(const struct code_map *m, const char *name)
{
	return name && m->release->profile.noreturn(&m->release->profile, name);
}

static bool dead_within(const struct code_map *m, const struct target *t, unsigned depth)
{
	const struct elf_symbol *y = t->function;
	uint8_t *ends = y ? &m->ends[2 * t->number + (y->bind != STB_LOCAL)] : NULL;
	bool counts; /* the list of names applies to it */

	if (!y)
		return is_dead_name(m, t->name);
	if (t->at != part_at(m, t->at)->code->addr + y->value) /* code in the function, not the function itself */
		return is_dead_name(m, t->name ? t->name : t->label);
	counts = y->bind == STB_GLOBAL || m->release->newer_validation;
	if (y->bind != STB_LOCAL && t->name != y->name)
		return counts && is_dead_name(m, t->name);
	if (!*ends && y->bind != STB_LOCAL && counts && is_dead_name(m, y->name))
		*ends = ENDS_DEAD;
	if (!*ends && y->bind == STB_WEAK)
		*ends = ENDS_OTHERWISE; /* a function of another file may replace it */
	if (!*ends && depth <= DEPTH_MOST) {
		*ends = ENDS_OTHERWISE; /* the result if the function reaches itself by recursion */
		*ends = function_ends_dead(m, y, part_at(m, t->at), depth) ? ENDS_DEAD : ENDS_OTHERWISE;
	}
	return *ends == ENDS_DEAD;
}

bool calls_dead(const struct code_map *m, const struct target *t) { return dead_within(m, t, 0); }

void code_map_open(const struct elf_file *f, const struct linux_release *release, struct code_map *out)
{
	memset(out, 0, sizeof(*out));
	out->f = f;
	out->release = release;
	space_build(f, &out->space);
	symbol_index_build(f, symbol_is_sized_function, &out->functions);
	out->warned = mem_zero(1, sizeof(*out->warned));
}

uint64_t *bits_new(const struct code_map *m)
{
	return mem_zero(m->space.span / 64 + 2, sizeof(uint64_t)); /* reloc_in() reads two words */
}

int code_map_relocs(struct code_map *m, struct error *e)
{
	size_t i;

	if (m->parts)
		return 0;
	m->parts = mem_zero(m->space.count, sizeof(*m->parts));
	for (i = 0; i < m->space.count; i++) {
		uint32_t rel = elf_section_rela(m->f, m->space.list[i].section, 1);
		long n = rel ? elf_relocs(m->f, rel, &m->parts[i].relocs, e) : 0;

		if (n < 0)
			return -1;
		m->parts[i].code = &m->space.list[i];
		m->parts[i].count = (size_t)n;
	}
	return 0;
}

int code_map_starts(struct code_map *m, struct error *e)
{
	m->begins = bits_new(m);
	m->stops = bits_new(m);
	bit_set(m->begins, m->space.span); /* ends searches */
	return code_map_relocs(m, e);
}

static void bits_make(struct code_map *m)
{
	size_t i, k;

	m->fields = bits_new(m);
	m->entries = bits_new(m);
	for (i = 0; i < m->space.count; i++)
		for (k = 0; k < m->parts[i].count; k++)
			if (m->parts[i].relocs[k].offset < m->parts[i].code->size)
				bit_set(m->fields, m->parts[i].code->addr + m->parts[i].relocs[k].offset - m->space.first);
	for (i = 0; i < m->functions.count; i++) {
		const struct elf_symbol *y = m->functions.list[i];
		const struct code_section *c = space_of(&m->space, y->section);

		if (c && y->value < c->size)
			bit_set(m->entries, c->addr + y->value - m->space.first);
	}
}

static int kept_read(struct code_map *m, struct error *e)
{
	struct linux_place *list;
	long n = linux_annotated(m->release, m->f, LINUX_IGNORE_ALTS, &list, e), i;

	if (n < 0)
		return -1;
	m->kept = mem_alloc((size_t)n + 1, sizeof(*m->kept));
	for (i = 0; i < n; i++) {
		const struct code_section *c = space_of(&m->space, list[i].section);

		if (c)
			m->kept[m->kept_count++] = c->addr + list[i].at;
	}
	free(list);
	m->kept_count = words_unique(m->kept, m->kept_count);
	return 0;
}

bool code_map_keeps(const struct code_map *m, uint64_t addr) { return word_has(m->kept, m->kept_count, addr); }

int code_map_read(struct code_map *m, struct error *e)
{
	m->cache = step_cache_new();
	if (code_map_relocs(m, e) || kept_read(m, e))
		return -1;
	symbol_index_build(m->f, is_label, &m->labels);
	if (m->release->profile.read(&m->release->profile, m->f, &m->space, &m->notes, e))
		return -1;
	m->ends = mem_zero(m->functions.count, 2);
	m->known = mem_zero(m->f->symbol_count, sizeof(*m->known));
	bits_make(m);
	return 0;
}

void code_map_free(struct code_map *m)
{
	size_t i;

	for (i = 0; i < m->space.count && m->parts; i++)
		free(m->parts[i].relocs);
	free(m->parts);
	free(m->ends);
	symbol_index_free(&m->warned->list);
	free(m->warned->done);
	free(m->warned);
	free(m->known);
	free(m->kept);
	notes_free(&m->notes);
	free(m->fields);
	free(m->entries);
	free(m->begins);
	free(m->stops);
	symbol_index_free(&m->functions);
	symbol_index_free(&m->labels);
	step_cache_free(m->cache);
	space_free(&m->space);
}

static bool is_warned_of(const struct elf_file *f, const struct elf_symbol *y)
{
	(void)f;
	return y->section && y->size && (y->type == STT_FUNC || y->type == STT_NOTYPE);
}

const struct elf_symbol *code_map_sized(const struct code_map *m, uint32_t section, uint64_t off)
{
	struct once *x = m->warned;

	if (!x->done) {
		symbol_index_build(m->f, is_warned_of, &x->list);
		x->done = mem_zero((size_t)m->f->symbol_count + 1, sizeof(*x->done));
	}
	return symbol_index_find(&x->list, section, off);
}

bool warns_first(const struct code_map *m, uint32_t section, uint64_t off)
{
	const struct elf_symbol *y = m->release->newer_validation ? code_map_sized(m, section, off) : NULL;
	uint8_t *done = y ? &m->warned->done[y - m->f->symbols] : NULL;

	if (!done)
		return true;
	if (*done & WARNED_SAID)
		return false;
	*done |= WARNED_SAID;
	return true;
}

void access_warned_set(const struct code_map *m, const struct elf_symbol *function)
{
	code_map_sized(m, function->section, function->value); /* makes the list */
	m->warned->done[function - m->f->symbols] |= WARNED_ACCESS;
}

bool access_warned(const struct code_map *m, const struct elf_symbol *function)
{
	return m->warned->done && m->warned->done[function - m->f->symbols] & WARNED_ACCESS;
}
