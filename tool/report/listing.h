/* SPDX-License-Identifier: MIT */
/*
 * A table of rows, for output as aligned text, as tab-separated values (a header line, then one row per line) or as
 * JSON. All views of `etch inspect` but those of rows use it.
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

/* A column of a listing. */
struct column {
	const char *name;
	bool number; /* right-aligned in text, a number in JSON, where "-" is null */
};

struct listing {
	const struct column *columns;
	size_t column_count;
	char **cells; /* in order of rows, column_count per row; owned */
	size_t cell_count, capacity;
};

void listing_init(struct listing *l, const struct column *columns, size_t count);
/* Adds a cell; each column_count cells are a row. */
void listing_add(struct listing *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void listing_free(struct listing *l);

/* Prints as text or TSV to standard output; text with names demangled where demangle_set() says so. */
void listing_print(const struct listing *l, enum format format);
/* The same to a stream. */
void listing_write(const struct listing *l, enum format format, FILE *out);
/* An array of objects with column names as keys. */
struct json_object *listing_json(const struct listing *l);

/* A JSON string for a name with arbitrary bytes: bytes that are not UTF-8 become U+FFFD. */
struct json_object *json_name(const char *name);
/* Begins an array: documents printed until json_array_end() are its elements. */
void json_array_begin(void);
void json_array_end(void);
/* For a forked process whose parent prints the array: its documents are no elements. */
void json_array_leave(void);
/* Must be called before a document is printed other than by json_print(). */
void json_document_begin(void);
/* Prints a JSON value with json-c's flags. Characters that plain_shown() does not show are escaped: JSON allows them as
 * they are, and terminals act on them. */
void json_put(FILE *out, struct json_object *o, int flags);
/* Prints a JSON value and a newline; takes ownership. */
void json_print(struct json_object *o);

#endif
