/* SPDX-License-Identifier: MIT */
/*
 * Implements --ibt. It finds functions that begin with endbr although nothing takes their address, so that the kernel
 * may seal them. It also warns of each address that is taken of code without endbr, since an indirect jump there would
 * fault. It applies to linked objects, since only these contain all uses of their code.
 */
#include "arch/x86/opcodes.h"
#include "objtool/code_map.h"
#include "objtool/objtool.h"
#include "support/memory.h"
#include "support/plain.h"
#include "support/sort.h"
#include "shared/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct endbrs {
	const struct code_map *map;
	const struct objtool_options *options;
	struct place_names names;
	/*
	 * A bit for each byte of the space: an undecodable instruction precedes it, without the start of a function in
	 * between.
	 */
	uint64_t *skipped;
	uint64_t *list; /* addresses of functions with endbr, sorted */
	bool *used;     /* for each element of `list`: the address is taken */
	size_t count;
	/* the addresses that count as taken although they have no relocation; only in releases with addresses_by_lea */
	struct own_address *own;
	size_t own_count, own_capacity;
	uint64_t *without; /* addresses of code with the annotation that it needs no endbr, sorted */
	size_t without_count;
};

/* An address in the same section that an instruction takes without a relocation. */
struct own_address {
	uint64_t at, to;
};

/* An address of code that code or data holds. */
struct taken {
	const struct code_section *code;
	uint64_t at; /* the address, in the code space */
};

static bool begins_at(const struct endbrs *x, uint64_t at) { return bit_has(x->map->begins, at - x->map->space.first); }

static bool is_skipped(const struct endbrs *x, uint64_t at) { return bit_has(x->skipped, at - x->map->space.first); }

static bool needs_none(const struct endbrs *x, uint64_t at) { return word_has(x->without, x->without_count, at); }

static bool is_endbr(const struct taken *t)
{
	uint64_t off = t->at - t->code->addr;

	return insn_is_endbr(t->code->bytes + off, t->code->size - off);
}

/* Records a lea whose address is relative to the instruction and has no relocation. */
static void own_address_note(struct endbrs *x, const struct code_section *c, uint64_t off, unsigned len)
{
	uint64_t at = c->addr + off;
	int32_t distance;
	unsigned k;

	if (!insn_takes_near_address(c->bytes + off, len, &distance))
		return;
	for (k = 0; k < len; k++)
		if (bit_has(x->map->fields, at + k - x->map->space.first))
			return;
	mem_reserve(&x->own, &x->own_capacity, x->own_count, sizeof(*x->own));
	x->own[x->own_count++] = (struct own_address){at, at + len + (uint64_t)(int64_t)distance};
}

/* Records the addresses that the code of a section takes without a relocation. */
static void own_addresses_note(struct endbrs *x, const struct code_section *c)
{
	uint64_t first = x->map->space.first, at = bit_next(x->map->begins, c->addr - first) + first, after;

	for (; at - c->addr < c->size; at = after) {
		after = bit_next(x->map->begins, at + 1 - first) + first;
		own_address_note(x, c, at - c->addr, (unsigned)((after - c->addr < c->size ? after : c->addr + c->size) - at));
	}
}

/* Marks the bytes from undecodable ones on up to the next function. */
static void skipped_mark(struct endbrs *x, const struct code_section *c)
{
	uint64_t first = x->map->space.first, off, end;
	struct step s;

	for (off = 0; off < c->size; off += s.len) {
		if (step_decode(x->map->cache, c->bytes + off, c->size - off, c->addr + off, &s))
			continue;
		end = decoding_resumes(x->map, c->section, off);
		for (s.len = 0; off < end; off++)
			bit_set(x->skipped, c->addr + off - first);
	}
}

static void insns_mark(struct endbrs *x)
{
	size_t i;

	x->skipped = bits_new(x->map);
	for (i = 0; i < x->map->space.count; i++) {
		if (x->options->release->addresses_by_lea)
			own_addresses_note(x, &x->map->space.list[i]);
		if (!x->map->decoded)
			skipped_mark(x, &x->map->space.list[i]);
	}
}

