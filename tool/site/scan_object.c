/* SPDX-License-Identifier: MIT */
/* Finds etched objects and their uses in an object file (ET_REL), by every relocation against an etched symbol in code
 * and data. */
#include "site/site.h"
#include "shared/search.h"
#include "support/memory.h"

#include <etch/branch_format.h>
#include <etch/orc.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* For each symbol, the etched object to which it refers or may refer. */
struct symbols {
	int32_t *object; /* index of the object of a named symbol, or -1 */
	/* the symbol is defined in an etched section (a named or section symbol), or is declared as etched */
	bool *etched;
	/* the symbol is defined in a section that has both values and other data, so each address decides */
	bool *near;
};

/* Collects the names of objects that the file declares as etched but does not define. */
static void declared_names(const struct elf_file *f, struct name_set *out)
{
	uint32_t i = 0;

	while ((i = elf_section_find(f, ETCH_SEC_DECLARE, i + 1))) {
		const Elf64_Shdr *sh = &f->sections[i].sh;
		const char *p = (const char *)f->sections[i].data, *end;

		/* Other sections may have such a name but another type or other flags. */
		if (!p || sh->sh_type != SHT_PROGBITS ||
		    (sh->sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_COMPRESSED)))
			continue;
		for (end = p + f->sections[i].sh.sh_size; p < end;) {
			size_t n = strnlen(p, (size_t)(end - p));

			if (p + n < end)
				name_set_add(out, p);
			p += n + 1;
		}
	}
	name_set_sort(out);
}

/* Collects the etched objects that the file defines, or declares and uses. */
static int objects_find(struct scan *s, const struct elf_file *f, const struct name_set *others,
                        const struct name_set *declared)
{
	uint32_t i;

	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];
		struct object o = {.symbol = i};

		if (y->type == STT_SECTION || y->type == STT_FILE || !y->name[0])
			continue;
		if (y->section) {
			if (!section_is_etched(&f->sections[y->section], &o.shared) || !y->size)
				continue;
			if (y->value > f->sections[y->section].sh.sh_size ||
			    y->size > f->sections[y->section].sh.sh_size - y->value)
				return error_set(&s->error, "symbol %s reaches past the end of section %s", y->name,
				                 f->sections[y->section].name);
			o.section = y->section;
			o.addr = y->value;
			o.size = y->size;
		} else if (y->special || y->bind == STB_LOCAL ||
		           y->bind == STB_WEAK /* it may be null, as only the link step knows */ ||
		           (!name_set_has(declared, y->name) && !name_set_has(others, y->name))) {
			continue;
		}
		o.name = mem_string(y->name);
		scan_object_add(s, &o);
	}
	scan_values_add(s);
	scan_objects_sort(s);
	return 0;
}

/* Does this section have the cell of a value? */
static bool section_has_values(const struct scan *s, uint32_t section)
{
	size_t lo = SEARCH(s->objects.defined, i, s->objects.list[i].section < section);

	return lo < s->objects.defined && s->objects.list[lo].section == section && s->objects.list[lo].value;
}

/* Maps symbols to objects. */
static void symbols_map(struct scan *s, const struct elf_file *f, struct symbols *m)
{
	uint32_t i;
	size_t k;
	bool shared;

	m->object = mem_alloc((size_t)f->symbol_count + 1, sizeof(*m->object));
	m->etched = mem_zero((size_t)f->symbol_count + 1, sizeof(*m->etched));
	m->near = mem_zero((size_t)f->symbol_count + 1, sizeof(*m->near));
	for (i = 0; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		m->object[i] = -1;
		if (y->section && section_is_etched(&f->sections[y->section], &shared)) {
			m->etched[i] = true;
			if (y->type != STT_SECTION)
				m->object[i] = scan_object_find(s, y->section, y->value, false);
		} else {
			m->near[i] = y->section && section_has_values(s, y->section);
		}
	}
	for (k = s->objects.defined; k < s->objects.count; k++) {
		m->object[s->objects.list[k].symbol] = (int32_t)k;
		m->etched[s->objects.list[k].symbol] = true;
	}
}

