/* SPDX-License-Identifier: MIT */
/* Opens a file for comparison, finds its functions by symbols and FDEs, and hashes their code. */
#include "diff/image.h"

#include "analysis/facts/cfi_file.h"
#include "diff/body.h"
#include "diff/depth.h"
#include "support/memory.h"
#include "support/plain.h"
#include "support/progress.h"
#include "shared/search.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t hash_bytes(const void *p, size_t n)
{
	const uint8_t *b = p;
	uint64_t h = n + 1, v;

	for (; n >= 8; n -= 8, b += 8) {
		memcpy(&v, b, 8);
		h = mix(h, v);
	}
	v = 0;
	memcpy(&v, b, n);
	return mix(mix(h, v), n);
}

/* ---- names -------------------------------------------------------------------- */

static bool is_digits(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isdigit((unsigned char)p[i]))
			return false;
	return n > 0;
}

/*
 * True for the suffixes that mark gcc's clones and cold parts, LLVM's promoted locals, and symbols that link-time
 * optimization has renamed.
 */
static bool is_suffix(const char *word, size_t n)
{
	static const char *const words[] = {"constprop",  "isra",  "part",      "cold",     "llvm", "lto_priv",
	                                    "localalias", "clone", "simdclone", "unlikely", "warm", "hot"};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == n && !memcmp(words[i], word, n))
			return true;
	return is_digits(word, n);
}

size_t name_base(const char *name)
{
	size_t n = strlen(name);

	for (;;) {
		size_t k = n;

		while (k > 0 && name[k - 1] != '.')
			k--;
		if (k < 2 || !is_suffix(name + k, n - k))
			return n;
		n = k - 1;
	}
}

void image_name(const struct image *im, uint32_t func, char *out, size_t size)
{
	const struct function *fn = &im->funcs[func];

	if (!fn->name)
		snprintf(out, size, "%s+0x%" PRIx64, im->file.sections[fn->section].name,
		         fn->start - (elf_is_object(&im->file) ? 0 : im->file.sections[fn->section].sh.sh_addr));
	else if (fn->twin && fn->file)
		snprintf(out, size, "%.300s (%.100s)", fn->name, fn->file);
	else
		snprintf(out, size, "%.400s", fn->name);
	plain(out);
}

/* ---- starts of functions -------------------------------------------------------- */

/* A possible start of a function. */
struct start {
	uint32_t section;
	bool symbol; /* the start comes from a symbol; false: from an FDE */
	uint64_t addr, size;
	const struct elf_symbol *from;
	const char *file;
	const struct names *names;
};

struct starts {
	struct start *list;
	size_t count, capacity;
};

static void start_add(struct starts *s, const struct start *x)
{
	mem_reserve(&s->list, &s->capacity, s->count, sizeof(*s->list));
	s->list[s->count++] = *x;
}

static void starts_of_symbols(const struct image *im, const struct elf_symbol *list, uint32_t n, struct starts *out)
{
	const char *file = NULL;
	uint32_t i;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *s = &list[i];
		const struct elf_section *in = &im->file.sections[s->section];

		if (s->type == STT_FILE)
			file = s->name[0] ? s->name : NULL;
		if ((s->type != STT_FUNC && s->type != STT_GNU_IFUNC) || !s->section || !s->name[0] || !in->data ||
		    !place_is_code(im, s->section))
			continue;
		if (s->value - (elf_is_object(&im->file) ? 0 : in->sh.sh_addr) >= in->sh.sh_size)
			continue;
		start_add(out, &(struct start){s->section, true, s->value, s->size, s, s->bind == STB_LOCAL ? file : NULL,
		                               &im->names});
	}
}

/* Adds the addresses at which FDEs start: where there are no symbols, .eh_frame has the bounds of functions. */
static void starts_of_fdes(struct image *im, struct starts *out)
{
	struct cfi_file cfi;
	size_t i;

	cfi_file_open(&im->file, &im->subject.frames.space, &cfi);
	for (i = 0; i < cfi.count; i++) {
		const struct code_section *c = space_at(&im->subject.frames.space, cfi.fdes[i].start);
		uint64_t base = c && elf_is_object(&im->file) ? c->addr : 0;

		if (c && c->section && strncmp(im->file.sections[c->section].name, ".plt", 4))
			start_add(out, &(struct start){c->section, false, cfi.fdes[i].start - base,
			                               cfi.fdes[i].end - cfi.fdes[i].start, NULL, NULL, NULL});
	}
	cfi_file_close(&cfi);
}

/*
 * Orders starts by address. At the same address, global symbols come first in alphabetical order, then local symbols in
 * alphabetical order, then FDEs.
 */
