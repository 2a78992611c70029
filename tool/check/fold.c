/* SPDX-License-Identifier: MIT */
/*
 * Joins findings into one: those of the same kind, about frames, at many places of one function; those in the code of a
 * language runtime (ETCH-N002); and those where the .eh_frame of a compiler does not follow the code (ETCH-N003). Also
 * computes the key by which a finding is recognized in other files with the same function.
 */
#include "arch/x86/fast_decoder.h"
#include "check/check.h"
#include "analysis/facts/cfi_file.h"
#include "analysis/runtimes/runtimes.h"
#include "elf/symbols.h"
#include "support/memory.h"
#include "support/plain.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SINGLE_MOST 3    /* at most this many findings of a kind in a function stay separate */
#define KEY_BYTES   4096 /* number of bytes of a function whose instructions contribute to the key */

struct fold {
	struct subject *s;
	struct symbol_index symbols;
	struct cfi_file cfi;
	struct runtime_codes runtimes;
	struct finding **order; /* sorted by scope, ID, text and place */
	struct scope *scopes;   /* for each finding of s->found */
};

/* The code that a finding is about. Only findings with the same scope are joined. */
struct scope {
	const struct elf_symbol *function; /* null: `start` identifies the code */
	uint64_t start;                    /* 1 + the start of the code of the FDE, or of a PLT section; 0: neither */
	const struct runtime *runtime;     /* the language runtime whose calling conventions explain the finding, or null */
};

static struct scope scope_of(const struct fold *f, const struct finding *x)
{
	const struct code_section *c = x->section ? space_of(&f->s->frames.space, x->section) : NULL;
	struct scope out = {0};
	uint64_t addr;
	long fde;

	if (!c)
		return out;
	addr = x->addr + (elf_is_object(f->s->file) ? c->addr : 0);
	out.function = symbol_index_find(&f->symbols, x->section, x->addr);
	if (runtime_explains(x))
		out.runtime = runtime_at(&f->runtimes, addr);
	if (out.function)
		return out;
	fde = cfi_file_at(&f->cfi, addr);
	if (!strncmp(f->s->file->sections[x->section].name, ".plt", 4))
		out.start = c->addr + 1;
	else if (fde >= 0)
		out.start = f->cfi.fdes[fde].start + 1;
	return out;
}

static const struct scope *scope_at(const struct fold *f, const struct finding *x)
{
	return &f->scopes[x - f->s->found.list];
}

/* ---- in one function -------------------------------------------------------------------- */

/*
 * Returns the end of the number at p. Numbers (addresses, amounts) are ignored when the texts of findings are compared.
 */
static const char *number_skip(const char *p)
{
	if (p[0] == '0' && p[1] == 'x')
		for (p += 2; isxdigit((unsigned char)*p); p++)
			;
	else
		while (isdigit((unsigned char)*p))
			p++;
	return p;
}

static int text_compare(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			a = number_skip(a);
			b = number_skip(b);
		} else if (*a != *b) {
			break;
		} else {
			a++, b++;
		}
	}
	return (unsigned char)*a - (unsigned char)*b;
}

/* Compares findings by everything except their place. Findings that compare equal are joined. */
static int kind_compare(const struct fold *f, const struct finding *x, const struct finding *y)
{
	const struct scope *a = scope_at(f, x), *b = scope_at(f, y);
	int by_id = strcmp(x->id, y->id);

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (by_id)
		return by_id;
	if (x->compiler != y->compiler)
		return x->compiler - y->compiler;
	return text_compare(x->text, y->text);
}

static int place_compare(const void *a, const void *b, void *ctx)
{
	const struct finding *x = *(const struct finding *const *)a, *y = *(const struct finding *const *)b;
	int kind = kind_compare(ctx, x, y);

	return kind ? kind : (x->addr > y->addr) - (x->addr < y->addr);
}

/*
 * Joins the findings of `list` into the first one, which records the places of the others: at most ALSO_MOST, and the
 * last one.
 */
static void join(struct finding **list, size_t count)
{
	struct finding *first = list[0];
	size_t i, shown = count - 1 < ALSO_MOST ? count - 1 : ALSO_MOST;

	first->also = mem_zero(shown + 1, sizeof(*first->also));
	for (i = 0; i < shown; i++)
		first->also[i] = list[i + 1]->addr;
	if (count - 1 > shown)
		first->also[i++] = list[count - 1]->addr;
	first->also_count = i;
	first->places = count;
	for (i = 1; i < count; i++) {
		finding_free(list[i]);
		*list[i] = (struct finding){0};
	}
}

