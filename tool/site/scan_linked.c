/* SPDX-License-Identifier: MIT */
/* Etched objects and their uses in a linked file: by the addresses that
 * instructions, dynamic relocations and data words refer to, and by the tables
 * that the object step left. */
#include "report/progress.h"
#include "elf/search.h"
#include "site/linked.h"
#include "site/parts.h"
#include "site/site.h"
#include "table/linked_tables.h"

#include <etch/pv_forms.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ------------------------------------------------------------- */

static int objects_read(struct scan *s, const struct elf_file *f, const struct linked_tables *now)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;
	size_t k;

	for (k = 0; k < now->obj_count; k++) {
		const struct obj_row *row = &now->obj[k];
		struct object o = {.addr = row->addr, .size = row->size};

		if (row->kind != ETCH_OBJ_OBJECT || !row->size || (row->flags & ETCH_OBJ_PART))
			continue; /* parts are found again */
		o.section = elf_section_at(f, row->addr);
		if (!o.section || !section_is_etched(&f->sections[o.section], &o.shared) ||
		    row->size > f->sections[o.section].sh.sh_addr + f->sections[o.section].sh.sh_size - row->addr)
			continue; /* its section was discarded */
		o.name = strdup(row->name);
		if (scan_object_add(s, &o))
			return -1;
	}
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
		o.name = strdup(y->name);
		if (scan_object_add(s, &o))
			return -1;
	}
	scan_objects_sort(s);
	return parts_add(s);
}

int32_t object_at(const struct scan *s, uint64_t addr, bool end_too)
{
	const struct elf_file *f = s->file;
	size_t k;
	uint32_t last = 0;
	int32_t o;

	/* The etched sections are few; the objects tell which. */
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

static struct range etched_range(const struct scan *s)
{
	struct range r = {UINT64_MAX, 0};
	size_t k;

	for (k = 0; k < s->objects.defined; k++) {
		const Elf64_Shdr *sh = &s->file->sections[s->objects.list[k].section].sh;

		/* All of their sections: what has lost its symbol lies there too. */
		if (sh->sh_addr < r.lo)
			r.lo = sh->sh_addr;
		if (sh->sh_addr + sh->sh_size > r.hi)
			r.hi = sh->sh_addr + sh->sh_size;
	}
	return r;
}

/* ---- objects of other modules, known by the slots of the tables ----------- */

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

/* Declared objects that lie elsewhere get an object without a section. */
static int foreign_slots_take(struct scan *s, const struct linked_tables *now)
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
		o.name = strdup(slot_symbol(s->file, slot));
		if (scan_object_add(s, &o) || slot_add(s, slot, (int32_t)s->objects.count - 1, 0))
			return -1;
		slots_sort(s);
	}
	return 0;
}

/* ---- code ---------------------------------------------------------------- */

struct code_scan {
	struct scan *s;
	struct range range;
	bool absolute; /* ET_EXEC: constants can be addresses */
	uint64_t image; /* where the file is loaded */
	uint64_t got;  /* what _GLOBAL_OFFSET_TABLE_ is; 0 = none */
	bool strange;  /* this function refers to an etched section, but to no object */
	struct ref *refs;
	size_t room;
};

static struct ref ref_to(const struct scan *s, uint64_t addr)
{
	struct ref r = {-1, false, 0};

	r.object = object_at(s, addr, true);
	if (r.object >= 0)
		r.off = (int64_t)(addr - s->objects.list[r.object].addr);
	return r;
}

/*
 * Compilers fold the constant part of an index into the address: arr[c - 'a'],
 * arr[i + 600]. How far from an etched object such an address is still suspected.
 */
#define INDEX_REACH 0x100000u

/* Does an address inside an etched section, where no object is, refer to it? */
static bool is_strange_place(const struct code_scan *c, uint64_t at)
{
	const struct range *r = &c->range;
	uint32_t section;
	bool shared;

	if (r->lo >= r->hi || at + INDEX_REACH < r->lo || at > r->hi)
		return false;
	section = elf_section_at(c->s->file, at);
	return section && section_is_etched(&c->s->file->sections[section], &shared);
}