static void functions_list(struct endbrs *x)
{
	const struct symbol_index *f = &x->map->functions;
	size_t i;

	x->list = mem_alloc(f->count + 1, sizeof(*x->list));
	for (i = 0; i < f->count; i++) {
		struct taken t = {.code = space_of(&x->map->space, f->list[i]->section)};

		if (!t.code || f->list[i]->value >= t.code->size)
			continue;
		t.at = t.code->addr + f->list[i]->value;
		if (is_endbr(&t) && (!x->count || x->list[x->count - 1] != t.at))
			x->list[x->count++] = t.at;
	}
	x->count = words_unique(x->list, x->count);
	x->used = mem_zero(x->count + 1, sizeof(*x->used));
}

static const struct elf_symbol *symbol_of(const struct endbrs *x, const struct elf_reloc *r)
{
	return r->symbol < x->map->f->symbol_count ? &x->map->f->symbols[r->symbol] : NULL;
}

/* Finds the instruction to which a relocation with an addend refers. Returns false if it refers to none. */
static bool taken_by(const struct endbrs *x, const struct elf_reloc *r, int64_t addend, struct taken *out)
{
	const struct elf_symbol *y = symbol_of(x, r);
	uint64_t off = y ? y->value + (uint64_t)addend : 0;

	out->code = y && y->section ? space_of(&x->map->space, y->section) : NULL;
	if (!out->code || off >= out->code->size)
		return false;
	out->at = out->code->addr + off;
	return begins_at(x, out->at);
}

static int without_read(struct endbrs *x, struct error *e)
{
	struct linux_place *list;
	long n = linux_annotated(x->map->release, x->map->f, LINUX_NOENDBR, &list, e), i;

	if (n < 0)
		return -1;
	x->without = mem_alloc((size_t)n + 1, sizeof(*x->without));
	for (i = 0; i < n; i++) {
		const struct code_section *c = space_of(&x->map->space, list[i].section);

		if (c && list[i].at < c->size && begins_at(x, c->addr + list[i].at))
			x->without[x->without_count++] = c->addr + list[i].at;
	}
	free(list);
	x->without_count = words_unique(x->without, x->without_count);
	return 0;
}

/* ---- uses -------------------------------------------------------------------------------- */

static size_t name_length(const struct elf_symbol *y)
{
	const char *cold = strstr(y->name, ".cold");

	return cold ? (size_t)(cold - y->name) : strlen(y->name);
}

/* True if two addresses are in the same function or, since 6.4, in its cold part. */
static bool are_same_function(const struct endbrs *x, uint64_t a, uint64_t b)
{
	size_t i, k;
	const struct elf_symbol *y = function_at(x->map, a, &i), *z = function_at(x->map, b, &k);

	if (!y || !z || !x->options->release->newer_validation || y == z)
		return y && y == z;
	return name_length(y) == name_length(z) && !memcmp(y->name, z->name, name_length(y));
}

/*
 * True for the address at which a symbol's code ends, if its start is a valid target: a range of code is given by both
 * addresses.
 */
static bool ends_symbol(const struct endbrs *x, const struct taken *t)
{
	uint64_t off = t->at - t->code->addr;
	const struct elf_symbol *y = off ? symbol_index_find(&x->map->labels, t->code->section, off - 1) : NULL;
	struct taken start = {.code = t->code};

	if (!y || y->value + y->size != off)
		return false;
	start.at = t->code->addr + y->value;
	return begins_at(x, start.at) && (is_endbr(&start) || needs_none(x, start.at));
}

/* Prints "PLACE: TEXT: PLACE"; since 6.4, prints only the first such warning of each function. */
static void warn(struct endbrs *x, uint32_t section, uint64_t off, const char *text, const struct taken *t)
{
	const struct code_section *c = space_of(&x->map->space, section);
	char where[200], line[300];

	if (c && !warns_first(x->map, section, off))
		return;
	objtool_place(x->map->f, &x->names, t->code->section, t->at - t->code->addr, where, sizeof(where));
	snprintf(line, sizeof(line), "%s: %s", text, where);
	plain(line);
	objtool_warn(x->map->f, &x->names, section, off, line);
}

/*
 * Records that an address is used. Returns false if the code there has no endbr, and is not annotated as needing none.
 */
static bool use(struct endbrs *x, const struct taken *t)
{
	size_t k;

	if (!is_endbr(t))
		return needs_none(x, t->at);
	k = SEARCH(x->count, i, x->list[i] < t->at);
	if (k < x->count && x->list[k] == t->at)
		x->used[k] = true;
	return true;
}

