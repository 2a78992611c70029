/* SPDX-License-Identifier: MIT */
/* Writes and removes the immediates and direct calls in the code of a linked file. */
#include "site/bake.h"
#include "support/memory.h"
#include "shared/search.h"
#include "support/sort.h"

#include <etch/forms.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Reads `size` bytes of the memory image as it is before the program starts: file contents, followed by zeros. Returns
 * false if no segment has the address.
 */
static bool initial_bytes(const struct elf_file *f, uint64_t addr, unsigned size, uint8_t *out)
{
	uint32_t i;
	unsigned k;

	memset(out, 0, size);
	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type != PT_LOAD || addr < p->p_vaddr || addr - p->p_vaddr >= p->p_memsz)
			continue;
		for (k = 0; k < size; k++)
			if (addr + k - p->p_vaddr < p->p_filesz)
				out[k] = f->bytes[p->p_offset + (addr + k - p->p_vaddr)];
		return true;
	}
	return false;
}

/* Makes the baked and the plain form of a load, with the value from the file. Returns false if the entry describes no
 * such forms. */
static bool load_forms(const struct elf_file *f, const struct imv_row *row, uint8_t imm[16], uint8_t load[16])
{
	unsigned len = etch_imv_len(&row->entry);
	uint8_t value[8];

	return initial_bytes(f, row->obj, etch_form_size(row->entry.form), value) &&
	       etch_site_imm(&row->entry, &row->more, 0, value, imm) == len &&
	       etch_site_load(&row->entry, &row->more, row->site, row->obj, load) == len;
}

bool site_value_fits(const struct scan *s, const struct site *site)
{
	const struct object *o = &s->objects.list[site->object];
	uint8_t value[8], image[16];
	uint64_t at = o->addr + (uint64_t)site->off;

	return site->reason || !o->section || (site->entry.flags & ETCH_IMV_GOT) || scan_is_relocated(s, at, site->size) ||
	       !initial_bytes(s->file, at, etch_form_size(site->entry.form), value) ||
	       etch_site_imm(&site->entry, &site->more, 0, value, image);
}

static bool call_forms(const struct targets *t, const struct imv_row *row, uint8_t image[16], uint8_t call[16])
{
	struct call_image now;

	call_image(t, &row->entry, row->site, row->obj, &now);
	memcpy(image, now.bytes, 16);
	return now.len == etch_imv_len(&row->entry) && now.len &&
	       etch_pv_load(&row->entry, row->site, row->obj, call) == now.len;
}

/* Where mismatches are reported. If `fn` is null, the first mismatch is an error. */
struct mismatch_sink {
	site_mismatch_fn *fn;
	void *ctx;
	struct error *e;
};

static int mismatch_report(const struct mismatch_sink *to, const struct elf_file *f,
                           const struct site_mismatch *mismatch)
{
	char where[200];

	if (to->fn) {
		to->fn(to->ctx, mismatch);
		return 0;
	}
	elf_describe(f, elf_section_at(f, mismatch->row->site), mismatch->row->site, where, sizeof(where));
	return error_set(to->e, "code and tables disagree at %s (%#" PRIx64 "): changed after etch rewrite?", where,
	                 mismatch->row->site);
}

/* Has the linker discarded the code of this entry? */
static bool is_dropped(const struct elf_file *f, const struct imv_row *row)
{
	uint32_t s = elf_section_at(f, row->site);

	return !s || !(f->sections[s].sh.sh_flags & SHF_EXECINSTR);
}

/*
 * Restores the sites of a table: of loads if `t` is null, otherwise of calls. With `check`, also compares the bytes of
 * sites that are not baked. Removes rows that do not match from the table.
 */
