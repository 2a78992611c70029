/* SPDX-License-Identifier: MIT */
/* Output of a comparison: as text, as JSON, and one function as a unified diff. */
#ifndef DIFF_DIFF_PRINT_H
#define DIFF_DIFF_PRINT_H

#include <json-c/json.h>

#include "diff/pairs.h"

#define SHOW_ALL SIZE_MAX

/* Prints to standard output. `most`: how many functions of a kind, sites and findings to list. */
void diff_print(const struct diff *d, size_t most);

/* A size or count differs. */
bool diff_moved(const struct diff *d);

/* An element of "files" in docs/schemas/diff.json. */
struct json_object *diff_json(const struct diff *d);

/*
 * Prints a unified diff of the normalised code of all functions with this symbol, or else of the one that people may
 * mean by it (name_fit.h). 1: they differ; 0: they do not; -1 and a message: neither file has one.
 */
int diff_show(const struct diff *d, const char *name, struct error *e);

/* Shared by diff_print.c and json.c. */
const char *change_kind_name(enum change_kind k);
/* The changes in order of output; malloc'd. */
const struct change **changes_sorted(const struct diff *d);
void site_place(const struct image *im, const struct site *s, char *out, size_t size);
const char *site_kind_name(enum site_kind k);
const char *image_kind(const struct image *im);

#endif