/* Resolves symbol + addend to a reference. The addend is already relative to the end of the instruction. */
static struct ref resolve(const struct scan *s, const struct symbols *m, uint32_t symbol, uint64_t addend)
{
	const struct elf_symbol *y = &s->file->symbols[symbol];
	struct ref r = {.object = -1};
	uint64_t at = y->value + addend;

	r.object = m->object[symbol];
	if (r.object < 0)
		r.object = scan_object_find(s, y->section, at, true);
	if (r.object < 0)
		return r;
	r.off = s->objects.list[r.object].section ? (int64_t)(at - s->objects.list[r.object].addr) : (int64_t)addend;
	return r;
}

/*
 * Adds an escape for a reference that is not understood: of the object of its symbol or, if there is none, of every
 * object in the symbol's section.
 */
static void suspect(struct scan *s, const struct symbols *m, uint32_t symbol, uint32_t code, uint64_t addr, uint8_t len)
{
	struct site site = {.section = code, .addr = addr, .kind = SITE_ESCAPE, .object = m->object[symbol], .len = len};

	if (site.object >= 0)
		scan_site_add(s, &site);
	else
		scan_suspect_all(s, s->file->symbols[symbol].section, code, addr, len);
}

static bool is_got_type(uint32_t t)
{
	return t == R_X86_64_GOTPCREL || t == R_X86_64_GOTPCRELX || t == R_X86_64_REX_GOTPCRELX;
}

/*
 * Sets the callee of a call or jump whose relocation refers to a function of this file. For a jump inside its own
 * function, sets the target instead.
 */
static void callee_set(const struct scan *s, const struct func *own, struct insn *in, const struct elf_reloc *r)
{
	const struct elf_symbol *y = &s->file->symbols[r->symbol];
	uint64_t to = y->value + (uint64_t)r->addend + 4;
	const struct func *fn = y->section ? func_find(&s->funcs, y->section, to) : NULL;

	if (fn == own && in->flow != FLOW_CALL) {
		in->target = to;
	} else if (fn) {
		in->callee = (int32_t)(fn - s->funcs.funcs);
		in->entry = to;
	}
}

/* The function whose operands are being resolved. */
struct operand_scan {
	struct scan *s;
	const struct symbols *m;
	const struct func *fn;
	struct func_code *code;
	struct ref *mem, *imm; /* one element for each instruction */
};

/*
 * Resolves the field of instruction i to which a relocation applies. Returns false if the kind of reference is unknown.
 */
static bool field_resolve(const struct operand_scan *c, const struct elf_reloc *r, size_t i)
{
	const struct insn *in = &c->code->insns[i];
	unsigned at = (unsigned)(r->offset - in->addr);
	bool relative = in->base == INSN_PC_REG, in_disp = in->disp_len && at == in->disp_at;
	bool in_relative = relative && in_disp && in->disp_len == 4;
	bool absolute = r->type == R_X86_64_32S || r->type == R_X86_64_32 || r->type == R_X86_64_64;

	if (in_relative && is_got_type(r->type)) {
		c->mem[i] = resolve(c->s, c->m, r->symbol, 0);
		c->mem[i].got = true;
	} else if (in_relative && (r->type == R_X86_64_PC32 || r->type == R_X86_64_PLT32)) {
		c->mem[i] = resolve(c->s, c->m, r->symbol, (uint64_t)r->addend + in->len - in->disp_at);
	} else if (in_disp && !relative && absolute) {
		c->mem[i] = resolve(c->s, c->m, r->symbol, (uint64_t)r->addend);
	} else if (in->imm_len >= 4 && at == in->imm_at && absolute) {
		c->imm[i] = resolve(c->s, c->m, r->symbol, (uint64_t)r->addend);
	} else {
		return false;
	}
	return true;
}

