/* SPDX-License-Identifier: MIT */
/* Finds etched objects and their uses in a linked file, by the addresses to which instructions, dynamic relocations and
 * data words refer, and by the tables that the object step has written. */
#include "support/memory.h"
#include "support/progress.h"
#include "shared/search.h"
#include "site/linked.h"
#include "site/inferred_objects.h"
#include "site/site.h"
#include "table/linked_tables.h"

#include <etch/forms.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ------------------------------------------------------------- */

/* Adds the objects that the tables of the object step describe. */
static void recorded_objects_add(struct scan *s, const struct elf_file *f, const struct linked_tables *now)
{
	size_t k, next;

	for (k = 0; k < now->obj_count; k++) {
		const struct obj_row *row = &now->obj[k];
		struct object o = {.addr = row->addr, .size = row->size};

		if (row->kind != ETCH_OBJ_OBJECT || !row->size || (row->flags & (ETCH_OBJ_PART | ETCH_OBJ_VALUE)) ||
		    (row->more & ETCH_OBJ_FIELD))
			continue; /* parts are inferred again, and cells of values are found again */
		for (next = k + 1;
		     next < now->obj_count && (now->obj[next].more & ETCH_OBJ_FIELD) && now->obj[next].kind == ETCH_OBJ_OBJECT;
		     next++)
			o.size += now->obj[next].size;
		o.vague = row->more & ETCH_OBJ_VAGUE;
		o.section = elf_section_at(f, row->addr);
		if (!o.section || !section_is_etched(&f->sections[o.section], &o.shared) ||
		    o.size > f->sections[o.section].sh.sh_addr + f->sections[o.section].sh.sh_size - row->addr)
			continue; /* the linker has discarded its section */
		o.name = mem_string(row->name);
		scan_object_add(s, &o);
	}
}

/* Adds the objects that have symbols. */
static int named_objects_add(struct scan *s, const struct elf_file *f)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *y = &list[i];
		struct object o = {.section = y->section, .addr = y->value, .size = y->size, .symbol = i};
		const Elf64_Shdr *sh = &f->sections[y->section].sh;

		if (!y->section || y->type != STT_OBJECT || !y->size || !y->name[0] ||
		    !section_is_etched(&f->sections[y->section], &o.shared))
			continue;
		if (y->value < sh->sh_addr || y->value - sh->sh_addr > sh->sh_size ||
		    y->size > sh->sh_size - (y->value - sh->sh_addr))
			return error_set(&s->error, "symbol %s reaches past the end of section %s", y->name,
			                 f->sections[y->section].name);
		o.name = mem_string(y->name);
		scan_object_add(s, &o);
	}
	return 0;
}

/* Collects the etched objects from the tables and the symbol table. */
static int objects_read(struct scan *s, const struct elf_file *f, const struct linked_tables *now)
{
	recorded_objects_add(s, f, now);
	if (named_objects_add(s, f))
		return -1;
	scan_values_add(s);
	scan_objects_sort(s);
	return inferred_objects_add(s);
}

int32_t object_at(const struct scan *s, uint64_t addr, bool end_too)
{
	const struct elf_file *f = s->file;
	size_t k;
	uint32_t last = 0;
	int32_t o;

	/* Handles each section that has objects once; `list` is sorted by section. */
	for (k = 0; k < s->objects.defined; k++) {
		uint32_t sec = s->objects.list[k].section;
		const Elf64_Shdr *sh = &f->sections[sec].sh;

		if (sec == last)
			continue;
		last = sec;
		if (addr < sh->sh_addr || addr - sh->sh_addr >= sh->sh_size)
			continue;
		o = scan_object_find(s, sec, addr, end_too);
		if (o >= 0)
			return o;
	}
	return -1;
}

/* Returns the bounds of all etched sections; with `cells`, includes the cells of etch::value in other sections. */
static struct range etched_range(const struct scan *s, bool cells)
{
	struct range r = {UINT64_MAX, 0};
	size_t k;

