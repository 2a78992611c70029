/* SPDX-License-Identifier: MIT */
/* Makes one linear pass over the code of a kernel object. It finds the branches that the kernel patches, by the names
 * of their targets, and prints the warnings of --retpoline; those of --sls follow later. */
#include "objtool/objtool.h"
#include "arch/x86/opcodes.h"
#include "arch/x86/fast_decoder.h"
#include "elf/symbols.h"
#include "objtool/code_map.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Facts about the whole file. */
struct facts {
	struct place_names names;
	struct linux_place *safe; /* places with LINUX_RETPOLINE_SAFE */
	size_t safe_count;
	struct linux_place *pushes; /* with options.skylake: places with LINUX_INTRA_FUNCTION_CALL */
	size_t push_count;
	uint8_t *kinds; /* for each symbol: its enum symbol_kind */
};

/* What a branch to a symbol means. */
enum symbol_kind {
	SYMBOL_UNKNOWN, /* the symbol has not been examined yet */
	SYMBOL_OTHER,
	SYMBOL_RETURNS,
	SYMBOL_RETPOLINE,
	SYMBOL_STATIC_CALL,
	SYMBOL_PROFILER,
	SYMBOL_FENTRY,
	SYMBOL_EMBEDDED, /* code inside an instruction of other code */
};

/* The pass over one section of code. */
struct pass {
	const struct elf_file *f;
	const struct objtool_options *o;
	struct facts *facts;
	const struct code_map *map;
	struct branches *out;
	const struct part *part; /* the section in the map; null: the map does not have it, or map.begins is not filled */
	uint64_t first;          /* address of the section in the code space */
	const struct elf_section *section;
	uint32_t number;
	struct elf_reloc *relocs;
	size_t count, next; /* next: index of the first relocation that is not before the instruction */
	bool replacement, noinstr, init;
	bool after_trap; /* the previous instruction is ud2 */
	struct {
		uint64_t at;
		bool due, returns;
	} sls; /* the last branch, if an int3 must follow it */
};

static void site_add(struct branch_list *l, const struct pass *p, uint64_t at, uint32_t symbol, bool call)
{
	mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
	l->list[l->count++] = (struct branch_site){p->number, at, symbol, !call, call};
}

/* Moves jumps before calls, which is the order of entries in objtool's sections. */
static void calls_last(struct branch_list *l)
{
	struct branch_site *calls = mem_alloc(l->count + 1, sizeof(*calls));
	size_t i, k = 0, n = 0;

	for (i = 0; i < l->count; i++)
		if (l->list[i].call)
			calls[n++] = l->list[i];
		else
			l->list[k++] = l->list[i];
	if (n)
		memcpy(l->list + k, calls, n * sizeof(*calls));
	free(calls);
}

/* Returns the relocation that applies to a field of an instruction, or null. */
static const struct elf_reloc *next_reloc(struct pass *p, uint64_t at, unsigned len)
{
	while (p->next < p->count && p->relocs[p->next].offset < at)
		p->next++;
	return p->next < p->count && p->relocs[p->next].offset < at + len ? &p->relocs[p->next] : NULL;
}

static bool is_safe(const struct pass *p, uint64_t at)
{
	return linux_place_in(p->facts->safe, p->facts->safe_count, p->number, at);
}

static void traced_add(struct pass *p, uint64_t at, uint32_t symbol, bool call)
{
	if (!call)
		objtool_warn(p->f, &p->facts->names, p->number, at, p->o->release->tail_fentry);
	site_add(&p->out->traced, p, at, symbol, call);
}

static bool is_embedded(const char *name)
{
	return !strcmp(name, "retbleed_return_thunk") || !strcmp(name, "srso_alias_safe_ret") ||
	       !strcmp(name, "srso_safe_ret");
}

static enum symbol_kind symbol_judge(const struct linux_release *release, const struct elf_symbol *y)
{
	const char *thunk = linux_thunk_name(release, y->name);

