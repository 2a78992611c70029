/* SPDX-License-Identifier: MIT */
/* Reads suppression rules and applies them to reports. */
#include "report/suppress.h"
#include "support/memory.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool id_matches(const struct suppression *s, const struct catalogue_entry *e)
{
	return !fnmatch(s->id, e->id, 0) || !fnmatch(s->id, e->name, 0);
}

/*
 * Returns a copy of the text up to the next colon that no backslash precedes. Sets *p to the text after that colon, or
 * to null if there is none.
 */
static char *part(const char **p)
{
	const char *s = *p, *end = s;
	char *out;

	while (*end && *end != ':')
		end += *end == '\\' && end[1] ? 2 : 1;
	out = mem_format("%.*s", (int)(end - s), s);
	*p = *end ? end + 1 : NULL;
	return out;
}

static void suppression_free(struct suppression *s)
{
	free(s->rule);
	free(s->id);
	free(s->path);
	free(s->function);
	free(s->reason);
	free(s->origin);
}

static int rule_parse(struct suppression *s, const char *rule, struct error *e)
{
	const char *p = rule;
	size_t i;

	s->rule = mem_string(rule);
	s->id = part(&p);
	s->path = p ? part(&p) : NULL;
	s->function = p ? part(&p) : NULL;
	if (p)
		return error_set(e, "'%s' has more than ID:PATH:FUNCTION (write a colon in a name as \\:)", rule);
	if ((s->path && !*s->path) || (s->function && !*s->function))
		return error_set(e, "'%s' has an empty part (use * for any)", rule);
	for (i = 0; i < catalogue_count; i++)
		if (id_matches(s, &catalogue[i]))
			return 0;
	return error_set(e, "'%s' is not a finding (see etch check --list)", s->id);
}

int suppressions_add(struct suppressions *s, const char *rule, const char *reason, const char *origin, struct error *e)
{
	struct suppression new = {.reason = mem_string(reason), .origin = mem_string(origin)};

	if (rule_parse(&new, rule, e)) {
		suppression_free(&new);
		return -1;
	}
	s->list = mem_resize(s->list, s->count + 1, sizeof(*s->list));
	s->list[s->count++] = new;
	return 0;
}

/* Removes white space at both ends, in place. */
static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r\n");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r\n", end[-1]))
		*--end = 0;
	return s;
}

/* Returns where the reason in a line starts: at a # that is at the start of the line or follows white space. */
static char *reason_of(char *line)
{
	char *p;

	for (p = line; (p = strchr(p, '#')) != NULL; p++)
		if (p == line || p[-1] == ' ' || p[-1] == '\t')
			return p;
	return NULL;
}

static int line_read(struct suppressions *s, char *line, const char *path, size_t number, struct error *e)
{
	char *reason = reason_of(line), *rule, *origin;
	struct error inner;
	int err;

	if (reason)
		*reason++ = 0;
	rule = trim(line);
	if (!*rule)
		return 0;
	reason = reason ? trim(reason) : NULL;
	if (!reason || !*reason)
		return error_set(e, "line %zu: no reason given (append  # REASON)", number);
	origin = mem_format("%s:%zu", path, number);
	err = suppressions_add(s, rule, reason, origin, &inner);
	free(origin);
	return err ? error_set(e, "line %zu: %.350s", number, inner.text) : 0;
}

int suppressions_read(struct suppressions *s, const char *path, struct error *e)
{
	FILE *f = fopen(path, "re");
	size_t capacity = 0, number = 0;
	char *line = NULL;
	int err = 0;

	if (!f)
		return error_set(e, "%s", strerror(errno));
	while (!err && getline(&line, &capacity, f) >= 0)
		err = line_read(s, line, path, ++number, e);
	if (!err && ferror(f))
		err = error_set(e, "cannot be read: %s", strerror(errno));
	free(line);
	fclose(f);
	return err;
}

/* True if the glob matches the whole name, or a part of it that begins after a slash. */
static bool name_matches(const char *glob, const char *name)
{
	bool matches = !fnmatch(glob, name, 0);

	while (!matches && (name = strchr(name, '/')) != NULL)
		matches = !fnmatch(glob, ++name, 0);
	return matches;
}

static bool path_matches(const struct suppression *s, const struct report *r, const char *full,
                         const struct report_finding *f)
{
	return !s->path || name_matches(s->path, r->path) || (r->member && name_matches(s->path, r->member)) ||
	       (r->member && name_matches(s->path, full)) || (f->place.source && name_matches(s->path, f->place.source));
}

void suppressions_apply(struct suppressions *s, struct report *r)
{
	char *full;
	size_t i, k;

	if (!s->count)
		return;
	full = mem_format("%s(%s)", r->path, r->member ? r->member : "");
	for (i = 0; i < r->count; i++) {
		struct report_finding *f = &r->list[i];
		const char *function = f->place.function ? f->place.function : "";

		/* Every rule that matches counts as used; the finding gets the reason of the first one. */
		for (k = 0; k < s->count; k++) {
			struct suppression *x = &s->list[k];

			if (!id_matches(x, f->entry) || (x->function && fnmatch(x->function, function, 0)) ||
			    !path_matches(x, r, full, f))
				continue;
			x->used = true;
			if (!f->suppressed)
				f->suppressed = mem_string(x->reason);
		}
	}
	free(full);
}

bool suppression_unused(const struct suppression *s, enum severity level)
{
	size_t i;

	for (i = 0; i < catalogue_count && !s->used; i++)
		if (catalogue[i].severity >= level && id_matches(s, &catalogue[i]))
			return true;
	return false;
}

void suppressions_free(struct suppressions *s)
{
	size_t i;

	for (i = 0; i < s->count; i++)
		suppression_free(&s->list[i]);
	free(s->list);
	*s = (struct suppressions){0};
}
