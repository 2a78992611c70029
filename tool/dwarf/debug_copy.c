/* SPDX-License-Identifier: MIT */
/* Finds debug files by build-id or by name, as gdb does, and copies them (debug_copy.h). */
#include "dwarf/debug_copy.h"
#include "dwarf/info_cut.h"
#include "support/memory.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define FILE_MOST ((off_t)1 << 32) /* bytes of a file that is copied */
#define ID_MOST   64u              /* bytes of a build-id; linkers write 8 to 32 */
#define SYSTEM    "/usr/lib/debug"

/* Copies an open file to memory. Returns the descriptor of the copy, or -1. */
static int copy_make(int fd)
{
	struct stat st;
	off_t at = 0;
	int copy;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST)
		return -1;
	copy = memfd_create("etch", MFD_CLOEXEC);
	while (copy >= 0 && at < st.st_size) {
		ssize_t n = sendfile(copy, fd, &at, (size_t)(st.st_size - at));

		if (n > 0 || (n < 0 && errno == EINTR))
			continue;
		close(copy);
		copy = -1;
	}
	return copy;
}

/* ---- which file it is ---------------------------------------------------------------------- */

/* Identifies the file that is wanted: by its build-id, or if `id_size` is 0 by the checksum of its bytes. */
struct wanted {
	const uint8_t *id;
	size_t id_size;
	uint32_t sum;
};

/* Computes the checksum that .gnu_debuglink holds, which is zlib's CRC-32. */
static uint32_t checksum(int fd)
{
	uint8_t bytes[1 << 16];
	uLong sum = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	for (; (n = pread(fd, bytes, sizeof(bytes), at)) > 0; at += n)
		sum = crc32(sum, bytes, (uInt)n);
	return (uint32_t)sum;
}

static bool is_wanted(int copy, const struct wanted *w)
{
	const void *id;
	bool same;
	Elf *elf;

	if (!w->id_size)
		return checksum(copy) == w->sum;
	elf = elf_begin(copy, ELF_C_READ, NULL);
	same = elf && dwelf_elf_gnu_build_id(elf, &id) == (ssize_t)w->id_size && !memcmp(id, w->id, w->id_size);
	elf_end(elf);
	return same;
}

static int copy_of(const char *path, const struct wanted *w)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), copy = fd < 0 ? -1 : copy_make(fd);

	if (fd >= 0)
		close(fd);
	if (copy < 0 || is_wanted(copy, w))
		return copy;
	close(copy);
	return -1;
}

/* ---- where it may be ----------------------------------------------------------------------- */

/* Makes the path of the debug file in the system's directory. Returns false if the build-id is too short or too
 * long. */
static bool id_path(const struct wanted *w, char out[PATH_MAX])
{
	size_t i, at = (size_t)snprintf(out, PATH_MAX, SYSTEM "/.build-id/");

	if (w->id_size < 2 || w->id_size > ID_MOST)
		return false;
	for (i = 0; i < w->id_size; i++)
		at += (size_t)sprintf(out + at, i == 1 ? "/%02x" : "%02x", w->id[i]);
	strcpy(out + at, ".debug");
	return true;
}

/* The places that a link may lead to, given the directory of the file that has the link. */
static const char *const places[] = {"%.*s/%s", "%.*s/.debug/%s", SYSTEM "/%.*s/%s"};

/* Returns a copy of the wanted file, or -1 if there is none. `of` is the file that has the link; `path` receives the
 * place. */
static int copy_find(const char *of, const char *link, const struct wanted *w, char path[PATH_MAX])
{
	const char *slash = of ? strrchr(of, '/') : NULL;
	int copy = id_path(w, path) ? copy_of(path, w) : -1;
	size_t i;

	if (copy >= 0 || !link || !*link)
		return copy;
	if (*link == '/')
		return snprintf(path, PATH_MAX, "%s", link) < PATH_MAX ? copy_of(path, w) : -1;
	for (i = 0; slash && i < sizeof(places) / sizeof(*places) && copy < 0; i++)
		if (snprintf(path, PATH_MAX, places[i], (int)(slash - of), of, link) < PATH_MAX)
			copy = copy_of(path, w);
	return copy;
}

bool debug_copy_may_be(const char *path, const uint8_t *id, size_t id_size, const char *link)
{
	const struct wanted w = {.id = id, .id_size = id_size};
	const char *slash = strrchr(path, '/');
	char place[PATH_MAX], usual[NAME_MAX + 1];

	if (id_path(&w, place) && !access(place, F_OK))
		return true;
	if (!*link && id_size && slash && snprintf(usual, sizeof(usual), "%s.debug", slash + 1) < (int)sizeof(usual))
		link = usual;
	if (*link == '/')
		return !access(link, F_OK);
	for (size_t i = 0; *link && slash && i < sizeof(places) / sizeof(*places); i++)
		if (snprintf(place, PATH_MAX, places[i], (int)(slash - path), path, link) < PATH_MAX && !access(place, F_OK))
			return true;
	return false;
}

/* ---- what is not read ------------------------------------------------------------------- */

/* Turns a section into one that has no bytes in the file. */
static bool section_empty(int copy, Elf *elf, Elf_Scn *s)
{
	const uint32_t none = SHT_NOBITS;
	bool wide = gelf_getclass(elf) == ELFCLASS64;
	uint64_t at = elf_ndxscn(s) * (wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr));
	GElf_Ehdr eh;

	at += wide ? offsetof(Elf64_Shdr, sh_type) : offsetof(Elf32_Shdr, sh_type);
	return gelf_getehdr(elf, &eh) && pwrite(copy, &none, sizeof(none), (off_t)(eh.e_shoff + at)) == sizeof(none);
}

