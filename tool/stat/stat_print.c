/* SPDX-License-Identifier: MIT */
/* Prints a measurement (stat_print.h): functions that format numbers come first, then one function for each output
 * format. */
#include "report/listing.h"
#include "stat/stat_print.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "stat/shell_quote.h"

static const char *const sources[] = {"none", "perf", "rusage", "clock", "callgrind"};
static const char *const verdicts[] = {"", "too few runs", "within noise", "beyond noise"};
static const char side_names[SIDES_MAX + 1] = "AB";

/* ---- comparing the two commands ------------------------------------------------ */

enum verdict {
	VERDICT_NONE,   /* nothing to compare */
	VERDICT_FEW,    /* too few runs */
	VERDICT_WITHIN, /* within the noise */
	VERDICT_BEYOND, /* beyond the noise */
};

/* The summary of a row. */
struct comparison {
	bool have[SIDES_MAX];
	struct spread spread[SIDES_MAX];
	bool has_percent;   /* the first median is not 0 */
	double delta;       /* second median minus first */
	double percent;     /* the difference in percent of the first median */
	struct shift shift; /* with VERDICT_WITHIN and VERDICT_BEYOND */
	enum verdict verdict;
};

static void row_compare(const struct row *r, struct comparison *out)
{
	const struct samples *a = &r->side[0].samples, *b = &r->side[1].samples;
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < SIDES_MAX; i++)
		out->have[i] = samples_spread(&r->side[i].samples, &out->spread[i]);
	if (!out->have[0] || !out->have[1])
		return;
	out->delta = out->spread[1].median - out->spread[0].median;
	out->has_percent = out->spread[0].median != 0;
	if (out->has_percent)
		out->percent = 100 * out->delta / out->spread[0].median;
	if (!samples_shift(a, b, &out->shift))
		out->verdict = VERDICT_FEW;
	else
		out->verdict = out->shift.low > 0 || out->shift.high < 0 ? VERDICT_BEYOND : VERDICT_WITHIN;
}

/* ---- numbers ------------------------------------------------------------------- */

/* Formats a value for people: times to the microsecond, and counts as integers, except a median between two counts, and
 * values of a unit of work. */
static void number_text(const struct row *r, double v, char *out, size_t size)
{
	int digits = 1;

	if (r->unit || 2 * v != floor(2 * v))
		digits = 3;
	else if (v == floor(v))
		digits = 0;
	snprintf(out, size, "%.*f", digits, v);
}

/* Formats a value for programs: exactly to six decimals, without trailing zeros. */
static void number_exact(double v, char *out, size_t size)
{
	char *end;

	snprintf(out, size, "%.6f", v);
	end = out + strlen(out);
	while (end[-1] == '0')
		end--;
	if (end[-1] == '.')
		end--;
	*end = 0;
	if (!strcmp(out, "-0"))
		strcpy(out, "0");
}

/* Formats the spread, which is unknown for a single run. */
static void spread_text(const struct row *r, size_t runs, const struct spread *s, char *out, size_t size)
{
	if (runs < 2)
		*out = 0;
	else if (s->median)
		snprintf(out, size, "%.2f%%", 100 * s->mad / s->median);
	else
		number_text(r, s->mad, out, size);
}

/* Returns a limit of the interval in percent of A. A cost cannot fall by more than 100%, although the limit can be
 * lower if the samples of a noisy A extend far beyond its median. A value of a unit of work is a difference, and may be
 * negative. */
static double limit_percent(const struct measurement *m, double limit, double base)
{
	double percent = limit / base;

	return m->work.text[0] || percent > -100 ? percent : -100;
}

/* Formats "+3.74%" and "+3.51% .. +3.90%"; there is no percentage of 0. */
static void change_text(const struct measurement *m, const struct row *r, const struct comparison *c, char *delta,
                        char *range, size_t size)
{
	double base = c->spread[0].median / 100;
	bool known = c->verdict >= VERDICT_WITHIN;
	int digits = r->unit || c->delta != floor(c->delta) ? 3 : 0;

	*range = 0;
	if (c->has_percent) {
		snprintf(delta, size, "%+.2f%%", c->percent);
		if (known)
			snprintf(range, size, "%+.2f%% .. %+.2f%%", limit_percent(m, c->shift.low, base),
			         limit_percent(m, c->shift.high, base));
	} else {
		snprintf(delta, size, "%+.*f", digits, c->delta);
		if (known)
			snprintf(range, size, "%+.*f .. %+.*f", digits, c->shift.low, digits, c->shift.high);
	}
}

/* ---- for people ---------------------------------------------------------------- */

struct remark {
	char text[300];
	size_t length;
};