static void functions_fold(struct fold *f)
{
	struct findings *l = &f->s->found;
	size_t i, k, n = 0;

	for (i = 0; i < l->count; i++)
		if (l->list[i].id && runtime_explains(&l->list[i]) &&
		    (scope_at(f, &l->list[i])->function || scope_at(f, &l->list[i])->start))
			f->order[n++] = &l->list[i];
	if (n)
		qsort_r(f->order, n, sizeof(*f->order), place_compare, f);
	for (i = 0; i < n; i = k) {
		for (k = i + 1; k < n && !kind_compare(f, f->order[i], f->order[k]); k++)
			;
		if (k - i > SINGLE_MOST)
			join(f->order + i, k - i);
	}
}

/* ---- in the code of a runtime ------------------------------------------------------------ */

/* The number of findings of one kind in the code of a runtime. */
struct kind_count {
	const char *id;
	const struct finding *first;
	size_t places, functions;
	const struct elf_symbol *last;
	uint64_t last_start;
};

/* True for the first finding of each function. Requires that findings come in order of address. */
static bool is_new(struct kind_count *t, const struct scope *x)
{
	bool new = !t->places || x->function != t->last || x->start != t->last_start;

	t->last = x->function;
	t->last_start = x->start;
	return new;
}

static void runtime_report(struct fold *f, const struct runtime *runtime, const struct kind_count *counts, size_t count,
                           size_t functions)
{
	struct findings one = {0};
	struct finding *x =
		finding_add(&one, "ETCH-N002", 0, 0,
	                "code of %s: %zu function%s with non-psABI conventions or with .eh_frame that contradicts the code",
	                runtime->name, functions, functions == 1 ? "" : "s");
	size_t i;

	x->compiler = true;
	for (i = 0; i < count; i++)
		finding_fact_at(x, counts[i].first->section, counts[i].first->addr, counts[i].id + strlen("ETCH-"),
		                "%s (%zu place%s in %zu function%s)", counts[i].first->text, counts[i].places,
		                counts[i].places == 1 ? "" : "s", counts[i].functions, counts[i].functions == 1 ? "" : "s");
	findings_take(&f->s->found, &one);
}

static void runtime_fold(struct fold *f, const struct runtime *runtime)
{
	struct findings *l = &f->s->found;
	struct kind_count counts[8] = {0}, any = {0};
	size_t i, k, count = 0, functions = 0;

	for (i = 0; i < l->count; i++) {
		struct finding *x = &l->list[i];

		if (!x->id || scope_at(f, x)->runtime != runtime)
			continue;
		for (k = 0; k < count && strcmp(counts[k].id, x->id); k++)
			;
		if (k == count)
			counts[count++] = (struct kind_count){.id = x->id, .first = x};
		counts[k].functions += is_new(&counts[k], scope_at(f, x));
		counts[k].places++;
		functions += is_new(&any, scope_at(f, x));
		any.places++;
	}
	if (!any.places)
		return;
	/*
	 * runtime_report() reads findings by counts[].first and may move the list, so the findings must be freed
	 * afterwards.
	 */
	runtime_report(f, runtime, counts, count, functions);
	for (i = 0; i + 1 < l->count; i++)
		if (l->list[i].id && f->scopes[i].runtime == runtime) {
			finding_free(&l->list[i]);
			l->list[i] = (struct finding){0};
		}
}

/* ---- in a compiler's tables ------------------------------------------------------------------- */

#define COMPILERS_MOST 4u

/* Adds a fact for each compiler that has written its name into the file's .comment. */
static void compilers_name(const struct elf_file *f, struct finding *x)
{
	const struct elf_section *s = &f->sections[elf_section_find(f, ".comment", 1)];
	const char *p = (const char *)s->data, *end = p ? p + s->sh.sh_size : NULL;
	struct {
		const char *name;
		size_t length;
	} seen[COMPILERS_MOST];
	size_t n = 0, more = 0, i;

	for (; p && p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
		/* icc also writes its command line, which follows " : ". */
		const char *options = memmem(p, strnlen(p, (size_t)(end - p)), " : ", 3);
		size_t length = options ? (size_t)(options - p) : strnlen(p, (size_t)(end - p));
		char *name;

		for (i = 0; i < n && (seen[i].length != length || memcmp(p, seen[i].name, length) != 0); i++)
			;
		if (!length || i < n)
			continue;
		if (n == COMPILERS_MOST) {
			more++;
			continue;
		}
		seen[n].name = p;
		seen[n++].length = length;
		name = mem_format("%.*s", (int)length, p);
		plain(name);
		finding_fact(x, "a compiler of the file", "%s", name);
		free(name);
	}
	if (more)
		finding_fact(x, "and", "%zu more in .comment", more);
}

