/* SPDX-License-Identifier: MIT */
/*
 * `etch tables update`: makes the tables that are missing. A worker process makes each table, with the same resource
 * limits as for any file that etch reads, and each table is put in place as a whole. So an interrupted update loses
 * nothing, and the next one continues where it ended.
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

#include "output/outfile.h"
#include "report/text.h"
#include "unwinding/unwind_make.h"
#include "support/exit_code.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/workers.h"
#include "support/clock.h"

#ifndef ETCH_VERSION
#define ETCH_VERSION "unversioned"
#endif

/* What became of a task. */
enum outcome {
	OUTCOME_MADE,
	OUTCOME_REFUSED, /* no table can be made; a sidecar without a table says so, until the next version of etch */
	/* Readers cannot tell the file from another one, so neither has a table. */
	OUTCOME_CONTESTED,
	OUTCOME_FAILED, /* the table could not be written */
	OUTCOME_TIME,   /* --max-time has passed: left for the next update */
	/* The table would exceed --max-size. */
	OUTCOME_SIZE,
	OUTCOME_COUNT,
};

/* The result of a task. */
struct made {
	enum outcome outcome;
	uint64_t size;
	struct error why;
};

/* A table that is to be made. */
struct task {
	const struct tables_file *file;
	/* Other files that are loaded alike: if no table can be made of `file`, one of these may still do. */
	const struct tables_file **others;
	size_t other_count;
	char name[SIDECAR_NAME_MOST];
	/* Readers cannot tell this file from another one that is, or was, there, so neither gets a table. */
	bool contested;
};

/* The state of an update. */
struct update {
	const struct tables_options *o;
	struct tables_directory directory;
	struct tables_files files;
	struct task *todo; /* one task for each set of files that readers cannot and need not tell apart */
	size_t todo_count;
	const struct tables_file **others; /* memory for the `others` of all tasks */
	double begun;
	uint64_t *bytes; /* size of all tables in bytes; in memory that is shared with the workers */
	size_t counts[OUTCOME_COUNT], removed;
};

static bool is_full(const struct update *u, uint64_t more)
{
	return u->o->max_size && __atomic_load_n(u->bytes, __ATOMIC_RELAXED) + more > (uint64_t)u->o->max_size * 1000000u;
}

static enum outcome table_put(const struct update *u, const char *name, const void *bytes, size_t size, struct error *e)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", u->directory.path, name);
	return outfile_write_in(u->directory.fd, name, path, bytes, size, e) ? OUTCOME_FAILED : OUTCOME_MADE;
}

/* Writes a sidecar without a table: readers ignore it, and the next update does not try to make the table again. */
static enum outcome mark_put(const struct update *u, const struct task *t)
{
	uint8_t whole[BLAKE2B_DIGEST];
	struct sidecar mark;
	struct error e;

	/* no such sidecar is written for a file that does not exist any more */
	if (!sidecar_whole(t->file->path, whole))
		return OUTCOME_REFUSED;
	sidecar_refusal(&mark, &t->file->identity, t->contested ? NULL : whole);
	if (table_put(u, t->name, &mark, sizeof(mark), &e) == OUTCOME_FAILED)
		return OUTCOME_FAILED;
	return t->contested ? OUTCOME_CONTESTED : OUTCOME_REFUSED;
}

/* Makes the table of a file. The name of the table was derived from the file as it was found, so it is an error if the
 * file has changed since. */
static int file_table(const struct tables_file *file, struct unwind_made *result, struct error *e)
{
	static const struct unwind_options how = {.encoding = ETCH_ENCODING_BLOCK, .map_shift = 6, .jobs = 1};
	struct sidecar_identity of;
	struct elf_file f = {0};
	int err = elf_open(&f, file->path, e);
	uint8_t *read = f.bytes, *changed;

	if (!err)
		sidecar_identify_bytes(f.bytes, f.size, &of);
	if (!err && memcmp(&of, &file->identity, sizeof(of)) != 0)
		err = error_set(e, "has changed meanwhile; the next update makes its table");
	if (!err)
		err = unwind_sidecar(&f, &how, result, e);
	if (!err && !result->bytes)
		err = error_set(e, "has no code that could get rows");
	if (!err)
		sidecar_wrap(&result->bytes, &result->size, &of);
	changed = f.bytes;
	elf_close(&f);
	if (changed != read) /* elf_bytes_own() leaves the bytes that were read to this function */
		free(read);
	return err ? -1 : 0;
}

