/* SPDX-License-Identifier: MIT */
/* Loads a file for the views of etch inspect: opens it, reads its tables, and finds its sites. */
#include "inspect/inspect.h"

#include "arch/x86/insn.h"
#include "input/input.h"
#include "report/text.h"
#include "site/in_place.h"
#include "site/armed_objects.h"
#include "support/sort.h"
#include "support/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening a file, or a member of an archive: "libc.a(printf.o)" --------------------------- */

/* Returns the member with this name, or null. */
static const struct input *member_find(const struct inputs *l, const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < l->count; i++)
		if (l->list[i].member && strlen(l->list[i].member) == length && !memcmp(l->list[i].member, name, length))
			return &l->list[i];
	return NULL;
}

/* Opens a member of an archive. `member` is the name followed by a closing parenthesis. */
static int member_open(struct elf_file *f, const char *path, const char *archive, const char *member, struct error *e)
{
	struct inputs inputs = {0};
	struct stat status;
	const struct input *in;
	uint8_t *bytes;
	size_t size;
	int err = -1;

	if (stat(archive, &status))
		return error_set(e, "%s", strerror(errno));
	if (!S_ISREG(status.st_mode))
		return error_set(e, "is not an archive");
	inputs_add(&inputs, archive);
	if (inputs.count && !inputs.list[0].member && inputs.list[0].error) {
		error_set(e, "%s", inputs.list[0].error);
	} else if (!(in = member_find(&inputs, member, strlen(member) - 1))) {
		error_set(e, "has no such member");
	} else if (in->error) {
		error_set(e, "%s", in->error);
	} else if (!input_read(in, &bytes, &size, e)) {
		err = elf_open_bytes(f, path, bytes, size, e);
	}
	inputs_free(&inputs);
	return err;
}

int inspect_open(struct elf_file *f, const char *path, struct error *e)
{
	size_t length = strlen(path);
	const char *paren = strchr(path, '(');
	char *archive;
	int err;

	if (!length || path[length - 1] != ')' || !paren || paren == path || !access(path, F_OK))
		return elf_open(f, path, e);
	archive = mem_format("%.*s", (int)(paren - path), path);
	err = member_open(f, path, archive, paren + 1, e);
	free(archive);
	return err;
}

/* ---- its tables and sites ----------------------------------------------------------------- */

/* A word of an etched object to which a relocation applies. */
struct view_slot {
	uint32_t section;
	uint64_t addr;
	const struct elf_symbol *symbol;
	int64_t addend;
};

static void baked_add(struct view *v, const struct imv_row *rows, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (rows[i].entry.flags & ETCH_IMV_BAKED)
			v->baked[v->baked_count++] = rows[i].site;
}

/* Determines which sites of pv_call_inline are nops at present. */
static void in_place_read(struct view *v)
{
	const struct linked_tables *t = &v->tables;
	size_t i;

	v->in_place = mem_zero(t->inline_count + 1, sizeof(*v->in_place));
	for (i = 0; i < t->inline_count; i++) {
		const uint8_t *p = elf_at(&v->file, t->inlines[i].site, ETCH_INLINE_LEN);

		v->in_place[i] = p && etch_inline_state(p) > 0;
	}
}

/* Reads the tables of a linked file, and the present form of each site. Returns 0, or -1 and a message. */
static int tables_read(struct view *v, struct error *e)
{
	if (linked_tables_read(&v->file, &v->tables, e) < 0)
		return -1;
	v->baked = mem_zero(v->tables.imv_count + v->tables.pv_count + 1, sizeof(*v->baked));
	baked_add(v, v->tables.imv, v->tables.imv_count);
	baked_add(v, v->tables.pv, v->tables.pv_count);
	if (v->baked_count)
		qsort(v->baked, v->baked_count, sizeof(*v->baked), word_order);
	in_place_read(v);
	return 0;
}

static int sites_judge(struct view *v, struct error *e)
{
	if (v->tables.flags & ETCH_MODULE_LINKED)
		sites_unlisted(&v->scan, &v->tables);
	objects_judge(&v->scan, &v->tables);
	return targets_open(&v->targets, &v->file, &v->tables, e);
}

