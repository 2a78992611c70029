/* SPDX-License-Identifier: MIT */
/*
 * A table of rows, printed for people (aligned), for scripts (tab-separated,
 * one row a line, a header line) or as JSON. One way out for all that
 * `etch inspect` shows.
 */
#ifndef REPORT_LISTING_H
#define REPORT_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

enum format {
	FORMAT_TEXT,
	FORMAT_TSV,
	FORMAT_JSON,
};

struct column {
	const char *name;
	bool number;      /* right-aligned for people, a number in JSON; "-" is null */
	bool people_only; /* not in TSV, whose columns scripts count on */
};

struct listing {
	const struct column *columns;
	size_t column_count;
	char **cells; /* column_count a row; owned */
	size_t cell_count, room;
};

void listing_init(struct listing *l, const struct column *columns, size_t count);
/* Adds a cell; a row is full after column_count of them. False: out of memory. */
bool listing_add(struct listing *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void listing_free(struct listing *l);

/* Text and TSV to standard output. */
void listing_print(const struct listing *l, enum format format);
/* ... to another stream. */
void listing_write(const struct listing *l, enum format format, FILE *out);
/* An array of objects, keyed by column name. */
struct json_object *listing_json(const struct listing *l);

/* Length of the UTF-8 sequence at p, 0 if there is none. */
size_t utf8_length(const unsigned char *p);
/* A JSON string of a name from a file, whatever bytes it has: what is not UTF-8
 * becomes U+FFFD. */
struct json_object *json_name(const char *name);
/* Documents that are printed from now on are elements of one array, up to json_array_end(). */
void json_array_begin(void);
void json_array_end(void);
/* Before a document is printed by other means than json_print(). */
void json_document_begin(void);
/* Prints a JSON value and a newline; takes it over. */
void json_print(struct json_object *o);

#endif
