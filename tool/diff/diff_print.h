/* SPDX-License-Identifier: MIT */
/* Prints a comparison as text or as JSON, and one function as a unified diff. */
#ifndef DIFF_DIFF_PRINT_H
#define DIFF_DIFF_PRINT_H

#include <json-c/json.h>

#include "diff/pairs.h"

#define SHOW_ALL SIZE_MAX

/*
 * Prints a comparison as text to standard output: at most `most` functions of each kind of change, and at most `most`
 * sites and findings.
 */
void diff_print(const struct diff *d, size_t most);

/* True if a size or a count differs between the two files. */
bool diff_moved(const struct diff *d);

/* Makes the JSON of one comparison, an element of "files" (docs/schemas/diff.json). */
struct json_object *diff_json(const struct diff *d);

/*
 * Prints a unified diff of the normalised code of all functions that have the symbol `name`. If there are none, it
 * takes the one function that a user may mean by the name (typed_name.h). Returns 1 if the functions differ, 0 if they
 * do not, and -1 and a message if neither file has such a function.
 */
int diff_show(const struct diff *d, const char *name, struct error *e);

/*
 * Defined in colours.c. If terminal_has_colours(), colours_begin() holds back the output to stdout, and colours_end()
 * prints it with each line in the colour of the mark at its start. Otherwise both do nothing.
 */
void colours_begin(void);
void colours_end(void);

/* Shared by diff_print.c and json.c. */
const char *change_kind_name(enum change_kind k);
/* Returns the changes in the order of output; the caller frees the list. */
const struct change **changes_sorted(const struct diff *d);
void site_place(const struct image *im, const struct site *s, char *out, size_t size);
const char *site_kind_name(enum site_kind k);

#endif