/* Resolves an operand of instruction i by its relocation. Returns false if the kind of reference is unknown. */
static bool operand_resolve(const struct operand_scan *c, const struct elf_reloc *r, size_t i)
{
	const struct insn *in = &c->code->insns[i];
	bool by_place = c->s->file->symbols[r->symbol].type == STT_SECTION;

	if (!field_resolve(c, r, i))
		return false;
	if (by_place && c->mem[i].object >= 0)
		c->mem[i].beside = scan_ref_beside(c->s, &c->mem[i], in, false);
	if (by_place && c->imm[i].object >= 0)
		c->imm[i].beside = scan_ref_beside(c->s, &c->imm[i], in, true);
	return true;
}

/* Applies one relocation to the instruction that contains it. */
static void reloc_take(const struct operand_scan *c, const struct elf_reloc *r)
{
	const struct func *fn = c->fn;
	size_t i = func_insn_over(c->code, r->offset);
	int32_t o = c->m->object[r->symbol];
	struct insn *in;
	unsigned at;

	if (i == SIZE_MAX) {
		if (!c->m->etched[r->symbol])
			return;
		scan_finding_add(c->s, "ETCH-D002", fn->section, r->offset,
		                 "refers to an etched object in bytes that do not decode");
		suspect(c->s, c->m, r->symbol, fn->section, r->offset, 0);
		return;
	}
	in = &c->code->insns[i];
	at = (unsigned)(r->offset - in->addr);
	if ((in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH || in->flow == FLOW_CALL) && in->imm_len &&
	    at == in->imm_at) {
		in->target = UINT64_MAX; /* the target is known only by the relocation */
		in->callee = -1;
		callee_set(c->s, fn, in, r);
	}
	in->unlinked |= (in->imm_len && at == in->imm_at) || (in->disp_len && at == in->disp_at && in->base < INSN_PC_REG);
	if (c->m->near[r->symbol])
		operand_resolve(c, r, i);
	if (!c->m->etched[r->symbol])
		return;
	/* An unknown kind of relocation gets a finding, and its object stays unarmed. */
	if (!operand_resolve(c, r, i)) {
		scan_finding_add(c->s, "ETCH-I001", fn->section, in->addr,
		                 "unexpected relocation type %u against etched %s at byte %u of the instruction", r->type,
		                 o < 0 ? "section" : c->s->objects.list[o].name, at);
		suspect(c->s, c->m, r->symbol, fn->section, in->addr, in->len);
	} else if (c->mem[i].object < 0 && c->imm[i].object < 0) {
		/* The address is outside every object, as that of arr[i - 1] with an array at the start of the section. */
		if (in->index == INSN_NO_REG && in->base >= INSN_PC_REG)
			scan_finding_add(c->s, "ETCH-I003", fn->section, in->addr,
			                 "refers to an etched section where the symbol table has no object");
		suspect(c->s, c->m, r->symbol, fn->section, in->addr, in->len);
	}
}

static bool any_etched(const struct symbols *m, const struct elf_reloc *r, const struct elf_reloc *end, uint64_t stop)
{
	for (; r < end && r->offset < stop; r++)
		if (m->etched[r->symbol] || m->near[r->symbol])
			return true;
	return false;
}

/* Scans the functions of one section that have relocations against etched symbols. */
static int scan_code(struct scan *s, const struct symbols *m, uint32_t section, const struct elf_reloc *relocs,
                     size_t count)
{
	const struct elf_reloc *r = relocs, *end = relocs + count, *at;
	struct func_code code = {0}, spare = {0}; /* `code` is a copy, to which targets and callees are added */
	struct operand_scan c;
	struct ref *refs = NULL;
	size_t k, j;
	int err = 0;

	for (k = 0; k < s->funcs.count && !err; k++) {
		const struct func *fn = &s->funcs.funcs[k];

		if (fn->section != section)
			continue;
		while (r < end && r->offset < fn->start)
			r++;
		if (!any_etched(m, r, end, fn->end))
			continue;
		func_code_copy(func_code_of(&s->funcs, k, &spare), &code);
		s->functions++;
		s->undecoded += !code.whole;
		free(refs);
		refs = mem_alloc(2 * code.count + 1, sizeof(*refs));
		for (j = 0; j < 2 * code.count; j++)
			refs[j] = (struct ref){.object = -1};
		for (j = 0; j < code.count; j++) {
			scan_callee(s, fn, section, &code.insns[j]);
		}
		c = (struct operand_scan){s, m, fn, &code, refs, refs + code.count};
		for (at = r; at < end && at->offset < fn->end; at++)
			reloc_take(&c, at);
		err = scan_function(s, fn, &code, refs, refs + code.count);
	}
	free(refs);
	func_code_free(&code);
	func_code_free(&spare);
	return err;
}