/* Makes a table from the first file of the task that allows it. If none does, the message is that for the first
 * file. */
static int task_table(const struct task *t, struct unwind_made *result, struct error *e)
{
	struct error other;
	int err = file_table(t->file, result, e);

	for (size_t i = 0; i < t->other_count && err; i++) {
		unwind_made_free(result);
		err = file_table(t->others[i], result, &other);
	}
	return err;
}

static void table_make(const struct update *u, const struct task *t, struct made *m)
{
	struct unwind_made result = {0};

	if (u->o->max_time && clock_seconds() - u->begun >= (double)u->o->max_time) {
		m->outcome = OUTCOME_TIME;
		return;
	}
	if (is_full(u, 0)) {
		m->outcome = OUTCOME_SIZE;
		return;
	}
	if (t->contested) {
		error_set(&m->why,
		          "another file has the same build-id, headers and .eh_frame_hdr but other contents: readers could "
		          "not tell whose table it is, so neither file has one");
		m->outcome = mark_put(u, t);
	} else if (task_table(t, &result, &m->why)) {
		m->outcome = mark_put(u, t);
	} else if (is_full(u, result.size)) {
		m->outcome = OUTCOME_SIZE;
	} else {
		m->outcome = table_put(u, t->name, result.bytes, result.size, &m->why);
		m->size = result.size;
		if (m->outcome == OUTCOME_MADE)
			__atomic_add_fetch(u->bytes, result.size, __ATOMIC_RELAXED);
	}
	unwind_made_free(&result);
}

static void work(void *ctx, size_t i, char **answer, size_t *size)
{
	const struct update *u = ctx;
	struct made *m = mem_zero(1, sizeof(*m));

	table_make(u, &u->todo[i], m);
	*answer = (char *)m;
	*size = sizeof(*m);
}

static bool done(void *ctx, size_t i, const char *answer, size_t size, const char *why)
{
	struct update *u = ctx;
	const struct task *t = &u->todo[i];
	struct made m = {.outcome = OUTCOME_REFUSED};

	progress_end();
	if (answer && size == sizeof(m)) {
		memcpy(&m, answer, sizeof(m));
	} else {
		error_set(&m.why, "%s", why ? why : "no answer");
		m.outcome = mark_put(u, t);
	}
	u->counts[m.outcome]++;
	if (m.outcome == OUTCOME_FAILED || m.outcome == OUTCOME_CONTESTED ||
	    (m.outcome == OUTCOME_REFUSED && u->o->verbose))
		text_error(t->file->path, "%s", m.why.text);
	if (m.outcome == OUTCOME_MADE && u->o->verbose) {
		text_clean(stdout, t->file->path);
		printf(": %s, %llu bytes\n", t->name, (unsigned long long)m.size);
	}
	return true;
}

static int wanted_order(const void *a, const void *b)
{
	const struct tables_file *x = ((const struct task *)a)->file, *y = ((const struct task *)b)->file;
	int c = strcmp(x->id, y->id);

	if (!c)
		c = memcmp(&x->identity, &y->identity, sizeof(x->identity));
	if (c)
		return c;
	return x < y ? -1 : x > y;
}

static int file_order(const void *a, const void *b)
{
	const struct tables_file *x = ((const struct task *)a)->file, *y = ((const struct task *)b)->file;

	return x < y ? -1 : x > y;
}

static bool is_same_file(const struct tables_file *a, const struct tables_file *b)
{
	return !strcmp(a->id, b->id) && !memcmp(&a->identity, &b->identity, sizeof(a->identity));
}

static bool is_same_layout(const struct tables_file *a, const struct tables_file *b)
{
	return !strcmp(a->id, b->id) && !memcmp(a->identity.layout, b->identity.layout, sizeof(a->identity.layout));
}

