/* SPDX-License-Identifier: MIT */
/* Makes the list of inputs of a command line (see input.h): walks directories, opens archives, reads lists of names. */
#include "input/input.h"
#include "input/archive.h"
#include "support/bounds.h"
#include "elf/file.h"
#include "support/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEEK       20 /* bytes that tell the kind of a file: up to and including e_machine, or an archive's magic */
#define NESTED_MAX 8  /* depth of archives in archives */

static char *copied(const char *s) { return s ? mem_string(s) : NULL; }

void inputs_put(struct inputs *l, const struct input *in)
{
	struct input *out;

	mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
	out = &l->list[l->count++];
	*out = *in;
	out->path = mem_string(in->path);
	out->member = copied(in->member);
	out->holder = copied(in->holder);
	out->error = copied(in->error);
}

static void put_error(struct inputs *l, const char *path, const char *text)
{
	struct input in = {.path = (char *)path, .error = (char *)text};

	inputs_put(l, &in);
}

void inputs_free(struct inputs *l)
{
	size_t i;

	for (i = 0; i < l->count; i++)
		input_clear(&l->list[i]);
	free(l->list);
	memset(l, 0, sizeof(*l));
}

char *input_name(const struct input *in)
{
	return in->member ? mem_format("%s(%s)", in->path, in->member) : mem_string(in->path);
}

uint64_t input_size(const struct input *in)
{
	struct stat st;

	if (in->size)
		return in->size;
	return stat(input_file(in), &st) ? 0 : (uint64_t)st.st_size;
}

/* ---- counts of names ----------------------------------------------------------- */

struct noted {
	size_t count;
	char name[];
};

static int noted_order(const void *a, const void *b)
{
	return strcmp(((const struct noted *)a)->name, ((const struct noted *)b)->name);
}

size_t names_note(void **names, const char *name)
{
	size_t size = strlen(name) + 1;
	struct noted *n = mem_alloc(sizeof(*n) + size, 1), **found;

	n->count = 0;
	memcpy(n->name, name, size);
	found = tsearch(n, names, noted_order);
	if (!found)
		bounds_exhausted();
	if (*found != n)
		free(n);
	return ++(*found)->count;
}

void names_free(void *names) { tdestroy(names, free); }

/* ---- kinds of files --------------------------------------------------------------- */

enum kind { KIND_OTHER, KIND_ELF, KIND_ARCHIVE, KIND_UNREAD /* errno has the reason */ };

static enum kind kind_of(const uint8_t *b, size_t size)
{
	uint16_t type, machine;

	if (archive_is(b, size))
		return KIND_ARCHIVE;
	if (size < PEEK || memcmp(b, ELFMAG, SELFMAG) || b[EI_CLASS] != ELFCLASS64 || b[EI_DATA] != ELFDATA2LSB ||
	    elf_is_private(b))
		return KIND_OTHER;
	memcpy(&type, b + 16, 2);
	memcpy(&machine, b + 18, 2);
	return machine == EM_X86_64 && (type == ET_REL || type == ET_EXEC || type == ET_DYN) ? KIND_ELF : KIND_OTHER;
}

static enum kind kind_at(int fd, uint64_t offset, uint64_t size)
{
	uint8_t b[PEEK];
	ssize_t n;

