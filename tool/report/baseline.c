/* SPDX-License-Identifier: MIT */
/* Reads a baseline and matches its files and findings with those of this run. */
#include "report/baseline.h"
#include "shared/search.h"
#include "report/report_json.h"
#include "report/listing.h"
#include "support/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading ---------------------------------------------------------------------- */

static int fingerprint_order(const void *a, const void *b)
{
	const struct report_finding *x = a, *y = b;

	return x->fingerprint < y->fingerprint ? -1 : x->fingerprint > y->fingerprint;
}

static int file_add(struct baseline_file *f, struct json_object *o, struct error *e)
{
	if (report_from_json(&f->report, o, e))
		return -1;
	qsort(f->report.list, f->report.count, sizeof(*f->report.list), fingerprint_order);
	f->matched = mem_zero(f->report.count, sizeof(*f->matched));
	return 0;
}

/* Checks the kind and the version of the document, so that another file is not taken for an empty baseline. */
static bool is_ours(struct json_object *root)
{
	struct json_object *kind, *version;

	return json_object_object_get_ex(root, "format", &kind) && json_object_is_type(kind, json_type_string) &&
	       !strcmp(json_object_get_string(kind), "etch-check") &&
	       json_object_object_get_ex(root, "version", &version) && json_object_get_int(version) == 1;
}

int baseline_read(struct baseline *b, const char *path, struct error *e)
{
	struct json_object *root = json_object_from_file(path), *files = NULL;
	struct error inner;
	size_t n, i;
	int err = 0;

	if (!is_ours(root) || !json_object_object_get_ex(root, "files", &files) ||
	    !json_object_is_type(files, json_type_array)) {
		err = access(path, R_OK) ? error_set(e, "%s", strerror(errno))
		                         : error_set(e, "was not written by etch check --format json");
		goto out;
	}
	n = json_object_array_length(files);
	b->files = mem_zero(n, sizeof(*b->files));
	for (i = 0; i < n && !err; i++) {
		err = file_add(&b->files[b->count++], json_object_array_get_idx(files, i), &inner);
		if (err)
			error_set(e, "files[%zu]: %.350s", i, inner.text);
	}
out:
	json_object_put(root);
	return err;
}

/* ---- matching files ------------------------------------------------------------------ */

/*
 * Returns the last `parts` components of a path (0: the whole path) with the member, encoded as in a document. Returns
 * null if the path has fewer components.
 */
static char *file_key(const char *path, const char *member, size_t parts)
{
	const char *p = path + strlen(path);
	struct json_object *full, *inner;
	char *out;

	if (!parts)
		p = path;
	for (; parts && p > path; p--)
		if (p[-1] == '/' && !--parts)
			break;
	if (parts > 1)
		return NULL;
	full = json_name(p);
	inner = json_name(member ? member : "");
	out = mem_format("%s\n%s", json_object_get_string(full), json_object_get_string(inner));
	json_object_put(full);
	json_object_put(inner);
	return out;
}

/*
 * Pairs inputs with files of the baseline if the last `parts` components of their paths are equal, in the order of both
 * lists. Files with equal keys are linked: next[i] is 1 + the index of the next one.
 */
static void match_parts(struct baseline *b, const struct inputs *l, size_t parts, size_t *next, size_t *unmatched)
{
	struct json_object *first = json_object_new_object(), *at;
	size_t i;

	for (i = b->count; i-- > 0;) {
		const struct report *r = &b->files[i].report;
		char *key = b->files[i].taken ? NULL : file_key(r->path, r->member, parts);

		if (!key)
			continue;
		next[i] = json_object_object_get_ex(first, key, &at) ? json_object_get_uint64(at) : 0;
		json_object_object_add(first, key, json_object_new_uint64(i + 1));
		free(key);
	}
	for (i = 0; i < l->count; i++) {
		char *key = b->of_input[i] ? NULL : file_key(l->list[i].path, l->list[i].member, parts);
		size_t found = key && json_object_object_get_ex(first, key, &at) ? json_object_get_uint64(at) : 0;

		if (found) {
			b->of_input[i] = found;
			b->files[found - 1].taken = true;
			json_object_object_add(first, key, json_object_new_uint64(next[found - 1]));
			--*unmatched;
		}
		free(key);
	}
	json_object_put(first);
}

/* Returns the greatest number of components that the path of an input has. */
static size_t parts_most(const struct inputs *l)
{
	size_t most = 0, i;

	for (i = 0; i < l->count; i++) {
		const char *p;
		size_t n = 1;

		for (p = l->list[i].path; (p = strchr(p, '/')) != NULL; p++)
			n++;
		most = n > most ? n : most;
	}
	return most;
}

void baseline_match(struct baseline *b, const struct inputs *l)
{
	size_t *next = mem_zero(b->count, sizeof(*next)), unmatched = l->count, parts;

	b->of_input = mem_zero(l->count, sizeof(*b->of_input));
	match_parts(b, l, 0, next, &unmatched);
	for (parts = parts_most(l); parts && unmatched; parts--)
		match_parts(b, l, parts, next, &unmatched);
	free(next);
}

/* ---- matching findings ------------------------------------------------------------------- */

/* True if the name in the baseline, in which U+FFFD stands for bytes that are not UTF-8, equals a name of this run. */
static bool same_function(const char *known, const char *now)
{
	struct json_object *o;
	bool same;

	if (!known || !now)
		return known == now;
	o = json_name(now);
	same = !strcmp(known, json_object_get_string(o));
	json_object_put(o);
	return same;
}

static bool is_known(const struct report_finding *known, const struct report_finding *now)
{
	return known->entry == now->entry && same_function(known->place.function, now->place.function);
}

/* Returns the index of the first finding whose fingerprint is equal or greater. */
static size_t lower_bound(const struct report *r, uint64_t fingerprint)
{
	return SEARCH(r->count, i, r->list[i].fingerprint < fingerprint);
}

/*
 * If the baseline has enough unmatched places for all places of a finding, marks as many of them as matched and returns
 * true. One finding with several places may so match several findings with one place each, and the reverse.
 */
static bool known_take(struct baseline_file *old, const struct report_finding *f)
{
	size_t first = lower_bound(&old->report, f->fingerprint), has = 0, want = f->places, k;

	for (k = first; k < old->report.count && old->report.list[k].fingerprint == f->fingerprint && has < want; k++)
		has += is_known(&old->report.list[k], f) ? old->report.list[k].places : 0;
	if (has < want)
		return false;
	for (k = first; want; k++) {
		struct report_finding *x = &old->report.list[k];
		size_t n = x->places < want ? x->places : want;

		if (!n || !is_known(x, f))
			continue;
		old->matched[k] = true;
		x->places -= n;
		want -= n;
	}
	return true;
}

const struct baseline_file *baseline_apply(struct baseline *b, size_t input, struct report *r)
{
	struct baseline_file *old = b->of_input && b->of_input[input] ? &b->files[b->of_input[input] - 1] : NULL;
	size_t i;

	for (i = 0; old && i < r->count; i++)
		r->list[i].known = known_take(old, &r->list[i]);
	return old;
}

void baseline_free(struct baseline *b)
{
	size_t i;

	for (i = 0; i < b->count; i++) {
		report_free(&b->files[i].report);
		free(b->files[i].matched);
	}
	free(b->files);
	free(b->of_input);
	*b = (struct baseline){0};
}