static bool is_refused(const struct tables_entry *e, const struct tables_file *f)
{
	uint8_t whole[BLAKE2B_DIGEST];

	return sidecar_whole(f->path, whole) && !memcmp(whole, e->refused, sizeof(whole));
}

/* Does the directory have an entry for the files of this task, made by the present version of etch? */
static bool is_done(const struct update *u, const struct task *t)
{
	const struct tables_entry *e = tables_entry_find(&u->directory, t->file);

	if (!e || !tables_entry_fresh(&u->directory, e))
		return false;
	if (t->contested || e->kind == ENTRY_CONTESTED)
		return t->contested && e->kind == ENTRY_CONTESTED;
	if (!tables_entry_matches(e, t->file) || (e->kind == ENTRY_REFUSED && !is_refused(e, t->file)))
		return false;
	for (size_t i = 0; i < t->other_count && e->kind == ENTRY_REFUSED; i++)
		if (!is_refused(e, t->others[i]))
			return false;
	return true;
}

/*
 * Would readers be unable to tell whose table it is, if this file had one? If the update knows all files of the system,
 * only the files in its list are considered. Otherwise it may find the table of a file that it was not given. From then
 * on, neither that file nor the new one has a table.
 */
static bool is_contested(const struct update *u, const struct task *list, size_t count, size_t i)
{
	const struct tables_entry *e = tables_entry_find(&u->directory, list[i].file);

	if ((i && is_same_layout(list[i].file, list[i - 1].file)) ||
	    (i + 1 < count && is_same_layout(list[i].file, list[i + 1].file)))
		return true;
	return e && !u->o->prune && (e->kind == ENTRY_CONTESTED || !tables_entry_matches(e, list[i].file));
}

/* Chooses the name of a file's table: its build-id or, if another file has taken that name, the build-id and the
 * layout. `taken`: the file before it in the list has taken the name. */
static void task_name(const struct update *u, struct task *t, bool taken)
{
	const struct tables_entry *mine = tables_entry_find(&u->directory, t->file);
	const struct tables_entry *first = tables_entry_named(&u->directory, t->file->id);

	if (mine)
		strcpy(t->name, mine->name);
	else if (taken || (first && first->kind != ENTRY_STALE))
		sidecar_second_name(t->name, t->file->id, &t->file->identity);
	else
		strcpy(t->name, t->file->id);
}

/* Makes the list of tasks, in the order in which files were found. Files that have a table of their own, or an entry
 * made by this version of etch, are left out. */
static void todo_list(struct update *u)
{
	size_t count = 0, kept = 0;

	u->todo = mem_zero(u->files.count + 1, sizeof(*u->todo));
	for (size_t i = 0; i < u->files.count; i++)
		if (u->files.list[i].kind == TABLES_WANTED)
			u->todo[count++].file = &u->files.list[i];
	qsort(u->todo, count, sizeof(*u->todo), wanted_order);
	u->others = mem_alloc(count + 1, sizeof(const struct tables_file *));
	for (size_t i = 0; i < count; i++)
		u->others[i] = u->todo[i].file;
	/* one task for all files that are loaded alike */
	for (size_t i = 0; i < count; i++) {
		if (kept && is_same_file(u->others[i], u->todo[kept - 1].file))
			u->todo[kept - 1].other_count++;
		else
			u->todo[kept++] = (struct task){.file = u->others[i], .others = &u->others[i + 1]};
	}
	for (size_t i = 0; i < kept; i++)
		u->todo[i].contested = is_contested(u, u->todo, kept, i);
	count = 0;
	for (size_t i = 0; i < kept; i++) {
		struct task *t = &u->todo[i];
		bool same = count && is_same_layout(t->file, u->todo[count - 1].file);

		if (is_done(u, t) || (same && t->contested))
			continue;
		task_name(u, t, count && !strcmp(t->file->id, u->todo[count - 1].file->id));
		u->todo[count++] = *t;
	}
	qsort(u->todo, count, sizeof(*u->todo), file_order);
	u->todo_count = count;
}