/* Is the address that of some other writable variable, as far as symbols tell? */
static bool is_other_variable(const struct elf_file *f, uint64_t at)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;
	bool shared;

	for (i = 1; i < n; i++)
		if (list[i].type == STT_OBJECT && list[i].section && at >= list[i].value &&
		    at - list[i].value < list[i].size && (f->sections[list[i].section].sh.sh_flags & SHF_WRITE) &&
		    !section_is_etched(&f->sections[list[i].section], &shared))
			return true;
	return false;
}

/*
 * An operand whose address is in no etched object: does it refer to one all the
 * same? What reads is of no interest: it makes no fact. What follows an etched
 * section, or lies between two of them, is not in it.
 */
static bool is_strange(const struct code_scan *c, const struct insn *in, uint64_t at)
{
	const struct range *r = &c->range;
	uint32_t section;

	if (is_strange_place(c, at))
		return true;
	if (in->base == INSN_PC_REG || (in->base == INSN_NO_REG && in->index == INSN_NO_REG))
		return false; /* no index: it is where it is */
	if (r->lo >= r->hi || at + INDEX_REACH < r->lo || at > r->hi + INDEX_REACH || in->mem == MEM_READ)
		return false;
	if (at < c->image)
		return false; /* an offset in a structure, not an address */
	section = elf_section_at(c->s->file, at);
	if (in->mem == MEM_ADDRESS && section && !(c->s->file->sections[section].sh.sh_flags & SHF_WRITE))
		return false; /* a table of constants */
	/* Without symbols, what lies in another variable's section is taken for it. */
	if (!c->s->file->symbol_count && section && (c->s->file->sections[section].sh.sh_flags & SHF_WRITE))
		return false;
	return !is_other_variable(c->s->file, at);
}

/*
 * Bytes that do not decode (data in the code, or instructions that neither decoder
 * knows) may refer to an object all the same: whatever could be a displacement
 * makes the object it leads to suspect.
 */
static int undecoded_take(struct code_scan *c, const struct func *fn)
{
	static const unsigned behind[] = {0, 1, 2, 4}; /* bytes of an immediate that may follow */
	uint64_t size = fn->end - fn->start, at, to;
	int32_t disp, o;
	unsigned k;

	for (at = 0; at + 4 <= size; at++) {
		memcpy(&disp, fn->bytes + at, 4);
		for (k = 0; k < 5; k++) {
			struct site site = {.section = fn->section, .addr = fn->start + at, .kind = SITE_ESCAPE};

			if (k == 4 && !c->absolute)
				break;
			to = k < 4 ? fn->start + at + 4 + behind[k] + (uint64_t)(int64_t)disp : (uint32_t)disp;
			o = in_range(&c->range, to) ? object_at(c->s, to, false) : -1;
			site.object = o;
			/* Stripped: in front of the first part, perhaps, of the same object. */
			c->strange |= o < 0 && c->s->stripped && is_strange_place(c, to);
			if (o >= 0 && scan_site_add(c->s, &site))
				return -1;
		}
	}
	return 0;
}

/* Fills mem and imm of a function; false when nothing in it is of interest. */
static bool refs_fill(struct code_scan *c, const struct func_code *code, struct ref *mem, struct ref *imm)
{
	bool any = false;
	size_t i;

	for (i = 0; i < code->count; i++) {
		const struct insn *in = &code->insns[i];
		const struct slot *slot;
		uint64_t at;

		mem[i] = imm[i] = (struct ref){-1, false, 0};
		at = insn_place(in, c->absolute);
		if (at && in_range(&c->range, at))
			mem[i] = ref_to(c->s, at);
		if (at && mem[i].object < 0 && !in->lawful && is_strange(c, in, at))
			c->strange = true;
		else if (at && in->base == INSN_PC_REG && (slot = slot_at(c->s, at)))
			mem[i] = (struct ref){slot->object, true, slot->off};
		/* The large code model: a constant that is relative to the GOT. */
		if (in->imm_len == 8 && c->got &&
		    (is_strange_place(c, (uint64_t)in->imm + c->got) || slot_at(c->s, (uint64_t)in->imm + c->got)))
			c->strange = true;
		if (c->absolute && in->imm_len >= 4 && in->flow == FLOW_NEXT && in_range(&c->range, (uint64_t)in->imm))
			imm[i] = ref_to(c->s, (uint64_t)in->imm);
		any |= mem[i].object >= 0 || imm[i].object >= 0;
	}
	return any;
}