static int start_order(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->symbol != y->symbol)
		return x->symbol ? -1 : 1;
	if (!x->symbol)
		return 0;
	if ((x->from->bind == STB_LOCAL) != (y->from->bind == STB_LOCAL))
		return x->from->bind == STB_LOCAL ? 1 : -1;
	return name_order(x->names, x->from->name, x->names, y->from->name);
}

/* Makes one function of the starts [i, end), which all have the same address. */
static void function_make(struct image *im, const struct start *list, size_t i, size_t end)
{
	const struct elf_section *in = &im->file.sections[list[i].section];
	uint64_t base = elf_is_object(&im->file) ? 0 : in->sh.sh_addr, size = 0;
	uint64_t most = in->sh.sh_size - (list[i].addr - base);
	struct function *fn = &im->funcs[im->func_count++];
	size_t k;

	*fn = (struct function){.section = list[i].section,
	                        .start = list[i].addr,
	                        .pair = NO_FUNC,
	                        .bytes = in->data + (list[i].addr - base),
	                        .alias = (uint32_t)im->alias_count};
	for (k = i; k < end; k++) {
		if (list[k].size > size && (list[k].symbol || !size))
			size = list[k].size;
		if (!list[k].symbol ||
		    (k > i && !name_order(&im->names, list[k].from->name, &im->names, list[k - 1].from->name)))
			continue;
		if (!fn->name) {
			fn->name = list[k].from->name;
			fn->file = list[k].file;
			fn->local = list[k].from->bind == STB_LOCAL;
		}
		im->aliases[im->alias_count++] = list[k].from->name;
		fn->alias_count++;
	}
	fn->sized = size && size <= most;
	fn->end = fn->start + (fn->sized ? size : most);
}

/*
 * Returns false if an FDE describes a function that has another start: the FDE starts inside a named function, or one
 * byte before a function (glibc's __restore_rt).
 */
static bool start_is_new(const struct image *im, const struct start *list, size_t i, size_t count, uint64_t covered)
{
	if (list[i].symbol)
		return true;
	if (im->func_count && im->funcs[im->func_count - 1].section == list[i].section && list[i].addr < covered)
		return false;
	return i + 1 >= count || list[i + 1].section != list[i].section || list[i + 1].addr != list[i].addr + 1;
}

static void functions_cut(struct image *im, const struct start *list, size_t count)
{
	uint64_t covered = 0; /* address up to which functions with a known size cover this section */
	size_t i, end;

	for (i = 0; i < count; i = end) {
		for (end = i + 1; end < count && list[end].section == list[i].section && list[end].addr == list[i].addr;)
			end++;
		if (im->func_count && im->funcs[im->func_count - 1].section != list[i].section)
			covered = 0;
		if (!start_is_new(im, list, i, count, covered))
			continue;
		if (im->func_count) {
			struct function *before = &im->funcs[im->func_count - 1];

			if (before->section == list[i].section && before->end > list[i].addr)
				before->end = list[i].addr;
		}
		function_make(im, list, i, end);
		if (im->funcs[im->func_count - 1].sized && im->funcs[im->func_count - 1].end > covered)
			covered = im->funcs[im->func_count - 1].end;
	}
}

/* Finds the functions of a file, and the first function of each section. */
static int functions_find(struct image *im, struct error *e)
{
	const struct elf_file *f = &im->file;
	struct starts s = {0};
	uint32_t i, k = 0;

	if (!im->nameless)
		starts_of_symbols(im, f->symbols, f->symbol_count, &s);
	if (!elf_is_object(f))
		starts_of_symbols(im, f->dynsyms, f->dynsym_count, &s);
	starts_of_fdes(im, &s);
	if (s.count >= NO_FUNC) {
		free(s.list);
		return error_set(e, "has %zu starts of functions: at most %" PRIu32 " are compared", s.count, NO_FUNC - 1);
	}
	if (s.count)
		qsort(s.list, s.count, sizeof(*s.list), start_order);
	im->funcs = mem_zero(s.count + 1, sizeof(*im->funcs));
	im->aliases = mem_zero(s.count + 1, sizeof(*im->aliases));
	im->starts_of = mem_zero((size_t)f->section_count + 2, sizeof(*im->starts_of));
	functions_cut(im, s.list, s.count);
	for (i = 0; i <= f->section_count; i++) {
		while (k < im->func_count && im->funcs[k].section < i)
			k++;
		im->starts_of[i] = k;
	}
	free(s.list);
	return 0;
}

uint32_t image_function(const struct image *im, uint32_t section, uint64_t addr)
{
	uint32_t lo = section < im->file.section_count ? im->starts_of[section] : 0;
	uint32_t hi = section < im->file.section_count ? im->starts_of[section + 1] : 0, first = lo;

	lo = (uint32_t)SEARCH_IN(lo, hi, i, im->funcs[i].start <= addr);
	return lo > first && addr < im->funcs[lo - 1].end ? lo - 1 : NO_FUNC;
}

