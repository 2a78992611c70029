/* SPDX-License-Identifier: MIT */
/*
 * A flame graph as one SVG file (writers.h): callers above, what they call below, so that the first screen has the
 * widest frames however deep a stack is; the width is the weight. Calls of one caller are in order of their names, so
 * that two profiles can be compared by eye.
 */
#include "profile/writers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/flame_script.h"
#include "report/text.h"
#include "support/plain.h"

#define WIDTH     1400.0 /* px */
#define EDGE      10.0
#define TOP       50.0
#define LEAST     0.08 /* narrower frames are left out */
#define ROWS_MOST 4000

struct box {
	uint32_t call, caller;
	const char *name;
	double x, width; /* px, from the left edge of the frames */
	unsigned row;
};

struct flame {
	const struct profile *p;
	struct box *boxes; /* by (caller, name) */
	size_t count;
	size_t *first; /* by call: its first callee in `boxes` */
	uint64_t *self, *total;
	double scale;
	unsigned rows;
	FILE *out;
};

static int box_order(const void *a, const void *b)
{
	const struct box *x = a, *y = b;
	int by_name;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	by_name = strcmp(x->name, y->name);
	return by_name ? by_name : x->call < y->call ? -1 : x->call > y->call;
}

/* XML text: what is not allowed in it, and what a reader could take for something else, is '?'. */
static void xml_put(const char *text, FILE *out)
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

/* A colour for each binary, a shade for each function. */
static void colour_put(const struct flame *f, uint32_t function, uint32_t kind)
{
	uint32_t binary = function_binary(f->p, function), shade = (function * 2654435761u) >> 27;
	const char *name = f->p->names.list[binary];
	uint32_t hash = 5381;

	if (kind) {
		fputs(kind == STACK_STOP ? "#c9c9c9" : "#dcdcdc", f->out);
		return;
	}
	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	fprintf(f->out, "hsl(%u,%u%%,%u%%)", (hash >> 3) % 70, 72 + shade % 16, 62 + shade / 2 % 14);
}

static void label_put(const char *name, double width, FILE *out)
{
	size_t room = width > 4 ? (size_t)((width - 4) / FLAME_CHARACTER) : 0, n = strlen(name);
	char *cut;

	if (room < 3)
		return;
	if (n <= room) {
		xml_put(name, out);
		return;
	}
	cut = strndup(name, room - 2);
	if (cut) {
		xml_put(cut, out);
		fputs("..", out);
	}
	free(cut);
}

/* "226 samples" */
static void weight_put(const struct profile *p, uint64_t weight, FILE *out)
{
	if (p->unit == UNIT_BYTES)
		fprintf(out, "%" PRIu64 " bytes", weight);
	else if (p->unit == UNIT_WAIT)
		fprintf(out, "%.3f ms", (double)weight / 1e6);
	else
		fprintf(out, "%" PRIu64 " sample%s", weight / p->period, weight == p->period ? "" : "s");
}

static void box_put(const struct flame *f, const struct box *b)
{
	const struct profile *p = f->p;
	const struct key *k = &p->calls.list[b->call];
	uint32_t function = (uint32_t)k->b;
	double y = TOP + b->row * FLAME_ROW, weight = (double)f->total[b->call];
	const char *binary = b->call ? p->names.list[function_binary(p, function)] : "";

	fputs("<g class=\"f\"><title>", f->out);
	xml_put(b->name, f->out);
	if (*binary) {
		fputs("\n", f->out);
		xml_put(binary, f->out);
	}
	putc('\n', f->out);
	weight_put(p, f->total[b->call], f->out);
	fprintf(f->out, ", %.2f%%</title><rect x=\"%.3f\" y=\"%.0f\" width=\"%.4f\" height=\"%d\" fill=\"",
	        p->weight ? 100 * weight / (double)p->weight : 0, EDGE + b->x, y, b->width, FLAME_ROW - 1);
	if (b->call)
		colour_put(f, function, key_kind(k));
	else
		fputs("#e8e8e8", f->out);
	fprintf(f->out, "\"/><text x=\"%.2f\" y=\"%.0f\">", EDGE + 3 + b->x, y + 12);
	label_put(b->name, b->width, f->out);
	fputs("</text></g>\n", f->out);
}

