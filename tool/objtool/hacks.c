/* SPDX-License-Identifier: MIT */
/*
 * Changes code for --hacks: replaces the jumps of static keys that are disabled at boot, and calls of profilers in code
 * that must not be instrumented, by nops.
 */
#include "objtool/objtool.h"
#include "arch/x86/opcodes.h"
#include "arch/x86/fast_decoder.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

/*
 * The code at KEY_CODE is to begin as a nop if bit 1 of the key's addend is set (arch/x86/include/asm/jump_label.h).
 * The assembler has written a jump there, since it cannot write a nop of the size that the jump will have.
 */
enum { KEY_SIZE = 16, KEY_CODE = 0, KEY_KEY = 8, KEY_BEGINS_AS_NOP = 2 };

/* An instruction that has been replaced. */
struct patch {
	uint32_t section;
	uint64_t at, end;
};

struct patches {
	struct elf_file *f;
	struct patch *list;
	size_t count, capacity;
	bool *alone; /* for each section: no other section shares its bytes, as has been checked */
	struct error *e;
};

static void patches_begin(struct patches *p, struct elf_file *f, struct error *e)
{
	*p = (struct patches){.f = f, .alone = mem_zero(f->section_count, sizeof(bool)), .e = e};
}

static int alone_check(struct patches *p, uint32_t section)
{
	if (!p->alone[section] && elf_section_alone(p->f, section, p->e))
		return -1;
	p->alone[section] = true;
	return 0;
}

/* Replaces one instruction by other bytes. Returns 0, or -1 and a message. */
static int insn_put(struct patches *p, uint32_t section, uint64_t at, const uint8_t *bytes, unsigned len)
{
	if (alone_check(p, section))
		return -1;
	mem_reserve(&p->list, &p->capacity, p->count, sizeof(*p->list));
	p->list[p->count++] = (struct patch){section, at, at + len};
	memcpy((uint8_t *)p->f->sections[section].data + at, bytes, len);
	return 0;
}

