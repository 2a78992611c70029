/* SPDX-License-Identifier: MIT */
/* Prints a comparison as text. */
#include "diff/diff_print.h"

#include "report/listing.h"
#include "report/text.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 512

/* ---- names ------------------------------------------------------------------------------ */

const char *change_kind_name(enum change_kind k)
{
	static const char *const names[] = {"changed", "added", "removed", "renamed"};

	return names[k];
}

const char *site_kind_name(enum site_kind k)
{
	static const char *const names[] = {"load", "call", "store", "escape"};

	return names[k];
}

/* Writes what a site is, for example "load of cfg+4". */
static void site_words(const struct image *im, const struct site *s, char *out, size_t size)
{
	static const char *const words[] = {
		[SITE_LOAD] = "of", [SITE_CALL] = "by", [SITE_STORE] = "to", [SITE_ESCAPE] = "of"};
	const char *name = im->subject.scan.objects.list[s->object].name, *of = words[s->kind];

	if (s->off_known && s->off)
		snprintf(out, size, "%s %s %.300s%+" PRId64, site_kind_name(s->kind), of, name, s->off);
	else
		snprintf(out, size, "%s %s %.300s", site_kind_name(s->kind), of, name);
}

void site_place(const struct image *im, const struct site *s, char *out, size_t size)
{
	const struct elf_section *in = &im->file.sections[s->section];
	uint32_t fn = image_function(im, s->section, s->addr);
	uint64_t base = elf_is_object(&im->file) ? 0 : in->sh.sh_addr;
	size_t n;

	if (fn != NO_FUNC) {
		base = im->funcs[fn].start;
		image_name(im, fn, out, size);
	} else {
		snprintf(out, size, "%.200s", in->name);
	}
	n = strlen(out);
	if (s->addr != base)
		snprintf(out + n, size - n, "+0x%" PRIx64, s->addr - base);
}

/* ---- order of output ---------------------------------------------------------------------- */

static uint64_t bytes_of(const struct image *im, uint32_t func)
{
	return func == NO_FUNC ? 0 : im->funcs[func].end - im->funcs[func].start;
}

/* A change with the values by which it is sorted, since qsort() passes no context. */
struct ranked {
	const struct change *x;
	uint64_t by; /* absolute value of the difference in bytes */
	const char *name;
	uint64_t start;
	const struct names *names;
};

static int ranked_order(const void *a, const void *b)
{
	const struct ranked *p = a, *q = b;
	uint64_t m = (uint64_t)p->x->removed + p->x->inserted, n = (uint64_t)q->x->removed + q->x->inserted;
	int c;

	if (p->x->kind != q->x->kind)
		return p->x->kind < q->x->kind ? -1 : 1;
	if (p->by != q->by)
		return p->by > q->by ? -1 : 1;
	if (m != n)
		return m > n ? -1 : 1;
	c = name_order(p->names, p->name ? p->name : "", q->names, q->name ? q->name : "");
	if (c)
		return c;
	return p->start < q->start ? -1 : p->start > q->start;
}

const struct change **changes_sorted(const struct diff *d)
{
	const struct change **out = mem_alloc(d->change_count + 1, sizeof(*out));
	struct ranked *list = mem_alloc(d->change_count + 1, sizeof(*list));
	size_t i;

	for (i = 0; i < d->change_count; i++) {
		const struct change *x = &d->changes[i];
		const struct function *fn = x->new != NO_FUNC ? &d->new->funcs[x->new] : &d->old->funcs[x->old];
		uint64_t was = bytes_of(d->old, x->old), is = bytes_of(d->new, x->new);

		list[i] = (struct ranked){x, was > is ? was - is : is - was, fn->name, fn->start,
		                          x->new != NO_FUNC ? &d->new->names : &d->old->names};
	}
	qsort(list, d->change_count, sizeof(*list), ranked_order);
	for (i = 0; i < d->change_count; i++)
		out[i] = list[i].x;
	free(list);
	return out;
}

/* ---- head and sizes ------------------------------------------------------------------------ */

static void head(const char *mark, const struct image *im)
{
	const uint8_t *id;
	size_t n = elf_build_id(&im->file, &id), i;

	printf("%s ", mark);
	text_clean(stdout, im->file.path);
	printf(": %s, %zu bytes", file_kind(&im->file), im->file.size);
	if (n)
		printf(", build-id ");
	for (i = 0; i < n && i < 8; i++)
		printf("%02x", id[i]);
	puts(n > 8 ? ".." : "");
}

static void delta(char *out, size_t size, uint64_t old, uint64_t new)
{
	out[0] = 0;
	if (old != new)
		snprintf(out, size, "%+" PRId64, (int64_t)(new - old));
}