static int code_take(struct scan *s, const struct range *range)
{
	struct code_scan c = {.s = s, .range = *range, .absolute = s->file->eh.e_type == ET_EXEC};
	uint32_t got = elf_section_find(s->file, ".got.plt", 1);
	struct func_code code = {0};
	size_t k, first, i;
	int err = 0;

	c.image = UINT64_MAX;
	for (i = 0; i < s->file->phdr_count; i++)
		if (s->file->phdrs[i].p_type == PT_LOAD && s->file->phdrs[i].p_vaddr < c.image)
			c.image = s->file->phdrs[i].p_vaddr;
	if (!got)
		got = elf_section_find(s->file, ".got", 1);
	c.got = got ? s->file->sections[got].sh.sh_addr : 0;
	for (k = 0; k < s->funcs.count && !err; k++) {
		const struct func *fn = &s->funcs.funcs[k];

		progress_step(s->file->path, k, s->funcs.count);
		err = func_decode(fn, &code, &s->error);
		if (err)
			break;
		s->functions++;
		s->undecoded += !code.whole;
		if (2 * code.count > c.room) {
			free(c.refs);
			c.room = 4 * code.count;
			c.refs = malloc(c.room * sizeof(*c.refs));
			if (!c.refs) {
				err = error_set(&s->error, "out of memory");
				break;
			}
		}
		for (i = 0; i < code.count; i++) {
			struct insn *in = &code.insns[i];

			if (in->flow == FLOW_CALL || in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH)
				scan_callee(s, fn, elf_section_at(s->file, in->target), in);
		}
		c.strange = false;
		if (!code.whole && undecoded_take(&c, fn)) {
			err = -1;
			break;
		}
		if (!code.count)
			continue;
		if (!refs_fill(&c, &code, c.refs, c.refs + code.count) && !c.strange)
			continue;
		for (i = 0; i < s->objects.defined && c.strange; i++)
			if (!i || s->objects.list[i].section != s->objects.list[i - 1].section)
				err |= scan_suspect_all(s, s->objects.list[i].section, fn->section, fn->start, 0);
		if (err)
			break;
		first = s->site_count;
		err = scan_function(s, fn, &code, c.refs, c.refs + code.count);
		/* Without relocations the boundaries rest on the decoding alone. */
		for (i = first; i < s->site_count && !code.whole; i++)
			if (site_kind_is_patched(s->sites[i].kind) && !s->sites[i].reason) {
				s->sites[i].reason = "its function does not decode to its end";
				memset(&s->sites[i].entry, 0, sizeof(s->sites[i].entry));
			}
	}
	progress_end();
	free(c.refs);
	func_code_free(&code);
	return err;
}

/* ---- what the tables know ------------------------------------------------- */

static struct site *site_at(struct scan *s, size_t count, enum site_kind kind, uint64_t addr)
{
	size_t lo = SEARCH(count, i, s->sites[i].addr < addr);

	for (; lo < count && s->sites[lo].addr == addr; lo++)
		if (s->sites[lo].kind == kind)
			return &s->sites[lo];
	return NULL;
}

