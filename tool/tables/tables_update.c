/* SPDX-License-Identifier: MIT */
/*
 * `etch tables update`: makes the tables that are missing. Each file is a worker's, with the bounds of any file that
 * etch reads; each table is put in place as a whole. So an interrupted update loses nothing, and the
 * next one continues there.
 */
#include "tables/tables.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/outfile.h"
#include "report/text.h"
#include "rewrite/rewrite.h"
#include "support/exit_code.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/workers.h"

#ifndef ETCH_VERSION
#define ETCH_VERSION "unversioned"
#endif

enum outcome {
	OUTCOME_MADE,
	OUTCOME_REFUSED, /* no table can be made; an empty file says so until the next version */
	OUTCOME_FAILED,  /* it could not be written */
	OUTCOME_TIME,    /* left for the next update */
	OUTCOME_SIZE,
	OUTCOME_COUNT,
};

struct made {
	enum outcome outcome;
	uint64_t size;
	struct error why;
};

struct update {
	const struct tables_options *o;
	struct tables_directory directory;
	struct tables_files files;
	const struct tables_file **todo; /* one per build-id */
	size_t todo_count;
	struct timespec begun;
	uint64_t *bytes; /* in all tables; shared with the workers */
	size_t counts[OUTCOME_COUNT], removed;
};

static double seconds_since(const struct timespec *t)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - t->tv_sec) + 1e-9 * (double)(now.tv_nsec - t->tv_nsec);
}

static bool is_full(const struct update *u, uint64_t more)
{
	return u->o->max_size && __atomic_load_n(u->bytes, __ATOMIC_RELAXED) + more > (uint64_t)u->o->max_size * 1000000u;
}

static enum outcome table_put(const struct update *u, const char *id, const void *bytes, size_t size, struct error *e)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", u->directory.path, id) >= (int)sizeof(path)) {
		error_set(e, "%s", strerror(ENAMETOOLONG));
		return OUTCOME_FAILED;
	}
	return outfile_write(path, bytes, size, NULL, e->text, sizeof(e->text)) ? OUTCOME_FAILED : OUTCOME_MADE;
}

/* Writes an empty file in place of a table: readers skip it, and the next update does not try again. */
static enum outcome mark_put(const struct update *u, const struct tables_file *f)
{
	struct error e;

	/* Not for a file that is gone by now. */
	if (access(f->path, R_OK))
		return OUTCOME_REFUSED;
	return table_put(u, f->id, "", 0, &e) == OUTCOME_FAILED ? OUTCOME_FAILED : OUTCOME_REFUSED;
}

static void table_make(const struct update *u, const struct tables_file *file, struct made *m)
{
	static const struct rewrite_options how = {.orc = true, .encoding = ETCH_ENCODING_BLOCK, .map_shift = 6, .jobs = 1};
	struct rewrite_result result = {0};
	struct elf_file f = {0};

	if (u->o->max_time && seconds_since(&u->begun) >= (double)u->o->max_time) {
		m->outcome = OUTCOME_TIME;
		return;
	}
	if (is_full(u, 0)) {
		m->outcome = OUTCOME_SIZE;
		return;
	}
	if (elf_open(&f, file->path, &m->why) || rewrite_sidecar(&f, &how, &result, &m->why)) {
		m->outcome = mark_put(u, file);
	} else if (!result.bytes) {
		error_set(&m->why, "has no code that could get rows");
		m->outcome = mark_put(u, file);
	} else if (is_full(u, result.size)) {
		m->outcome = OUTCOME_SIZE;
	} else {
		m->outcome = table_put(u, file->id, result.bytes, result.size, &m->why);
		m->size = result.size;
		if (m->outcome == OUTCOME_MADE)
			__atomic_add_fetch(u->bytes, result.size, __ATOMIC_RELAXED);
	}
	rewrite_result_free(&result);
	elf_close(&f);
}

static bool work(void *ctx, size_t i, char **answer, size_t *size)
{
	const struct update *u = ctx;
	struct made *m = mem_zero(1, sizeof(*m));

	table_make(u, u->todo[i], m);
	*answer = (char *)m;
	*size = sizeof(*m);
	return true;
}

static bool done(void *ctx, size_t i, const char *answer, size_t size, const char *why)
{
	struct update *u = ctx;
	const struct tables_file *f = u->todo[i];
	struct made m = {.outcome = OUTCOME_REFUSED};

	progress_end();
	if (answer && size == sizeof(m)) {
		memcpy(&m, answer, sizeof(m));
	} else {
		error_set(&m.why, "%s", why ? why : "no answer");
		m.outcome = mark_put(u, f);
	}
	u->counts[m.outcome]++;
	if (m.outcome == OUTCOME_FAILED || (m.outcome == OUTCOME_REFUSED && u->o->verbose))
		text_error(f->path, "%s", m.why.text);
	if (m.outcome == OUTCOME_MADE && u->o->verbose) {
		text_clean(stdout, f->path);
		printf(": %s, %llu bytes\n", f->id, (unsigned long long)m.size);
	}
	return true;
}

static int wanted_order(const void *a, const void *b)
{
	const struct tables_file *const *x = a, *const *y = b;

	return strcmp((*x)->id, (*y)->id);
}