	for (k = 0; k < s->objects.defined; k++) {
		const struct object *o = &s->objects.list[k];
		const Elf64_Shdr *sh = &s->file->sections[o->section].sh;

		if (o->value) {
			r.lo = cells && o->addr < r.lo ? o->addr : r.lo;
			r.hi = cells && o->addr + o->size > r.hi ? o->addr + o->size : r.hi;
			continue;
		}
		/* The whole section counts, since it may also have objects whose symbols are stripped. */
		if (sh->sh_addr < r.lo)
			r.lo = sh->sh_addr;
		if (sh->sh_addr + sh->sh_size > r.hi)
			r.hi = sh->sh_addr + sh->sh_size;
	}
	return r;
}

/* ---- objects of other modules, from the GOT slots in the tables ------------ */

static const char *slot_symbol(const struct elf_file *f, uint64_t addr)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const struct elf_section *rel = &f->sections[i];
		uint64_t k;

		if (rel->sh.sh_type != SHT_RELA || !rel->data || rel->sh.sh_link != f->dynsym || !f->dynsym)
			continue;
		for (k = 0; k + sizeof(Elf64_Rela) <= rel->sh.sh_size; k += sizeof(Elf64_Rela)) {
			Elf64_Rela r;

			memcpy(&r, rel->data + k, sizeof(r));
			if (r.r_offset == addr && ELF64_R_SYM(r.r_info) < f->dynsym_count)
				return f->dynsyms[ELF64_R_SYM(r.r_info)].name;
		}
	}
	return "?";
}

/* Adds an object without a section for each declared object that another module defines. */
static void external_slots_take(struct scan *s, const struct linked_tables *now)
{
	size_t k;
	uint64_t slot;

	for (k = 0; k < now->imv_count + now->pv_count + now->obj_count; k++) {
		struct object o = {0};

		if (k < now->imv_count + now->pv_count) {
			const struct imv_row *row = k < now->imv_count ? &now->imv[k] : &now->pv[k - now->imv_count];

			if (!(row->entry.flags & ETCH_IMV_GOT))
				continue;
			slot = row->obj;
		} else {
			const struct obj_row *row = &now->obj[k - now->imv_count - now->pv_count];

			if (row->kind == ETCH_OBJ_OBJECT || !(row->flags & ETCH_OBJ_GOT))
				continue;
			slot = row->addr;
		}
		if (!slot_is_got(s->file, slot) || slot_at(s, slot))
			continue;
		o.name = mem_string(slot_symbol(s->file, slot));
		scan_object_add(s, &o);
		slot_add(s, slot, (int32_t)s->objects.count - 1, 0);
		slots_sort(s);
	}
}

/* The greatest number of bytes of register_tm_clones or deregister_tm_clones in the start files. */
#define TM_CLONES_MOST 0x50u

/* ---- code ---------------------------------------------------------------- */

/* The context for scanning the code. */
struct code_scan {
	struct scan *s;
	struct range range;  /* bounds of all objects */
	struct range etched; /* bounds of the etched sections */
	bool absolute;       /* ET_EXEC: constants in instructions may be addresses */
	uint64_t image;      /* lowest address of a PT_LOAD segment */
	uint64_t got;        /* value of _GLOBAL_OFFSET_TABLE_; 0: none */
	bool unresolved;     /* the function refers to an address of an etched section that has no object */
	struct ref *refs;
	size_t capacity;
	struct func_code own; /* a copy of the function's instructions, to which the callees are added */
};

static struct ref ref_to(struct scan *s, uint64_t addr, const struct insn *in, bool immediate)
{
	struct ref r = {.object = object_at(s, addr, true)};

	if (r.object >= 0)
		r.off = (int64_t)(addr - s->objects.list[r.object].addr);
	r.beside = scan_ref_beside(s, &r, in, immediate);
	return r;
}

/* Is the address in an etched section? The function is called only for addresses at which no object is known. */
static bool is_unnamed_etched(const struct code_scan *c, uint64_t at)
{
	const struct range *r = &c->etched;
	uint32_t section;
	bool shared;

	if (r->lo >= r->hi || at + INDEX_REACH < r->lo || at > r->hi)
		return false;
	section = elf_section_at(c->s->file, at);
	return section && section_is_etched(&c->s->file->sections[section], &shared);
}