static int site_by_addr(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* An entry of the table that the scan of the code did not come to by itself: the
 * object step saw its relocation; here both decoders must agree on it again. */
static int row_take(struct scan *s, const struct imv_row *row, enum site_kind kind, size_t scanned)
{
	struct site site = {.addr = row->site, .kind = kind, .off_known = true, .entry = row->entry};
	bool call = kind == SITE_CALL;
	unsigned len = etch_imv_len(&row->entry);
	const uint8_t *p = elf_at(s->file, row->site, len);
	const struct slot *slot;
	uint8_t again[16];
	struct site *known;
	struct insn in;
	char why[200];

	site.section = elf_section_at(s->file, row->site);
	if (!p || !site.section || !(s->file->sections[site.section].sh.sh_flags & SHF_EXECINSTR))
		return 0; /* its code was discarded by the linker */
	site.entry.site = site.entry.obj = 0;
	site.entry.flags &= (uint8_t)~ETCH_IMV_BAKED;
	if (row->entry.flags & ETCH_IMV_GOT) {
		slot = slot_at(s, row->obj);
		if (!slot) {
			s->foreign++;
			return 0;
		}
		site.object = slot->object;
		site.off = slot->off + (call ? etch_pv_disp(&row->entry) : 0);
		site.slot = row->obj;
	} else {
		site.object = object_at(s, row->obj, false);
		if (site.object < 0) {
			s->foreign++;
			return 0;
		}
		site.off = (int64_t)(row->obj - s->objects.list[site.object].addr);
	}
	known = site_at(s, scanned, kind, row->site);
	if (known && !known->reason && known->object == site.object) {
		known->slot = site.slot;
		return 0;
	}
	if (!insn_decode(p, len, row->site, &in) || in.len != len ||
	    (call ? in.flow != (row->entry.form == ETCH_FORM_CALL ? FLOW_CALL_IND : FLOW_JUMP_IND)
	          : etch_form_size(row->entry.form) != in.mem_size) ||
	    (call ? etch_pv_load(&row->entry, row->site, row->obj, again)
	          : etch_form_load(&row->entry, row->site, row->obj, again)) != len || memcmp(again, p, len))
		return scan_finding_add(s, "ETCH-D003", site.section, row->site,
		                        "a table entry points at bytes that are not its %s", call ? "call" : "load");
	if (!insn_confirm(p, len, &in, why, sizeof(why)))
		return scan_finding_add(s, "ETCH-D001", site.section, row->site, "%s", why);
	site.len = in.len;
	site.size = call ? 8 : in.mem_size;
	if (known) {
		*known = site;
		return 0;
	}
	return scan_site_add(s, &site);
}

static int tables_take(struct scan *s, const struct linked_tables *now)
{
	size_t scanned = s->site_count, k;

	if (scanned)
		qsort(s->sites, scanned, sizeof(*s->sites), site_by_addr);
	for (k = 0; k < now->imv_count; k++)
		if (row_take(s, &now->imv[k], SITE_LOAD, scanned))
			return -1;
	for (k = 0; k < now->pv_count; k++)
		if (row_take(s, &now->pv[k], SITE_CALL, scanned))
			return -1;
	for (k = 0; k < now->obj_count; k++) {
		const struct obj_row *row = &now->obj[k];
		struct site site = {.addr = row->ref,
		                    .kind = row->kind == ETCH_OBJ_STORE ? SITE_STORE : SITE_ESCAPE};
		const struct slot *slot;

		if (row->kind == ETCH_OBJ_OBJECT) {
			/* What the link step once folded into a record. */
			int32_t o = object_at(s, row->addr, false);

			if (o >= 0)
				s->objects.list[o].facts |= row->flags & (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED);
			continue;
		}
		site.section = elf_section_at(s->file, row->ref);
		if (!site.section)
			continue; /* discarded */
		site.in_data = !(s->file->sections[site.section].sh.sh_flags & SHF_EXECINSTR);
		if (row->flags & ETCH_OBJ_GOT) {
			slot = slot_at(s, row->addr);
			site.object = slot ? slot->object : -1;
			site.slot = row->addr;
			site.entry.flags = ETCH_IMV_GOT;
		} else {
			site.object = object_at(s, row->addr, false);
		}
		if (site.object >= 0 && scan_site_add(s, &site))
			return -1;
	}
	return 0;
}

/* Which slot an address found through the GOT came from. */
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

int scan_linked_file(struct scan *s, const struct elf_file *f, const struct linked_tables *now)
{
	struct range range;

	memset(s, 0, sizeof(*s));
	s->file = f;
	if (objects_read(s, f, now))
		return -1;
	range = etched_range(s);
	if (words_take(s, &range))
		return -1;
	if (foreign_slots_take(s, now))
		return -1;
	if (!s->objects.count)
		return 0;
	if ((!s->stripped && func_list_build(f, &s->funcs, &s->error)) ||
	    func_clobbers_init(&s->clobbers, f, &s->funcs, &s->error) || code_take(s, &range) || tables_take(s, now))
		return -1;
	slots_name(s);
	scan_sites_sort(s);
	parts_suspect(s);
	return 0;
}
