/* SPDX-License-Identifier: MIT */
/*
 * Writes a flame graph as one SVG file (writers.h). Callers are above and their callees below them, so that the first
 * screen has the widest frames however deep a stack is; the width is the weight. Calls of one caller are in the order
 * of their names, so that two profiles can be compared by eye; processes are in the order of their weight.
 */
#include "profile/svg_flame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <flame_js.h>

#include "report/text.h"
#include "support/plain.h"

#define ROWS_MOST 4000

static int box_order(const void *a, const void *b)
{
	const struct flame_box *x = a, *y = b;
	int by_name;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? 1 : -1;
	by_name = strcmp(x->name, y->name);
	return by_name ? by_name : (x->call > y->call) - (x->call < y->call);
}

void xml_put(const char *text, FILE *out)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p) {
		size_t n = plain_shown(p);

		if (*p == '<' || *p == '>' || *p == '&' || *p == '"')
			fprintf(out, "&#%d;", *p);
		else if (n)
			fwrite(p, 1, n, out);
		else
			putc('?', out);
		p += n ? n : 1;
	}
}

static void label_put(const char *name, double width, FILE *out)
{
	size_t fits = width > 4 ? (size_t)((width - 4) / FLAME_CHARACTER) : 0, n = strlen(name);
	char *cut;

	if (fits < 3)
		return;
	if (n <= fits) {
		xml_put(name, out);
		return;
	}
	cut = strndup(name, fits - 2);
	if (cut) {
		xml_put(cut, out);
		fputs("..", out);
	}
	free(cut);
}

static double share_of(uint64_t part, uint64_t whole) { return whole ? 100 * (double)part / (double)whole : 0; }

void weight_put(const struct profile *p, uint64_t weight, FILE *out)
{
	if (p->unit == UNIT_BYTES)
		fprintf(out, "%" PRIu64 " bytes", weight);
	else if (p->unit == UNIT_WAIT)
		fprintf(out, "%.3f ms", (double)weight / 1e6);
	else
		fprintf(out, "%" PRIu64 " sample%s", weight / p->period, weight == p->period ? "" : "s");
}

static void title_put(const struct flame *f, const struct flame_box *b)
{
	const struct profile *p = f->p;
	const char *binary = b->call ? p->names.list[function_binary(p, (uint32_t)p->calls.list[b->call].b)] : "";
	uint64_t total = f->total[b->call];

	fputs("<title>", f->out);
	xml_put(b->name, f->out);
	if (*binary) {
		putc('\n', f->out);
		xml_put(binary, f->out);
	}
	putc('\n', f->out);
	if (p->diff) {
		fprintf(f->out, "old %.2f%%, new %.2f%%\nchange %+.2f%%</title>", 100 * p->diff->was[b->call],
		        100 * p->diff->is[b->call], 100 * (p->diff->is[b->call] - p->diff->was[b->call]));
		return;
	}
	weight_put(p, total, f->out);
	fprintf(f->out, ", %.2f%%</title>", share_of(total, p->weight));
}

static void box_put(const struct flame *f, const struct flame_box *b)
{
	double y = flame_top(f) + b->row * FLAME_ROW;

	fprintf(f->out, "<g class=\"f\"%s>", b->call ? "" : " id=\"all\"");
	title_put(f, b);
	fprintf(f->out, "<rect x=\"%.3f\" y=\"%.0f\" width=\"%.4f\" height=\"%d\" fill=\"", FLAME_EDGE + b->x, y, b->width,
	        FLAME_ROW - 1);
	colour_put(f, b->call);
	fprintf(f->out, "\"/><text x=\"%.2f\" y=\"%.0f\">", FLAME_EDGE + 3 + b->x, y + 12);
	label_put(b->name, b->width, f->out);
	fputs("</text></g>\n", f->out);
}

static bool is_seen(const struct flame_box *b) { return b->width >= FLAME_LEAST && b->row < ROWS_MOST; }

static bool is_drawn(const struct flame_box *b)
{
	return is_seen(b) || (b->ever >= FLAME_LEAST_EVER && b->row < ROWS_MOST);
}

/* Finds the width of each call at the moment at which it is widest. */
static bool moments_measure(struct flame *f, const uint32_t *box_of)
{
	const struct profile *p = f->p;
	const struct profile_heap *h = p->heap;
	uint64_t *total = malloc((p->calls.count + 1) * sizeof(*total));
	bool good = total;

	for (size_t m = 0; good && m < h->moment_count; m++) {
		memset(total, 0, p->calls.count * sizeof(*total));
		for (size_t i = h->moments[m].first; i < h->live_count && h->live[i].moment == m; i++)
			total[p->call_of[h->live[i].node]] += h->live[i].bytes;
		for (size_t i = p->calls.count; i-- > 1;)
			total[key_caller(&p->calls.list[i])] += total[i];
		for (size_t i = 1; i < p->calls.count && total[0]; i++) {
			struct flame_box *b = &f->boxes[box_of[i]];
			double width = (FLAME_WIDTH - 2 * FLAME_EDGE) * (double)total[i] / (double)total[0];

			b->ever = width > b->ever ? width : b->ever;
		}
	}
	free(total);
	return good;
}