/*
 * Handles the relocations of a data section: a word that holds the address of an etched object lets the object escape.
 */
static void scan_data(struct scan *s, const struct symbols *m, uint32_t section, const struct elf_reloc *r,
                      size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct site site = {.section = section, .addr = r[i].offset, .kind = SITE_ESCAPE, .in_data = true};
		struct ref x;

		if (!m->etched[r[i].symbol])
			continue;
		x = resolve(s, m, r[i].symbol, (uint64_t)r[i].addend);
		if (x.object < 0)
			x = resolve(s, m, r[i].symbol, 0);
		if (x.object < 0)
			continue;
		site.object = x.object;
		site.off = x.off;
		site.beside = !x.off && s->file->symbols[r[i].symbol].type == STT_SECTION ? BESIDE_END : 0;
		scan_site_add(s, &site);
	}
}

/*
 * Is this a table in which references to objects do not count? Such tables are those of an earlier run, of
 * pv_call_inline, of static branches, and unwind tables. They refer only to code, unless they are damaged, and are made
 * again.
 */
static bool is_table(const char *name)
{
	return !strcmp(name, ETCH_SEC_IMV) || !strcmp(name, ETCH_SEC_PV) || !strcmp(name, ETCH_SEC_OBJ) ||
	       !strcmp(name, ETCH_SEC_BRANCH) || !strcmp(name, ETCH_SEC_INLINE) || !strcmp(name, ETCH_SEC_ORC_IP) ||
	       !strcmp(name, ETCH_SEC_ORC) || !strcmp(name, ".sframe");
}

int scan_object_file(struct scan *s, const struct elf_file *f, const struct name_set *others)
{
	struct name_set declared = {0};
	struct symbols m = {0};
	uint32_t i;
	int err;

	memset(s, 0, sizeof(*s));
	s->file = f;
	declared_names(f, &declared);
	err = objects_find(s, f, others, &declared);
	name_set_free(&declared);
	if (err)
		return -1;
	if (!s->objects.count)
		return 0;
	symbols_map(s, f, &m);
	func_list_build(f, &s->funcs);
	func_clobbers_init(&s->clobbers, f, &s->funcs);
	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *rel = &f->sections[i], *target;
		struct elf_reloc *r;
		long n;

		if (rel->sh.sh_type != SHT_RELA || rel->sh.sh_link != f->symtab)
			continue;
		target = &f->sections[rel->sh.sh_info];
		if (!(target->sh.sh_flags & SHF_ALLOC) || is_table(target->name))
			continue;
		n = elf_relocs(f, i, &r, &s->error);
		if (n < 0) {
			err = -1;
			goto out;
		}
		if (target->sh.sh_flags & SHF_EXECINSTR)
			err = scan_code(s, &m, rel->sh.sh_info, r, (size_t)n);
		else if (strncmp(target->name, ".eh_frame", 9))
			scan_data(s, &m, rel->sh.sh_info, r, (size_t)n);
		free(r);
		if (err)
			goto out;
	}
	scan_neighbours(s);
	scan_sites_sort(s);
out:
	func_codes_drop(&s->funcs);
	free(m.object);
	free(m.etched);
	free(m.near);
	return err;
}
