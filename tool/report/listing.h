/* SPDX-License-Identifier: MIT */
/*
 * A table of rows, which can be printed as aligned text, as tab-separated values (a header line, then one line per row)
 * or as JSON. All views of `etch inspect` use it, except those of unwind rows.
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
	bool number; /* right-aligned in text; in JSON a number, or null for "-" */
};

struct listing {
	const struct column *columns;
	size_t column_count;
	char **cells; /* column_count cells per row, in the order of the rows; owned */
	size_t cell_count, capacity;
};

void listing_init(struct listing *l, const struct column *columns, size_t count);
/* Adds the next cell of a row. After column_count cells, the next row begins. */
void listing_add(struct listing *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void listing_free(struct listing *l);

/*
 * Prints the listing as text or TSV to standard output. In text, names are demangled if demangle_set() has turned that
 * on.
 */
void listing_print(const struct listing *l, enum format format);
/* Prints the listing as text or TSV to a stream. */
void listing_write(const struct listing *l, enum format format, FILE *out);
/* Makes a JSON array with one object per row; the names of the columns are the keys. */
struct json_object *listing_json(const struct listing *l);

/* Adds a member to a JSON object. */
void json_number_add(struct json_object *o, const char *key, uint64_t n);
void json_bool_add(struct json_object *o, const char *key, bool b);
/* Makes a JSON string of a name. U+FFFD replaces bytes that are not UTF-8. */
struct json_object *json_name(const char *name);
/* Begins an array in the output: the documents printed until json_array_end() become its elements. */
void json_array_begin(void);
void json_array_end(void);
/* Called in a forked process: documents that it prints are not elements of the array, which its parent prints. */
void json_array_leave(void);
/* Must be called before a JSON document is printed by other functions than json_print(). */
void json_document_begin(void);
/*
 * Prints a JSON value, formatted by the flags of json-c. Escapes the characters that plain_shown() does not show: JSON
 * allows them unescaped, but terminals act on them.
 */
void json_put(FILE *out, struct json_object *o, int flags);
/* Prints a JSON value and a newline; takes ownership. */
void json_print(struct json_object *o);

#endif