/* Records that an update has begun. If this record is not replaced at the end, the update was killed. */
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

/* Returns how the update has ended, for tables_state.end. */
static const char *end_of(const struct update *u)
{
	if (u->counts[OUTCOME_TIME])
		return "time";
	return u->counts[OUTCOME_SIZE] ? "size" : "complete";
}

static int state_end(struct update *u, struct error *e)
{
	struct tables_state *s = &u->directory.state;

	s->seconds = (long long)(clock_seconds() - u->begun + 0.5);
	strcpy(s->end, end_of(u));
	return tables_state_write(&u->directory, e);
}

static void summary_print(const struct update *u)
{
	const size_t *n = u->counts;

	printf("%zu table%s made, %zu removed; ", n[OUTCOME_MADE], n[OUTCOME_MADE] == 1 ? "" : "s", u->removed);
	text_clean(stdout, u->directory.path);
	fputs(" has ", stdout);
	text_bytes(stdout, *u->bytes, 0);
	putchar('\n');
	if (n[OUTCOME_REFUSED])
		printf("%zu file%s cannot have one (-v says why)\n", n[OUTCOME_REFUSED], n[OUTCOME_REFUSED] == 1 ? "" : "s");
	if (n[OUTCOME_CONTESTED])
		printf("%zu file%s no table, since others have the same build-id, headers and .eh_frame_hdr\n",
		       n[OUTCOME_CONTESTED], n[OUTCOME_CONTESTED] == 1 ? " has" : "s have");
	if (n[OUTCOME_TIME])
		printf("%zu file%s left: --max-time has passed; the next update continues with them\n", n[OUTCOME_TIME],
		       n[OUTCOME_TIME] == 1 ? " is" : "s are");
	if (n[OUTCOME_SIZE])
		printf("%zu file%s left: their tables would exceed --max-size\n", n[OUTCOME_SIZE],
		       n[OUTCOME_SIZE] == 1 ? " is" : "s are");
}

/* Removes the entries that no file needs, then makes the tables that are missing. */
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
		return error_set(e, "cannot wait for its workers: %s", strerror(errno));
	return state_end(u, e);
}

/* Runs the update while the lock is held, and prints its messages. Returns the exit status. */
static int update_locked(struct update *u)
{
	const struct tables_options *o = u->o;
	int status = EXIT_CLEAN;
	struct error e;

	tables_find(&u->files, o->operands, o->operand_count, true);
	for (size_t i = 0; o->operand_count && i < u->files.count; i++)
		if (u->files.list[i].kind == TABLES_UNREAD) {
			text_error(u->files.list[i].path, "%s", u->files.list[i].error);
			status = EXIT_UNUSABLE;
		}
	if (tables_directory_read(&u->directory, o->directory, &e) || tables_make(u, &e)) {
		text_error(o->directory, "%s", e.text);
		return EXIT_UNUSABLE;
	}
	tables_warn_open(&u->directory);
	if (!o->quiet)
		summary_print(u);
	return u->counts[OUTCOME_FAILED] ? EXIT_UNUSABLE : status;
}

int tables_update(const struct tables_options *o)
{
	struct update u = {.o = o};
	struct error e;
	int got, status;

	u.begun = clock_seconds();
	u.bytes = mmap(NULL, sizeof(*u.bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (u.bytes == MAP_FAILED) {
		text_error(NULL, NO_MEMORY);
		return EXIT_UNUSABLE;
	}
	umask(022); /* programs of all users read the tables */
	got = tables_lock(o->directory, &e);
	if (got < 0) {
		text_error(o->directory, "%s", e.text);
		return EXIT_UNUSABLE;
	}
	if (!got) {
		if (!o->quiet) {
			printf("another etch tables update is running in ");
			text_clean(stdout, o->directory);
			putchar('\n');
		}
		return EXIT_CLEAN;
	}
	status = update_locked(&u);
	free(u.todo);
	free(u.others);
	tables_files_free(&u.files);
	tables_directory_free(&u.directory);
	munmap(u.bytes, sizeof(*u.bytes));
	return status;
}