	do
		n = pread(fd, b, size < PEEK ? (size_t)size : PEEK, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? KIND_UNREAD : kind_of(b, (size_t)n);
}

/* Returns a descriptor, or -1 and a reason if the file cannot be opened or is not a regular file. */
static int open_regular(const char *path, uint64_t *size, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	*why = NULL;
	if (fd < 0 || fstat(fd, &st))
		*why = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		*why = S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file";
	if (*why) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*size = (uint64_t)st.st_size;
	return fd;
}

/* ---- archives -------------------------------------------------------------------- */

struct expansion {
	struct inputs *l;
	const char *path;   /* path of the outermost archive */
	const char *inside; /* "inner.a" while in a nested archive; else null */
	int fd, depth;
	void **names;
	struct error error; /* the error of a nested archive */
	bool malformed;
};

/* Returns the member's name in reports, malloc'd: "inner.a(printf.o)" if it is nested, "printf.o#2" for the second
 * member of that name. */
static char *member_label(struct expansion *x, const char *name)
{
	char *label = x->inside ? mem_format("%s(%s)", x->inside, name) : mem_string(name), *numbered;
	size_t nth = names_note(x->names, label);

	if (nth == 1)
		return label;
	numbered = mem_format("%s#%zu", label, nth);
	free(label);
	return numbered;
}

/* Returns the path of a thin archive's member, whose name is relative to the archive's directory. */
static char *thin_path(const char *archive, const char *name)
{
	const char *slash = strrchr(archive, '/');

	if (*name == '/' || !slash)
		return mem_string(name);
	return mem_format("%.*s%s", (int)(slash - archive) + 1, archive, name);
}

static void expand_thin(struct expansion *x, const struct archive_member *m, const char *label)
{
	struct input in = {.path = (char *)x->path, .member = (char *)label, .holder = thin_path(x->path, m->name)};
	struct error e;
	const char *why;
	uint64_t size = 0;
	enum kind kind;
	int fd = open_regular(in.holder, &size, &why);

	e.text[0] = 0;
	if (fd < 0)
		error_set(&e, "its file %s cannot be read: %s", in.holder, why);
	else if (m->origin && archive_member_at(fd, m->origin, size, &in.offset, &in.size, &e))
		error_set(&e, "its archive %s has no such member", in.holder);
	kind = KIND_ELF;
	if (!e.text[0])
		kind = kind_at(fd, in.offset, m->origin ? in.size : size);
	if (kind == KIND_UNREAD) {
		error_set(&e, "its file %s cannot be read: %s", in.holder, strerror(errno));
		kind = KIND_ELF;
	}
	in.error = e.text[0] ? e.text : NULL;
	if (kind == KIND_ELF)
		inputs_put(x->l, &in);
	else
		x->l->skipped++;
	if (fd >= 0)
		close(fd);
	free(in.holder);
}

static void expand_member(void *ctx, const struct archive_member *m);

static void expand_nested(struct expansion *x, const struct archive_member *m, const char *label)
{
	struct expansion inner = *x;

	inner.inside = label;
	inner.depth++;
	if (inner.depth > NESTED_MAX) {
		x->malformed = true;
		error_set(&x->error, "has archives nested more than %d deep", NESTED_MAX);
		return;
	}
	inner.malformed = archive_each(x->fd, m->offset, m->offset + m->size, expand_member, &inner, &inner.error) != 0 ||
	                  inner.malformed;
	if (inner.malformed) {
		x->malformed = true;
		x->error = inner.error;
	}
}

static void expand_member(void *ctx, const struct archive_member *m)
{
	struct expansion *x = ctx;
	struct input in = {.path = (char *)x->path, .offset = m->offset, .size = m->size};
	char *label = member_label(x, m->name);

	in.member = label;
	if (m->thin)
		expand_thin(x, m, label);
	else
		switch (kind_at(x->fd, m->offset, m->size)) {
		case KIND_ARCHIVE: expand_nested(x, m, label); break;
		case KIND_UNREAD:
			in.error = strerror(errno);
			/* fallthrough */
		case KIND_ELF: inputs_put(x->l, &in); break;
		case KIND_OTHER: x->l->skipped++;
		}
	free(label);
}

static void add_archive(struct inputs *l, const char *path, int fd, uint64_t size)
{
	void *names = NULL;
	struct expansion x = {.l = l, .path = path, .fd = fd, .names = &names};
	struct error e;

	if (archive_each(fd, 0, size, expand_member, &x, &e)) {
		x.malformed = true;
		x.error = e;
	}
	names_free(names);
	if (x.malformed)
		put_error(l, path, x.error.text);
}

/* ---- files and directories --------------------------------------------------------- */

static void add_found(struct inputs *l, const char *path)
{
	struct input in = {.path = (char *)path};
	const char *why;
	uint64_t size;
	int fd = open_regular(path, &size, &why);

	if (fd < 0) {
		put_error(l, path, why);
		return;
	}
	switch (kind_at(fd, 0, size)) {
	case KIND_UNREAD:
		in.error = strerror(errno);
		/* fallthrough */
	case KIND_ELF: inputs_put(l, &in); break;
	case KIND_ARCHIVE:
		if (!l->closed) {
			add_archive(l, path, fd, size);
			break;
		}
		/* fallthrough */
	case KIND_OTHER: l->skipped++;
	}
	close(fd);
}

/* Compares names by bytes, so that the order does not depend on the locale. */
static int name_order(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int name_wanted(const struct dirent *d) { return strcmp(d->d_name, ".") && strcmp(d->d_name, ".."); }

static void add_directory(struct inputs *l, const char *path)
{
	const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
	struct dirent **names;
	int n = scandir(path, &names, name_wanted, name_order), i;

	if (n < 0) {
		put_error(l, path, strerror(errno));
		return;
	}
	for (i = 0; i < n; i++) {
		char *inner = mem_format("%s%s%s", path, slash, names[i]->d_name);
		struct stat st;

		if (lstat(inner, &st))
			put_error(l, inner, strerror(errno));
		else if (S_ISDIR(st.st_mode))
			add_directory(l, inner);
		else if (S_ISREG(st.st_mode))
			add_found(l, inner);
		free(inner);
		free(names[i]);
	}
	free(names);
}

static void add_file(struct inputs *l, const char *name)
{
	struct input in = {.path = (char *)name};
	const char *why;
	uint64_t size;
	int fd = open_regular(name, &size, &why);

	/* A file that cannot be opened is listed nevertheless: the error is reported when it is read. */
	if (fd < 0 || kind_at(fd, 0, size) != KIND_ARCHIVE)
		inputs_put(l, &in);
	else if (l->closed)
		put_error(l, name, "is an archive: rewrite its objects before they are archived");
	else
		add_archive(l, name, fd, size);
	if (fd >= 0)
		close(fd);
}

void inputs_add(struct inputs *l, const char *name)
{
	struct stat st;

	if (!*name)
		put_error(l, name, strerror(ENOENT));
	else if (stat(name, &st))
		add_file(l, name);
	else if (S_ISDIR(st.st_mode))
		add_directory(l, name);
	else if (S_ISREG(st.st_mode) && inputs_is_database(name))
		inputs_add_database(l, name);
	else
		add_file(l, name);
}

void inputs_add_some(struct inputs *l, const char *name)
{
	size_t before = l->count;
	struct stat st;

	inputs_add(l, name);
	if (l->count == before && !stat(name, &st) && S_ISDIR(st.st_mode))
		put_error(l, name, "is a directory without x86-64 ELF files");
}

int inputs_add_list(struct inputs *l, const char *path, bool zero, struct error *e)
{
	bool standard = !strcmp(path, "-"), good = true;
	FILE *f = standard ? stdin : fopen(path, "re");
	char *line = NULL;
	size_t capacity = 0;
	ssize_t n;
	int failed;

	if (!f)
		return error_set(e, "%s", strerror(errno));
	while (good && (n = getdelim(&line, &capacity, zero ? 0 : '\n', f)) >= 0) {
		if (n && line[n - 1] == (zero ? 0 : '\n'))
			line[--n] = 0;
		if (n && strlen(line) != (size_t)n) {
			good = false;
			error_set(e, "a name in the list contains a zero byte (-0: names end with one)");
		} else if (n) {
			inputs_add_some(l, line);
		}
	}
	failed = ferror(f);
	free(line);
	if (!standard)
		fclose(f);
	if (good && failed)
		return error_set(e, "cannot read the list");
	return good ? 0 : -1;
}

int input_read(const struct input *in, uint8_t **bytes, size_t *size, struct error *e)
{
	const char *path = input_file(in);
	uint64_t file_size;
	const char *why;
	size_t got = 0;
	int fd, error = 0;

	*bytes = NULL;
	*size = 0;
	if (in->error)
		return error_set(e, "%s", in->error);
	if (!in->size)
		return file_read(path, bytes, size, e);
	fd = open_regular(path, &file_size, &why);
	if (fd < 0)
		return error_set(e, "can no longer be read: %s", why);
	bounds_add(path, in->size);
	*bytes = big_zero_try(in->size);
	while (*bytes && got < in->size) {
		ssize_t n = pread(fd, *bytes + got, in->size - got, (off_t)(in->offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		error = n < 0 ? errno : 0;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(fd);
	if (*bytes && got == in->size) {
		*size = got;
		return 0;
	}
	if (error)
		error_set(e, "cannot read: %s", strerror(error));
	else
		error_set(e, *bytes ? "was truncated while etch read it" : NO_MEMORY " for %zu bytes", (size_t)in->size);
	free(*bytes);
	*bytes = NULL;
	return -1;
}