static int view_load_linked(struct view *v, struct error *e)
{
	/* As in the link step, the file is scanned after all sites have been restored. */
	if (tables_read(v, e) || sites_unbake(&v->file, &v->tables, e) || in_place_unbake(&v->file, &v->tables, e))
		return -1;
	if (scan_linked_file(&v->scan, &v->file, &v->tables)) {
		*e = v->scan.error;
		return -1;
	}
	return sites_judge(v, e);
}

static int slot_order(const void *a, const void *b)
{
	const struct view_slot *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Reads the relocations of etched sections in an object file. Returns 0, or -1 and a message. */
static int slots_read(struct view *v, struct error *e)
{
	const struct elf_file *f = &v->file;
	uint32_t i, rel;
	bool shared;

	for (i = 1; i < f->section_count; i++) {
		for (rel = 0; section_is_etched(&f->sections[i], &shared) && (rel = elf_section_rela(f, i, rel + 1));) {
			struct elf_reloc *r;
			long n = elf_relocs(f, rel, &r, e), k;
			struct view_slot *p;

			if (n < 0)
				return -1;
			v->slots = p = mem_resize(v->slots, v->slot_count + (size_t)n + 1, sizeof(*p));
			for (k = 0; k < n; k++)
				if (r[k].type == R_X86_64_64 && r[k].symbol < f->symbol_count)
					p[v->slot_count++] = (struct view_slot){i, r[k].offset, &f->symbols[r[k].symbol], r[k].addend};
			free(r);
		}
	}
	if (v->slot_count)
		qsort(v->slots, v->slot_count, sizeof(*v->slots), slot_order);
	return 0;
}

int view_load(struct view *v, const char *path, struct error *e)
{
	memset(v, 0, sizeof(*v));
	v->path = path;
	if (inspect_open(&v->file, path, e))
		return -1;
	symbol_index_build(&v->file, symbol_is_place, &v->names);
	space_build(&v->file, &v->space);
	if (fixups_read(&v->file, &v->space, &v->fixups, e))
		return -1;
	if (!elf_is_object(&v->file))
		return view_load_linked(v, e);
	if (scan_object_file(&v->scan, &v->file, NULL)) {
		*e = v->scan.error;
		return -1;
	}
	return slots_read(v, e);
}

/* Moves the tables and results of the checks to the view. */
static void subject_take(struct view *v, struct subject *s)
{
	v->fixups = s->fixups;
	s->fixups = (struct fixups){0};
	v->frames = s->frames;
	s->frames = (struct frames){0};
	v->findings = s->found;
	s->found = (struct findings){0};
	v->scan = s->scan;
	v->scan.clobbers.list = &v->scan.funcs;
	s->scan = (struct scan){0};
}

int view_load_checked(struct view *v, const char *path, int jobs, struct error *e)
{
	const struct check_options options = {.jobs = jobs, .progress = true};
	struct subject subject = {0};
	int err;

	memset(v, 0, sizeof(*v));
	v->path = path;
	if (inspect_open(&v->file, path, e))
		return -1;
	symbol_index_build(&v->file, symbol_is_place, &v->names);
	space_build(&v->file, &v->space);
	if (!elf_is_object(&v->file) && tables_read(v, e))
		return -1;
	err = check_file(&v->file, &options, &subject, e);
	if (!err) {
		subject_take(v, &subject);
		/* The checks do not scan a file without tables. */
		if (!v->scan.file && scan_linked_file(&v->scan, &v->file, &v->tables)) {
			*e = v->scan.error;
			err = -1;
		}
		if (!err)
			err = elf_is_object(&v->file) ? slots_read(v, e) : sites_judge(v, e);
	}
	subject_free(&subject);
	return err;
}

void view_free(struct view *v)
{
	free(v->in_place);
	findings_free(&v->findings);
	frames_free(&v->frames);
	targets_close(&v->targets);
	linked_tables_free(&v->tables);
	scan_free(&v->scan);
	fixups_free(&v->fixups);
	space_free(&v->space);
	symbol_index_free(&v->names);
	elf_close(&v->file);
	free(v->baked);
	free(v->slots);
}

bool view_is_baked(const struct view *v, uint64_t addr) { return word_has(v->baked, v->baked_count, addr); }

/* Returns the address of the slot through which a site calls. */
static uint64_t slot_of(const struct view *v, const struct site *s)
{
	return v->scan.objects.list[s->object].addr + (uint64_t)s->off;
}

const char *view_state(const struct view *v, const struct site *s)
{
	static const char *const states[] = {"indirect", "direct", "nop", "mov", "body"};
	bool baked = site_kind_is_patched(s->kind) && view_is_baked(v, s->addr);
	struct call_image image;

	if (s->kind == SITE_LOAD && baked)
		return "immediate";
	if (s->kind == SITE_LOAD)
		return elf_is_object(&v->file) || site_value_fits(&v->scan, s) ? "load" : "unfit";
	if (s->kind != SITE_CALL)
		return "-";
	if (baked)
		call_image(&v->targets, &s->entry, s->addr, slot_of(v, s), &image);
	return states[baked ? image.state : CALL_INDIRECT];
}

void view_place(const struct view *v, uint32_t section, uint64_t addr, char *out, size_t size)
{
	symbol_index_describe(&v->names, &v->file, section, addr, out, size);
}

static void slot_target(const struct view *v, const struct site *s, char *out, size_t size)
{
	const struct object *o = &v->scan.objects.list[s->object];
	struct view_slot key = {.section = o->section, .addr = slot_of(v, s)};
	const struct view_slot *x = v->slot_count ? bsearch(&key, v->slots, v->slot_count, sizeof(key), slot_order) : NULL;
	int n;

	if (!x)
		snprintf(out, size, "null");
	else if (!x->symbol->name[0] && x->symbol->section)
		view_place(v, x->symbol->section, x->symbol->value + (uint64_t)x->addend, out, size);
	else {
		n = snprintf(out, size, "%.200s", x->symbol->name);
		if (x->addend)
			snprintf(out + n, size - (size_t)n, "%+lld", (long long)x->addend);
	}
}

void view_target(const struct view *v, const struct site *s, char *out, size_t size)
{
	const char *import;
	uint64_t target;

	snprintf(out, size, "-");
	if (s->kind != SITE_CALL || !s->off_known || !v->scan.objects.list[s->object].section)
		return;
	if (elf_is_object(&v->file))
		slot_target(v, s, out, size);
	else if (target_known(&v->targets, slot_of(v, s), &target))
		view_place(v, elf_section_at(&v->file, target), target, out, size);
	else if ((import = target_import(&v->targets, slot_of(v, s))))
		snprintf(out, size, "%.200s", import);
	else if (target_is_null(&v->targets, slot_of(v, s)))
		snprintf(out, size, "null");
}

void site_form_name(const struct etch_imv *entry, char *out, size_t size)
{
	static const char *const how[] = {"rip", "abs", "base", "reg"};

	if (entry->form == ETCH_FORM_NONE)
		snprintf(out, size, "-");
	else if (etch_form_is_pv(entry->form))
		snprintf(out, size, "%s-%s", entry->form == ETCH_FORM_CALL ? "call" : "jmp", how[etch_imv_addressing(entry)]);
	else
		insn_form_name(entry->form, out, size);
}

struct json_object *view_json(const char *name, const char *path, const struct elf_file *f)
{
	struct json_object *o = json_object_new_object();
	char format[32];

	snprintf(format, sizeof(format), "etch-inspect-%s", name);
	json_object_object_add(o, "format", json_object_new_string(format));
	json_object_object_add(o, "version", json_object_new_int(1));
	json_object_object_add(o, "file", json_name(path));
	json_object_object_add(o, "kind", json_object_new_string(file_kind(f)));
	return o;
}

void view_list_print(const struct view *v, const char *name, const struct listing *l, enum format format,
                     const char *none)
{
	struct json_object *o;

	if (format == FORMAT_JSON) {
		o = view_json(name, v->path, &v->file);
		json_object_object_add(o, name, listing_json(l));
		json_print(o);
	} else if (format == FORMAT_TEXT && !l->cell_count) {
		text_clean(stdout, v->path);
		printf(": %s\n", none);
	} else {
		listing_print(l, format);
	}
}