/*
 * The address of an operand is in no etched object. May the operand still refer to one? A read does not matter, since
 * it is neither a store nor an escape. Without an index the operand refers to no other address, except when its address
 * is in no variable at all; then an index may be added later.
 */
static bool may_be_etched(const struct code_scan *c, const struct insn *in, uint64_t at)
{
	const struct range *r = &c->etched;
	uint32_t section;

	if (is_unnamed_etched(c, at))
		return true;
	if (in->base == INSN_PC_REG || (in->base == INSN_NO_REG && in->index == INSN_NO_REG))
		return in->mem == MEM_ADDRESS && place_is_beside(c->s, r, at);
	if (r->lo >= r->hi || at + INDEX_REACH < r->lo || at > r->hi + INDEX_REACH || in->mem == MEM_READ)
		return false;
	if (at < c->image)
		return false; /* the constant is an offset in a struct, not an address */
	section = elf_section_at(c->s->file, at);
	if (in->mem == MEM_ADDRESS && section && !(c->s->file->sections[section].sh.sh_flags & SHF_WRITE))
		return false; /* the address is that of a table of constants */
	/* In a stripped file, an address in another writable section is assumed to be that of a variable there. */
	if (!c->s->file->symbol_count && section && (c->s->file->sections[section].sh.sh_flags & SHF_WRITE))
		return false;
	return !place_is_other(c->s, r, in, at);
}

/*
 * Handles bytes that do not decode (data in code, or instructions that the decoders do not know): each value that could
 * be a displacement is assumed to let the object at its target escape.
 */
static void undecoded_take(struct code_scan *c, const struct func *fn)
{
	static const unsigned after[] = {0, 1, 2, 4}; /* possible sizes of an immediate after the displacement */
	uint64_t size = fn->end - fn->start, at, to;
	int32_t disp, o;
	unsigned k;

	for (at = 0; at + 4 <= size; at++) {
		memcpy(&disp, fn->bytes + at, 4);
		for (k = 0; k < 5; k++) {
			struct site site = {
				.section = fn->section, .addr = fn->start + at, .kind = SITE_ESCAPE, .beside = BESIDE_END | BESIDE_ANY};

			if (k == 4 && !c->absolute)
				break;
			to = k < 4 ? fn->start + at + 4 + after[k] + (uint64_t)(int64_t)disp : (uint32_t)disp;
			o = in_range(&c->range, to) ? object_at(c->s, to, false) : -1;
			site.object = o;
			/* In a stripped file the address may belong to the object that the next part begins. */
			c->unresolved |= o < 0 && c->s->stripped && is_unnamed_etched(c, to);
			if (o >= 0)
				scan_site_add(c->s, &site);
		}
	}
}

/*
 * Is this address the end of the data before an etched section, used by register_tm_clones or deregister_tm_clones of
 * the start files? These functions compare __TMC_END__ with itself. Without padding in between, the address is also
 * that of the section's first object.
 */
static bool is_end_of_data(const struct elf_file *f, const struct insn *in, uint64_t at)
{
	static const char *const names[] = {"deregister_tm_clones", "register_tm_clones"};
	uint32_t section = elf_section_at(f, at), i;

	if (!section || f->sections[section].sh.sh_addr != at)
		return false;
	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		if (y->bind == STB_LOCAL && y->type == STT_FUNC && in->addr - y->value < TM_CLONES_MOST &&
		    (!strcmp(y->name, names[0]) || !strcmp(y->name, names[1])))
			return true;
	}
	return false;
}

/*
 * Resolves the memory operand of an instruction. Returns false if the instruction is to be skipped, because its address
 * is the end of other data (is_end_of_data()).
 */