/* Gives the calls of a box their places. */
static void callees_place(struct flame *f, const struct box *caller)
{
	double x = caller->x;

	for (size_t i = f->first[caller->call]; i < f->count && f->boxes[i].caller == caller->call; i++) {
		struct box *b = &f->boxes[i];

		b->x = x;
		b->width = (double)f->total[b->call] * f->scale;
		b->row = caller->row + 1;
		x += b->width;
		if (b->width >= LEAST && b->row < ROWS_MOST && b->row >= f->rows)
			f->rows = b->row + 1;
	}
}

static bool boxes_make(struct flame *f, struct box *all)
{
	const struct profile *p = f->p;
	uint32_t *box_of = malloc((p->calls.count + 1) * sizeof(*box_of));

	f->boxes = malloc((p->calls.count + 1) * sizeof(*f->boxes));
	f->first = malloc((p->calls.count + 1) * sizeof(*f->first));
	if (!f->boxes || !f->first || !box_of) {
		free(box_of);
		return false;
	}
	for (size_t i = 1; i < p->calls.count; i++)
		f->boxes[f->count++] = (struct box){.call = (uint32_t)i,
		                                    .caller = key_caller(&p->calls.list[i]),
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
	free(box_of);
	return true;
}

static void head_put(const struct flame *f, const char *title)
{
	double height = TOP + f->rows * FLAME_ROW + EDGE;

	fprintf(
		f->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n"
		"<svg class=\"etch-flame\" xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\">\n"
		"<style>text{font:12px monospace;fill:#000}g.f{cursor:pointer}g.f rect{rx:1px}g.f:hover rect{stroke:#000}"
		"g.f text{pointer-events:none}g.hit "
		"rect{fill:#c050e0}.button{cursor:pointer;text-decoration:underline}#about{fill:#555}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fdfdf6\"/>\n<text id=\"title\" x=\"10\" y=\"20\" "
		"style=\"font-size:15px\">",
		WIDTH, height, WIDTH, height);
	xml_put(title, f->out);
	fprintf(f->out,
	        "</text>\n<text id=\"reset\" class=\"button\" x=\"%.0f\" y=\"20\" text-anchor=\"end\" "
	        "style=\"display:none\">Reset zoom</text>\n"
	        "<text id=\"search\" class=\"button\" x=\"%.0f\" y=\"20\" text-anchor=\"end\">Search</text>\n"
	        "<text id=\"matched\" x=\"%.0f\" y=\"40\" text-anchor=\"end\"></text>\n"
	        "<text id=\"about\" x=\"10\" y=\"40\">",
	        WIDTH - EDGE - 70, WIDTH - EDGE, WIDTH - EDGE);
	weight_put(f->p, f->p->weight, f->out);
	fputs("; a click zooms, Ctrl+F searches</text>\n", f->out);
}

bool write_svg(const struct profile *p, const char *title, FILE *out)
{
	struct box all = {.name = "all", .width = WIDTH - 2 * EDGE};
	struct flame f = {.p = p, .rows = 1, .out = out};
	bool good;

	if (!calls_weigh(p, &f.self, &f.total))
		return false;
	f.scale = p->weight ? all.width / (double)p->weight : 0;
	good = boxes_make(&f, &all);
	if (good) {
		head_put(&f, title);
		box_put(&f, &all);
		for (size_t i = 0; i < f.count; i++)
			if (f.boxes[i].width >= LEAST && f.boxes[i].row < ROWS_MOST)
				box_put(&f, &f.boxes[i]);
		fputs("<script><![CDATA[\n" FLAME_SCRIPT "]]></script>\n</svg>\n", out);
	}
	free(f.boxes);
	free(f.first);
	free(f.self);
	free(f.total);
	return good;
}
