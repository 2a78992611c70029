/* SPDX-License-Identifier: MIT */
/* Collects the cells of a table and prints them; prints JSON documents. */
#include "report/listing.h"
#include "support/memory.h"
#include "support/demangle.h"
#include "support/plain.h"
#include "support/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NARROWEST 12 /* least width in columns to which a cell is cut so that the row fits the terminal */

void listing_init(struct listing *l, const struct column *columns, size_t count)
{
	memset(l, 0, sizeof(*l));
	l->columns = columns;
	l->column_count = count;
}

void listing_add(struct listing *l, const char *format, ...)
{
	va_list args;
	char *cell;

	va_start(args, format);
	cell = mem_formatv(format, args);
	va_end(args);
	plain(cell);
	mem_reserve(&l->cells, &l->capacity, l->cell_count, sizeof(*l->cells));
	l->cells[l->cell_count++] = cell;
}

void listing_free(struct listing *l)
{
	size_t i;

	for (i = 0; i < l->cell_count; i++)
		free(l->cells[i]);
	free(l->cells);
	memset(l, 0, sizeof(*l));
}

static void print_tsv(const struct listing *l, FILE *out)
{
	size_t i, c;

	for (c = 0; c < l->column_count; c++)
		fprintf(out, "%s%s", c ? "\t" : "", l->columns[c].name);
	putc('\n', out);
	for (i = 0; i + l->column_count <= l->cell_count; i += l->column_count) {
		for (c = 0; c < l->column_count; c++)
			fprintf(out, "%s%s", c ? "\t" : "", l->cells[i + c]);
		putc('\n', out);
	}
}

/*
 * Makes columns of text narrower, the widest one first, until a row fits the terminal. Columns of numbers keep their
 * width.
 */
static void widths_fit(const struct listing *l, size_t *width, size_t terminal)
{
	size_t c, widest, sum;

	for (;;) {
		sum = 2 * (l->column_count - 1);
		widest = l->column_count;
		for (c = 0; c < l->column_count; c++) {
			sum += width[c];
			if (!l->columns[c].number && width[c] > NARROWEST &&
			    (widest == l->column_count || width[c] > width[widest]))
				widest = c;
		}
		if (sum <= terminal || widest == l->column_count)
			return;
		width[widest]--;
	}
}

static size_t columns_of(const char *cell) { return utf8_columns(cell, strlen(cell)); }

/* Prints a cell in its column. If the text does not fit, it is cut and ends with two dots. */
static void cell_put(const struct column *column, const char *cell, size_t width, bool last, FILE *out)
{
	size_t columns = columns_of(cell), blanks = columns < width ? width - columns : 0;

	if (columns > width)
		fprintf(out, "%.*s..", (int)utf8_fitting(cell, width - 2), cell);
	else
		fprintf(out, "%*s%s%*s", column->number ? (int)blanks : 0, "", cell, column->number || last ? 0 : (int)blanks,
		        "");
	if (!last)
		fputs("  ", out);
}

/* Prints a row. If the terminal is too narrow for all columns, cuts the row at its edge. */
static void row_put(const struct listing *l, char *const *cells, const size_t *width, size_t terminal, FILE *out)
{
	char *line;
	size_t size, c;
	FILE *f = mem_stream(&line, &size);

	for (c = 0; c < l->column_count; c++)
		cell_put(&l->columns[c], cells ? cells[c] : l->columns[c].name, width[c], c + 1 == l->column_count, f);
	mem_stream_close(f, &line);
	while (size && line[size - 1] == ' ')
		size--; /* the last cells of the row are empty */
	if (terminal && utf8_columns(line, size) > terminal)
		size = utf8_fitting(line, terminal);
	fwrite(line, 1, size, out);
	putc('\n', out);
	free(line);
}

static void print_text(const struct listing *l, FILE *out)
{
	size_t i, c, *width = mem_zero(l->column_count, sizeof(*width)), terminal = out == stdout ? terminal_width() : 0;

	for (c = 0; c < l->column_count; c++)
		width[c] = columns_of(l->columns[c].name);
	for (i = 0; i < l->cell_count; i++) {
		c = i % l->column_count;
		if (columns_of(l->cells[i]) > width[c])
			width[c] = columns_of(l->cells[i]);
	}
	if (terminal)
		widths_fit(l, width, terminal);
	row_put(l, NULL, width, terminal, out);
	for (i = 0; i + l->column_count <= l->cell_count; i += l->column_count)
		row_put(l, l->cells + i, width, terminal, out);
	free(width);
}

