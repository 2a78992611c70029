/* SPDX-License-Identifier: MIT */
/* The directory of tables: its entries, its lock, and the record of the last update (tables.h). */
#include "tables/tables.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output/outfile.h"
#include "report/text.h"
#include "support/memory.h"

#define STATE ".state"
#define LOCK  ".lock"

/* Sets the message for error number `why`. Returns -1. */
static int refused(struct error *e, int why)
{
	if (why == EACCES || why == EPERM || why == EROFS)
		return error_set(
			e,
			"%s: needs root, or a directory of your own (--directory DIR; readers take it from " SIDECARS_VARIABLE ")",
			strerror(why));
	return error_set(e, "%s", strerror(why));
}

/* Is this the name of an entry: BUILD-ID or BUILD-ID-LAYOUT? */
static bool is_name(const char *name)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strspn(name, digits);

	if (!n || n > 2 * SIDECAR_ID_MOST)
		return false;
	return !name[n] || (name[n] == '-' && strspn(name + n + 1, digits) == 2 * SIDECAR_NAME_LAYOUT &&
	                    !name[n + 1 + 2 * SIDECAR_NAME_LAYOUT]);
}

static int entry_order(const void *a, const void *b)
{
	return strcmp(((const struct tables_entry *)a)->name, ((const struct tables_entry *)b)->name);
}

/* Returns the kind of an entry whose head readers accept. */
static enum tables_entry_kind kind_of(const struct sidecar *head)
{
	static const uint8_t none[BLAKE2B_DIGEST];

	if (head->bytes)
		return ENTRY_TABLE;
	return memcmp(head->contents, none, sizeof(none)) ? ENTRY_REFUSED : ENTRY_CONTESTED;
}

/* Reads the head of an entry. The table after it is not checked here, since its readers do that. */
static void entry_read(struct tables_entry *t, int directory)
{
	struct sidecar head;
	bool untrusted;
	uint64_t size;
	int fd = sidecar_open(directory, t->name, &size, &untrusted);

	t->kind = ENTRY_STALE;
	if (fd < 0)
		return;
	if (pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) && head.magic == SIDECAR_MAGIC &&
	    head.version == SIDECAR_VERSION && head.size == sizeof(head) && head.bytes == size - sizeof(head)) {
		memcpy(t->of.layout, head.layout, sizeof(head.layout));
		memcpy(t->of.contents, head.contents, sizeof(head.contents));
		memcpy(t->refused, head.refused, sizeof(head.refused));
		t->kind = kind_of(&head);
	}
	close(fd);
}

/* Reads the record of the last update. If it is missing or damaged, *s stays empty; then all tables are made again. */
static void state_read(struct tables_state *s, int directory)
{
	bool untrusted;
	uint64_t size;
	int fd = sidecar_open(directory, STATE, &size, &untrusted);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (f && fscanf(f, "etch %31s since %lld begun %lld seconds %lld end %15s", s->version, &s->since, &s->begun,
	                &s->seconds, s->end) != 5)
		memset(s, 0, sizeof(*s));
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
}

/* Opens a stream that lists the names in the directory. */
static DIR *opendir_at(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

int tables_directory_read(struct tables_directory *d, const char *path, struct error *e)
{
	struct dirent *entry;
	struct stat st;
	DIR *dir;

	memset(d, 0, sizeof(*d));
	d->path = path;
	d->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0)
		return errno == ENOENT ? 0 : refused(e, errno);
	d->is_open = !fstat(d->fd, &st) && (st.st_mode & S_IWOTH);
	dir = opendir_at(d->fd);
	if (!dir)
		return refused(e, errno);
	while ((entry = readdir(dir))) {
		struct tables_entry *t;

		if (!is_name(entry->d_name) || fstatat(d->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !(S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)))
			continue;
		mem_reserve(&d->list, &d->capacity, d->count, sizeof(*d->list));
		t = &d->list[d->count++];
		*t = (struct tables_entry){.size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, .made = st.st_mtime};
		strcpy(t->name, entry->d_name);
		entry_read(t, d->fd);
		d->bytes += t->size;
	}
	state_read(&d->state, d->fd);
	closedir(dir);
	if (d->count)
		qsort(d->list, d->count, sizeof(*d->list), entry_order);
	return 0;
}