	if (y->bind != STB_GLOBAL)
		return SYMBOL_OTHER;
	if (!strcmp(thunk, RETURN_THUNK))
		return SYMBOL_RETURNS;
	if (!strncmp(thunk, "__x86_indirect_", 15))
		return SYMBOL_RETPOLINE;
	if (!strncmp(y->name, "__SCT__", 7))
		return SYMBOL_STATIC_CALL;
	if (linux_profiler(release, y->name))
		return SYMBOL_PROFILER;
	if (!strcmp(y->name, "__fentry__"))
		return SYMBOL_FENTRY;
	return release->skips_embedded_calls && is_embedded(y->name) ? SYMBOL_EMBEDDED : SYMBOL_OTHER;
}

static bool begins_function(const struct pass *p, uint64_t at)
{
	const struct elf_symbol *y = symbol_index_find(&p->map->functions, p->number, at);

	return y && y->value == at;
}

static void retpoline_note(struct pass *p, uint64_t at, uint32_t symbol, bool call)
{
	site_add(&p->out->retpolines, p, at, symbol, call);
	if (p->o->cfi && p->o->release->cfi_grows && !(p->after_trap && !begins_function(p, at)))
		site_add(&p->out->unchecked, p, at, symbol, call);
}

/* Records a direct branch that has a relocation against a symbol. */
static void branch_note(struct pass *p, uint64_t at, const struct step *s, uint32_t symbol)
{
	uint8_t *kind = &p->facts->kinds[symbol];
	bool call = s->flow == FLOW_CALL, passes_over = p->replacement && !p->o->release->replaced_sites;

	if (!*kind)
		*kind = (uint8_t)symbol_judge(p->o->release, &p->f->symbols[symbol]);
	if (*kind == SYMBOL_RETURNS && !call)
		site_add(&p->out->returns, p, at, symbol, call);
	if (*kind == SYMBOL_OTHER || *kind == SYMBOL_EMBEDDED || *kind == SYMBOL_RETURNS || passes_over)
		return;
	if (*kind == SYMBOL_RETPOLINE)
		retpoline_note(p, at, symbol, call);
	else if (!call && !symbol_index_find(&p->map->functions, p->number, at))
		return; /* the jump is in code outside of functions */
	else if (*kind == SYMBOL_STATIC_CALL)
		site_add(&p->out->calls, p, at, symbol, call);
	else if (*kind == SYMBOL_PROFILER && p->noinstr)
		site_add(&p->out->profiled, p, at, symbol, call);
	else if (*kind == SYMBOL_FENTRY && p->o->mcount)
		traced_add(p, at, symbol, call);
}

/*
 * For --hacks=skylake: records a direct call, so that the kernel can count the depth of calls there. `symbol` is 0 if
 * the call has no relocation.
 */
static void direct_note(struct pass *p, uint64_t at, uint32_t symbol)
{
	const struct objtool_options *o = p->o;
	uint8_t kind = symbol ? p->facts->kinds[symbol] : SYMBOL_OTHER;

	if (p->init || (p->replacement && !o->release->replaced_sites))
		return;
	if (kind == SYMBOL_RETPOLINE || kind == SYMBOL_STATIC_CALL || kind == SYMBOL_EMBEDDED ||
	    (kind == SYMBOL_FENTRY && o->mcount) || (kind == SYMBOL_PROFILER && p->noinstr && o->noinstr_hack))
		return;
	if (symbol || !linux_place_in(p->facts->pushes, p->facts->push_count, p->number, at))
		site_add(&p->out->direct, p, at, symbol, true);
}

/*
 * Warns about an indirect branch or return without a thunk. The warning of --sls has to wait until the next instruction
 * is known.
 */
static void indirect_judge(struct pass *p, uint64_t at, const struct step *s)
{
	const struct objtool_options *o = p->o;
	bool returns = s->flow == FLOW_RETURN;
	const char *what = s->flow == FLOW_JUMP_IND ? "indirect jump" : "indirect call";
	char text[64];

	if (returns)
		what = "'naked' return";

	if (is_safe(p, at))
		return;
	if (o->retpoline && (!returns || o->rethunk) && (o->module || strcmp(p->section->name, ".init.text"))) {
		snprintf(text, sizeof(text), "%s found in %s%s build", what, o->release->option_prefix,
		         returns ? "RETHUNK" : "RETPOLINE");
		if (warns_first(p->map, p->number, at))
			objtool_warn(p->f, &p->facts->names, p->number, at, text);
		p->out->warnings++;
	}
	if (o->sls && s->flow != FLOW_CALL_IND) {
		p->sls.at = at;
		p->sls.due = true;
		p->sls.returns = returns;
	}
}