/* Joins the findings at places where .eh_frame slips (finding.slip) into one finding, ETCH-N003. */
static void slips_fold(struct fold *f)
{
	static const char *const labels[] = {NULL, "a row begins late", "a row goes on too long", "none for an epilogue"};
	struct findings *l = &f->s->found, one = {0};
	struct kind_count counts[sizeof(labels) / sizeof(labels[0])] = {0}, any = {0};
	struct finding *x;
	size_t i, k;

	for (i = 0; i < l->count; i++) {
		if (!l->list[i].id || !l->list[i].slip)
			continue;
		k = l->list[i].slip;
		if (!counts[k].places)
			counts[k].first = &l->list[i];
		counts[k].functions += is_new(&counts[k], scope_at(f, &l->list[i]));
		counts[k].places++;
		any.functions += is_new(&any, scope_at(f, &l->list[i]));
		any.places++;
	}
	if (!any.places)
		return;
	x = finding_add(&one, "ETCH-N003", 0, 0, "%zu places in %zu functions where .eh_frame does not follow the code",
	                any.places, any.functions);
	x->compiler = true;
	for (k = 1; k < sizeof(labels) / sizeof(labels[0]); k++)
		if (counts[k].places)
			finding_fact_at(x, counts[k].first->section, counts[k].first->addr, labels[k],
			                "%s (%zu place%s in %zu function%s)", counts[k].first->text, counts[k].places,
			                counts[k].places == 1 ? "" : "s", counts[k].functions, counts[k].functions == 1 ? "" : "s");
	compilers_name(f->s->file, x);
	findings_take(l, &one);
	for (i = 0; i + 1 < l->count; i++)
		if (l->list[i].id && l->list[i].slip) {
			finding_free(&l->list[i]);
			l->list[i] = (struct finding){0};
		}
}

/* ---- keys across files -------------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n--)
		h = (h ^ *p++) * 0x100000001b3; /* FNV-1a */
	return h;
}

/*
 * Returns the key of a finding. It must be the same in the object file and in every linked file with the function. But
 * linkers change operands, and replace instructions by others of the same length (System V psABI, B.2). So the key is a
 * hash of the function's name and size, of the lengths of its instructions, and of the finding's ID, text and offset.
 * 0: the finding has no key.
 */
static uint64_t key_of(const struct fold *f, const struct finding *x)
{
	const struct elf_symbol *y = scope_at(f, x)->function;
	const struct code_section *c = x->section ? space_of(&f->s->frames.space, x->section) : NULL;
	uint64_t h = 0xcbf29ce484222325, offset, at, end;
	struct step step;

	if (!c || !y || !y->size)
		return 0;
	offset = x->addr - y->value;
	h = hash_bytes(h, x->id, strlen(x->id) + 1);
	h = hash_bytes(h, y->name, strlen(y->name) + 1);
	h = hash_bytes(h, x->text, strlen(x->text) + 1);
	h = hash_bytes(h, &y->size, sizeof(y->size));
	h = hash_bytes(h, &offset, sizeof(offset));
	at = y->value + (elf_is_object(f->s->file) ? c->addr : 0);
	end = at + (y->size < KEY_BYTES ? y->size : KEY_BYTES);
	for (; at < end && at - c->addr < c->size &&
	       step_decode(NULL, c->bytes + (at - c->addr), c->addr + c->size - at, at, &step);
	     at += step.len)
		h = hash_bytes(h, &step.len, sizeof(step.len));
	return h ? h : 1;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void scopes_find(struct fold *f)
{
	/* number of findings that may be added: ETCH-N002 for each runtime, and ETCH-N003 */
	const size_t joined = runtime_count + 1;
	struct findings *l = &f->s->found;
	size_t i;

	f->order = mem_alloc(l->count, sizeof(*f->order));
	f->scopes = mem_alloc(l->count + joined, sizeof(*f->scopes));
	for (i = 0; i < l->count; i++) {
		f->scopes[i] = scope_of(f, &l->list[i]);
		l->list[i].key = key_of(f, &l->list[i]);
	}
	for (; i < l->count + joined; i++)
		f->scopes[i] = (struct scope){0};
}

int check_fold(struct subject *s, struct error *e)
{
	struct fold f = {.s = s};
	size_t i, n = 0;
	int err;

	if (!s->found.count)
		return 0;
	findings_sort(&s->found);
	symbol_index_build(s->file, symbol_is_function, &f.symbols);
	cfi_file_open(s->file, &s->frames.space, &f.cfi);
	err = subject_runtimes(s, &f.runtimes, e);
	if (!err) {
		scopes_find(&f);
		for (i = 0; i < runtime_count; i++)
			runtime_fold(&f, &runtimes[i]);
		slips_fold(&f);
		functions_fold(&f);
	}
	for (i = 0; i < s->found.count; i++)
		if (s->found.list[i].id)
			s->found.list[n++] = s->found.list[i];
	s->found.count = n;
	symbol_index_free(&f.symbols);
	cfi_file_close(&f.cfi);
	free(f.runtimes.list);
	free(f.order);
	free(f.scopes);
	return err;
}
