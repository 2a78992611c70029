/* SPDX-License-Identifier: MIT */
/*
 * A table of rows, for output as aligned text, as tab-separated values (a header line, then one row per line) or as
 * JSON. All views of `etch inspect` except those of unwind rows use it.
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
	bool number; /* it is right-aligned in text, and a number in JSON, where "-" becomes null */
};

struct listing {
	const struct column *columns;
	size_t column_count;
	char **cells; /* in the order of rows, column_count per row; owned */
	size_t cell_count, capacity;
};

void listing_init(struct listing *l, const struct column *columns, size_t count);
/* Adds a cell. Each group of column_count cells is a row. */
void listing_add(struct listing *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void listing_free(struct listing *l);

/* Prints text or TSV to standard output. In text, names are demangled if demangle_set() has turned that on. */
void listing_print(const struct listing *l, enum format format);
/* Does the same for any stream. */
void listing_write(const struct listing *l, enum format format, FILE *out);
/* Makes an array of objects whose keys are the column names. */
struct json_object *listing_json(const struct listing *l);

/* Makes a JSON string of a name with arbitrary bytes: U+FFFD replaces bytes that are not UTF-8. */
struct json_object *json_name(const char *name);
/* Begins an array: the documents printed until json_array_end() are its elements. */
void json_array_begin(void);
void json_array_end(void);
/* Is called in a forked process whose parent prints the array: its documents are not elements. */
void json_array_leave(void);
/* Must be called before a document is printed by anything other than json_print(). */
void json_document_begin(void);
/* Prints a JSON value with json-c's flags. Characters that plain_shown() does not show are escaped: JSON allows them
 * unescaped, but terminals act on them. */
void json_put(FILE *out, struct json_object *o, int flags);
/* Prints a JSON value and a newline; takes ownership. */
void json_print(struct json_object *o);

#endif