/* True if an instruction takes an address and does not jump to it. */
static bool takes(const struct step *s, const uint8_t *bytes)
{
	if (s->flow == FLOW_STOP)
		return true;
	return s->flow == FLOW_NEXT && (!s->padding || insn_is_endbr(bytes, s->len));
}

/* Returns the offset of the instruction that contains a byte of a section, or -1. */
static int64_t insn_of(const struct endbrs *x, const struct part *p, uint64_t off, struct step *s)
{
	uint64_t at = off;

	while (at && off - at < STEP_LEN_MOST && !begins_at(x, p->code->addr + at))
		at--;
	if (!begins_at(x, p->code->addr + at) ||
	    !step_decode(x->map->cache, p->code->bytes + at, p->code->size - at, p->code->addr + at, s))
		return -1;
	return off - at < s->len ? (int64_t)at : -1;
}

/*
 * Handles a relocation in undecodable code. Its target is assumed to be used, since it is not known how the code uses
 * it. The field is relative to the end of its instruction, and an immediate of up to 8 bytes may follow the field.
 */
static void unknown_use(struct endbrs *x, const struct elf_reloc *r)
{
	struct taken t;
	int64_t k;

	for (k = 0; k <= 12; k++)
		if (taken_by(x, r, r->addend + k, &t))
			use(x, &t);
}

/*
 * Handles an address that an instruction takes of code without endbr: prints a warning, unless the address is in the
 * same function as the instruction or ends a range of code.
 */
static void taken_by_code(struct endbrs *x, const struct code_section *c, uint64_t off, const struct taken *t)
{
	if (use(x, t) || are_same_function(x, t->at, c->addr + off) ||
	    (x->options->release->newer_validation && ends_symbol(x, t)))
		return;
	warn(x, c->section, off, "relocation to !ENDBR", t);
}

static void own_uses(struct endbrs *x)
{
	size_t i;

	for (i = 0; i < x->own_count; i++) {
		const struct own_address *o = &x->own[i];
		const struct code_section *c = space_at(&x->map->space, o->at);
		struct taken t = {.code = c, .at = o->to};

		if (o->to - c->addr < c->size && begins_at(x, o->to))
			taken_by_code(x, c, o->at - c->addr, &t);
		else if (warns_first(x->map, c->section, o->at - c->addr))
			objtool_warn(x->map->f, &x->names, c->section, o->at - c->addr, "corrupt function pointer reference");
	}
}

static void code_uses(struct endbrs *x, const struct part *p)
{
	size_t i;

	for (i = 0; i < p->count; i++) {
		const struct elf_reloc *r = &p->relocs[i];
		const struct elf_symbol *y = symbol_of(x, r);
		bool relative = r->type == R_X86_64_PC32 || r->type == R_X86_64_PLT32;
		struct taken t;
		struct step s;
		int64_t at;

		if (r->offset < p->code->size && is_skipped(x, p->code->addr + r->offset))
			unknown_use(x, r);
		if (r->offset >= p->code->size || (y && y->bind == STB_GLOBAL && !strncmp(y->name, "__SCT__", 7)) ||
		    !taken_by(x, r, r->addend + (relative ? 4 : 0), &t))
			continue;
		at = insn_of(x, p, r->offset, &s);
		if (at >= 0 && takes(&s, p->code->bytes + at))
			taken_by_code(x, p->code, (uint64_t)at, &t);
	}
}