static int patch_order(const void *a, const void *b)
{
	const struct patch *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/*
 * Sets the relocations inside the replaced instructions list[0..n) to R_X86_64_NONE. The instructions are in one
 * section, in ascending order. Returns 0, or -1 and a message.
 */
static int relocs_drop(struct patches *p, const struct patch *list, size_t n)
{
	uint32_t rel = elf_section_rela(p->f, list->section, 1);
	/*
	 * number of replaced instructions that begin at or before the relocation; relocations are mostly in ascending order
	 */
	size_t k = 0;
	uint8_t *data;
	uint64_t i;

	if (!rel)
		return 0;
	if (alone_check(p, rel))
		return -1;
	data = (uint8_t *)p->f->sections[rel].data;
	for (i = 0; i + sizeof(Elf64_Rela) <= p->f->sections[rel].sh.sh_size; i += sizeof(Elf64_Rela)) {
		Elf64_Rela r;

		memcpy(&r, data + i, sizeof(r));
		while (k < n && list[k].at <= r.r_offset)
			k++;
		if (k && list[k - 1].at > r.r_offset)
			k = SEARCH(k, m, list[m].at <= r.r_offset);
		if (!k || r.r_offset >= list[k - 1].end)
			continue;
		r.r_info = ELF64_R_INFO(ELF64_R_SYM(r.r_info), R_X86_64_NONE);
		memcpy(data + i, &r, sizeof(r));
	}
	return 0;
}

/* Removes the relocations of all replaced instructions. `err` is the result so far; if it is not 0, it is returned. */
static int patches_end(struct patches *p, int err)
{
	size_t i, n;

	if (p->count)
		qsort(p->list, p->count, sizeof(*p->list), patch_order);
	for (i = 0; i < p->count && !err; i += n) {
		for (n = 1; i + n < p->count && p->list[i + n].section == p->list[i].section; n++)
			;
		err = relocs_drop(p, &p->list[i], n);
	}
	free(p->list);
	free(p->alone);
	return err;
}

/* Decodes the instruction at an offset of a section of code. Returns its length, or 0 and a message. */
static unsigned site_length(const struct elf_file *f, uint32_t section, uint64_t at, struct step *s, struct error *e)
{
	const struct elf_section *c = &f->sections[section];

	if (!section || !c->data || !(c->sh.sh_flags & SHF_EXECINSTR) || at >= c->sh.sh_size ||
	    !step_decode(NULL, c->data + at, c->sh.sh_size - at, at, s)) {
		error_set(e, "section __jump_table: an entry refers to no instruction");
		return 0;
	}
	if (s->len > PATCH_MOST || (s->flow != FLOW_JUMP && !(s->flow == FLOW_NEXT && s->padding))) {
		char where[128];

		elf_describe(f, section, at, where, sizeof(where));
		error_set(e, "unsupported instruction at jump label %s", where);
		return 0;
	}
	return s->len;
}

static const struct elf_reloc *reloc_at(const struct elf_reloc *r, long n, uint64_t at)
{
	long lo = (long)SEARCH((size_t)n, i, r[i].offset < at);

	return lo < n && r[lo].offset == at ? &r[lo] : NULL;
}

static int table_hack(struct patches *p, uint32_t table)
{
	struct elf_file *f = p->f;
	struct error *e = p->e;
	uint32_t rel = elf_section_rela(f, table, 1);
	/* A section of type SHT_NOBITS may claim any size. */
	uint64_t size = f->sections[table].data ? f->sections[table].sh.sh_size : 0, at;
	struct elf_reloc *r = NULL;
	long n = rel ? elf_relocs(f, rel, &r, e) : 0;
	int err = n < 0 ? -1 : 0;

	for (at = 0; at + KEY_SIZE <= size && !err; at += KEY_SIZE) {
		const struct elf_reloc *code = reloc_at(r, n, at + KEY_CODE), *key = reloc_at(r, n, at + KEY_KEY);
		const struct elf_symbol *y = code && code->symbol < f->symbol_count ? &f->symbols[code->symbol] : NULL;
		struct step s;
		uint64_t to;
		unsigned len;

		if (!key || !(key->addend & KEY_BEGINS_AS_NOP))
			continue;
		to = y ? y->value + (uint64_t)code->addend : 0;
		len = site_length(f, y ? y->section : 0, to, &s, e);
		err = len ? insn_put(p, y->section, to, patch_nops[len], len) : -1;
	}
	free(r);
	return err;
}

int keys_hack(struct elf_file *f, struct error *e)
{
	struct patches p;
	uint32_t i = 0;
	int err = 0;

	patches_begin(&p, f, e);
	while (!err && (i = elf_section_find(f, "__jump_table", i + 1)))
		err = table_hack(&p, i);
	return patches_end(&p, err);
}

/* Replaces calls by nops, and tail calls by `tail`. */
static int calls_drop(struct elf_file *f, const struct branch_list *l, const uint8_t *tail, struct error *e)
{
	struct patches p;
	size_t i;
	int err = 0;

	patches_begin(&p, f, e);
	for (i = 0; i < l->count && !err; i++) {
		const struct branch_site *x = &l->list[i];
		uint8_t opcode = f->sections[x->section].data[x->at];

		if (opcode != OPCODE_CALL_REL32 && opcode != OPCODE_JMP_REL32)
			err = error_set(e, "a call of %.200s is of an unknown form", f->symbols[x->symbol].name);
		else
			err = insn_put(&p, x->section, x->at, x->tail ? tail : patch_nops[PATCH_MOST], PATCH_MOST);
	}
	return patches_end(&p, err);
}

int noinstr_hack(struct elf_file *f, const struct branches *b, struct error *e)
{
	return calls_drop(f, &b->profiled, patch_return, e);
}

int traced_hack(struct elf_file *f, const struct branches *b, struct error *e)
{
	return calls_drop(f, &b->traced, patch_nops[PATCH_MOST], e);
}