static int rows_unbake(struct elf_file *f, struct imv_row *rows, size_t *count, const struct targets *t, bool check,
                       const struct mismatch_sink *to)
{
	size_t i, n = 0;

	for (i = 0; i < *count; i++) {
		struct imv_row *row = &rows[i];
		unsigned len = etch_imv_len(&row->entry);
		bool was = row->entry.flags & ETCH_IMV_BAKED, known;
		uint8_t *p = (uint8_t *)elf_at(f, row->site, len), baked[16], plain[16];

		if (!was && (!check || is_dropped(f, row))) {
			rows[n++] = *row;
			continue;
		}
		known = t ? call_forms(t, row, baked, plain) : load_forms(f, row, baked, plain);
		if (!was)
			known = (t ? etch_pv_load(&row->entry, row->site, row->obj, plain)
			           : etch_site_load(&row->entry, &row->more, row->site, row->obj, plain)) == len;
		if (!p || !known || memcmp(p, was ? baked : plain, len)) {
			struct site_mismatch mismatch = {row, p, known && was ? baked : NULL, known ? plain : NULL, len, t != NULL};

			if (mismatch_report(to, f, &mismatch))
				return -1;
			continue;
		}
		memcpy(p, plain, len);
		row->entry.flags &= (uint8_t)~ETCH_IMV_BAKED;
		rows[n++] = *row;
	}
	*count = n;
	return 0;
}

static int tables_unbake(struct elf_file *f, struct linked_tables *t, bool check, const struct mismatch_sink *to)
{
	struct targets targets;
	int err;

	if (rows_unbake(f, t->imv, &t->imv_count, NULL, check, to))
		return -1;
	if (!t->pv_count)
		return 0;
	err = targets_open(&targets, f, t, to->e) || rows_unbake(f, t->pv, &t->pv_count, &targets, check, to) ? -1 : 0;
	targets_close(&targets);
	return err;
}

int sites_unbake(struct elf_file *f, struct linked_tables *t, struct error *e)
{
	const struct mismatch_sink to = {NULL, NULL, e};

	return tables_unbake(f, t, false, &to);
}

int sites_unbake_each(struct elf_file *f, struct linked_tables *t, site_mismatch_fn *mismatch, void *ctx,
                      struct error *e)
{
	const struct mismatch_sink to = {mismatch, ctx, e};

	return tables_unbake(f, t, t->flags & ETCH_MODULE_LINKED, &to);
}

size_t sites_unlisted(struct scan *s, const struct linked_tables *now)
{
	size_t count = now->imv_count + now->pv_count, i, k, n = 0;
	uint64_t *listed = mem_zero(count + 1, sizeof(*listed));

	for (i = 0; i < count; i++)
		listed[i] = i < now->imv_count ? now->imv[i].site : now->pv[i - now->imv_count].site;
	qsort(listed, count, sizeof(*listed), word_order);
	for (i = 0; i < s->site_count; i++) {
		struct site *site = &s->sites[i];

		if (!site_kind_is_patched(site->kind) || site->reason || word_has(listed, count, site->addr))
			continue;
		site->reason = "no space left in the tables of this file";
		n++;
	}
	free(listed);
	for (i = 0; i < s->objects.defined; i++) {
		struct object *o = &s->objects.list[i];

		for (k = 0; k < now->obj_count; k++)
			if (now->obj[k].kind == ETCH_OBJ_OBJECT && now->obj[k].addr == o->addr)
				break;
		o->unrecorded = k == now->obj_count;
	}
	return n;
}

/*
 * Is the address in a segment that is readable and executable, but not writable? Only pages of such a segment can be
 * replaced by libetch.
 */
static bool is_swappable(const struct elf_file *f, uint64_t addr)
{
	uint32_t i;

	for (i = 0; i < f->phdr_count; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_memsz)
			return (p->p_flags & (PF_R | PF_W | PF_X)) == (PF_R | PF_X);
	}
	return false;
}

enum site_patch site_patch(const struct scan *s, const struct site *site, const char **why)
{
	bool object = elf_is_object(s->file);
	const Elf64_Shdr *sh = &s->file->sections[site->section].sh;

	*why = site->reason;
	if (*why)
		return SITE_NOT_PATCHED;
	if (object && sh->sh_addralign < 8)
		return SITE_BY_LINKER;
	if (etch_site_is_live(site->addr, site->len))
		return SITE_BY_STORE;
	if (object ? !(sh->sh_flags & SHF_WRITE) : is_swappable(s->file, site->addr))
		return SITE_BY_SWAP;
	*why = "crosses an 8-byte word of writable text";
	return SITE_NOT_PATCHED;
}

