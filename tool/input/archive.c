/* SPDX-License-Identifier: MIT */
/* Walks the headers of an ar(1) archive and hands each member's name and place to a callback. */
#include "input/archive.h"

#include <ar.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THIN_MAGIC      "!<thin>\n"
#define NAME_MAX_LENGTH 4096 /* bytes of a member's name, as PATH_MAX */

struct reader {
	int fd;
	uint64_t start, end;        /* bounds of the archive in the file */
	uint64_t names, names_size; /* the archive's table of long names ("//") */
	bool thin;
	char name[NAME_MAX_LENGTH];
};

bool archive_is(const uint8_t *bytes, size_t size)
{
	return size >= SARMAG && (!memcmp(bytes, ARMAG, SARMAG) || !memcmp(bytes, THIN_MAGIC, SARMAG));
}

/* Returns true if all `size` bytes were read. */
static bool read_at(int fd, void *out, size_t size, uint64_t offset)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = pread(fd, (char *)out + got, size - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

/* Reads a decimal number in a field that is padded with spaces. Returns false if the field holds anything else. */
static bool field_number(const char *p, size_t size, uint64_t *out)
{
	size_t i = 0;

	*out = 0;
	for (; i < size && p[i] >= '0' && p[i] <= '9'; i++)
		*out = *out * 10 + (uint64_t)(p[i] - '0');
	if (!i)
		return false;
	while (i < size && p[i] == ' ')
		i++;
	return i == size;
}

static int header_read(const struct reader *r, uint64_t at, struct ar_hdr *h, uint64_t *size, struct error *e)
{
	if (r->end - at < sizeof(*h) || !read_at(r->fd, h, sizeof(*h), at))
		return error_set(e, "is a truncated archive: the member header at %#" PRIx64 " is past its end", at);
	if (memcmp(h->ar_fmag, ARFMAG, 2) || !field_number(h->ar_size, sizeof(h->ar_size), size))
		return error_set(e, "is a malformed archive: no member header at %#" PRIx64, at);
	return 0;
}

/* Reads the name at offset `at` of the table of long names, which ends at a newline or zero byte, without ar's
 * slash. */
static int long_name(struct reader *r, uint64_t at, struct error *e)
{
	size_t size = sizeof(r->name) - 1, n;

	if (at >= r->names_size)
		return error_set(e, "is a malformed archive: a member name is outside its name table");
	if (size > r->names_size - at)
		size = (size_t)(r->names_size - at);
	if (!read_at(r->fd, r->name, size, r->names + at))
		return error_set(e, "is a truncated archive: cannot read its name table");
	r->name[size] = 0;
	n = strcspn(r->name, "\n");
	if (n && r->name[n - 1] == '/')
		n--;
	r->name[n] = 0;
	return 0;
}

/* Reads a BSD name such as "#1/20": the first 20 bytes of the member's contents are its name. */
static int bsd_name(struct reader *r, const struct ar_hdr *h, struct archive_member *m, struct error *e)
{
	uint64_t n;

	if (!field_number(h->ar_name + 3, sizeof(h->ar_name) - 3, &n) || n > m->size || n >= sizeof(r->name) ||
	    !read_at(r->fd, r->name, (size_t)n, m->offset))
		return error_set(e, "is a malformed archive: bad member name at %#" PRIx64, m->offset);
	r->name[n] = 0;
	m->offset += n;
	m->size -= n;
	return 0;
}

/* Reads a GNU name: "/12" is an offset in the table of long names. "/12:3456" in a thin archive means that the name is
 * that of another archive, which has the member's header at offset 3456. */
static int gnu_name(struct reader *r, const struct ar_hdr *h, struct archive_member *m, struct error *e)
{
	const char *p = h->ar_name + 1, *end = h->ar_name + sizeof(h->ar_name);
	const char *colon = memchr(p, ':', (size_t)(end - p));
	uint64_t at;

	if (!field_number(p, (size_t)((colon ? colon : end) - p), &at) ||
	    (colon && (!r->thin || !field_number(colon + 1, (size_t)(end - colon - 1), &m->origin))))
		return error_set(e, "is a malformed archive: bad member name");
	return long_name(r, at, e);
}

static void short_name(struct reader *r, const struct ar_hdr *h)
{
	size_t n = sizeof(h->ar_name);

	while (n && h->ar_name[n - 1] == ' ')
		n--;
	if (n && h->ar_name[n - 1] == '/')
		n--;
	memcpy(r->name, h->ar_name, n);
	r->name[n] = 0;
}

static int member_name(struct reader *r, const struct ar_hdr *h, struct archive_member *m, struct error *e)
{
	if (h->ar_name[0] == '/' && h->ar_name[1] >= '0' && h->ar_name[1] <= '9')
		return gnu_name(r, h, m, e);
	if (!memcmp(h->ar_name, "#1/", 3))
		return bsd_name(r, h, m, e);
	short_name(r, h);
	return 0;
}

/* Is this the symbol index ("/", "/SYM64/") or the table of long names ("//")? Even a thin archive stores their
 * contents. */
static bool table_is(const struct ar_hdr *h)
{
	return h->ar_name[0] == '/' && !(h->ar_name[1] >= '0' && h->ar_name[1] <= '9');
}

int archive_each(int fd, uint64_t start, uint64_t end, void (*each)(void *ctx, const struct archive_member *m),
                 void *ctx, struct error *e)
{
	struct reader r = {.fd = fd, .start = start, .end = end};
	uint64_t at = start + SARMAG, size;
	uint8_t magic[SARMAG];
	struct ar_hdr h;

	if (end - start < SARMAG || !read_at(fd, magic, SARMAG, start) || !archive_is(magic, SARMAG))
		return error_set(e, "is not an archive");
	r.thin = !memcmp(magic, THIN_MAGIC, SARMAG);
	while (at < end) {
		struct archive_member m = {.name = r.name, .thin = r.thin};
		bool stored;

		if (header_read(&r, at, &h, &size, e))
			return -1;
		at += sizeof(h);
		stored = !r.thin || table_is(&h);
		if (stored && size > end - at)
			return error_set(e, "is a truncated archive: the member at %#" PRIx64 " extends past its end", at);
		if (!memcmp(h.ar_name, "// ", 3)) {
			r.names = at;
			r.names_size = size;
		} else if (!table_is(&h)) {
			m.offset = r.thin ? 0 : at;
			m.size = size;
			if (member_name(&r, &h, &m, e))
				return -1;
			if (strncmp(r.name, "__.SYMDEF", 9))
				each(ctx, &m);
		}
		at += stored ? size + (size & 1) : 0;
	}
	return 0;
}

int archive_member_at(int fd, uint64_t header, uint64_t end, uint64_t *offset, uint64_t *size, struct error *e)
{
	struct reader r = {.fd = fd, .end = end};
	struct ar_hdr h;

	if (header > end || header_read(&r, header, &h, size, e))
		return error_set(e, "has no archive member at %#" PRIx64, header);
	*offset = header + sizeof(h);
	if (*size > end - *offset)
		return error_set(e, "is a truncated archive: the member at %#" PRIx64 " extends past its end", *offset);
	return 0;
}