/* Makes a copy of the listing in which the names are demangled. Returns false, without a copy, if no name changes. */
static bool cells_demangle(const struct listing *l, struct listing *out)
{
	bool any = false;
	size_t i;

	listing_init(out, l->columns, l->column_count);
	for (i = 0; i < l->cell_count; i++) {
		char *text = demangled_text(l->cells[i]);

		any |= text != NULL;
		listing_add(out, "%s", text ? text : l->cells[i]);
		free(text);
	}
	if (!any)
		listing_free(out);
	return any;
}

void listing_write(const struct listing *l, enum format format, FILE *out)
{
	struct listing shown;

	if (format == FORMAT_TSV) {
		print_tsv(l, out);
	} else if (cells_demangle(l, &shown)) {
		print_text(&shown, out);
		listing_free(&shown);
	} else {
		print_text(l, out);
	}
}

void listing_print(const struct listing *l, enum format format) { listing_write(l, format, stdout); }

void json_number_add(struct json_object *o, const char *key, uint64_t n)
{
	json_object_object_add(o, key, json_object_new_uint64(n));
}

void json_bool_add(struct json_object *o, const char *key, bool b)
{
	json_object_object_add(o, key, json_object_new_boolean(b));
}

struct json_object *json_name(const char *name)
{
	size_t len = strlen(name), n = 0;
	char *out = mem_alloc(3 * len + 1, 1);
	const unsigned char *p = (const unsigned char *)name;
	struct json_object *o;

	while (*p) {
		size_t k = *p == 0x7f ? 0 : utf8_length(p); /* json-c has escaped all other control characters */

		if (k) {
			memcpy(out + n, p, k);
			n += k;
			p += k;
		} else {
			memcpy(out + n, "\xef\xbf\xbd", 3);
			n += 3;
			p++;
		}
	}
	out[n] = 0;
	o = json_object_new_string(out);
	free(out);
	return o;
}

static struct json_object *cell_json(const struct column *column, const char *cell)
{
	if (!strcmp(cell, "-"))
		return NULL;
	return column->number ? json_object_new_int64(strtoll(cell, NULL, 10)) : json_name(cell);
}

struct json_object *listing_json(const struct listing *l)
{
	struct json_object *rows = json_object_new_array();
	size_t i, c;

	for (i = 0; i + l->column_count <= l->cell_count; i += l->column_count) {
		struct json_object *row = json_object_new_object();

		for (c = 0; c < l->column_count; c++)
			json_object_object_add(row, l->columns[c].name, cell_json(&l->columns[c], l->cells[i + c]));
		json_object_array_add(rows, row);
	}
	return rows;
}

static long documents = -1; /* number of documents printed in the array so far; -1: there is no array */

void json_array_begin(void) { documents = 0; }

void json_document_begin(void)
{
	if (documents >= 0)
		fputs(documents++ ? ",\n" : "[\n", stdout);
}

void json_array_end(void)
{
	puts(documents > 0 ? "]" : "[]");
	documents = -1;
}

void json_array_leave(void) { documents = -1; }

void json_put(FILE *out, struct json_object *o, int flags)
{
	const unsigned char *p = (const unsigned char *)json_object_to_json_string_ext(o, flags), *shown = p;

	/* Outside of strings JSON is ASCII, so all that is escaped here is in strings. */
	while (p && *p) {
		size_t n = plain_shown(p) || *p == '\n' ? 0 : utf8_length(p);
		unsigned c = n ? utf8_character(p, n) : 0;

		if (!n) {
			p++;
			continue;
		}
		fwrite(shown, 1, (size_t)(p - shown), out);
		if (c >= 0x10000)
			fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
		else
			fprintf(out, "\\u%04x", c);
		p += n;
		shown = p;
	}
	if (p)
		fwrite(shown, 1, (size_t)(p - shown), out);
}

void json_print(struct json_object *o)
{
	json_document_begin();
	json_put(stdout, o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	putchar('\n');
	json_object_put(o);
}
