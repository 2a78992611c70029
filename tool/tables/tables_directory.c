/* SPDX-License-Identifier: MIT */
/* The directory of tables: its entries, its lock, and the notes of the last update (tables.h). */
#include "tables/tables.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/outfile.h"
#include "support/memory.h"

#define STATE ".state"
#define LOCK  ".lock"

static int refused(struct error *e, int why)
{
	if (why == EACCES || why == EPERM || why == EROFS)
		return error_set(
			e,
			"%s: needs root, or a directory of your own (--directory DIR; readers take it from " SIDECARS_VARIABLE ")",
			strerror(why));
	return error_set(e, "%s", strerror(why));
}

/* Is it the name of a table? */
static bool is_id(const char *name)
{
	size_t n = strspn(name, "0123456789abcdef");

	return n && !name[n] && n < TABLES_ID_MOST;
}

static int entry_order(const void *a, const void *b)
{
	return strcmp(((const struct tables_entry *)a)->id, ((const struct tables_entry *)b)->id);
}

/* Nothing if the state is missing or damaged: all tables are made again then. */
static void state_read(struct tables_state *s, int directory)
{
	int fd = openat(directory, STATE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (f && fscanf(f, "etch %31s since %lld begun %lld seconds %lld end %15s", s->version, &s->since, &s->begun,
	                &s->seconds, s->end) != 5)
		memset(s, 0, sizeof(*s));
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
}

int tables_directory_read(struct tables_directory *d, const char *path, struct error *e)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	struct stat st;

	memset(d, 0, sizeof(*d));
	d->path = path;
	if (!dir)
		return errno == ENOENT ? 0 : refused(e, errno);
	while ((entry = readdir(dir))) {
		struct tables_entry *t;

		/* By a link, too: readers follow it. */
		if (!is_id(entry->d_name) || fstatat(dirfd(dir), entry->d_name, &st, 0) || !S_ISREG(st.st_mode))
			continue;
		mem_room(&d->list, &d->room, d->count, sizeof(*d->list));
		t = &d->list[d->count++];
		*t = (struct tables_entry){.size = (uint64_t)st.st_size, .made = st.st_mtime};
		strcpy(t->id, entry->d_name);
		d->bytes += t->size;
	}
	state_read(&d->state, dirfd(dir));
	closedir(dir);
	if (d->count)
		qsort(d->list, d->count, sizeof(*d->list), entry_order);
	return 0;
}

void tables_directory_free(struct tables_directory *d) { free(d->list); }

const struct tables_entry *tables_entry_find(const struct tables_directory *d, const char *id)
{
	struct tables_entry key = {0};

	if (!d->count)
		return NULL;
	strcpy(key.id, id);
	return bsearch(&key, d->list, d->count, sizeof(key), entry_order);
}

bool tables_entry_fresh(const struct tables_directory *d, const struct tables_entry *t)
{
	return t->made >= d->state.since;
}

static bool path_join(char *out, const char *directory, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", directory, name) < PATH_MAX;
}

int tables_lock(const char *path, struct error *e)
{
	char lock[PATH_MAX];
	int fd;

	if (mkdir(path, 0755) && errno != EEXIST)
		return refused(e, errno);
	if (!path_join(lock, path, LOCK))
		return refused(e, ENAMETOOLONG);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return refused(e, errno);
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return 1; /* and stays open */
	return errno == EWOULDBLOCK ? 0 : refused(e, errno);
}

int tables_state_write(const struct tables_directory *d, struct error *e)
{
	const struct tables_state *s = &d->state;
	char path[PATH_MAX], text[256];
	int n = snprintf(text, sizeof(text), "etch %s since %lld begun %lld seconds %lld end %s\n", s->version, s->since,
	                 s->begun, s->seconds, s->end);

	if (!path_join(path, d->path, STATE))
		return refused(e, ENAMETOOLONG);
	return outfile_write(path, text, (size_t)n, NULL, e->text, sizeof(e->text)) ? -1 : 0;
}

static int id_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

size_t tables_prune(struct tables_directory *d, const struct tables_files *keep)
{
	size_t wanted = 0, kept = 0, count = d->count;
	const char **ids = mem_alloc(keep ? keep->count + 1 : 1, sizeof(*ids));
	char path[PATH_MAX];

	for (size_t i = 0; keep && i < keep->count; i++)
		if (keep->list[i].kind == TABLES_WANTED)
			ids[wanted++] = keep->list[i].id;
	qsort(ids, wanted, sizeof(*ids), id_order);
	for (size_t i = 0; i < count; i++) {
		struct tables_entry *t = &d->list[i];
		const char *id = t->id;

		if (bsearch(&id, ids, wanted, sizeof(*ids), id_order) || !path_join(path, d->path, id) || unlink(path)) {
			d->list[kept++] = *t;
			continue;
		}
		d->bytes -= t->size;
	}
	free(ids);
	d->count = kept;
	return count - kept;
}

long tables_clear(const char *path, struct error *e)
{
	struct tables_directory d;
	char own[PATH_MAX];
	size_t removed, left;
	int got;

	if (access(path, F_OK) && errno == ENOENT)
		return 0;
	got = tables_lock(path, e);
	if (got < 0)
		return -1;
	if (!got)
		return error_set(e, "another etch tables update is at work there");
	if (tables_directory_read(&d, path, e))
		return -1;
	removed = tables_prune(&d, NULL);
	left = d.count;
	tables_directory_free(&d);
	if (left)
		return error_set(e, "%zu tables could not be removed", left);
	if (path_join(own, path, STATE))
		unlink(own);
	if (path_join(own, path, LOCK))
		unlink(own);
	rmdir(path); /* stays where there is something else in it */
	return (long)removed;
}
