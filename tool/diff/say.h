/* SPDX-License-Identifier: MIT */
/* A comparison in words, as JSON, and one function of it side by side. */
#ifndef DIFF_SAY_H
#define DIFF_SAY_H

#include <json-c/json.h>

#include "diff/compare.h"

#define SAY_ALL SIZE_MAX

/* To standard output. `most`: functions, sites and findings that are listed. */
void diff_say(const struct diff *d, size_t most);

/* Is there any size that is not the same? */
bool diff_moved(const struct diff *d);

/* One entry of "files" in docs/schemas/diff.json. */
struct json_object *diff_json(const struct diff *d);

/*
 * A unified diff of the normalised code of the functions of that name. 1 where they differ,
 * 0 where not; -1 and a message: neither file has one, or memory is out.
 */
int diff_show(const struct diff *d, const char *name, struct error *e);

/* For say.c and json.c. */
const char *change_kind_name(enum change_kind k);
/* Changes in the order in which they are told; malloc'd. */
const struct change **changes_sorted(const struct diff *d);
void site_place(const struct image *im, const struct site *s, char *out, size_t size);
const char *site_kind_name(enum site_kind k);
const char *image_kind(const struct image *im);

#endif