bool site_is_live(const struct scan *s, const struct site *site, const char **why)
{
	return site_patch(s, site, why) != SITE_NOT_PATCHED;
}

/* Makes the immediate form of a load with the initial value. Returns 0 if the value is not known, so that the load
 * stays. */
static unsigned imm_image(const struct scan *s, const struct site *site, const struct elf_file *f, uint8_t imm[16])
{
	uint64_t from = s->objects.list[site->object].addr + (uint64_t)site->off;
	uint8_t value[8];

	return !scan_is_relocated(s, from, site->size) && initial_bytes(f, from, site->size, value)
	           ? etch_site_imm(&site->entry, &site->more, 0, value, imm)
	           : 0;
}

/* Is the image exactly one instruction of the site's length, and of a kind that may be baked at this site? */
static bool image_is_good(const struct site *site, const uint8_t *image, unsigned len, const struct call_image *call)
{
	struct insn in;

	if (!insn_decode(image, len, site->addr, &in) || in.len != len || !insn_same_length(image, len, site->addr))
		return false;
	if (!call)
		return in.mem == MEM_NONE && (!etch_form_is_flags(site->entry.form) || !in.writes);
	if (call->state == CALL_DIRECT)
		return in.target == call->target;
	return in.flow == (site->entry.form == ETCH_FORM_JMP ? FLOW_RETURN : FLOW_NEXT);
}

static void bake_count(struct bake_counts *c, const struct call_image *call)
{
	c->immediates += !call;
	c->direct += call && call->state == CALL_DIRECT;
	c->nops += call && call->state == CALL_NOP;
	c->bodies += call && (call->state == CALL_MOVE || call->state == CALL_BODY);
}

/*
 * Bakes one site: a load if `t` is null, otherwise a call. Returns 0, even if the site stays as it is, or -1 and a
 * message.
 */
static int site_bake(struct scan *s, struct site *site, struct elf_file *f, const struct targets *t,
                     struct bake_counts *counts, struct error *e)
{
	const struct object *o = &s->objects.list[site->object];
	struct call_image call;
	uint8_t image[16], *p;
	char text[200];
	unsigned len;

	if (t) {
		call_image(t, &site->entry, site->addr, o->addr + (uint64_t)site->off, &call);
		len = call.len;
		memcpy(image, call.bytes, sizeof(image));
	} else {
		len = imm_image(s, site, f, image);
	}
	if (len != site->len)
		return 0; /* the site stays until libetch sets a value that fits */
	p = (uint8_t *)elf_at(f, site->addr, len);
	if (!p)
		return error_set(e, "code at %#" PRIx64 " is not in the file", site->addr);
	if (!image_is_good(site, image, len, t ? &call : NULL)) {
		insn_text(image, len, site->addr, text, sizeof(text));
		return error_set(e, "internal error: the decoders disagree on the replacement (%s) at %#" PRIx64, text,
		                 site->addr);
	}
	memcpy(p, image, len);
	site->entry.flags |= ETCH_IMV_BAKED;
	bake_count(counts, t ? &call : NULL);
	return 0;
}

int sites_bake(struct scan *s, enum site_kind kind, struct elf_file *f, const struct linked_tables *now,
               struct bake_counts *counts, struct error *e)
{
	struct targets targets = {0};
	bool calls = kind == SITE_CALL;
	int err = calls && targets_open(&targets, f, now, e) ? -1 : 0;
	uint32_t checked_section = 0;
	const char *why;
	size_t i;

	for (i = 0; i < s->site_count && !err; i++) {
		struct site *site = &s->sites[i];

		if (site->kind != kind || !site_is_live(s, site, &why) || (site->entry.flags & ETCH_IMV_GOT) ||
		    !object_armed_at(&s->objects.list[site->object], (uint64_t)site->off, (uint64_t)site->off + site->size))
			continue;
		/*
		 * Sites were found in the contents of sections, but baking writes to the contents of segments, so both must be
		 * the same bytes.
		 */
		if (site->section != checked_section)
			err = elf_section_alone(f, site->section, e);
		checked_section = site->section;
		if (!err)
			err = site_bake(s, site, f, calls ? &targets : NULL, counts, e);
	}
	targets_close(&targets);
	return err;
}