/* ---- code of functions --------------------------------------------------------------- */

/*
 * Collects the data addresses in all code, since data without a symbol is taken to end, at the latest, at the next such
 * address.
 */
static void used_find(struct image *im, struct body *b)
{
	struct places *p = &im->places;
	size_t n = 0, k;
	uint32_t i;

	for (i = 0; i < im->func_count; i++) {
		progress_step(im->file.path, i, im->func_count);
		body_decode(im, i, b);
		for (k = 0; k < b->own_count; k++) {
			mem_reserve(&p->used, &p->used_capacity, p->used_count, sizeof(*p->used));
			p->used[p->used_count++] = b->own[k];
		}
	}
	if (p->used_count)
		qsort(p->used, p->used_count, sizeof(*p->used), place_order);
	for (k = 0; k < p->used_count; k++)
		if (!n || place_order(&p->used[n - 1], &p->used[k]))
			p->used[n++] = p->used[k];
	p->used_count = n;
}

static void refs_keep(struct image *im, struct function *fn, const struct body *b)
{
	size_t k;

	fn->ref = im->ref_count;
	for (k = 0; k < b->ref_count; k++) {
		if (b->refs[k].kind != REF_FUNCTION && b->refs[k].kind != REF_DATA)
			continue;
		mem_reserve(&im->refs, &im->ref_capacity, im->ref_count, sizeof(*im->refs));
		im->refs[im->ref_count++] = b->refs[k];
	}
	fn->ref_count = im->ref_count - fn->ref;
}

/* Decodes and hashes all functions. */
static void functions_read(struct image *im, struct body *b)
{
	struct depth_finder d;
	uint32_t i;

	depth_open(&d, im);
	for (i = 0; i < im->func_count; i++) {
		struct function *fn = &im->funcs[i];

		progress_step(im->file.path, i, im->func_count);
		body_make(im, i, b);
		refs_keep(im, fn, b);
		fn->code = b->code;
		fn->content = b->content;
		fn->insns = (uint32_t)b->count;
		fn->whole = b->whole;
		depth_find(&d, im, i, b);
	}
	depth_close(&d);
	progress_end();
}

struct named_function {
	struct function *func;
	const struct names *names;
};

static int named_function_order(const void *a, const void *b)
{
	const struct named_function *x = a, *y = b;

	return name_order(x->names, x->func->name, y->names, y->func->name);
}

static void twins_mark(struct image *im)
{
	struct named_function *list = mem_alloc((size_t)im->func_count + 1, sizeof(*list));
	size_t n = 0, k;
	uint32_t i;

	for (i = 0; i < im->func_count; i++)
		if (im->funcs[i].name)
			list[n++] = (struct named_function){&im->funcs[i], &im->names};
	if (n)
		qsort(list, n, sizeof(*list), named_function_order);
	for (k = 1; k < n; k++)
		if (!named_function_order(&list[k], &list[k - 1]))
			list[k].func->twin = list[k - 1].func->twin = true;
	free(list);
}

int image_read(struct image *im, bool nameless, struct error *e)
{
	struct body b = {0};

	im->nameless = nameless;
	names_open(&im->file, &im->names);
	if (places_open(im, e) || functions_find(im, e))
		return -1;
	twins_mark(im);
	used_find(im, &b);
	functions_read(im, &b);
	body_free(&b);
	return 0;
}

/* ---- opening ------------------------------------------------------------------------ */

static int image_check(struct image *im, struct error *e)
{
	if (check_file(&im->file, &im->options, &im->subject, e))
		return -1;
	report_make(&im->report, &im->file, &im->subject.found);
	return 0;
}

int image_open(struct image *im, const char *path, const struct check_options *o, struct error *e)
{
	memset(im, 0, sizeof(*im));
	im->options = *o;
	return elf_open(&im->file, path, e) || image_check(im, e) ? -1 : 0;
}

int image_open_bytes(struct image *im, const char *path, uint8_t *bytes, size_t size, const struct check_options *o,
                     struct error *e)
{
	memset(im, 0, sizeof(*im));
	im->options = *o;
	return elf_open_bytes(&im->file, path, bytes, size, e) || image_check(im, e) ? -1 : 0;
}

void image_close(struct image *im)
{
	free(im->funcs);
	free(im->starts_of);
	free(im->aliases);
	free(im->refs);
	names_close(&im->names);
	places_close(&im->places);
	report_free(&im->report);
	subject_free(&im->subject);
	elf_close(&im->file);
	memset(im, 0, sizeof(*im));
}