static int path_order(const void *a, const void *b)
{
	const struct tables_file *const *x = a, *const *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Lists the files without a table of this version, one for each build-id, in the order in which they were found. */
static void todo_list(struct update *u)
{
	size_t count = 0, kept = 0;

	u->todo = mem_alloc(u->files.count + 1, sizeof(const struct tables_file *));
	for (size_t i = 0; i < u->files.count; i++) {
		const struct tables_file *f = &u->files.list[i];
		const struct tables_entry *t = f->kind == TABLES_WANTED ? tables_entry_find(&u->directory, f->id) : NULL;

		if (f->kind == TABLES_WANTED && !(t && tables_entry_fresh(&u->directory, t)))
			u->todo[count++] = f;
	}
	if (count)
		qsort(u->todo, count, sizeof(const struct tables_file *), wanted_order);
	for (size_t i = 0; i < count; i++)
		if (!kept || strcmp(u->todo[i]->id, u->todo[kept - 1]->id))
			u->todo[kept++] = u->todo[i];
	if (kept)
		qsort(u->todo, kept, sizeof(const struct tables_file *), path_order);
	u->todo_count = kept;
}

/* Notes that an update has begun: if the note stays, it was killed. */
static int state_begin(struct update *u, struct error *e)
{
	struct tables_state *s = &u->directory.state;

	s->begun = (long long)time(NULL);
	if (strcmp(s->version, ETCH_VERSION)) {
		snprintf(s->version, sizeof(s->version), "%s", ETCH_VERSION);
		s->since = s->begun;
	}
	s->seconds = 0;
	strcpy(s->end, "started");
	return tables_state_write(&u->directory, e);
}

static int state_end(struct update *u, struct error *e)
{
	struct tables_state *s = &u->directory.state;

	s->seconds = (long long)(seconds_since(&u->begun) + 0.5);
	strcpy(s->end, u->counts[OUTCOME_TIME] ? "time" : u->counts[OUTCOME_SIZE] ? "size" : "complete");
	return tables_state_write(&u->directory, e);
}

static void summary_print(const struct update *u)
{
	const size_t *n = u->counts;

	printf("%zu table%s made, %zu removed; %s has %.1f MB\n", n[OUTCOME_MADE], n[OUTCOME_MADE] == 1 ? "" : "s",
	       u->removed, u->directory.path, 1e-6 * (double)*u->bytes);
	if (n[OUTCOME_REFUSED])
		printf("%zu file%s cannot have one (-v says why)\n", n[OUTCOME_REFUSED], n[OUTCOME_REFUSED] == 1 ? "" : "s");
	if (n[OUTCOME_TIME])
		printf("%zu file%s left: the time of --max-time is over; the next update continues there\n", n[OUTCOME_TIME],
		       n[OUTCOME_TIME] == 1 ? " is" : "s are");
	if (n[OUTCOME_SIZE])
		printf("%zu file%s left: there is no room for more within --max-size\n", n[OUTCOME_SIZE],
		       n[OUTCOME_SIZE] == 1 ? " is" : "s are");
}

/* Removes the tables that no file needs, then makes those that are missing. */
static int tables_make(struct update *u, struct error *e)
{
	struct workers_run workers = {.jobs = u->o->jobs, .what = "tables", .work = work, .done = done, .ctx = u};

	if (state_begin(u, e))
		return -1;
	if (u->o->prune)
		u->removed = tables_prune(&u->directory, &u->files);
	*u->bytes = u->directory.bytes;
	todo_list(u);
	workers.count = u->todo_count;
	if (workers.count && !workers_run(&workers))
		return error_memory(e);
	return state_end(u, e);
}

/* The same where the lock is held. Messages are printed. */
static int update_locked(struct update *u)
{
	const struct tables_options *o = u->o;
	int status = EXIT_CLEAN;
	struct error e;

	if (!tables_find(&u->files, o->operands, o->operand_count)) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	for (size_t i = 0; o->operand_count && i < u->files.count; i++)
		if (u->files.list[i].kind == TABLES_UNREAD) {
			text_error(u->files.list[i].path, "%s", u->files.list[i].error);
			status = EXIT_UNUSABLE;
		}
	if (tables_directory_read(&u->directory, o->directory, &e) || tables_make(u, &e)) {
		text_error(o->directory, "%s", e.text);
		return EXIT_UNUSABLE;
	}
	if (!o->quiet)
		summary_print(u);
	return u->counts[OUTCOME_FAILED] ? EXIT_UNUSABLE : status;
}

int tables_update(const struct tables_options *o)
{
	struct update u = {.o = o};
	struct error e;
	int got, status;

	clock_gettime(CLOCK_MONOTONIC, &u.begun);
	u.bytes = mmap(NULL, sizeof(*u.bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (u.bytes == MAP_FAILED) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	umask(022); /* every user's programs read the tables */
	got = tables_lock(o->directory, &e);
	if (got < 0) {
		text_error(o->directory, "%s", e.text);
		return EXIT_UNUSABLE;
	}
	if (!got) {
		if (!o->quiet)
			printf("another etch tables update is at work in %s\n", o->directory);
		return EXIT_CLEAN;
	}
	status = update_locked(&u);
	free(u.todo);
	tables_files_free(&u.files);
	tables_directory_free(&u.directory);
	munmap(u.bytes, sizeof(*u.bytes));
	return status;
}