/* Does a section only serve source lines or variables? */
static bool is_for_lines(const char *name)
{
	static const char *const names[] = {"line", "loclists", "loc", "macro", "macinfo", "pubnames", "pubtypes", "names"};

	if (strncmp(name, ".debug_", 7))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name + 7, names[i]))
			return true;
	return false;
}

/* Empties the sections that only serve source lines or variables. */
static void lines_hide(int copy)
{
	Elf *elf = elf_begin(copy, ELF_C_READ, NULL);
	Elf_Scn *s = NULL;
	size_t names;
	GElf_Shdr sh;

	if (elf && !elf_getshdrstrndx(elf, &names))
		while ((s = elf_nextscn(elf, s))) {
			const char *name = gelf_getshdr(s, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;

			if (name && is_for_lines(name))
				section_empty(copy, elf, s);
		}
	elf_end(elf);
}

/* Leaves out of a copy what will not be read. */
static void unread_hide(struct debug_copies *c, int copy)
{
	if (!c->lines)
		lines_hide(copy);
	if (c->address_count && info_cut(copy, c->addresses, c->address_count))
		c->is_cut = true;
}

/* ---- supplementary files ------------------------------------------------------------------- */

/* Sets the size of a section to 0. libdw would by itself open the file that .gnu_debugaltlink names, but not if the
 * section is empty. */
static bool section_hide(int copy, Elf *elf, Elf_Scn *s)
{
	const uint64_t none = 0;
	bool wide = gelf_getclass(elf) == ELFCLASS64;
	uint64_t at = elf_ndxscn(s) * (wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr));
	GElf_Ehdr eh;
	size_t n = wide ? 8 : 4;

	at += wide ? offsetof(Elf64_Shdr, sh_size) : offsetof(Elf32_Shdr, sh_size);
	return gelf_getehdr(elf, &eh) && pwrite(copy, &none, n, (off_t)(eh.e_shoff + at)) == (ssize_t)n;
}

/* Copies the file that a section names. Returns false if there is no such file, or it is not the wanted one. */
static bool alt_add(struct debug_copies *c, const char *path, Elf_Scn *s)
{
	Elf_Data *d = elf_rawdata(s, NULL);
	size_t length = d && d->d_buf ? strnlen(d->d_buf, d->d_size) : 0;
	char place[PATH_MAX];
	struct wanted w;
	int fd;

	if (!length || length + 3 > d->d_size || c->count == sizeof(c->alts) / sizeof(*c->alts))
		return false;
	w = (struct wanted){(const uint8_t *)d->d_buf + length + 1, d->d_size - length - 1, 0};
	fd = copy_find(path, d->d_buf, &w, place);
	if (fd < 0)
		return false;
	c->alts[c->count].fd = fd;
	c->alts[c->count++].name = mem_string(d->d_buf);
	return true;
}

/* Keeps at most one link to a supplementary file, and hides the others. Returns false if that failed. */
static bool alts_take(struct debug_copies *c, const char *path, int copy)
{
	Elf *elf = elf_begin(copy, ELF_C_READ, NULL);
	bool found = false, good = true;
	Elf_Scn *s = NULL;
	size_t names;
	GElf_Shdr sh;

	if (elf && !elf_getshdrstrndx(elf, &names))
		while (good && (s = elf_nextscn(elf, s))) {
			const char *name = gelf_getshdr(s, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;

			if (!name || strcmp(name, ".gnu_debugaltlink"))
				continue;
			if (!found && alt_add(c, path, s))
				found = true;
			else
				good = section_hide(copy, elf, s);
		}
	elf_end(elf);
	return good;
}

/* ---- what libdwfl asks for ----------------------------------------------------------------- */

int debug_copy_open(struct debug_copies *c, const char *path, int fd)
{
	int copy = copy_make(fd);

	if (copy >= 0)
		unread_hide(c, copy);
	if (copy < 0 || alts_take(c, path, copy))
		return copy;
	close(copy);
	return -1;
}

int debug_copy_find(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base, const char *file, const char *link,
                    GElf_Word sum, char **found)
{
	struct debug_copies *c = *user;
	char path[PATH_MAX], usual[NAME_MAX + 1];
	const char *slash = file ? strrchr(file, '/') : NULL;
	const unsigned char *id;
	GElf_Addr at;
	struct wanted w = {.sum = sum};
	int bytes = dwfl_module_build_id(m, &id, &at), copy;
	size_t i;

	(void)name;
	(void)base;
	for (i = 0; i < c->count && link && !sum; i++)
		if (!strcmp(c->alts[i].name, link)) {
			copy = c->alts[i].fd;
			c->alts[i].fd = -1;
			return copy;
		}
	if (bytes > 0) {
		w.id = id;
		w.id_size = (size_t)bytes;
		if (!link && slash && snprintf(usual, sizeof(usual), "%s.debug", slash + 1) < (int)sizeof(usual))
			link = usual;
	} else if (!link) {
		return -1; /* there is neither a build-id nor a checksum by which to tell the wanted file from others */
	}
	copy = copy_find(file, link, &w, path);
	if (copy >= 0 && !alts_take(c, path, copy)) {
		close(copy);
		copy = -1;
	}
	if (copy >= 0)
		unread_hide(c, copy);
	if (copy >= 0)
		*found = mem_string(path); /* where a supplementary file is looked for */
	return copy;
}

void debug_copies_close(struct debug_copies *c)
{
	size_t i;

	for (i = 0; i < c->count; i++) {
		free(c->alts[i].name);
		if (c->alts[i].fd >= 0)
			close(c->alts[i].fd);
	}
	c->count = 0;
}