static bool mem_resolve(struct code_scan *c, const struct insn *in, struct ref *mem)
{
	uint64_t at = insn_place(in, c->absolute);
	const struct slot *slot;

	if (!at)
		return true;
	if (in_range(&c->range, at)) {
		if (is_end_of_data(c->s->file, in, at))
			return false;
		*mem = ref_to(c->s, at, in, false);
	}
	if (mem->object < 0 && !in->no_escape && may_be_etched(c, in, at))
		c->unresolved = true;
	else if (in->base == INSN_PC_REG && (slot = slot_at(c->s, at)))
		*mem = (struct ref){.object = slot->object, .got = true, .off = slot->off};
	return true;
}

/*
 * Resolves the immediate of an instruction. Returns false if the instruction is to be skipped, because the immediate is
 * the end of other data (is_end_of_data()).
 */
static bool imm_resolve(struct code_scan *c, const struct insn *in, struct ref *imm)
{
	uint64_t at = (uint64_t)in->imm;

	/* In the large code model, an address is a 64-bit immediate relative to the GOT. */
	if (in->imm_len == 8 && c->got && (is_unnamed_etched(c, at + c->got) || slot_at(c->s, at + c->got)))
		c->unresolved = true;
	if (!c->absolute || in->imm_len < 4)
		return true;
	if (in_range(&c->range, at) && is_end_of_data(c->s->file, in, at))
		return false;
	if (in->flow == FLOW_NEXT && in_range(&c->range, at))
		*imm = ref_to(c->s, at, in, true);
	else if (in->move != MOVE_NONE && in->move != MOVE_ADD && place_is_beside(c->s, &c->etched, at))
		c->unresolved = true;
	return true;
}

/* Resolves the operands of a function to mem[] and imm[]. Returns false if it refers to no etched object. */
static bool refs_fill(struct code_scan *c, const struct func_code *code, struct ref *mem, struct ref *imm)
{
	bool any = false;
	size_t i;

	for (i = 0; i < code->count; i++) {
		const struct insn *in = &code->insns[i];

		mem[i] = imm[i] = (struct ref){.object = -1};
		if (mem_resolve(c, in, &mem[i]) && imm_resolve(c, in, &imm[i]))
			any |= mem[i].object >= 0 || imm[i].object >= 0;
	}
	return any;
}

/* Resolves the operands of one decoded function and adds its sites and facts. */
static int function_take(struct code_scan *c, const struct func *fn, const struct func_code *code)
{
	struct scan *s = c->s;
	size_t first, i;
	int err;

	s->functions++;
	s->undecoded += !code->whole;
	if (2 * code->count > c->capacity) {
		free(c->refs);
		c->capacity = 4 * code->count;
		c->refs = mem_alloc(c->capacity, sizeof(*c->refs));
	}
	c->unresolved = false;
	if (!code->whole)
		undecoded_take(c, fn);
	if (!code->count || (!refs_fill(c, code, c->refs, c->refs + code->count) && !c->unresolved))
		return 0;
	for (i = 0; i < s->objects.defined && c->unresolved; i++)
		if (!i || s->objects.list[i].section != s->objects.list[i - 1].section)
			scan_suspect_all(s, s->objects.list[i].section, fn->section, fn->start, 0);
	func_code_copy(code, &c->own);
	for (i = 0; i < code->count; i++) {
		struct insn *in = &c->own.insns[i];

		if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH)
			scan_callee(s, fn, elf_section_at(s->file, in->target), in);
	}
	first = s->site_count;
	err = scan_function(s, fn, &c->own, c->refs, c->refs + code->count);
	/*
	 * In a linked file only decoding shows where instructions begin, so in a function with undecoded bytes no site is
	 * safe.
	 */
	for (i = first; i < s->site_count && !code->whole; i++)
		if (site_kind_is_patched(s->sites[i].kind) && !s->sites[i].reason) {
			s->sites[i].reason = "its function does not decode to its end";
			memset(&s->sites[i].entry, 0, sizeof(s->sites[i].entry));
		}
	return err;
}

