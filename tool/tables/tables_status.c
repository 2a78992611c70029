/* SPDX-License-Identifier: MIT */
/* `etch tables status`: shows for the whole system which tables there are and which are missing, or for single files
 * where their tables are. */
#include "tables/tables.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/text.h"
#include "unwinding/table_read.h"
#include "support/exit_code.h"
#include "support/memory.h"
#include "support/strings.h"

struct counts {
	size_t have, own, no_id, refused, missing, old, gone;
};

static void files_count(const struct tables_directory *d, const struct tables_files *files, struct counts *n)
{
	for (size_t i = 0; i < files->count; i++) {
		const struct tables_file *f = &files->list[i];
		const struct tables_entry *t = f->kind == TABLES_WANTED ? tables_entry_find(d, f) : NULL;

		n->own += f->kind == TABLES_OWN;
		n->no_id += f->kind == TABLES_NO_ID;
		if (f->kind != TABLES_WANTED)
			continue;
		if (!t)
			n->missing++;
		else if (t->kind != ENTRY_TABLE)
			n->refused++;
		else
			n->have++;
		n->old += t && !tables_entry_fresh(d, t);
	}
}

static size_t tables_count(const struct tables_directory *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->count; i++)
		n += d->list[i].kind == ENTRY_TABLE;
	return n;
}

static const char *end_text(const char *end)
{
	if (!strcmp(end, "complete"))
		return "complete";
	if (!strcmp(end, "time"))
		return "it reached --max-time before it had made all tables";
	if (!strcmp(end, "size"))
		return "it reached --max-size before it had made all tables";
	return "it is still running, or was ended before it was complete";
}

static void line_put(size_t n, const char *what)
{
	if (n)
		printf("%8zu  %s\n", n, what);
}

static void text_put(const struct tables_directory *d, const struct counts *n)
{
	const struct tables_state *s = &d->state;
	time_t begun = (time_t)s->begun;
	char *roots = tables_roots(), when[32] = "";

	if (begun)
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M", localtime(&begun));
	text_clean(stdout, d->path);
	printf(": %zu table%s, ", tables_count(d), plural(tables_count(d)));
	text_bytes(stdout, d->bytes, 0);
	putchar('\n');
	if (*s->version) {
		printf("last update: %s by etch ", when);
		text_clean(stdout, s->version);
		printf(", %lld s: %s\n", s->seconds, end_text(s->end));
	} else {
		printf("no update yet: etch tables update makes the tables\n");
	}
	printf("programs and libraries in %s:\n", roots);
	line_put(n->have, "have a table here");
	line_put(n->own, "carry their own (etch rewrite)");
	line_put(n->missing, "have none yet: etch tables update");
	line_put(n->old, "of these have a table from another version of etch, which the next update replaces");
	line_put(n->refused, "cannot have one: etch tables update -v FILE says why");
	line_put(n->no_id, "have no build-id, by which tables are found");
	free(roots);
}