static void size_cells(struct listing *l, const struct size_row *r)
{
	char by[32], percent[32] = "";

	if (!r->old && !r->new)
		return;
	delta(by, sizeof(by), r->old, r->new);
	if (r->old && r->old != r->new)
		snprintf(percent, sizeof(percent), "%+.1f%%", 100.0 * ((double)r->new - (double)r->old) / (double)r->old);
	listing_add(l, "%s", r->name);
	listing_add(l, "%" PRIu64, r->old);
	listing_add(l, "%" PRIu64, r->new);
	listing_add(l, "%s", by);
	listing_add(l, "%s", percent);
}

static void sizes(const struct diff *d)
{
	static const struct column columns[] = {
		{"", false}, {"old", true}, {"new", true}, {"", true}, {"", true},
	};
	struct listing l;
	size_t i;

	listing_init(&l, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < d->size_count; i++)
		size_cells(&l, &d->sizes[i]);
	for (i = 0; i < sizeof(d->counts) / sizeof(d->counts[0]); i++)
		size_cells(&l, &d->counts[i]);
	putchar('\n');
	listing_print(&l, FORMAT_TEXT);
	listing_free(&l);
}

/* ---- functions -------------------------------------------------------------------------------- */

/* Writes the frame depths of two functions, for example "104", "88 -> 104" or "- -> 24+". */
static void frame_words(const struct function *a, const struct function *b, char *out, size_t size)
{
	const struct function *last = b ? b : a;
	char was[16] = "-", is[16] = "-";

	if (a && a->depth)
		snprintf(was, sizeof(was), "%u", a->depth);
	if (b && b->depth)
		snprintf(is, sizeof(is), "%u", b->depth);
	if (!a || !b || a->depth == b->depth)
		snprintf(out, size, "%s", b ? is : was);
	else
		snprintf(out, size, "%s -> %s", was, is);
	if (last->flags & FRAME_DYNAMIC)
		strncat(out, "+", size - strlen(out) - 1);
}

static void number_words(const struct function *a, const struct function *b, uint32_t was, uint32_t is, char *out,
                         size_t size)
{
	if (a && b && was != is)
		snprintf(out, size, "%u -> %u", was, is);
	else
		snprintf(out, size, "%u", b ? is : was);
}

static void calls_words(const struct change *x, char *out, size_t size)
{
	size_t i, n = strlen(out);

	for (i = 0; i < x->call_count && n + 100 < size; i++) {
		const struct call_change *c = &x->calls[i];

		n += (size_t)snprintf(out + n, size - n, "%s%c%.200s", i ? " " : "; calls ", c->count > 0 ? '+' : '-', c->name);
		if (n < size && (c->count > 1 || c->count < -1))
			n += (size_t)snprintf(out + n, size - n, " (%" PRId64 ")", c->count > 0 ? c->count : -c->count);
	}
	if (i < x->call_count && n < size)
		snprintf(out + n, size - n, " ..");
}

static void change_name(const struct diff *d, const struct change *x, char *out, size_t size)
{
	char was[LINE] = "", is[LINE] = "";
	const struct function *a = x->old != NO_FUNC ? &d->old->funcs[x->old] : NULL;
	const struct function *b = x->new != NO_FUNC ? &d->new->funcs[x->new] : NULL;

	if (a)
		image_name(d->old, x->old, was, sizeof(was));
	if (b)
		image_name(d->new, x->new, is, sizeof(is));
	if (a && b && (!a->name != !b->name || (a->name && name_order(&d->old->names, a->name, &d->new->names, b->name))))
		snprintf(out, size, "%s -> %s", was, is);
	else
		snprintf(out, size, "%s", b ? is : was);
	if (x->rows && !x->frame)
		strncat(out, "; unwind rows", size - strlen(out) - 1);
	calls_words(x, out, size);
}

static void count_cell(struct listing *l, char sign, unsigned n)
{
	char text[16] = "";

	if (n)
		snprintf(text, sizeof(text), "%c%u", sign, n);
	listing_add(l, "%s", text);
}

static void change_cells(const struct diff *d, const struct change *x, struct listing *l)
{
	static const char *const marks[] = {"~", "+", "-", "="};
	const struct function *a = x->old != NO_FUNC ? &d->old->funcs[x->old] : NULL;
	const struct function *b = x->new != NO_FUNC ? &d->new->funcs[x->new] : NULL;
	uint64_t was = bytes_of(d->old, x->old), is = bytes_of(d->new, x->new);
	char text[4 * LINE];

	listing_add(l, "%s", marks[x->kind]);
	listing_add(l, "%" PRIu64, b ? is : was);
	delta(text, sizeof(text), was, is);
	listing_add(l, "%s", a && b ? text : "");
	listing_add(l, "%u", (b ? b : a)->insns);
	count_cell(l, '-', a && b ? x->removed : 0);
	count_cell(l, '+', a && b ? x->inserted : 0);
	frame_words(a, b, text, sizeof(text));
	listing_add(l, "%s", text);
	number_words(a, b, a ? a->rows : 0, b ? b->rows : 0, text, sizeof(text));
	listing_add(l, "%s", text);
	change_name(d, x, text, sizeof(text));
	listing_add(l, "%s", text);
}