static void remark_add(struct remark *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void remark_add(struct remark *to, const char *format, ...)
{
	va_list ap;
	int n;

	if (to->length)
		to->length += (size_t)snprintf(to->text + to->length, sizeof(to->text) - to->length, "; ");
	va_start(ap, format);
	n = vsnprintf(to->text + to->length, sizeof(to->text) - to->length, format, ap);
	va_end(ap);
	to->length += (size_t)n;
	if (to->length > sizeof(to->text) - 3)
		to->length = sizeof(to->text) - 3;
}

/* Collects all remarks on a row's numbers. */
static void remarks(const struct measurement *m, const struct row *r, const struct comparison *c, struct remark *to)
{
	size_t i;

	to->length = 0;
	to->text[0] = 0;
	if (c->verdict != VERDICT_NONE)
		remark_add(to, "%s", verdicts[c->verdict]);
	if (r->source == SOURCE_NONE)
		remark_add(to, "%s", r->missing);
	if (r->source == SOURCE_RUSAGE)
		remark_add(to, "from rusage");
	if (r->user_only)
		remark_add(to, "user space only");
	for (i = 0; i < m->side_count && r->source != SOURCE_NONE; i++) {
		const struct side *s = &r->side[i];

		if (s->samples.count < m->end[i].runs)
			remark_add(to, "%c: counted in %zu of %zu runs", side_names[i], s->samples.count, m->end[i].runs);
		if (s->samples.count && s->share < 1)
			remark_add(to, "%c: scaled, counted %.0f%% of the time or more, in group %u", side_names[i],
			           floor(100 * s->share), r->group);
	}
}

static void text_row(const struct measurement *m, const struct row *r, struct listing *l)
{
	char number[64], spread[64], delta[64], range[128];
	struct comparison c;
	struct remark remark;
	size_t i;

	row_compare(r, &c);
	listing_add(l, "%s%s%s", r->title, r->unit ? ", " : "", r->unit ? r->unit : "");
	for (i = 0; i < m->side_count; i++) {
		number[0] = spread[0] = 0;
		if (c.have[i]) {
			number_text(r, c.spread[i].median, number, sizeof(number));
			spread_text(r, r->side[i].samples.count, &c.spread[i], spread, sizeof(spread));
		}
		listing_add(l, "%s", number);
		listing_add(l, "%s", spread);
	}
	if (m->side_count > 1) {
		delta[0] = range[0] = 0;
		if (c.verdict != VERDICT_NONE)
			change_text(m, r, &c, delta, range, sizeof(delta));
		listing_add(l, "%s", delta);
		listing_add(l, "%s", range);
	}
	remarks(m, r, &c, &remark);
	listing_add(l, "%s", remark.text);
}

static void endings_text(const struct measurement *m, size_t side, FILE *out)
{
	const struct endings *end = &m->end[side];
	size_t i;

	if (end->cut_short) {
		fprintf(out, "note: %c: its only run was cut short\n", side_names[side]);
		return;
	}
	for (i = 1; i < 256; i++)
		if (end->exits[i])
			fprintf(out, "note: %c: %zu of %zu runs ended with exit status %zu; they count like the others\n",
			        side_names[side], end->exits[i], end->runs, i);
	for (i = 1; i < 128; i++)
		if (end->signals[i])
			fprintf(out, "note: %c: %zu of %zu runs ended by signal %zu (%s); they count up to that point\n",
			        side_names[side], end->signals[i], end->runs, i, strsignal((int)i));
}

static void head_text(const struct measurement *m, FILE *out)
{
	const struct simulation *s = &m->simulation;
	bool two = m->side_count > 1;
	size_t i;

	fprintf(out, "%zu run%s%s%s", m->runs, m->runs == 1 ? "" : "s", two ? " of each" : "",
	        two && m->runs > 1 ? ", in turn (A B A B ...)" : "");
	if (m->warmup)
		fprintf(out, ", after %zu to warm up", m->warmup);
	if (m->run.cpu >= 0)
		fprintf(out, ", on CPU %d", m->run.cpu);
	if (m->simulate)
		fprintf(out, ", simulated by valgrind%s%s", m->only ? ": only " : "", m->only ? m->only : "");
	if (m->work.text[0])
		fprintf(out, "; of one unit of work: {} is %s and %s", m->work.text[0], m->work.text[1]);
	putc('\n', out);
	if (s->caches[0])
		fprintf(out, "simulated caches: %s\n", s->caches);
	for (i = 0; i < m->side_count; i++) {
		fprintf(out, "  %c  ", side_names[i]);
		words_print(out, m->command[i]);
		putc('\n', out);
	}
	putc('\n', out);
}

static void foot_text(const struct measurement *m, FILE *out)
{
	const struct simulation *s = &m->simulation;
	size_t i;

	putc('\n', out);
	if (m->runs > 1)
		fprintf(out, "%s: median of the runs. Spread: median distance from it, in %% of it.\n",
		        m->side_count > 1 ? "A, B" : "A");
	if (m->side_count > 1 && m->runs > 1)
		fputs("Interval: of B - A, in % of A (rank test, 99%). Beyond noise: 0 is outside it.\n", out);
	for (i = 0; i < m->side_count; i++) {
		endings_text(m, i, out);
		if (m->end[i].runs < m->runs)
			fprintf(out, "note: %c: stopped (%s) after %zu of %zu runs\n", side_names[i],
			        m->stopped ? strsignal(m->stopped) : "an error", m->end[i].runs, m->runs);
	}
	if (s->doubled)
		fprintf(out, "note: forked processes counted with their parent's counts, as their fork was not seen: %zu\n",
		        s->doubled);
	if (s->lost)
		fprintf(out, "note: processes without counts, killed or still running: %zu\n", s->lost);
}

static void show_text(const struct measurement *m, FILE *out)
{
	static const struct column one[] = {{"", false}, {"A", true}, {"spread", true}, {"", false}};
	static const struct column two[] = {{"", false},      {"A", true},     {"spread", true},   {"B", true},
	                                    {"spread", true}, {"delta", true}, {"interval", true}, {"", false}};
	struct listing l;
	size_t i;

	if (m->side_count > 1)
		listing_init(&l, two, sizeof(two) / sizeof(two[0]));
	else
		listing_init(&l, one, sizeof(one) / sizeof(one[0]));
	head_text(m, out);
	for (i = 0; i < m->row_count; i++)
		text_row(m, &m->rows[i], &l);
	listing_write(&l, FORMAT_TEXT, out);
	listing_free(&l);
	foot_text(m, out);
}

/* ---- for scripts --------------------------------------------------------------- */

static void exact_add(struct listing *l, bool have, double v)
{
	char text[64];

	number_exact(v, text, sizeof(text));
	listing_add(l, "%s", have ? text : "-");
}

static void show_tsv(const struct measurement *m, FILE *out)
{
	static const struct column columns[] = {
		{"counter", false}, {"unit", false},  {"source", false}, {"runs_a", true},   {"a", true},
		{"mad_a", true},    {"runs_b", true}, {"b", true},       {"mad_b", true},    {"delta", true},
		{"percent", true},  {"low", true},    {"high", true},    {"verdict", false},
	};
	struct comparison c;
	struct listing l;
	size_t i, j;

	listing_init(&l, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < m->row_count; i++) {
		const struct row *r = &m->rows[i];

		row_compare(r, &c);
		listing_add(&l, "%s", r->key);
		listing_add(&l, "%s", r->unit ? r->unit : "-");
		listing_add(&l, "%s", sources[r->source]);
		for (j = 0; j < SIDES_MAX; j++) {
			listing_add(&l, "%zu", r->side[j].samples.count);
			exact_add(&l, c.have[j], c.spread[j].median);
			exact_add(&l, r->side[j].samples.count > 1, c.spread[j].mad);
		}
		exact_add(&l, c.verdict != VERDICT_NONE, c.delta);
		exact_add(&l, c.has_percent && c.verdict != VERDICT_NONE, c.percent);
		exact_add(&l, c.verdict >= VERDICT_WITHIN, c.shift.low);
		exact_add(&l, c.verdict >= VERDICT_WITHIN, c.shift.high);
		listing_add(&l, "%s", c.verdict ? verdicts[c.verdict] : "-");
	}
	listing_write(&l, FORMAT_TSV, out);
	listing_free(&l);
}

static struct json_object *json_number(double v)
{
	char text[64];

	number_exact(v, text, sizeof(text));
	return json_object_new_double_s(v, text);
}

static void add(struct json_object *to, const char *key, struct json_object *value)
{
	json_object_object_add(to, key, value);
}

static struct json_object *json_count(size_t n) { return json_object_new_int64((int64_t)n); }

static struct json_object *json_endings(const struct endings *end)
{
	struct json_object *list = json_object_new_array(), *o;
	size_t i;

	for (i = 0; i < 256 + 128; i++) {
		size_t runs = i < 256 ? end->exits[i] : end->signals[i - 256];

		if (!runs)
			continue;
		o = json_object_new_object();
		add(o, i < 256 ? "exit" : "signal", json_count(i < 256 ? i : i - 256));
		add(o, "runs", json_count(runs));
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *json_command(const struct measurement *m, size_t side)
{
	struct json_object *o = json_object_new_object(), *argv = json_object_new_array();
	size_t i;

	for (i = 0; m->command[side][i]; i++)
		json_object_array_add(argv, json_name(m->command[side][i]));
	add(o, "argv", argv);
	add(o, "runs", json_count(m->end[side].runs));
	add(o, "cut_short", json_object_new_boolean(m->end[side].cut_short));
	add(o, "endings", json_endings(&m->end[side]));
	return o;
}

static struct json_object *json_side(const struct side *s, const struct spread *spread)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	size_t i;

	add(o, "median", json_number(spread->median));
	add(o, "mad", s->samples.count > 1 ? json_number(spread->mad) : NULL);
	add(o, "min", json_number(spread->min));
	add(o, "max", json_number(spread->max));
	add(o, "counted", json_number(s->share));
	for (i = 0; i < s->samples.count; i++)
		json_object_array_add(list, json_number(s->samples.list[i]));
	add(o, "samples", list);
	return o;
}

static struct json_object *json_difference(const struct comparison *c)
{
	struct json_object *o;

	if (c->verdict == VERDICT_NONE)
		return NULL;
	o = json_object_new_object();
	add(o, "delta", json_number(c->delta));
	add(o, "percent", c->has_percent ? json_number(c->percent) : NULL);
	add(o, "low", c->verdict >= VERDICT_WITHIN ? json_number(c->shift.low) : NULL);
	add(o, "high", c->verdict >= VERDICT_WITHIN ? json_number(c->shift.high) : NULL);
	add(o, "verdict", json_object_new_string(verdicts[c->verdict]));
	return o;
}

static struct json_object *json_row(const struct row *r)
{
	struct json_object *o = json_object_new_object();
	struct comparison c;

	row_compare(r, &c);
	add(o, "counter", json_object_new_string(r->key));
	add(o, "unit", r->unit ? json_object_new_string(r->unit) : NULL);
	add(o, "source", json_object_new_string(sources[r->source]));
	add(o, "missing", r->source == SOURCE_NONE ? json_name(r->missing) : NULL);
	add(o, "user_only", json_object_new_boolean(r->user_only));
	add(o, "group", r->group ? json_count(r->group) : NULL);
	add(o, "a", c.have[0] ? json_side(&r->side[0], &c.spread[0]) : NULL);
	add(o, "b", c.have[1] ? json_side(&r->side[1], &c.spread[1]) : NULL);
	add(o, "difference", json_difference(&c));
	return o;
}

static struct json_object *json_work(const struct work_sizes *w)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < 2; i++)
		add(o, i ? "large" : "small", json_object_new_string(w->text[i]));
	return o;
}