static void status_json_put(const struct tables_directory *d, const struct counts *n)
{
	struct json_object *o = json_object_new_object(), *files = json_object_new_object();
	const struct tables_state *s = &d->state;
	const struct {
		const char *name;
		size_t count;
	} rows[] = {{"table", n->have}, {"own", n->own},         {"missing", n->missing},
	            {"old", n->old},    {"refused", n->refused}, {"no_build_id", n->no_id}};

	json_object_object_add(o, "directory", json_name(d->path));
	json_object_object_add(o, "tables", json_object_new_int64((int64_t)tables_count(d)));
	json_object_object_add(o, "bytes", json_object_new_int64((int64_t)d->bytes));
	json_object_object_add(o, "version", *s->version ? json_name(s->version) : NULL);
	json_object_object_add(o, "begun", s->begun ? json_object_new_int64(s->begun) : NULL);
	json_object_object_add(o, "seconds", *s->version ? json_object_new_int64(s->seconds) : NULL);
	json_object_object_add(o, "end", *s->end ? json_name(s->end) : NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		json_object_object_add(files, rows[i].name, json_object_new_int64((int64_t)rows[i].count));
	json_object_object_add(o, "files", files);
	json_print(o);
}

int tables_status(const struct tables_options *o)
{
	struct tables_directory d;
	struct tables_files files;
	struct counts n = {0};
	struct error e;

	if (tables_directory_read(&d, o->directory, &e)) {
		text_error(o->directory, "%s", e.text);
		return EXIT_UNUSABLE;
	}
	tables_find(&files, NULL, 0, false);
	tables_warn_open(&d);
	files_count(&d, &files, &n);
	if (o->format == FORMAT_JSON)
		status_json_put(&d, &n);
	else
		text_put(&d, &n);
	tables_files_free(&files);
	tables_directory_free(&d);
	return EXIT_CLEAN;
}

static const char *const unusable[] = {
	[SIDECAR_IS_OLD] = "of an earlier format",
	[SIDECAR_IS_OTHERS] = "of another file with this build-id",
	[SIDECAR_IS_REFUSAL] = "without rows: etch tables update -v says why",
	[SIDECAR_IS_DAMAGED] = "damaged",
	[SIDECAR_IS_UNTRUSTED] = "another user's",
};

/* Returns text, from malloc(), which says which sidecar of a file its readers use, and why they ignore others. The
 * places are searched in the order in which readers search them. */
static char *sidecar_text(const struct tables_options *o, const struct tables_file *f)
{
	const char *const places[] = {getenv(SIDECARS_VARIABLE), SIDECARS_PACKAGED, o->directory};
	const struct table_wanted wanted = {f->build_id, f->build_id_size, f->identity.layout};
	char name[SIDECAR_NAME_MOST], *text = NULL;
	size_t size = 0, passed = 0;
	struct table_copy c;
	bool found = false;
	FILE *out = mem_stream(&text, &size);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !found; i++) {
		enum table_sidecar state = table_sidecar_read(places[i], &wanted, name, &c);

		table_copy_free(&c);
		found = state == SIDECAR_IS_GOOD;
		if (found) {
			rewind(out);
			fprintf(out, "%s/%s", places[i], name);
		} else if (state != SIDECAR_IS_NO_FILE) {
			fprintf(out, "%s%s/%s is %s", passed++ ? ", " : "none: made from .eh_frame by each process that needs it (",
			        places[i], name, unusable[state]);
		}
	}
	if (!found)
		fputs(passed ? ")" : "none: made from .eh_frame by each process that needs it", out);
	mem_stream_close(out, &text);
	if (found)
		text[size] = 0;
	return text;
}

/* Returns text, from malloc(), which says where the table of a file is. */
static char *table_text(const struct tables_options *o, const struct tables_file *f)
{
	if (f->kind == TABLES_UNREAD)
		return mem_format("cannot be read: %s", f->error);
	if (f->kind == TABLES_OTHER)
		return mem_string("no program or library with code");
	if (f->kind == TABLES_OWN)
		return mem_string("the file itself");
	return sidecar_text(o, f);
}

static void row_put(struct listing *l, const struct tables_options *o, const struct tables_file *f)
{
	char *from = table_text(o, f);

	listing_add(l, "%s", f->path);
	listing_add(l, "%s", *f->id ? f->id : "-");
	listing_add(l, "%s", from);
	free(from);
}

int tables_files_status(const struct tables_options *o)
{
	static const struct column columns[] = {{.name = "file"}, {.name = "build_id"}, {.name = "table"}};
	struct tables_files files;
	struct listing l;
	int status = EXIT_CLEAN;

	tables_find(&files, o->operands, o->operand_count, false);
	listing_init(&l, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < files.count; i++) {
		row_put(&l, o, &files.list[i]);
		if (files.list[i].kind == TABLES_UNREAD)
			status = EXIT_UNUSABLE;
	}
	if (o->format == FORMAT_JSON)
		json_print(listing_json(&l));
	else
		listing_print(&l, o->format);
	listing_free(&l);
	tables_files_free(&files);
	return status;
}