/* Lists the functions that differ: at most `most` for each kind of change. */
static void functions(const struct diff *d, size_t most)
{
	static const struct column columns[] = {
		{"", false}, {"bytes", true}, {"", true},     {"insns", true},     {"", true},
		{"", true},  {"frame", true}, {"rows", true}, {"function", false},
	};
	const struct change **list = changes_sorted(d);
	size_t i, shown = 0, left = 0, of_kind = 0;
	struct listing l;

	printf("\nfunctions: %zu changed, %zu added, %zu removed, %zu renamed, %zu the same\n", d->changed, d->added,
	       d->removed, d->renamed, d->same);
	listing_init(&l, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < d->change_count; i++) {
		of_kind = i && list[i]->kind == list[i - 1]->kind ? of_kind + 1 : 0;
		if (of_kind >= most) {
			left++;
			continue;
		}
		change_cells(d, list[i], &l);
		shown++;
	}
	if (shown)
		listing_print(&l, FORMAT_TEXT);
	if (left)
		printf("and %zu more (--functions lists all)\n", left);
	listing_free(&l);
	free(list);
}

static void frames(const struct diff *d)
{
	const struct change *x = d->deepest == NO_FUNC ? NULL : &d->changes[d->deepest];
	char name[LINE];

	if (!d->grown && !d->shrunk)
		return;
	printf("\nstack frames: %zu deeper, %zu less deep", d->grown, d->shrunk);
	if (x) {
		image_name(d->new, x->new, name, sizeof(name));
		printf("; most: %s, %u -> %u bytes", name, d->old->funcs[x->old].depth, d->new->funcs[x->new].depth);
	}
	putchar('\n');
}

/* ---- sites and findings -------------------------------------------------------------------------- */

/* Returns "live", or the reason why a site is not live. */
static const char *live_text(const char *why) { return why ? why : "live"; }

static void site_line(const struct diff *d, const struct site_change *x)
{
	const struct image *im = x->new ? d->new : d->old;
	const struct site *s = x->new ? x->new : x->old;
	bool patched = site_kind_is_patched(s->kind);
	char what[LINE], where[LINE], mark = '~';

	site_words(im, s, what, sizeof(what));
	site_place(im, s, where, sizeof(where));
	if (!x->old)
		mark = '+';
	else if (!x->new)
		mark = '-';
	printf("  %c ", mark);
	text_clean(stdout, where);
	printf(": ");
	text_clean(stdout, what);
	if (x->old && x->new)
		printf(": was %s, is %s", live_text(x->was), live_text(x->is));
	else if (patched)
		printf(": %s", live_text(x->new ? x->is : x->was));
	putchar('\n');
}

static void sites(const struct diff *d, size_t most)
{
	size_t i, gained = 0, lost = 0;

	if (!d->site_count)
		return;
	for (i = 0; i < d->site_count; i++) {
		gained += !d->sites[i].old;
		lost += !d->sites[i].new;
	}
	printf("\nsites: %zu gained, %zu lost, %zu changed\n", gained, lost, d->site_count - gained - lost);
	for (i = 0; i < d->site_count && i < most; i++)
		site_line(d, &d->sites[i]);
	if (i < d->site_count)
		printf("and %zu more (--functions lists all)\n", d->site_count - i);
}

static void findings(const struct diff *d, size_t most)
{
	size_t i, removed = 0;

	if (!d->finding_count)
		return;
	for (i = 0; i < d->finding_count; i++)
		removed += d->findings[i].removed;
	printf("\nfindings: %zu new, %zu gone\n", d->finding_count - removed, removed);
	for (i = 0; i < d->finding_count && i < most; i++) {
		const struct report_finding *f = d->findings[i].finding;
		char where[LINE];

		report_place_text(&f->place, where, sizeof(where));
		printf("  %c ", d->findings[i].removed ? '-' : '+');
		text_clean(stdout, where);
		printf(": %s: ", severity_name(f->entry->severity));
		text_clean(stdout, f->text);
		printf(" [%s]\n", f->entry->id);
	}
	if (i < d->finding_count)
		printf("and %zu more (--functions lists all)\n", d->finding_count - i);
}

bool diff_moved(const struct diff *d)
{
	size_t i;

	for (i = 0; i < d->size_count; i++)
		if (d->sizes[i].old != d->sizes[i].new)
			return true;
	for (i = 0; i < sizeof(d->counts) / sizeof(d->counts[0]); i++)
		if (d->counts[i].old != d->counts[i].new)
			return true;
	return false;
}

void diff_print(const struct diff *d, size_t most)
{
	head("---", d->old);
	head("+++", d->new);
	if (d->old->nameless)
		printf("%s has no .symtab: names of local functions are not used, code is compared instead\n",
		       d->old->file.symbol_count ? "NEW" : "OLD");
	sizes(d);
	functions(d, most);
	frames(d);
	sites(d, most);
	findings(d, most);
}
