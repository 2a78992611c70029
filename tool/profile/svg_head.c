/* SPDX-License-Identifier: MIT */
/* Prints the head of the SVG flame graph, which stays in view: what was measured, and what the colours mean
 * (svg_flame.h). */
#include "profile/svg_flame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEGEND_MOST 7

/* Computes the hue and saturation of a file's functions from its name, so that they are the same in each picture. */
static void hue_of(const char *binary, unsigned *hue, unsigned *saturation)
{
	uint32_t hash = 5381;

	for (const char *c = binary; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	*hue = (hash >> 3) % 70;
	*saturation = 72;
	if (!strcmp(binary, "JIT") || !strcmp(binary, "Python"))
		*hue = 130;
}

/* Returns how strongly a change is shown: from -1 to 1. */
static double change_of(const struct flame *f, uint32_t call)
{
	const struct profile_diff *d = f->p->diff;
	double change = d->is[call] - d->was[call];

	return d->most > 0 ? change / d->most : 0;
}

/* Prints the colour in a comparison: a red call has grown, a blue one has shrunk, and a grey one is within the
 * noise. */
static void change_put(const struct flame *f, uint32_t call)
{
	double change = call ? change_of(f, call) : 0;
	unsigned pale;

	if (!call || f->p->diff->noise[call] || change == 0) {
		fputs("#e4e4e0", f->out);
		return;
	}
	change = fmax(-1, fmin(change, 1));
	pale = (unsigned)(225 - 150 * (change < 0 ? -change : change));
	if (change > 0)
		fprintf(f->out, "rgb(255,%u,%u)", pale, pale);
	else
		fprintf(f->out, "rgb(%u,%u,255)", pale, pale);
}

void colour_put(const struct flame *f, uint32_t call)
{
	const struct key *k = &f->p->calls.list[call];
	uint32_t shade = ((uint32_t)k->b * 2654435761u) >> 27;
	unsigned hue, saturation;

	if (f->p->diff) {
		change_put(f, call);
		return;
	}
	if (!call) {
		fputs("#e8e8e8", f->out);
		return;
	}
	switch (key_kind(k)) {
	case STACK_STOP: fputs("#c9c9c9", f->out); return;
	case STACK_WAIT:
		fputs(f->p->names.list[function_name(f->p, (uint32_t)k->b)][8] == ']' ? "#b9c6dd" : "#d6c3dc", f->out);
		return;
	case STACK_THREAD:
	case STACK_PROCESS: fputs("#dcdcdc", f->out); return;
	case BINARY_KERNEL: fprintf(f->out, "hsl(205,%u%%,%u%%)", 52 + shade % 16, 66 + shade / 2 % 14); return;
	default:
		hue_of(f->p->names
		           .list[f->p->by_name ? function_name(f->p, (uint32_t)k->b) : function_binary(f->p, (uint32_t)k->b)],
		       &hue, &saturation);
		fprintf(f->out, "hsl(%u,%u%%,%u%%)", hue, saturation + shade % 16, 62 + shade / 2 % 14);
	}
}

/* ---- the legend --------------------------------------------------------------------------------- */

struct legend_row {
	uint64_t weight;
	uint32_t name;
	bool kernel;
};

static int legend_order(const void *a, const void *b)
{
	const struct legend_row *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static double swatch_put(const struct flame *f, double x, const char *colour, const char *name)
{
	fprintf(f->out, "<rect x=\"%.0f\" y=\"46\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%.0f\" y=\"55\">", x,
	        colour, x + 14);
	xml_put(name, f->out);
	fputs("</text>", f->out);
	return x + 14 + FLAME_CHARACTER * (double)strlen(name) + 16;
}

/* Weighs the files, and the kernel, whose functions are drawn: p->names.count + 1 rows, sorted. Null: out of memory. */
static struct legend_row *legend_weigh(const struct flame *f)
{
	const struct profile *p = f->p;
	struct legend_row *rows = calloc(p->names.count + 2, sizeof(*rows));

	if (!rows)
		return NULL;
	for (size_t i = 0; i < p->names.count; i++)
		rows[i].name = (uint32_t)i;
	rows[p->names.count].kernel = true;
	for (size_t i = 1; i < p->calls.count; i++) {
		const struct key *k = &p->calls.list[i];

		if (key_kind(k) == BINARY_KERNEL)
			rows[p->names.count].weight += f->self[i];
		else if (!stack_is_marker(key_kind(k)))
			rows[function_binary(p, (uint32_t)k->b)].weight += f->self[i];
	}
	qsort(rows, p->names.count + 1, sizeof(*rows), legend_order);
	return rows;
}

static void files_legend_put(const struct flame *f)
{
	const struct profile *p = f->p;
	struct legend_row *rows = legend_weigh(f);
	double x = FLAME_EDGE;
	size_t shown = 0;

	for (size_t i = 0; rows && i <= p->names.count && rows[i].weight && shown < LEGEND_MOST; i++) {
		const char *name = rows[i].kernel ? "kernel" : p->names.list[rows[i].name];
		unsigned hue, saturation;
		char colour[40];

		if (!*name)
			continue;
		hue_of(name, &hue, &saturation);
		snprintf(colour, sizeof(colour), rows[i].kernel ? "hsl(205,60%%,72%%)" : "hsl(%u,%u%%,68%%)", hue,
		         saturation + 8);
		if (x + FLAME_CHARACTER * (double)strlen(name) + 30 > FLAME_WIDTH - 200)
			break;
		x = swatch_put(f, x, colour, name);
		shown++;
	}
	free(rows);
	if (p->wall) {
		x = swatch_put(f, x, "#b9c6dd", "waiting");
		x = swatch_put(f, x, "#d6c3dc", "waiting for a processor");
	}
	for (int i = 0; i < STOP_COUNT; i++)
		if (i != STOP_END && p->stops[i]) {
			swatch_put(f, x, "#c9c9c9", "[why the stack is incomplete]");
			break;
		}
}

static void legend_put(const struct flame *f)
{
	double x = FLAME_EDGE;

	fputs("<svg id=\"legend\">", f->out);
	if (f->p->diff) {
		x = swatch_put(f, x, "rgb(255,75,75)", "larger share than before");
		x = swatch_put(f, x, "rgb(75,75,255)", "smaller");
		swatch_put(f, x, "#e4e4e0", "no change beyond the noise");
	} else {
		files_legend_put(f);
	}
	fputs("</svg>\n", f->out);
}

/* ---- what was measured ------------------------------------------------------------------------------ */

static void meta_put(const struct flame *f)
{
	const struct profile *p = f->p;
	char host[256] = "", date[64] = "";
	time_t started = p->started;
	struct tm tm;

	fputs("<text id=\"meta\" x=\"10\" y=\"37\">", f->out);
	xml_put(p->measure ? p->measure : "", f->out);
	if (*p->rate) {
		fputs("; ", f->out);
		xml_put(p->rate, f->out);
	}
	if (p->duration)
		fprintf(f->out, "; %.3g s", (double)p->duration / 1e9);
	if (started && !gethostname(host, sizeof(host) - 1)) {
		fputs("; on ", f->out);
		xml_put(host, f->out);
	}
	if (started && gmtime_r(&started, &tm) && strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm))
		fprintf(f->out, "; %s", date);
	fputs("; etch " ETCH_VERSION "</text>\n", f->out);
}

static void hint_put(const struct flame *f)
{
	if (f->p->diff)
		fputs("a box is as wide as the mean of both shares", f->out);
	else
		weight_put(f->p, f->p->weight, f->out);
	fputs("; a click zooms, / searches, i inverts, arrows and Enter walk, Escape goes back", f->out);
	if (f->time)
		fputs(f->p->unit == UNIT_BYTES ? "; a click on the time line shows a moment" : "; drag on the time line",
		      f->out);
}

void svg_head_put(const struct flame *f)
{
	static const struct {
		const char *id, *text, *more;
		double right;
	} buttons[] = {{"reset", "Reset zoom", " style=\"display:none\"", 160},
	               {"invert", "Invert", "", 60},
	               {"search", "Search", "", 0}};
	double right = FLAME_WIDTH - FLAME_EDGE;

	fprintf(f->out,
	        "<svg id=\"head\" x=\"0\" y=\"0\" width=\"100%%\" height=\"%d\">\n"
	        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fdfdf6\"/>\n<text id=\"title\" x=\"10\" y=\"19\" "
	        "style=\"font-size:15px\">",
	        FLAME_HEAD);
	xml_put(f->title, f->out);
	fputs("</text>\n", f->out);
	for (size_t i = 0; i < sizeof(buttons) / sizeof(*buttons); i++)
		fprintf(f->out, "<text id=\"%s\" class=\"button\" x=\"%.0f\" y=\"19\" text-anchor=\"end\"%s>%s</text>\n",
		        buttons[i].id, right - buttons[i].right, buttons[i].more, buttons[i].text);
	fprintf(f->out, "<text id=\"matched\" x=\"%.0f\" y=\"37\" text-anchor=\"end\"></text>\n", right);
	meta_put(f);
	legend_put(f);
	fputs("<text id=\"about\" x=\"10\" y=\"74\" data-hint=\"", f->out);
	hint_put(f);
	fputs("\">", f->out);
	hint_put(f);
	fputs("</text>\n</svg>\n", f->out);
}