/* True for sections with addresses of code that is not a jump target because of them. */
static bool only_names_code(const struct linux_release *release, const char *name)
{
	static const char *const list[] = {
		".altinstructions",  ".ibt_endbr_seal", ".orc_unwind_ip", ".parainstructions",  ".retpoline_sites",
		".smp_locks",        "__jump_table",    "__mcount_loc",   ".static_call_sites", "_error_injection_whitelist",
		"_kprobe_blacklist", "__bug_table",     "__ex_table",     ".kcfi_traps",
	};
	static const char *const newer[] = {".call_sites",       ".return_sites",
	                                    "__tracepoints",     ".llvm.call-graph-profile",
	                                    ".llvm_bb_addr_map", ".init.klp_funcs"};
	size_t i;

	for (i = 0; release->newer_code_lists && i < sizeof(newer) / sizeof(newer[0]); i++)
		if (!strcmp(name, newer[i]))
			return true;

	for (i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (!strcmp(name, list[i]))
			return true;
	return !strncmp(name, ".debug", 6) || strstr(name, "__patchable_function_entries") ||
	       (!strncmp(name, ".discard", 8) && strcmp(name, ".discard.ibt_endbr_noseal"));
}

static int data_uses(struct endbrs *x, uint32_t section, struct error *e)
{
	const struct elf_file *f = x->map->f;
	uint32_t rel = elf_section_rela(f, section, 1);
	struct elf_reloc *r;
	struct taken t;
	long n, i;

	if (!rel || (f->sections[section].sh.sh_flags & SHF_EXECINSTR) ||
	    only_names_code(x->map->release, f->sections[section].name))
		return 0;
	n = elf_relocs(f, rel, &r, e);
	if (n < 0)
		return -1;
	for (i = 0; i < n; i++)
		if (taken_by(x, &r[i], r[i].addend, &t) && !use(x, &t))
			warn(x, section, r[i].offset, "data relocation to !ENDBR", &t);
	free(r);
	return 0;
}

/*
 * Warns of entry code without endbr, as shown by hints: the CPU jumps there as to any other target. In releases in
 * which this is an error (7.2), returns -1 and a message.
 */
static int hints_check(struct endbrs *x, struct error *e)
{
	const struct notes *n = &x->map->notes;
	size_t i;

	for (i = 0; i < n->count; i++) {
		const struct note *o = &n->list[i];
		struct taken t = {.at = o->at};
		const struct elf_symbol *y;

		if (o->kind != NOTE_FRAME || (n->frames[o->to].kind & ~RULE_SIGNAL) != RULE_REGS_PARTIAL)
			continue;
		t.code = space_at(&x->map->space, o->at);
		y = t.code ? symbol_index_find(&x->map->labels, t.code->section, o->at - t.code->addr) : NULL;
		if (!y || y->value != o->at - t.code->addr || y->bind != STB_GLOBAL || is_endbr(&t) || needs_none(x, t.at))
			continue;
		if (x->options->release->errors_are_fatal)
			return error_set(e, "%.200s+0x0: UNWIND_HINT_IRET_REGS without ENDBR", y->name);
		objtool_warn(x->map->f, &x->names, t.code->section, y->value, "UNWIND_HINT_IRET_REGS without ENDBR");
	}
	return 0;
}

/* Lists the functions that begin with endbr although nothing takes their address. */
static int sealed_list(struct endbrs *x, struct branch_list *out, struct error *e)
{
	size_t i, k;

	for (i = 0; i < x->count; i++) {
		const struct code_section *c = space_at(&x->map->space, x->list[i]);
		const struct elf_symbol *y = function_at(x->map, x->list[i], &k);

		if (x->used[i])
			continue;
		if (x->options->module && x->options->release->newer_validation && y &&
		    (!strcmp(y->name, "init_module") || !strcmp(y->name, "cleanup_module"))) {
			if (x->options->release->errors_are_fatal)
				return error_set(
					e, "%s(): Magic init_module() function name is deprecated, use module_init(fn) instead", y->name);
			objtool_say(x->map->f, "%s(): not an indirect call target", y->name);
		}
		mem_reserve(&out->list, &out->capacity, out->count, sizeof(*out->list));
		out->list[out->count++] = (struct branch_site){.section = c->section, .at = x->list[i] - c->addr};
	}
	return 0;
}

int endbrs_find(const struct code_map *map, const struct objtool_options *o, struct branch_list *out, struct error *e)
{
	struct endbrs x = {.map = map, .options = o};
	uint32_t i;
	size_t k;
	int err;

	insns_mark(&x);
	functions_list(&x);
	err = without_read(&x, e);
	if (!err)
		err = hints_check(&x, e);
	for (k = 0; k < map->space.count && !err; k++)
		code_uses(&x, &map->parts[k]);
	if (!err)
		own_uses(&x);
	for (i = 1; i < map->f->section_count && !err; i++)
		err = data_uses(&x, i, e);
	if (!err)
		err = sealed_list(&x, out, e);
	place_names_free(&x.names);
	free(x.skipped);
	free(x.list);
	free(x.used);
	free(x.without);
	free(x.own);
	return err;
}