/* Places the calls of a box. */
static void callees_place(struct flame *f, const struct flame_box *caller)
{
	double x = caller->x;

	for (size_t i = f->first[caller->call]; i < f->count && f->boxes[i].caller == caller->call; i++) {
		struct flame_box *b = &f->boxes[i];

		b->x = x;
		b->width = (double)f->total[b->call] * f->scale;
		b->row = caller->row + 1;
		x += b->width;
		if (is_seen(b) && b->row >= f->rows)
			f->rows = b->row + 1;
	}
}

/* Numbers the boxes that are drawn. A call that is not drawn is a part of its caller's box. */
static void frames_number(struct flame *f, const uint32_t *box_of)
{
	f->frames = 1;
	for (size_t i = 0; i < f->count; i++)
		if (is_drawn(&f->boxes[i]))
			f->boxes[i].number = f->frames++;
	f->frame_of[0] = 0;
	for (size_t i = 1; i < f->p->calls.count; i++) { /* callers come before what they call */
		const struct flame_box *b = &f->boxes[box_of[i]];

		f->frame_of[i] = b->number ? b->number : f->frame_of[b->caller];
	}
}

static bool boxes_make(struct flame *f, struct flame_box *all)
{
	const struct profile *p = f->p;
	uint32_t *box_of = malloc((p->calls.count + 1) * sizeof(*box_of));
	bool good = true;

	f->boxes = malloc((p->calls.count + 1) * sizeof(*f->boxes));
	f->first = malloc((p->calls.count + 1) * sizeof(*f->first));
	f->frame_of = malloc((p->calls.count + 1) * sizeof(*f->frame_of));
	if (!f->boxes || !f->first || !f->frame_of || !box_of) {
		free(box_of);
		return false;
	}
	for (size_t i = 1; i < p->calls.count; i++)
		f->boxes[f->count++] =
			(struct flame_box){.call = (uint32_t)i,
		                       .caller = key_caller(&p->calls.list[i]),
		                       .rank = key_kind(&p->calls.list[i]) == STACK_PROCESS ? f->total[i] : 0,
		                       .name = p->names.list[function_name(p, (uint32_t)p->calls.list[i].b)]};
	if (f->count)
		qsort(f->boxes, f->count, sizeof(*f->boxes), box_order);
	for (size_t i = 0; i < p->calls.count; i++)
		f->first[i] = f->count;
	for (size_t i = f->count; i--;) {
		f->first[f->boxes[i].caller] = i;
		box_of[f->boxes[i].call] = (uint32_t)i;
	}
	callees_place(f, all);
	for (size_t i = 1; i < p->calls.count; i++) /* callers come before what they call */
		callees_place(f, &f->boxes[box_of[i]]);
	if (f->time && p->heap)
		good = moments_measure(f, box_of);
	frames_number(f, box_of);
	free(box_of);
	return good;
}

static void begin_put(const struct flame *f)
{
	double height = flame_top(f) + f->rows * FLAME_ROW + FLAME_EDGE;

	fprintf(f->out,
	        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n"
	        "<svg class=\"etch-flame\" xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%.0f\" "
	        "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
	        "<style>text{font:12px monospace;fill:#000}g.f{cursor:pointer}g.f rect{rx:1px}"
	        "g.f:hover rect,g.focus rect{stroke:#000}g.f text,#time text{pointer-events:none}g.hit rect{fill:#c050e0}"
	        ".button{cursor:pointer;text-decoration:underline}#about{font-weight:bold}#meta{fill:#555}"
	        "#time{cursor:crosshair}</style>\n"
	        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fdfdf6\"/>\n",
	        FLAME_WIDTH, height, FLAME_WIDTH, height);
}

static bool file_put(const struct flame *f, const struct flame_box *all)
{
	begin_put(f);
	box_put(f, all);
	for (size_t i = 0; i < f->count; i++)
		if (f->boxes[i].number)
			box_put(f, &f->boxes[i]);
	if (f->time)
		fprintf(f->out, "<svg id=\"time\" x=\"0\" y=\"%d\" width=\"100%%\" height=\"%d\"></svg>\n", FLAME_HEAD,
		        FLAME_TIME);
	else
		fputs("<svg id=\"time\" width=\"0\" height=\"0\"></svg>\n", f->out);
	svg_head_put(f);
	if (!svg_data_put(f))
		return false;
	fputs("<script><![CDATA[\n" FLAME_JS "]]></script>\n</svg>\n", f->out);
	return true;
}

bool write_svg(const struct profile *p, const char *title, FILE *out)
{
	struct flame_box all = {.name = "all", .width = FLAME_WIDTH - 2 * FLAME_EDGE};
	struct flame f = {.p = p, .title = title, .rows = 1, .out = out};
	bool good;

	if (!calls_weigh(p, &f.self, &f.total))
		return false;
	f.total[0] = p->weight;
	f.time = profile_has_time(p);
	f.scale = p->weight ? all.width / (double)p->weight : 0;
	good = boxes_make(&f, &all) && file_put(&f, &all);
	free(f.boxes);
	free(f.first);
	free(f.frame_of);
	free(f.self);
	free(f.total);
	return good;
}