static void sls_settle(struct pass *p, const uint8_t *next)
{
	if (p->sls.due && (!next || !insn_is_int3(next, 1)))
		site_add(&p->out->unstopped, p, p->sls.at, 0, !p->sls.returns);
	p->sls.due = false;
}

/* Marks the symbols whose code may call without a check of the callee's type. Returns 0, or -1 and a message. */
static int unchecked_allow(const struct code_map *map, bool *allowed, struct error *e)
{
	struct linux_place *list;
	long n = linux_annotated(map->release, map->f, LINUX_NOCFI, &list, e), i;

	for (i = 0; i < n; i++) {
		const struct elf_symbol *y = code_map_sized(map, list[i].section, list[i].at);

		if (y)
			allowed[y - map->f->symbols] = true;
	}
	free(list);
	return n < 0 ? -1 : 0;
}

/* Prints the warnings of --cfi. Returns 0, or -1 and a message. */
static int unchecked_warn(const struct code_map *map, struct branches *b, struct error *e)
{
	bool *allowed = mem_zero((size_t)map->f->symbol_count + 1, sizeof(*allowed));
	struct place_names names = {0};
	int err = unchecked_allow(map, allowed, e);
	size_t i;

	for (i = 0; i < b->unchecked.count && !err; i++) {
		const struct branch_site *x = &b->unchecked.list[i];
		const struct elf_symbol *y = code_map_sized(map, x->section, x->at);

		if (y && !allowed[y - map->f->symbols] && warns_first(map, x->section, x->at))
			objtool_warn(map->f, &names, x->section, x->at, "no-cfi indirect call!");
		b->warnings += y && !allowed[y - map->f->symbols];
	}
	place_names_free(&names);
	free(allowed);
	return err;
}

void unstopped_warn(const struct code_map *map, const struct branches *b)
{
	struct place_names names = {0};
	size_t i;

	for (i = 0; i < b->unstopped.count; i++) {
		const struct branch_site *x = &b->unstopped.list[i];

		if (warns_first(map, x->section, x->at))
			objtool_warn(map->f, &names, x->section, x->at,
			             x->tail ? "missing int3 after ret" : "missing int3 after indirect jump");
	}
	place_names_free(&names);
}

/*
 * Records an instruction in map.begins. Records it also in map.stops if it does more than continue with the next one,
 * affects access to user memory, or is the `last` one of the section.
 */
static inline void insn_mark(const struct pass *p, const uint8_t *bytes, uint64_t at, const struct step *s, bool last)
{
	bit_set(p->map->begins, p->first + at);
	if (s->flow != FLOW_NEXT || last || code_access_effect(bytes, s->len))
		bit_set(p->map->stops, p->first + at);
}

/* Handles a branch, call or return. */
static void branch_pass(struct pass *p, const uint8_t *bytes, uint64_t at, const struct step *s)
{
	bool direct = s->flow == FLOW_JUMP || s->flow == FLOW_BRANCH || s->flow == FLOW_CALL;
	const struct elf_reloc *r = direct ? next_reloc(p, at, s->len) : NULL;

	if (r && r->symbol < p->f->symbol_count)
		branch_note(p, at, s, r->symbol);
	if (p->o->skylake && s->flow == FLOW_CALL && (!r || r->symbol < p->f->symbol_count))
		direct_note(p, at, r ? r->symbol : 0);
	if (!direct && code_is_near(bytes, s->len))
		indirect_judge(p, at, s);
}

/*
 * Reports an undecodable instruction. Up to 6.12 this is a warning, and the instruction is skipped. In releases in
 * which it is an error, returns -1 and a message.
 */
static int undecodable_say(struct pass *p, uint64_t at, struct error *e)
{
	char where[256];

	if (!p->o->release->errors_are_fatal) {
		objtool_warn(p->f, &p->facts->names, p->number, at, "can't decode instruction");
		return 0;
	}
	objtool_place(p->f, &p->facts->names, p->number, at, where, sizeof(where));
	return error_set(e, "%.200s: can't decode instruction", where);
}