static struct json_object *json_simulation(const struct simulation *s)
{
	struct json_object *o = json_object_new_object();

	add(o, "tool", json_object_new_string("callgrind"));
	add(o, "caches", json_name(s->caches));
	add(o, "doubled", json_count(s->doubled));
	add(o, "lost", json_count(s->lost));
	add(o, "only", s->only ? json_name(s->only) : NULL);
	add(o, "files", s->files ? json_count((size_t)s->files) : NULL);
	return o;
}

static void show_json(const struct measurement *m, FILE *out)
{
	struct json_object *o = json_object_new_object(), *tool = json_object_new_object(), *list;
	size_t i;

	add(o, "format", json_object_new_string("etch-stat"));
	add(o, "version", json_count(1));
	add(tool, "name", json_object_new_string("etch"));
	add(tool, "version", json_object_new_string(ETCH_VERSION));
	add(o, "tool", tool);
	add(o, "runs", json_count(m->runs));
	add(o, "warmup", json_count(m->warmup));
	add(o, "cpu", m->run.cpu >= 0 ? json_count((size_t)m->run.cpu) : NULL);
	add(o, "simulation", m->simulate ? json_simulation(&m->simulation) : NULL);
	add(o, "work", m->work.text[0] ? json_work(&m->work) : NULL);
	add(o, "stopped_by", m->stopped ? json_count((size_t)m->stopped) : NULL);
	add(o, "confidence", json_number(1 - SHIFT_ERROR));
	list = json_object_new_array();
	for (i = 0; i < m->side_count; i++)
		json_object_array_add(list, json_command(m, i));
	add(o, "commands", list);
	list = json_object_new_array();
	for (i = 0; i < m->row_count; i++)
		json_object_array_add(list, json_row(&m->rows[i]));
	add(o, "counters", list);
	json_put(out, o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	putc('\n', out);
	json_object_put(o);
}

void stat_show(const struct measurement *m, enum format format, FILE *out)
{
	if (format == FORMAT_JSON)
		show_json(m, out);
	else if (format == FORMAT_TSV)
		show_tsv(m, out);
	else
		show_text(m, out);
}