void tables_directory_free(struct tables_directory *d)
{
	if (d->path && d->fd >= 0)
		close(d->fd);
	free(d->list);
}

void tables_warn_open(const struct tables_directory *d)
{
	if (d->is_open)
		text_error(
			d->path,
			"warning: everyone can write to this directory, and can thereby falsify stack traces of other users");
}

const struct tables_entry *tables_entry_named(const struct tables_directory *d, const char *name)
{
	struct tables_entry key = {0};

	if (!d->count)
		return NULL;
	strcpy(key.name, name);
	return bsearch(&key, d->list, d->count, sizeof(key), entry_order);
}

static bool is_layout_of(const struct tables_entry *t, const struct tables_file *f)
{
	return t && t->kind != ENTRY_STALE && !memcmp(t->of.layout, f->identity.layout, sizeof(t->of.layout));
}

const struct tables_entry *tables_entry_find(const struct tables_directory *d, const struct tables_file *f)
{
	const struct tables_entry *t = tables_entry_named(d, f->id);
	char second[SIDECAR_NAME_MOST];

	if (!t || is_layout_of(t, f))
		return t;
	sidecar_second_name(second, f->id, &f->identity);
	t = tables_entry_named(d, second);
	return is_layout_of(t, f) ? t : NULL;
}

bool tables_entry_matches(const struct tables_entry *t, const struct tables_file *f)
{
	return t && !memcmp(t->of.contents, f->identity.contents, sizeof(t->of.contents));
}

bool tables_entry_fresh(const struct tables_directory *d, const struct tables_entry *t)
{
	return t->made >= d->state.since;
}

int tables_lock(const char *path, struct error *e)
{
	int fd, directory;

	if (mkdir(path, 0755) && errno != EEXIST)
		return refused(e, errno);
	directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = directory < 0 ? -1 : openat(directory, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return refused(e, errno);
	close(directory);
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return 1; /* the descriptor stays open, and with it the lock */
	return errno == EWOULDBLOCK ? 0 : refused(e, errno);
}

int tables_state_write(const struct tables_directory *d, struct error *e)
{
	const struct tables_state *s = &d->state;
	char text[256];
	int n = snprintf(text, sizeof(text), "etch %s since %lld begun %lld seconds %lld end %s\n", s->version, s->since,
	                 s->begun, s->seconds, s->end);

	return outfile_write_in(d->fd, STATE, STATE, text, (size_t)n, e) ? -1 : 0;
}

static int pointer_order(const void *a, const void *b)
{
	const void *const *x = a, *const *y = b;

	return *x < *y ? -1 : *x > *y;
}

size_t tables_prune(struct tables_directory *d, const struct tables_files *keep)
{
	size_t wanted = 0, kept = 0, count = d->count;
	const struct tables_entry **used = mem_alloc(keep ? keep->count + 1 : 1, sizeof(*used));

	for (size_t i = 0; keep && i < keep->count; i++) {
		const struct tables_file *f = &keep->list[i];
		const struct tables_entry *t = f->kind == TABLES_WANTED ? tables_entry_find(d, f) : NULL;

		if (t)
			used[wanted++] = t;
	}
	qsort(used, wanted, sizeof(*used), pointer_order);
	for (size_t i = 0; i < count; i++) {
		const struct tables_entry t = d->list[i], *at = &d->list[i];

		if (bsearch(&at, used, wanted, sizeof(*used), pointer_order) || unlinkat(d->fd, t.name, 0)) {
			d->list[kept++] = t;
			continue;
		}
		d->bytes -= t.size;
	}
	free(used);
	d->count = kept;
	return count - kept;
}

long tables_clear(const char *path, struct error *e)
{
	struct tables_directory d;
	size_t removed, left;
	int got;

	if (access(path, F_OK) && errno == ENOENT)
		return 0;
	got = tables_lock(path, e);
	if (got < 0)
		return -1;
	if (!got)
		return error_set(e, "another etch tables update is running there");
	if (tables_directory_read(&d, path, e))
		return -1;
	removed = tables_prune(&d, NULL);
	left = d.count;
	unlinkat(d.fd, STATE, 0);
	unlinkat(d.fd, LOCK, 0);
	tables_directory_free(&d);
	if (left)
		return error_set(e, "%zu tables could not be removed", left);
	rmdir(path); /* fails if there is something else in the directory, which then stays */
	return (long)removed;
}
