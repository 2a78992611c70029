/* SPDX-License-Identifier: MIT */
/* Prints a comparison as text or as JSON, and one function as a unified diff. */
#ifndef DIFF_DIFF_PRINT_H
#define DIFF_DIFF_PRINT_H

#include <json-c/json.h>

#include "diff/pairs.h"

#define SHOW_ALL SIZE_MAX

/* Prints to standard output. At most `most` functions of each kind, sites and findings are listed. */
void diff_print(const struct diff *d, size_t most);

/* True if a size or a count differs. */
bool diff_moved(const struct diff *d);

/* Makes an element of "files" in docs/schemas/diff.json. */
struct json_object *diff_json(const struct diff *d);

/*
 * Prints a unified diff of the normalised code of all functions with this symbol or, if there is none, of the one
 * function that people may mean by the name (typed_name.h). Returns 1 if they differ, 0 if they do not, and -1 and a
 * message if neither file has such a function.
 */
int diff_show(const struct diff *d, const char *name, struct error *e);

/* Defined in colours.c: these colour the output by the marks at which its lines begin. Where terminal_has_colours(),
 * the output to stdout between the two calls is held back, and colours_end() prints it in colours. Elsewhere the two do
 * nothing. */
void colours_begin(void);
void colours_end(void);

/* diff_print.c and json.c share the functions below. */
const char *change_kind_name(enum change_kind k);
/* Returns the changes in the order of output; the caller frees the list. */
const struct change **changes_sorted(const struct diff *d);
void site_place(const struct image *im, const struct site *s, char *out, size_t size);
const char *site_kind_name(enum site_kind k);

#endif