static int section_pass(struct pass *p, struct step_cache *cache, struct error *e)
{
	const uint8_t *code = p->section->data;
	uint64_t size = p->section->sh.sh_size, at;
	size_t insns = 0;
	struct step s;

	for (at = 0; at < size; at += s.len, insns++) {
		if (p->sls.due)
			sls_settle(p, code + at);
		if (!step_outline(cache, code + at, size - at, &s)) {
			if (undecodable_say(p, at, e))
				return -1;
			if (p->part)
				bit_set(p->map->stops, p->first + at);
			p->out->undecodable = true;
			s.len = 0;
			at = decoding_resumes(p->map, p->number, at);
			continue;
		}
		if (p->part)
			insn_mark(p, code + at, at, &s, at + s.len >= size);
		if (s.flow != FLOW_NEXT && s.flow != FLOW_STOP)
			branch_pass(p, code + at, at, &s);
		p->after_trap = s.flow == FLOW_STOP && !insn_is_int3(code + at, s.len);
	}
	p->out->insns += insns;
	sls_settle(p, NULL);
	return 0;
}

static int facts_read(const struct elf_file *f, const struct objtool_options *o, struct facts *out, struct error *e)
{
	long n;

	memset(out, 0, sizeof(*out));
	n = linux_annotated(o->release, f, LINUX_RETPOLINE_SAFE, &out->safe, e);
	if (n < 0)
		return -1;
	out->safe_count = (size_t)n;
	n = o->skylake ? linux_annotated(o->release, f, LINUX_INTRA_FUNCTION_CALL, &out->pushes, e) : 0;
	if (n < 0)
		return -1;
	out->push_count = (size_t)n;
	out->kinds = mem_zero(f->symbol_count, 1);
	return 0;
}

static void facts_free(struct facts *x)
{
	place_names_free(&x->names);
	free(x->safe);
	free(x->pushes);
	free(x->kinds);
}

static int section_read(struct pass *p, struct step_cache *cache, struct error *e)
{
	const char *name = p->section->name;
	uint32_t rel = p->part ? 0 : elf_section_rela(p->f, p->number, 1);
	long count = rel ? elf_relocs(p->f, rel, &p->relocs, e) : 0;
	int err;

	if (count < 0)
		return -1;
	p->count = (size_t)count;
	if (p->part) {
		p->relocs = p->part->relocs;
		p->count = p->part->count;
	}
	p->replacement = !strcmp(name, ".altinstr_replacement");
	p->init = !p->o->module && !strcmp(name, ".init.text");
	p->noinstr = linux_section_noinstr(p->o->release, name);
	err = section_pass(p, cache, e);
	if (!p->part)
		free(p->relocs);
	return err;
}

int branch_sites_find(const struct elf_file *f, const struct objtool_options *o, const struct code_map *map,
                      struct branches *out, struct error *e)
{
	struct step_cache *cache = step_cache_new();
	struct facts facts;
	int err = facts_read(f, o, &facts, e);
	uint32_t i;

	memset(out, 0, sizeof(*out));
	for (i = 1; i < f->section_count && !err; i++) {
		struct pass p = {
			.f = f, .o = o, .facts = &facts, .map = map, .out = out, .section = &f->sections[i], .number = i};

		const struct code_section *c = map->begins ? space_of(&map->space, i) : NULL;

		p.part = c ? &map->parts[c - map->space.list] : NULL;
		p.first = c ? c->addr - map->space.first : 0;
		if ((p.section->sh.sh_flags & SHF_EXECINSTR) && p.section->data)
			err = section_read(&p, cache, e);
	}
	calls_last(&out->returns);
	calls_last(&out->retpolines);
	calls_last(&out->unchecked);
	calls_last(&out->calls);
	calls_last(&out->profiled);
	calls_last(&out->traced);
	step_cache_free(cache);
	facts_free(&facts);
	if (!err && o->cfi && o->retpoline)
		err = unchecked_warn(map, out, e);
	if (err)
		branch_sites_free(out);
	return err;
}

void branch_sites_free(struct branches *b)
{
	free(b->returns.list);
	free(b->retpolines.list);
	free(b->calls.list);
	free(b->sealed.list);
	free(b->direct.list);
	free(b->profiled.list);
	free(b->traced.list);
	free(b->unstopped.list);
	free(b->unchecked.list);
	memset(b, 0, sizeof(*b));
}
