/* SPDX-License-Identifier: MIT */
/* Finds alternatives by address (alternatives.h). */
#include "objtool/alternatives.h"
#include "arch/x86/opcodes.h"
#include "support/memory.h"
#include "support/sort.h"
#include "shared/search.h"

#include <stdlib.h>
#include <string.h>

/* Numbers in arch/x86/include/asm/cpufeatures.h. */
#define FEATURE_POPCNT (4 * 32 + 23)
#define FEATURE_SMAP   (9 * 32 + 20)

static const struct replacement *list_of(const struct alternatives *a) { return a->map->notes.replacements; }
static size_t count_of(const struct alternatives *a) { return a->map->notes.replacement_count; }

static int from_order(const void *x, const void *y, void *arg)
{
	const struct replacement *list = arg;
	size_t i = *(const size_t *)x, k = *(const size_t *)y;

	if (list[i].from != list[k].from)
		return list[i].from < list[k].from ? -1 : 1;
	return i < k ? -1 : i > k;
}

static void mark(struct alternatives *a, uint64_t at, uint64_t end, uint8_t bit)
{
	for (; at < end; at++)
		a->marks[at - a->map->space.first] |= bit;
}

/*
 * Lays out the groups: in releases with newer_validation, all replacements of the same original share a group; in
 * others, each replacement has its own.
 */
static void groups_make(struct alternatives *a)
{
	const struct replacement *list = list_of(a);
	size_t i, bytes = 0, n = count_of(a);

	a->first = mem_alloc(n + 1, sizeof(*a->first));
	a->ends = mem_alloc(n + 1, sizeof(*a->ends));
	a->by_from = mem_alloc(n + 1, sizeof(*a->by_from));
	a->marks = mem_zero(a->map->space.span + 1, 1);
	for (i = 0; i < n; i++) {
		bool joined = i && list[i - 1].at == list[i].at && a->map->release->newer_validation;

		a->ends[i] = joined && a->ends[i - 1] > list[i].end ? a->ends[i - 1] : list[i].end;
		a->first[i] = joined ? a->first[i - 1] : bytes;
		if (a->first[i] + (list[i].end - list[i].at) > bytes)
			bytes = a->first[i] + (list[i].end - list[i].at);
		mark(a, list[i].at, list[i].end, ALTERNATIVE_ORIGINAL);
		mark(a, list[i].from, list[i].from + list[i].size, ALTERNATIVE_REPLACEMENT);
		if (list[i].size)
			a->by_from[a->by_from_count++] = i;
	}
	for (i = n; i-- > 1;)
		if (a->first[i - 1] == a->first[i])
			a->ends[i - 1] = a->ends[i];
	qsort_r(a->by_from, a->by_from_count, sizeof(*a->by_from), from_order, (void *)(uintptr_t)list);
	a->bytes = mem_zero(bytes + 1, sizeof(*a->bytes));
}

void alternatives_read(const struct code_map *map, bool access, struct alternatives *out)
{
	*out = (struct alternatives){.map = map, .access = access};
	groups_make(out);
}

void alternatives_free(struct alternatives *a)
{
	free(a->by_from);
	free(a->first);
	free(a->ends);
	free(a->bytes);
	free(a->marks);
}

const struct replacement *alternatives_of(const struct alternatives *a, uint64_t addr, size_t *count)
{
	const struct replacement *list = list_of(a);
	size_t k = SEARCH(count_of(a), i, list[i].at < addr), n = 0;

	while (k + n < count_of(a) && list[k + n].at == addr)
		n++;
	*count = n;
	return n ? &list[k] : NULL;
}

/* Before 7.2: true for the replacement that depends on a feature which validation assumes every CPU to have. */
static bool rules_by_feature(const struct alternatives *a, const struct replacement *r)
{
	return r->feature == FEATURE_POPCNT || (a->access && r->feature == FEATURE_SMAP);
}

/*
 * Before 7.2: true if validation assumes that an original is never replaced, since it is a nop in place of stac or
 * clac, and access to user memory is not validated.
 */
static bool is_kept_for_access(const struct alternatives *a, const struct replacement *of)
{
	size_t count, i;
	const struct replacement *r = alternatives_of(a, of->at, &count);

	for (i = 0; i < count && !a->access; i++)
		if (r[i].feature == FEATURE_SMAP)
			return true;
	return false;
}

/*
 * Since 7.2: true for a replacement that enables or disables access to user memory. Validation assumes that the first
 * such replacement is always used.
 */
static bool rules_by_access(const struct alternatives *a, const struct replacement *r)
{
	const struct code_section *c = r->size ? space_at(&a->map->space, r->from) : NULL;

	return c && code_access_toggles(c->bytes + (r->from - c->addr), r->size);
}

bool alternative_is_followed(const struct alternatives *a, const struct replacement *r)
{
	if (a->map->release->groups_ignored)
		return !code_map_keeps(a->map, r->size ? r->from : 0);
	return !code_map_keeps(a->map, r->at) && !is_kept_for_access(a, r);
}

bool alternative_original_runs(const struct alternatives *a, const struct replacement *r, size_t count)
{
	size_t i;

	if (!count)
		return true;
	if (a->map->release->groups_ignored) {
		if (code_map_keeps(a->map, r->at))
			return false;
		return !alternative_is_followed(a, r) || !rules_by_access(a, r);
	}
	for (i = 0; i < count; i++)
		if (alternative_is_followed(a, &r[i]) && rules_by_feature(a, &r[i]))
			return false;
	return true;
}

static bool replacement_find(const struct alternatives *a, uint64_t addr, struct alternative_place *out)
{
	const struct replacement *list = list_of(a), *r;
	size_t k = SEARCH(a->by_from_count, i, list[a->by_from[i]].from <= addr);

	if (!k || addr - list[a->by_from[k - 1]].from >= list[a->by_from[k - 1]].size)
		return false;
	k = a->by_from[k - 1];
	r = &list[k];
	out->replacement = true;
	out->original = r->at;
	out->byte = &a->bytes[a->first[k] + (addr - r->from)];
	out->after = r->from + r->size;
	out->to = a->ends[k];
	out->filled = r->size < out->to - r->at ? &a->bytes[a->first[k] + r->size] : NULL;
	return true;
}

bool alternatives_find(const struct alternatives *a, uint64_t addr, struct alternative_place *out)
{
	const struct replacement *list = list_of(a);
	uint8_t marks = a->marks[addr - a->map->space.first];
	size_t k;

	memset(out, 0, sizeof(*out));
	if (marks & ALTERNATIVE_REPLACEMENT && replacement_find(a, addr, out))
		return true;
	if (!(marks & ALTERNATIVE_ORIGINAL))
		return false;
	k = SEARCH(count_of(a), i, list[i].at <= addr);
	while (k && list[k - 1].end <= addr && list[k - 1].at + 255 > addr)
		k--;
	if (!k || list[k - 1].end <= addr)
		return false;
	/*
	 * Of several replacements the last one in the file counts. In the list, those without code come before the others.
	 */
	while (k > 1 && !list[k - 2].size && list[k - 2].at == list[k - 1].at && list[k - 2].end > addr)
		k--;
	out->original = list[k - 1].at;
	out->byte = &a->bytes[a->first[k - 1] + (addr - list[k - 1].at)];
	return true;
}