/* Scans all functions. */
static int code_take(struct scan *s, const struct range *range)
{
	struct code_scan c = {
		.s = s, .range = *range, .etched = etched_range(s, false), .absolute = s->file->eh.e_type == ET_EXEC};
	uint32_t got = elf_section_find(s->file, ".got.plt", 1);
	struct func_code spare = {0};
	size_t k, i;
	int err = 0;

	c.image = UINT64_MAX;
	for (i = 0; i < s->file->phdr_count; i++)
		if (s->file->phdrs[i].p_type == PT_LOAD && s->file->phdrs[i].p_vaddr < c.image)
			c.image = s->file->phdrs[i].p_vaddr;
	if (!got)
		got = elf_section_find(s->file, ".got", 1);
	c.got = got ? s->file->sections[got].sh.sh_addr : 0;
	for (k = 0; k < s->funcs.count && !err; k++) {
		progress_step(s->file->path, k, s->funcs.count);
		err = function_take(&c, &s->funcs.funcs[k], func_code_of(&s->funcs, k, &spare));
	}
	progress_end();
	free(c.refs);
	func_code_free(&c.own);
	func_code_free(&spare);
	return err;
}

/* ---- the file -------------------------------------------------------------- */

/* Sets the slot of each site whose address was read from the GOT. */
static void slots_name(struct scan *s)
{
	size_t i, k;

	for (i = 0; i < s->site_count; i++) {
		struct site *site = &s->sites[i];

		if (!(site->entry.flags & ETCH_IMV_GOT) || site->slot)
			continue;
		for (k = 0; k < s->slot_count && !site->slot; k++)
			if (s->slots[k].object == site->object && !s->slots[k].off)
				site->slot = s->slots[k].addr;
	}
}

/* Can libetch change the site, given the parts of libetch that are linked? */
static bool is_changeable(const struct site *site, uint32_t parts)
{
	if (parts & 1u << ETCH_PART_OBJECTS)
		return true;
	return site->kind == SITE_LOAD && etch_form_is_core(&site->entry) && etch_site_is_live(site->addr, site->len) &&
	       (!(site->entry.flags & ETCH_IMV_GOT) || parts & 1u << ETCH_PART_OTHERS);
}

/*
 * Gives each site that libetch could not change a reason, so that it stays as it is, and adds a finding for each
 * object.
 */
static void unchangeable_leave(struct scan *s, uint32_t parts)
{
	size_t *left = mem_zero(s->objects.count + 1, sizeof(*left)), i;

	for (i = 0; i < s->site_count; i++) {
		struct site *site = &s->sites[i];

		if (!site_kind_is_patched(site->kind) || site->reason || is_changeable(site, parts))
			continue;
		site->reason = REASON_NOT_LINKED;
		memset(&site->entry, 0, sizeof(site->entry));
		left[site->object]++;
	}
	for (i = 0; i < s->objects.count; i++)
		if (left[i])
			scan_finding_add(s, "ETCH-I008", 0, 0,
			                 "%zu site%s of %s %s left alone: the part of libetch that changes %s is not linked "
			                 "(-Wl,-u,etch_part_objects links it, as a call of etch_set or etch_sync does)",
			                 left[i], left[i] > 1 ? "s" : "", s->objects.list[i].name, left[i] > 1 ? "are" : "is",
			                 left[i] > 1 ? "them" : "it");
	free(left);
}

int scan_linked_file(struct scan *s, const struct elf_file *f, const struct linked_tables *now)
{
	struct range range;

	memset(s, 0, sizeof(*s));
	s->closed = now->flags & ETCH_MODULE_CLOSED;
	s->init = now->init;
	s->init_count = now->init_count;
	s->file = f;
	if (objects_read(s, f, now))
		return -1;
	range = etched_range(s, true);
	if (words_take(s, &range))
		return -1;
	external_slots_take(s, now);
	if (!s->objects.count)
		return 0;
	if (!s->stripped)
		func_list_build(f, &s->funcs);
	func_clobbers_init(&s->clobbers, f, &s->funcs);
	if (code_take(s, &range))
		return -1;
	kernel_data_find(s);
	tables_take(s, now);
	slots_name(s);
	scan_neighbours(s);
	scan_sites_sort(s);
	unchangeable_leave(s, now->parts);
	inferred_objects_suspect(s);
	scan_fields_find(s);
	func_codes_drop(&s->funcs);
	return 0;
}
